"""One part (train, validation or test) of one task, for R repetitions at once.

A part holds no picture of its own. All parts, tasks and repetitions point into one tensor of images on the device;
what differs is which rows belong to them, where a class sits in the head, and in which order the pixels are read:

    image   = images[rows[r, position]]
    pixel j = image[pixels[r, j]]               (permuted benchmarks)
    y       = head[r, classes[rows[r, position]]]

A batch is gathered as bytes and becomes float32 in [0, 1] at the end, so feeding moves a quarter of the memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pyroclaw.data.augment import Variants, turn_and_shift


@dataclass(frozen=True, eq=False)
class Part:
    """The examples of one part; the rows of each repetition are in random order, so any cut gives random halves."""

    images: Tensor  # [n, ...] bytes, or float32 that is taken as it is; shared
    classes: Tensor  # [n] the class of each image in the whole data set; shared
    rows: Tensor  # [R, longest] which images; beyond a repetition's own it repeats its first
    sizes: Tensor  # [R] number of examples, all variants counted
    head: Tensor  # [R, classes of the data set] the place in the head, -1 for classes of other tasks
    flat: bool  # one vector an example (MLP) instead of a picture (CNN)
    pixels: Tensor | None = None  # [R, D] which pixel is read for each input
    variants: Variants | None = None

    @property
    def fold(self) -> int:
        """Examples made of each image."""
        return 1 if self.variants is None else self.variants.fold

    def batch(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Examples at `positions` [R, B] (each below `sizes[r]`): x [R, B, D] or [R, B, C, H, W], y [R, B]."""
        positions = positions.to(self.rows.device)
        replicates, size = positions.shape
        rows = self.rows.gather(1, positions if self.variants is None else positions // self.fold)
        y = self.head.gather(1, self.classes[rows])
        x = self.images.index_select(0, rows.flatten())
        if self.pixels is not None:
            order = self.pixels[:, None].expand(-1, size, -1)
            x = x.view(replicates, size, -1).gather(2, order)
        if x.dtype == torch.uint8:
            x = x.to(torch.float32).mul_(1 / 255)
        if self.variants is not None:
            numbers = self.variants.numbers.gather(1, positions[..., None].expand(-1, -1, 3))
            x = turn_and_shift(x, numbers.view(-1, 3))
        return x.view(replicates, size, *([-1] if self.flat else x.shape[1:])), y

    def chunks(self, size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The whole part in order, `size` examples of every repetition at a time: x, y and `valid` [R, B].

        Where a repetition has fewer examples than the longest, `valid` is False and its last example is repeated.
        """
        ends = self.sizes[:, None]
        longest = int(self.sizes.max())
        for start in range(0, longest, size):
            positions = torch.arange(start, min(start + size, longest), device=self.rows.device)
            x, y = self.batch(torch.minimum(positions, ends - 1))
            yield x, y, positions < ends

    def image_rows(self, replicate: int) -> Tensor:
        """Rows of `images` that belong to one repetition, each once."""
        return self.rows[replicate, : int(self.sizes[replicate]) // self.fold]


class Task(NamedTuple):
    """One task of a benchmark, for R repetitions."""

    name: str
    classes: int  # size of the head
    nominal_size: int  # training examples by the 60 % rule: the same for all repetitions, so steps are too
    train: Part
    validation: Part
    test: Part
