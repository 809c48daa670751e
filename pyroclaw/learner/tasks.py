"""One task of a user's data: checked, and brought into the form that methods learn from.

Arrays, tensors, a torch `Dataset` or a `DataLoader` become one tensor of images and a number for each label. All
replicates see the same examples, each in an order of its own. A share of them is set aside for validation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pyroclaw.data.benchmarks import as_tensor
from pyroclaw.data.dataset import DataSet
from pyroclaw.data.own import checked, kind, stacked
from pyroclaw.data.part import Part, Task
from pyroclaw.errors import InputError
from pyroclaw.streams import Streams


def pair(name: str, data: Any, labels: Any = None) -> tuple[Any, Any]:
    """(images, labels) of whatever a task was given as."""
    if labels is not None:
        return data, labels
    if isinstance(data, DataLoader):
        batches = [tuple(np.asarray(one) for one in batch) for batch in data]
        if not batches:
            raise InputError(f"Task {name} is empty: give it images.")
        images, found = (np.concatenate(column) for column in zip(*batches, strict=True))
        return images, found
    if isinstance(data, Dataset):
        return stacked(name, data)
    if isinstance(data, tuple | list) and len(data) == 2:
        return data[0], data[1]
    raise InputError(f"Task {name} is a {type(data).__name__}: give (images, labels), a Dataset or a DataLoader.")


def alike(name: str, data: DataSet, like: str | None) -> DataSet:
    """The data, if their images have the dtype and shape of those before."""
    if like is not None and kind(data) != like:
        raise InputError(f"The images of {name} are {kind(data)}, those learned so far {like}: give images like those.")
    return data


def inputs(name: str, values: Any, like: str | None, flat: bool) -> Tensor:
    """Images to answer about as a net wants them: [n, D] if `flat`, else [n, C, H, W]; bytes as [0, 1]."""
    length = len(values) if hasattr(values, "__len__") else 0
    data = alike(name, checked(name, (values, np.zeros(length, np.int64))), like)
    x = as_tensor(data.images, pictures=not flat)
    x = x.to(torch.float32).mul_(1 / 255) if x.dtype == torch.uint8 else x
    return x.flatten(1) if flat else x


def places(name: str, labels: np.ndarray, head: Sequence[int] | None) -> tuple[list[int], np.ndarray]:
    """The labels of the task's head, in order, and the place [n] of each example's label in it.

    :param head: the labels of a head that all tasks share; None if the task has one of its own.
    """
    own = np.unique(labels)
    if len(own) < 2:
        raise InputError(f"Task {name} has one class only, {own[0]}: give it at least two classes.")
    if head is None:
        return own.tolist(), np.searchsorted(own, labels)
    outside = sorted(set(own.tolist()) - set(head))
    if outside:
        raise InputError(
            f"Task {name} has the label {outside[0]}, which is not among the classes of the shared head: name it in "
            f"classes= when the learner is made, or use heads='multi'."
        )
    place = {label: i for i, label in enumerate(head)}
    return list(head), np.array([place[label] for label in labels.tolist()])


def make_task(
    name: str, images: Tensor, place: np.ndarray, classes: int, flat: bool, share: float, streams: Streams
) -> Task:
    """The task with its parts; without a share for validation, what it is trained on stands for that too."""
    size, device = len(images), streams.device
    held = int(share * size)
    orders = [streams.permutation(r, size) for r in range(len(streams))]
    rows = torch.stack(orders).to(device)
    shared: dict[str, Any] = {
        "images": images.to(device),
        "classes": torch.from_numpy(place.astype(np.int64)).to(device),
        "head": torch.arange(classes, device=device).expand(len(streams), -1),
        "flat": flat,
    }

    def part(own: Tensor) -> Part:
        return Part(rows=own, sizes=(own.shape[1],) * len(own), **shared)

    train = part(rows[:, held:])
    validation = part(rows[:, :held]) if held else train
    return Task(name, classes, size - held, train, validation, validation)
