"""The parts of several tasks as one: joint training, and whatever else looks back at all tasks.

The examples of part 0 come first, then those of part 1, and so on, for each repetition by its own sizes:

    position = sizes[0][r] + ... + sizes[part - 1][r] + (position within the part)
    y        = the part's own label + offset of the part

With `offsets` that count the classes of the heads before, y is the place in all heads put side by side; with zeros
the parts share one head. The tables of all parts (rows, heads, pixels, variants) stand side by side, so a batch is
gathered at once, whichever parts its examples come from.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from pyroclaw.data.part import Part, examples, rows_of
from pyroclaw.errors import InputError


class Union:
    """Parts of one benchmark's tasks, with equal `fold`; all of them permute pixels, or none does.

    Pictures that the parts do not share (those of :meth:`~pyroclaw.data.part.Part.take`) are put together.

    :param offsets: what is added to the labels of each part.
    """

    def __init__(self, parts: Sequence[Part], offsets: Sequence[int]) -> None:
        if any(part.fold != parts[0].fold or part.images.shape[1:] != parts[0].images.shape[1:] for part in parts):
            raise InputError("parts of a Union must be alike in pictures and augmentation: give those of one benchmark")
        parts = parts if all(part.images is parts[0].images for part in parts) else _together(parts)
        first = parts[0]
        self.images, self.classes, self.flat, self.fold = first.images, first.classes, first.flat, first.fold
        sizes = torch.tensor([part.sizes for part in parts], device=first.rows.device).T.contiguous()  # [R, parts]
        self._ends = sizes.cumsum(1)
        self.sizes = tuple(map(sum, zip(*(part.sizes for part in parts), strict=True)))
        self._rows = torch.cat([part.rows for part in parts], dim=1)
        self._heads = torch.cat([part.head + offset for part, offset in zip(parts, offsets, strict=True)], dim=1)
        pixels = [part.pixels for part in parts if part.pixels is not None]
        self._pixels = torch.stack(pixels, dim=1) if pixels else None  # [R, parts, D]
        numbers = [part.variants.numbers for part in parts if part.variants is not None]
        self._numbers = torch.cat(numbers, dim=1) if numbers else None
        # from a position to a column of the tables: a part's columns are as many as its longest repetition needs
        widths = torch.tensor([0, *(part.rows.shape[1] * part.fold for part in parts[:-1])], device=first.rows.device)
        self._shifts = widths.cumsum(0) - self._ends + sizes

    def batch(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Examples at `positions` [R, B] (each below `sizes[r]`): x [R, B, D] or [R, B, C, H, W], y [R, B]."""
        positions = positions.to(self._rows.device).contiguous()
        which = torch.searchsorted(self._ends, positions, right=True)
        columns = positions + self._shifts.gather(1, which)
        rows = self._rows.gather(1, columns // self.fold)
        per_part = self._heads.shape[1] // self._ends.shape[1]
        y = self._heads.gather(1, which * per_part + self.classes[rows])
        order = None if self._pixels is None else rows_of(self._pixels, which)
        numbers = None if self._numbers is None else rows_of(self._numbers, columns)
        return examples(self.images, rows, self.flat, order, numbers), y


def _together(parts: Sequence[Part]) -> list[Part]:
    """The same parts pointing into one tensor that holds the images of all."""
    images, classes = (torch.cat([getattr(part, name) for part in parts]) for name in ("images", "classes"))
    starts = accumulate((len(part.images) for part in parts[:-1]), initial=0)
    return [
        replace(part, images=images, classes=classes, rows=part.rows + start)
        for part, start in zip(parts, starts, strict=True)
    ]
