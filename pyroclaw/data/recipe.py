"""How the tasks of a benchmark are drawn: everything that one repetition's seed decides.

An `Outline` says which classes of the data set form a task. A `Recipe` adds what the protocol leaves to chance: the
order of tasks or classes, the split into train, validation and test, the order of the rows, the pixel permutations
and the numbers of the augmentation. All of it is numpy on the CPU; no image is touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from pyroclaw.data import split
from pyroclaw.data.augment import draw_variants
from pyroclaw.data.split import Shares, stream
from pyroclaw.errors import InputError


@dataclass(frozen=True)
class Outline:
    """One task before anything is drawn: its classes in the data set, and their places in the head."""

    name: str
    classes: tuple[int, ...]
    head: tuple[int, ...]


class Split(NamedTuple):
    """The part of each image, and one random order of all images that every part follows."""

    codes: np.ndarray
    order: np.ndarray


@dataclass(frozen=True, eq=False)
class Recipe:
    """The tasks in their plain order, and what a seed changes about them."""

    classes: np.ndarray  # [n] the class of each image, 0 to the number of classes - 1
    outlines: tuple[Outline, ...]
    shuffle: Literal["nothing", "classes", "tasks"] = "nothing"
    permute_pixels: bool = False
    fold: int = 1  # examples made of each training image
    units: np.ndarray | None = None  # [n] images of one unit (a font) stay in one part
    shares: Shares = (0.6, 0.2, 0.2)
    first: int | None = None  # how many tasks there are, if not all: those that come first in a repetition's own order

    def outlines_of(self, seed: int) -> tuple[Outline, ...]:
        """The tasks of one repetition in its own order."""
        return self._all_outlines_of(seed)[: self.first]

    def _all_outlines_of(self, seed: int) -> tuple[Outline, ...]:
        rng = stream(seed, split.ORDER)
        if self.shuffle == "tasks":
            return tuple(self.outlines[number] for number in rng.permutation(len(self.outlines)))
        if self.shuffle == "classes":
            shuffled = iter(rng.permutation([c for outline in self.outlines for c in outline.classes]).tolist())
            return tuple(
                replace(outline, classes=tuple(next(shuffled) for _ in outline.classes)) for outline in self.outlines
            )
        return self.outlines

    def nominal_sizes(self, outlines: Sequence[Outline]) -> list[int]:
        """Training examples of each task by the share of each class, whatever units or missing images change."""
        train = split.part_sizes(np.bincount(self.classes), self.shares)[:, 0] * self.fold
        if self.shuffle == "classes":  # where a class that lacks an image or two falls must not change the steps
            everything = sum(int(train[list(outline.classes)].sum()) for outline in self.outlines)
            return [round(everything / len(self.outlines))] * len(outlines)
        return [int(train[list(outline.classes)].sum()) for outline in outlines]

    def split(self, seed: int) -> Split:
        """The split of one repetition, the same for all its tasks."""
        if self.units is None:
            codes = split.by_class(self.classes, self.shares, seed)
        else:
            codes = split.by_unit(self.units, self.shares, seed)
            filled = np.zeros((len(split.PARTS), int(self.classes.max()) + 1), bool)
            filled[codes, self.classes] = True
            if not filled.all():
                part, missing = (int(where[0]) for where in np.nonzero(~filled))
                raise InputError(
                    f"With seed {seed} no image of class {missing} falls into the {split.PARTS[part]} part: take "
                    f"another seed, or split by image."
                )
        return Split(codes, stream(seed, split.ROWS).permutation(len(codes)))

    def rows(self, drawn: Split, outline: Outline, part: int) -> np.ndarray:
        """Which images, in random order, are in this part of this task."""
        member = self._by_class(outline, False, True)
        return drawn.order[(drawn.codes[drawn.order] == part) & member[self.classes[drawn.order]]]

    def head(self, outline: Outline) -> np.ndarray:
        """The place of each class of the data set in the task's head; -1 for classes of other tasks."""
        return self._by_class(outline, -1, outline.head)

    def pixels(self, seed: int, number: int, inputs: int) -> np.ndarray:
        """The pixel permutation of task `number`, the first one's too."""
        return stream(seed, split.PIXELS, number).permutation(inputs)

    def variants(self, seed: int, number: int, images: int, width: int) -> np.ndarray:
        """The augmentation of task `number`'s training images."""
        return draw_variants(images, self.fold, width, stream(seed, split.VARIANTS, number))

    def _by_class(self, outline: Outline, elsewhere: int, here: int | tuple[int, ...]) -> np.ndarray:
        table = np.full(int(self.classes.max()) + 1, elsewhere)
        table[list(outline.classes)] = here
        return table
