"""Who goes into which part: the random 60/20/20 split of one repetition.

Every random choice of a repetition comes from `stream(seed, tag, ...)`, a generator of its own for each purpose, so
a seed gives the same repetition whatever other seeds run beside it.

A split is a code per image: 0 train, 1 validation, 2 test. `by_class` draws it within each class,

    train floor(0.6 n), validation floor(0.2 n), test the rest,

so that the sizes are the same for every seed. `by_unit` keeps all images of a unit (a font) in one part; the sizes
are then only near 60/20/20, and differ from seed to seed.
"""

from collections.abc import Sequence

import numpy as np

from pyroclaw.errors import InputError

PARTS = ("train", "validation", "test")
SPLIT, ROWS, ORDER, PIXELS, VARIANTS = range(5)  # what a stream is for
Shares = tuple[float, float, float]


def stream(seed: int, *tag: int) -> np.random.Generator:
    """The random numbers of repetition `seed` for one purpose."""
    if seed < 0:
        raise InputError(f"seed {seed} is negative: give seeds of 0 or more.")
    return np.random.default_rng([seed, *tag])


def part_sizes(images: np.ndarray, shares: Shares) -> np.ndarray:
    """How many of `images` [...] go into each part: [..., 3]."""
    # The small number mends 0.6 * n falling a rounding error below a whole number.
    train, validation = (np.floor(images * share + 1e-9).astype(np.int64) for share in shares[:2])
    return np.stack([train, validation, images - train - validation], axis=-1)


def by_class(classes: np.ndarray, shares: Shares, seed: int) -> np.ndarray:
    """A split [n] with the same shares of every class."""
    shuffled = stream(seed, SPLIT).permutation(len(classes))
    grouped = shuffled[np.argsort(classes[shuffled], kind="stable")]  # class by class, in random order within
    images = np.bincount(classes)
    first = np.cumsum(images) - images
    rank = np.arange(len(classes)) - first[classes[grouped]]
    train, validation, _ = part_sizes(images, shares)[classes[grouped]].T
    codes = np.empty(len(classes), np.int8)
    codes[grouped] = (rank >= train).astype(np.int8) + (rank >= train + validation)
    return codes


def by_unit(units: np.ndarray, shares: Shares, seed: int) -> np.ndarray:
    """A split [n] that no unit straddles: units in random order, cut where 60 % and 80 % of the images are reached."""
    _, unit, images = np.unique(units, return_inverse=True, return_counts=True)
    shuffled = stream(seed, SPLIT).permutation(len(images))
    middle = (np.cumsum(images[shuffled]) - images[shuffled] / 2) / len(units)
    codes = np.empty(len(images), np.int8)
    codes[shuffled] = np.searchsorted(np.cumsum(shares[:2]), middle, side="right")
    return codes[unit]


def check_shares(shares: Sequence[float]) -> Shares:
    """Three positive shares that add up to one."""
    if len(shares) != 3 or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise InputError(f"parts={tuple(shares)} must be three positive shares that add up to 1, such as (.6, .2, .2).")
    return (shares[0], shares[1], shares[2])


def check_classes(classes: np.ndarray, names: Sequence[str], shares: Shares, where: str) -> None:
    """Every class has an image for each of the three parts."""
    images = np.bincount(classes, minlength=len(names))
    short = np.flatnonzero(part_sizes(images, shares).min(axis=-1) < 1)
    if len(short):
        first = int(short[0])
        raise InputError(
            f"Class {names[first]} of {where} has {images[first]} different images, too few for train, validation "
            f"and test: give more images of it or leave the class out."
        )
