"""Raw files that are already on this machine: torchvision's layout under the data folder, and Debian's package."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pyroclaw.data.pictures import read_notmnist, read_omniglot
from pyroclaw.data.raw import idx_files, read_cifar_binary, read_cifar_python, read_idx_folder

Log = Callable[[str], None]
DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist puts its files

# What is looked for in the data folder, in this order; the words appear in messages.
LAYOUT = {
    "mnist": "MNIST/raw",
    "fashion_mnist": "FashionMNIST/raw",
    "notmnist": "notMNIST_small or notMNIST_large (a folder, .tar.gz or .tar)",
    "omniglot": "omniglot-py/images_background and images_evaluation (folders or .zip)",
    "cifar100": "cifar-100-binary or cifar-100-python (a folder or .tar.gz)",
}


@dataclass(frozen=True)
class Found:
    """Raw files of one data set: what they are (no path of this machine in it), where, and how to read them."""

    what: str
    where: Path
    read: Callable[[Log], dict[str, np.ndarray]]


def find(name: str, folder: Path) -> Found | None:
    """The raw files of data set `name`, if they are all there."""
    if name in ("mnist", "fashion_mnist"):
        return _find_idx(name, folder)
    if name == "omniglot":
        return _find_omniglot(folder / "omniglot-py")
    if name == "cifar100":
        return _find_cifar(folder)
    for stem in ("notMNIST_small", "notMNIST_large"):
        path = _first(folder / stem, folder / f"{stem}.tar.gz", folder / f"{stem}.tar")
        if path:
            return Found(stem, path, lambda log, path=path: read_notmnist(path, log))  # type: ignore[misc]
    return None


def _find_idx(name: str, folder: Path) -> Found | None:
    places = [(folder / LAYOUT[name], f"idx files {LAYOUT[name]}")]
    if name == "fashion_mnist":
        places.append((DEBIAN_FASHION, "Debian's dataset-fashion-mnist"))
    for place, what in places:
        if idx_files(place):
            return Found(what, place, lambda log, place=place: read_idx_folder(place, name))  # type: ignore[misc]
    return None


def _find_omniglot(folder: Path) -> Found | None:
    parts = [_first(folder / part, folder / f"{part}.zip") for part in ("images_background", "images_evaluation")]
    present = [part for part in parts if part]
    return Found("Omniglot's PNG files", folder, lambda log: read_omniglot(present)) if len(present) == 2 else None


def _find_cifar(folder: Path) -> Found | None:
    for stem, read in (("cifar-100-binary", read_cifar_binary), ("cifar-100-python", read_cifar_python)):
        if path := _first(folder / stem, folder / f"{stem}.tar.gz"):
            return Found(stem, path, lambda log, path=path, read=read: read(path))  # type: ignore[misc]
    return None


def _first(*paths: Path) -> Path | None:
    return next((path for path in paths if path.exists()), None)
