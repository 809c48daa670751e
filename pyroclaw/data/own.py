"""A benchmark of your own data: arrays or tensors, or torch `Dataset`s.

Each task is a set of images with integer labels. Bytes (uint8) become float32 in [0, 1] batch by batch; floats are
taken as they are. Each class of each task is split into the three `parts` anew for every seed, after pixel-identical
images of a task have been reduced to one. With `heads="multi"` every task has a head for its own labels; with
`heads="single"` one head serves the labels of all tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import numpy as np
from torch.utils.data import Dataset, IterableDataset

from pyroclaw.data.benchmark import Benchmark, Heads, NetPreset
from pyroclaw.data.benchmarks import as_tensor
from pyroclaw.data.dataset import DataSet, without_duplicates
from pyroclaw.data.recipe import Outline, Recipe
from pyroclaw.data.split import Shares, check_classes, check_shares
from pyroclaw.errors import InputError

MLP = NetPreset("mlp", hidden=(256, 256))


class Options(TypedDict):
    """What every kind of own benchmark can set, as in `from_arrays`."""

    heads: NotRequired[Heads]
    net: NotRequired[NetPreset]
    epochs: NotRequired[int]
    batch_size: NotRequired[int]
    parts: NotRequired[Sequence[float]]
    source: NotRequired[str]


def from_arrays(
    name: str,
    tasks: Sequence[tuple[Any, Any]] | Mapping[str, tuple[Any, Any]],
    *,
    heads: Heads = "multi",
    net: NetPreset = MLP,
    epochs: int = 10,
    batch_size: int = 256,
    parts: Sequence[float] = (0.6, 0.2, 0.2),
    source: str = "own data",
) -> Benchmark:
    """Tasks of (images, labels), arrays or tensors: [n, H, W], [n, H, W, C] or [n, C, H, W], or features [n, D].

    All tasks have images of one shape and one dtype, uint8 or float.
    """
    if heads not in ("single", "multi"):
        raise InputError(f"heads={heads!r} of {name} must be 'single' or 'multi'.")
    if epochs < 1 or batch_size < 1:
        raise InputError(f"epochs={epochs} and batch_size={batch_size} of {name} must be 1 or more.")
    shares = check_shares(parts)
    given = [checked(task, pair) for task, pair in _named(name, tasks).items()]
    sets = [without_duplicates(one) for one in given]
    for one in sets:
        if len(np.unique(one.labels)) < 2:
            raise InputError(f"Task {one.name} has different images of one class only: give it at least two classes.")
        if kind(one) != kind(sets[0]):
            raise InputError(
                f"The images of task {one.name} are {kind(one)}, those of task {sets[0].name} {kind(sets[0])}: give "
                f"all tasks images of one shape and dtype."
            )
    check_net(name, net, sets[0].images)
    dropped = sum(map(len, given)) - sum(map(len, sets))
    return Benchmark(
        name=name,
        title=name,
        heads=heads,
        net=net,
        epochs=epochs,
        batch_size=batch_size,
        source=f"{source} ({dropped} duplicates left out)" if dropped else source,
        standin=False,
        images=as_tensor(np.concatenate([one.images for one in sets]), pictures=net.kind == "cnn"),
        recipe=_recipe(sets, heads, shares),
    )


def from_datasets(
    name: str, datasets: Sequence[Dataset] | Mapping[str, Dataset], **options: Unpack[Options]
) -> Benchmark:
    """One task for each torch `Dataset` of (image, label); images may be tensors, arrays or Pillow images."""
    tasks = {task: stacked(task, dataset) for task, dataset in _named(name, datasets).items()}
    return from_arrays(name, tasks, **options)


def stacked(task: str, dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a `Dataset` as two arrays."""
    images, labels = [], []
    for image, label in _samples(dataset):
        images.append(np.asarray(image))
        labels.append(np.asarray(label))
        if images[-1].shape != images[0].shape:
            raise InputError(
                f"Image {len(images) - 1} of task {task} is {images[-1].shape}, the ones before {images[0].shape}: "
                f"resize them to one shape."
            )
    return np.stack(images) if images else np.empty((0, 1)), np.array(labels)


def _named(name: str, tasks: Any) -> dict[str, Any]:
    """Tasks by name, "task 1", "task 2", ... if they have none."""
    named = dict(tasks) if isinstance(tasks, Mapping) else {f"task {n}": task for n, task in enumerate(tasks, 1)}
    if not named:
        raise InputError(f"tasks of {name} is empty: give at least one task.")
    return named


def _samples(dataset: Any) -> Iterator[tuple[Any, Any]]:
    return iter(dataset) if isinstance(dataset, IterableDataset) else (dataset[i] for i in range(len(dataset)))


def _array(task: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except ValueError as error:  # rows of unequal length
        raise InputError(f"Task {task} holds values that make no array: give its images one shape.") from error


def kind(data: DataSet) -> str:
    return f"{data.images.dtype} {list(data.images.shape[1:])}"


def checked(task: str, pair: Any) -> DataSet:
    """One task's arrays with pictures as [n, H, W] or [n, H, W, C], or a sentence about what is wrong with them."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(f"Task {task} must be a pair (images, labels).")
    images, labels = (_array(task, values) for values in pair)
    channels_first = images.ndim == 4 and images.shape[-1] > 4
    if images.ndim not in (2, 3, 4) or (channels_first and images.shape[1] > 4):
        raise InputError(
            f"The images of task {task} have shape {list(images.shape)}: give [n, D], [n, H, W], [n, H, W, C] or "
            f"[n, C, H, W] with at most 4 channels."
        )
    if images.size == 0:
        raise InputError(f"Task {task} is empty: give it images.")
    if labels.shape != (len(images),) or labels.dtype.kind not in "iub":
        raise InputError(
            f"The labels of task {task} are {labels.dtype} {list(labels.shape)}: give one integer for each of its "
            f"{len(images)} images."
        )
    if images.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinity, and is refused below
            images = images.astype(np.float32)
        if not np.isfinite(images).all():
            raise InputError(f"The images of task {task} contain NaN or infinity: remove or replace those values.")
    elif images.dtype != np.uint8:
        raise InputError(f"The images of task {task} are {images.dtype}: give uint8 from 0 to 255, or floats.")
    if channels_first:
        images = images.transpose(0, 2, 3, 1)
    return DataSet(task, np.ascontiguousarray(images), labels.astype(np.int64), "own data")


def check_net(name: str, net: NetPreset, images: np.ndarray) -> None:
    """A CNN needs pictures that survive a 2×2 pooling in every block."""
    if net.kind == "cnn" and (images.ndim < 3 or min(images.shape[1:3]) >> net.blocks == 0):
        raise InputError(
            f"The CNN of {name} with {net.blocks} blocks needs pictures of at least {2**net.blocks} pixels a side, not "
            f"{list(images.shape[1:])}: use fewer blocks, larger pictures or an MLP."
        )


def _recipe(sets: Sequence[DataSet], heads: Heads, shares: Shares) -> Recipe:
    """Every label of every task is a class of its own; only its place in the head can be common to several."""
    every = np.unique(np.concatenate([one.labels for one in sets]))
    classes: list[np.ndarray] = []
    names: list[str] = []
    outlines = []
    for one in sets:
        labels, place = np.unique(one.labels, return_inverse=True)
        head = np.searchsorted(every, labels) if heads == "single" else np.arange(len(labels))
        outlines.append(Outline(one.name, tuple(range(len(names), len(names) + len(labels))), tuple(head.tolist())))
        classes.append(place + len(names))
        names += [f"{label} of task {one.name}" for label in labels]
    recipe = Recipe(np.concatenate(classes), tuple(outlines), shares=shares)
    check_classes(recipe.classes, names, shares, "the benchmark")
    return recipe
