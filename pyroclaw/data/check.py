"""What the arrays of each data set must look like; anything else is one clear sentence.

Required: `images`, uint8 [n, H, W] or [n, H, W, 3], and `labels`, integers [n] that cover 0 .. classes - 1.
Omniglot also needs `alphabet`: its labels start at 0 in every alphabet, and both numberings are without gaps.
Optional, one entry an image: `font`, `drawer` (integers), `official_test` (bool). Optional tables of names:
`class_names`, `alphabet_names`, `font_names`, `licences`; and `origin`, one string that says where a file came from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pyroclaw.data.dataset import PER_IMAGE, TABLES, DataSet
from pyroclaw.errors import InputError


@dataclass(frozen=True)
class Known:
    """The published facts of one data set; Omniglot has 14 to 55 classes an alphabet, so no number for all."""

    shape: tuple[int, ...]
    classes: int | None
    images: int


KNOWN = {
    "mnist": Known((28, 28), 10, 70_000),
    "fashion_mnist": Known((28, 28), 10, 70_000),
    "notmnist": Known((28, 28), 10, 18_724),
    "omniglot": Known((28, 28), None, 32_460),
    "cifar100": Known((32, 32, 3), 100, 60_000),
}
STANDIN = Known((28, 28), 10, 0)


def unusable(path: Path, problem: str, name: str) -> InputError:
    """The sentence for a file that is there but cannot be used."""
    if name not in KNOWN:
        return InputError(f"{path} cannot be used because {problem}: install pyroclaw anew.")
    return InputError(
        f"{path} cannot be used because {problem}: replace or delete it, then run "
        f"`python experiments/data.py prepare {name}`."
    )


def checked(name: str, arrays: Mapping[str, np.ndarray], source: str, path: Path, standin: bool = False) -> DataSet:
    """The arrays read from `path` as a `DataSet`, or an `InputError` that names `path`."""
    if problem := _problem(name, arrays):
        raise unusable(path, problem, name)
    extras = {key: arrays[key] for key in (*PER_IMAGE, *TABLES) if key in arrays}
    extras = {key: value.astype(np.int64) if value.dtype.kind in "iu" else value for key, value in extras.items()}
    labels = arrays["labels"].astype(np.int64)
    return DataSet(name, np.ascontiguousarray(arrays["images"]), labels, source, standin, extras)


def _problem(name: str, arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first thing wrong with the arrays, as the end of a sentence."""
    shape = KNOWN.get(name, STANDIN).shape
    required = {"images", "labels"} | ({"alphabet"} if name == "omniglot" else set())
    if missing := sorted(required - set(arrays)):
        return f"it lacks the key {missing[0]!r}"
    if unknown := sorted(set(arrays) - {"images", "labels", "origin", *PER_IMAGE, *TABLES}):
        return f"it has the unknown key {unknown[0]!r}"
    images, n = arrays["images"], len(arrays["images"]) if arrays["images"].ndim else 0
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        return "its images contain NaN or infinity"
    if images.dtype != np.uint8:
        return f"its images are {images.dtype}, not uint8 from 0 to 255"
    if n == 0 or images.shape[1:] != shape:
        return f"its images have shape {list(images.shape)}, not [n, {', '.join(map(str, shape))}] with n > 0"
    for key in ("labels", *(key for key in PER_IMAGE if key in arrays)):
        if arrays[key].shape != (n,):
            return f"its {key} have shape {list(arrays[key].shape)}, not [{n}] as there are {n} images"
        if arrays[key].dtype.kind not in ("b" if key == "official_test" else "iu"):
            return f"its {key} are {arrays[key].dtype}, not {'bool' if key == 'official_test' else 'integers'}"
        if arrays[key].min() < 0:
            return f"its {key} contain the negative number {arrays[key].min()}"
    for key in ("origin", *TABLES):
        if key in arrays and (arrays[key].dtype.kind != "U" or arrays[key].ndim != (key != "origin")):
            return f"its {key} must be {'one string' if key == 'origin' else 'a list of strings'}"
    return class_problem(name, arrays) or _table_problem(arrays)


def class_problem(name: str, arrays: Mapping[str, np.ndarray]) -> str | None:
    """Every label must be a class, and every class must have an image."""
    known = KNOWN.get(name, STANDIN)
    present = np.unique(arrays["labels"])
    if known.classes is not None:
        if present[-1] >= known.classes:
            return f"its labels contain {present[-1]}, out of the range 0..{known.classes - 1}"
        return _gap(present, known.classes, "class")
    alphabets = np.unique(arrays["alphabet"])
    if gap := _gap(alphabets, len(alphabets), "alphabet") or _gap(present, len(present), "class"):
        return gap
    # Sorted pairs (alphabet, label): within each alphabet the labels must count 0, 1, 2, ...
    pairs = np.unique(np.stack([arrays["alphabet"], arrays["labels"]], axis=1).astype(np.int64), axis=0)
    place = np.arange(len(pairs)) - np.searchsorted(pairs[:, 0], pairs[:, 0])
    if len(wrong := np.flatnonzero(place != pairs[:, 1])):
        return f"in alphabet {pairs[wrong[0], 0]} there is no image of class {place[wrong[0]]}"
    return None


def _gap(present: np.ndarray, count: int, what: str) -> str | None:
    absent = np.setdiff1d(np.arange(count), present)
    return f"there is no image of {what} {absent[0]}" if len(absent) else None


def _table_problem(arrays: Mapping[str, np.ndarray]) -> str | None:
    """Every number must have its name."""
    for table, key in (("class_names", "labels"), ("alphabet_names", "alphabet"), ("font_names", "font")):
        if table in arrays and key in arrays and len(arrays[table]) <= arrays[key].max():
            return f"its {table} hold {len(arrays[table])} names, too few for number {arrays[key].max()} in its {key}"
    return None
