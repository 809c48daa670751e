"""Does a test image hide in the training part? A check anyone can run on any task."""

import hashlib
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch

from pyroclaw.data.part import Part, Task
from pyroclaw.data.split import PARTS


class Leak(NamedTuple):
    """Images of one repetition that are in two parts: rows with the same pixels (or the very same rows)."""

    replicate: int
    parts: tuple[str, str]
    rows: tuple[np.ndarray, np.ndarray]  # in the first part, in the second


def leaks(task: Task) -> list[Leak]:
    """Every pair of parts of every repetition that share an index or a pixel-identical image; empty if all is well."""
    parts: dict[str, Part] = {name: getattr(task, name) for name in PARTS}
    replicates = range(len(task.train.rows))
    rows = {(name, r): part.image_rows(r).cpu().numpy() for name, part in parts.items() for r in replicates}
    picture = _picture_numbers(task.train, np.unique(np.concatenate(list(rows.values()))))
    found = []
    for r in replicates:
        for pair in combinations(PARTS, 2):
            one, other = (rows[name, r] for name in pair)
            shared = np.intersect1d(picture[one], picture[other])
            if len(shared):
                where = (one[np.isin(picture[one], shared)], other[np.isin(picture[other], shared)])
                found.append(Leak(r, (pair[0], pair[1]), where))
    return found


def assert_no_leak(task: Task) -> None:
    """Raise an AssertionError that says how many images leaked, and where."""
    found = leaks(task)
    if found:
        replicate, (one, other), (rows, _) = found[0]
        raise AssertionError(
            f"task {task.name!r}: {len(rows)} images of {one} are also in {other} (replicate {replicate}); "
            f"{len(found)} pairs of parts leak in all"
        )


def _picture_numbers(part: Part, rows: np.ndarray) -> np.ndarray:
    """A number for each of the images at `rows`, equal for equal pixels."""
    numbers = np.full(len(part.images), -1)
    seen: dict[bytes, int] = {}
    for row, image in zip(rows, part.images[torch.from_numpy(rows)].cpu().numpy(), strict=True):
        numbers[row] = seen.setdefault(hashlib.blake2b(image, digest_size=16).digest(), len(seen))
    return numbers
