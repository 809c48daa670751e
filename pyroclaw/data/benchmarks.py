"""The six benchmarks of the paper (section 4 and "Other Experimental Details"), by name.

name            tasks                                   head    net          batch  epochs
permuted_mnist  10 pixel permutations of ten digits     single  100-100        256      10
split_mnist     0/1 2/3 4/5 6/7 8/9                     multi   256-256        128      10
split_notmnist  A/F B/G C/H D/I E/J                     multi   4 × 150        256      10
split_fashion   five pairs of clothes                   multi   4 × 150        256      10
omniglot        50 alphabets in random order            multi   4 × (3×3×64)   256      15
cifar100        20 × 5 classes in random order          multi   4 × (3×3×64)   256      15
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pyroclaw.data.augment import FOLD
from pyroclaw.data.benchmark import Benchmark, Heads, NetPreset
from pyroclaw.data.dataset import DataSet
from pyroclaw.data.local import Log
from pyroclaw.data.recipe import Outline, Recipe
from pyroclaw.data.sources import load, to_stderr
from pyroclaw.data.split import check_classes
from pyroclaw.errors import InputError, choose

PERMUTATIONS = 10
CLASSES_A_TASK = 5  # of CIFAR-100
CNN = NetPreset("cnn", filters=64, blocks=4)

PAIRS = {
    "split_mnist": ["0/1", "2/3", "4/5", "6/7", "8/9"],
    "split_notmnist": ["A/F", "B/G", "C/H", "D/I", "E/J"],
    "split_fashion": ["T-shirt/Trouser", "Pullover/Dress", "Coat/Sandal", "Shirt/Sneaker", "Bag/Ankle boot"],
}


@dataclass(frozen=True)
class Protocol:
    """What the paper fixes about a benchmark."""

    data_set: str
    heads: Heads
    net: NetPreset
    batch_size: int
    epochs: int


PROTOCOLS = {
    "permuted_mnist": Protocol("mnist", "single", NetPreset("mlp", hidden=(100, 100)), 256, 10),
    "split_mnist": Protocol("mnist", "multi", NetPreset("mlp", hidden=(256, 256)), 128, 10),
    "split_notmnist": Protocol("notmnist", "multi", NetPreset("mlp", hidden=(150,) * 4), 256, 10),
    "split_fashion": Protocol("fashion_mnist", "multi", NetPreset("mlp", hidden=(150,) * 4), 256, 10),
    "omniglot": Protocol("omniglot", "multi", CNN, 256, 15),
    "cifar100": Protocol("cifar100", "multi", CNN, 256, 15),
}
KNOWN = tuple(PROTOCOLS)


def make(
    name: str,
    data_dir: str | Path | None = None,
    data: Literal["auto", "real"] = "auto",
    augment: bool = True,
    split: Literal["image", "font"] = "image",
    download: bool = True,
    log: Log = to_stderr,
) -> Benchmark:
    """Find the data and build the benchmark; `augment` concerns omniglot, `split="font"` data sets that know fonts."""
    choose("benchmark", name, KNOWN)
    folder = None if data_dir is None else Path(data_dir)
    return build(name, load(PROTOCOLS[name].data_set, folder, data, download, log), augment, split)


def build(name: str, data: DataSet, augment: bool = True, split: Literal["image", "font"] = "image") -> Benchmark:
    """The benchmark `name` on `data`, which must be free of duplicates."""
    protocol = PROTOCOLS[name]
    if split == "font" and "font" not in data.extras:
        raise InputError(f"split='font' needs data that say the font of each image; {data.name} does not: use 'image'.")
    recipe = _recipe(name, data, augment, data.extras["font"] if split == "font" else None)
    return Benchmark(
        name=name,
        title=name.replace(protocol.data_set, data.name),
        heads=protocol.heads,
        net=protocol.net,
        epochs=protocol.epochs,
        batch_size=protocol.batch_size,
        source=data.source,
        standin=data.standin,
        images=as_tensor(data.images, pictures=protocol.net.kind == "cnn"),
        recipe=recipe,
    )


def as_tensor(images: np.ndarray, pictures: bool) -> Tensor:
    """Images [n, H, W] or [n, H, W, C] as a tensor; as pictures for a CNN their shape is [n, C, H, W]."""
    if pictures:
        images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.require(images, requirements=["C_CONTIGUOUS", "WRITEABLE"]))


def _recipe(name: str, data: DataSet, augment: bool, units: np.ndarray | None) -> Recipe:
    """Which classes form which task, and what a seed decides."""
    classes = data.labels
    if name == "omniglot":
        return _alphabets(data, FOLD if augment else 1)
    count = 100 if name == "cifar100" else 10
    labels = [str(label) for label in data.extras.get("class_names", range(count))]
    check_classes(classes, labels, Recipe.shares, data.name)
    if name == "permuted_mnist":
        digits = tuple(range(count))
        tasks = tuple(Outline(f"permutation {number + 1}", digits, digits) for number in range(PERMUTATIONS))
        return Recipe(classes, tasks, permute_pixels=True, units=units)
    if name == "cifar100":
        places = tuple(range(CLASSES_A_TASK))
        starts = range(0, count, CLASSES_A_TASK)
        tasks = tuple(
            Outline(f"task {number + 1}", tuple(start + place for place in places), places)
            for number, start in enumerate(starts)
        )
        return Recipe(classes, tasks, shuffle="classes", units=units)
    # notMNIST pairs letters half the alphabet A..J apart, the other two pair neighbours.
    pairs = [(t, t + 5) if name == "split_notmnist" else (2 * t, 2 * t + 1) for t in range(5)]
    return Recipe(classes, tuple(Outline(*one, (0, 1)) for one in zip(PAIRS[name], pairs, strict=True)), units=units)


def _alphabets(data: DataSet, fold: int) -> Recipe:
    """One task for each alphabet; a class is a character of one alphabet."""
    alphabet = data.extras["alphabet"]
    pairs, classes = np.unique(np.stack([alphabet, data.labels], axis=1), axis=0, return_inverse=True)
    present = np.unique(alphabet)
    names = [str(one).replace("_", " ") for one in data.extras.get("alphabet_names", present)]
    check_classes(classes, [f"{label} of {names[which]}" for which, label in pairs], Recipe.shares, data.name)
    tasks = []
    for which in present:
        characters = tuple(np.flatnonzero(pairs[:, 0] == which).tolist())
        tasks.append(Outline(names[which], characters, tuple(range(len(characters)))))
    return Recipe(classes, tuple(tasks), shuffle="tasks", fold=fold)
