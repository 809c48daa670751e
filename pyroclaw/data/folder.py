"""A benchmark of your own images: a folder with one subfolder a class."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
from PIL import Image

from pyroclaw.data.benchmark import Benchmark
from pyroclaw.data.own import Options, from_arrays
from pyroclaw.errors import InputError


def from_folder(
    name: str,
    folder: str | Path,
    tasks: Sequence[Sequence[str]] | Mapping[str, Sequence[str]] | None = None,
    size: tuple[int, int] | None = None,
    **options: Unpack[Options],
) -> Benchmark:
    """Images by class: `folder/class/*.png` with `tasks` as groups of class names, or else `folder/task/class/*.png`.

    `size` (height, width) resizes every image. If any image has colours, all become RGB.
    """
    folder = Path(folder)
    if tasks is None:
        groups = {task.name: _subfolders(task) for task in _subfolders(folder)}
    else:
        named = tasks if isinstance(tasks, Mapping) else {"/".join(group): group for group in tasks}
        groups = {task: [folder / label for label in group] for task, group in named.items()}
        if len(groups) < len(tasks) or not all(groups.values()):
            raise InputError(f"tasks of {name} has a task twice or one without classes: give each its own.")
    labels = list(dict.fromkeys(label.name for group in groups.values() for label in group))
    files = {
        task: [(path, labels.index(label.name)) for label in group for path in _pictures(label)]
        for task, group in groups.items()
    }
    every = [_read(path, size) for group in files.values() for path, _ in group]
    if any(image.ndim == 3 for image in every):
        every = [image if image.ndim == 3 else image[..., None].repeat(3, -1) for image in every]
    images = iter(every)
    arrays = {}
    for task, group in files.items():
        mine = [next(images) for _ in group]
        for (path, _), image in zip(group, mine, strict=True):
            if image.shape != every[0].shape:
                raise InputError(f"{path} is {image.shape}, other images are {every[0].shape}: give size=(28, 28).")
        arrays[task] = (np.stack(mine), np.array([label for _, label in group]))
    options.setdefault("source", f"own data, folder {folder.name}")
    return from_arrays(name, arrays, **options)


def _subfolders(folder: Path) -> list[Path]:
    inside = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not inside:
        raise InputError(f"{folder} has no subfolders: it must be a folder of task/class/images, or give tasks=.")
    return inside


def _pictures(folder: Path) -> list[Path]:
    known = Image.registered_extensions()
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in known) if folder.is_dir() else []
    if not found:
        raise InputError(f"{folder} is not a folder with images: put the images of class {folder.name} there.")
    return found


def _read(path: Path, size: tuple[int, int] | None) -> np.ndarray:
    """A picture as bytes, [H, W] if it is grey and [H, W, 3] if not."""
    try:
        with Image.open(path) as file:
            picture = file.convert("L" if file.mode in ("1", "L", "LA") else "RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{path} cannot be read as an image: repair or remove it.") from error
    return np.array(picture.resize((size[1], size[0])) if size else picture)
