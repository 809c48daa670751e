"""One part (train, validation or test) of one task, for R repetitions at once.

A part holds no picture of its own, unless `take` made it. All parts, tasks and repetitions point into one tensor of
images on the device; what differs is which rows belong to them, where a class sits in the head, and in which order the
pixels are read:

    image   = images[rows[r, position]]
    pixel j = image[pixels[r, j]]               (permuted benchmarks)
    y       = head[r, classes[rows[r, position]]]

A batch is gathered as bytes and becomes float32 in [0, 1] at the end, so feeding moves a quarter of the memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from pyroclaw.data.augment import Variants, turn_and_shift
from pyroclaw.fused import addresses, fusable, kernels


@dataclass(frozen=True, eq=False)
class Part:
    """The examples of one part; the rows of each repetition are in random order, so any cut gives random halves."""

    images: Tensor  # [n, ...] bytes, or float32 that is taken as it is; shared
    classes: Tensor  # [n] the class of each image in the whole data set; shared
    rows: Tensor  # [R, longest] which images; beyond a repetition's own it repeats its first
    sizes: tuple[int, ...]  # R numbers of examples, all variants counted; numbers of the host, as loops ask for them
    head: Tensor  # [R, classes of the data set] the place in the head, -1 for classes of other tasks
    flat: bool  # one vector an example (MLP) instead of a picture (CNN)
    pixels: Tensor | None = None  # [R, D] which pixel is read for each input
    variants: Variants | None = None

    def __deepcopy__(self, memo: dict) -> "Part":
        """Nothing in it ever changes, so a copy of whoever holds it may share it."""
        return self

    @property
    def fold(self) -> int:
        """Examples made of each image."""
        return 1 if self.variants is None else self.variants.fold

    def batch(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Examples at `positions` [R, B] (each below `sizes[r]`): x [R, B, D] or [R, B, C, H, W], y [R, B]."""
        positions = positions.to(self.rows.device)
        rows = self.rows.gather(1, positions // self.fold)
        order = None if self.pixels is None else self.pixels[:, None].expand(-1, positions.shape[1], -1)
        numbers = None if self.variants is None else rows_of(self.variants.numbers, positions)
        return examples(self.images, rows, self.flat, order, numbers), self.head.gather(1, self.classes[rows])

    def chunks(self, size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The whole part in order, `size` examples of every repetition at a time: x, y and `valid` [R, B].

        Where a repetition has fewer examples than the longest, `valid` is False and its last example is repeated.
        """
        ends, longest = torch.tensor(self.sizes, device=self.rows.device)[:, None], max(self.sizes)
        for start in range(0, longest, size):
            positions = torch.arange(start, min(start + size, longest), device=self.rows.device)
            x, y = self.batch(torch.minimum(positions, ends - 1))
            yield x, y, positions < ends

    def image_rows(self, replicate: int) -> Tensor:
        """Rows of `images` that belong to one repetition, each once."""
        return self.rows[replicate, : self.sizes[replicate] // self.fold]

    def take(self, images: Tensor) -> "Part":
        """The images at `images` [R, k] (each below ``sizes[r] // fold``), without variants, as a part of their own.

        It copies these pictures and holds no others, so that the memory it needs is what keeping them really costs.
        """
        chosen = self.rows.gather(1, images.to(self.rows.device))
        return replace(
            self,
            images=self.images[chosen.flatten()],
            classes=self.classes[chosen.flatten()],
            rows=torch.arange(chosen.numel(), device=chosen.device).view_as(chosen),
            sizes=(chosen.shape[1],) * len(chosen),
            variants=None,
        )

    def drop(self, images: Tensor) -> "Part":
        """What remains without the images at `images` [R, k] and their variants, in the same order."""
        columns = torch.arange(self.rows.shape[1], device=self.rows.device)
        ends = torch.tensor(self.sizes, device=self.rows.device)[:, None] // self.fold
        kept = (columns < ends).scatter(1, images.to(self.rows.device), False)
        sizes = tuple(max(0, size - images.shape[1] * self.fold) for size in self.sizes)
        longest = max(sizes) // self.fold
        left = kept.logical_not().byte().argsort(dim=1, stable=True)[:, :longest]  # the kept ones first
        left = torch.where(columns[:longest] < ends - images.shape[1], left, left[:, :1])
        variants = self.variants
        if variants is not None:
            each = torch.arange(variants.fold, device=left.device)
            positions = (left[..., None] * variants.fold + each).flatten(1)
            variants = variants._replace(numbers=rows_of(variants.numbers, positions))
        return replace(self, rows=self.rows.gather(1, left), sizes=sizes, variants=variants)

    @property
    def stored_bytes(self) -> float:
        """Bytes a repetition that a part made by `take` keeps; of other parts the images are not their own."""
        return (self.images.nbytes + self.classes.nbytes) / len(self.rows)


def examples(images: Tensor, rows: Tensor, flat: bool, order: Tensor | None, numbers: Tensor | None) -> Tensor:
    """The images at `rows` [R, B] as float32, bytes as [0, 1]: [R, B, D] if `flat`, else [R, B, C, H, W].

    :param order: [R, B, D] which pixel is read for each input.
    :param numbers: [R, B, 3] how each picture is turned and shifted.
    """
    x = images.index_select(0, rows.flatten())
    if order is not None:
        x = x.view(*rows.shape, -1).gather(2, order)
    if x.dtype == torch.uint8:
        x = _scaled(x)
    if numbers is not None:
        x = turn_and_shift(x, numbers.view(-1, 3))
    return x.view(*rows.shape, *([-1] if flat else x.shape[1:]))


def _scaled(pixels: Tensor) -> Tensor:
    """Bytes as [0, 1]."""
    if not fusable(pixels, dtype=torch.uint8):
        return pixels.to(torch.float32).mul_(1 / 255)
    pixels, scaled = pixels.contiguous(), torch.empty(pixels.shape, dtype=torch.float32)
    kernels.pixels(*addresses(pixels, scaled), pixels.numel())
    return scaled


def rows_of(table: Tensor, positions: Tensor) -> Tensor:
    """Row `positions[r, b]` of each repetition's `table[r]` [n, D]: [R, B, D]."""
    starts = torch.arange(len(table), device=table.device)[:, None] * table.shape[1]
    flat = table.flatten(0, 1).index_select(0, (positions + starts).flatten())  # whole rows: faster than gather
    return flat.view(*positions.shape, table.shape[-1])


class Task(NamedTuple):
    """One task of a benchmark, for R repetitions."""

    name: str
    classes: int  # size of the head
    nominal_size: int  # training examples by the 60 % rule: the same for all repetitions, so steps are too
    train: Part
    validation: Part
    test: Part
