"""A benchmark: a protocol (net, heads, epochs) and a sequence of tasks drawn anew for each repetition.

`tasks(seeds)` stacks the repetitions of several seeds, so that one run can train them together. They can share a
plate if their tasks have equal heads and equal numbers of steps; `plates(seeds)` groups them so.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pyroclaw.data.augment import Variants
from pyroclaw.data.part import Part, Task
from pyroclaw.data.recipe import Outline, Recipe
from pyroclaw.data.split import PARTS
from pyroclaw.errors import InputError

Heads = Literal["single", "multi"]


@dataclass(frozen=True)
class NetPreset:
    """The net of a benchmark: an MLP with `hidden` units a layer, or `blocks` of 3×3 convolutions with `filters`."""

    kind: Literal["mlp", "cnn"]
    hidden: tuple[int, ...] = ()
    filters: int = 0
    blocks: int = 0


@dataclass(frozen=True, eq=False)
class Benchmark:
    """`source` and `standin` say what the data really are; `title` is the name that results may call it by."""

    name: str
    title: str
    heads: Heads
    net: NetPreset
    epochs: int
    batch_size: int
    source: str
    standin: bool
    images: Tensor = field(repr=False)  # [n, H, W], [n, C, H, W] or [n, D]; bytes, or float32 taken as it is
    recipe: Recipe = field(repr=False)

    @property
    def task_count(self) -> int:
        return len(self.recipe.outlines[: self.recipe.first])

    def first(self, tasks: int) -> "Benchmark":
        """The same with its first tasks only, for a smaller budget; each repetition's tasks are those it had."""
        if not 0 < tasks <= len(self.recipe.outlines):
            raise InputError(f"tasks={tasks}, but {self.name} has {len(self.recipe.outlines)}: ask for 1 to that many.")
        if tasks == len(self.recipe.outlines):
            return self  # all of them are no smaller budget, and records of one are those of the other
        return replace(self, recipe=replace(self.recipe, first=tasks))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(D,) for an MLP, (C, H, W) for a CNN."""
        shape = tuple(self.images.shape[1:])
        return (int(np.prod(shape)),) if self.net.kind == "mlp" else shape

    def digest(self) -> str:
        """A hash of the data: images, their classes, and what else decides how they are split."""
        found = hashlib.sha256(self.images.numpy().data)
        found.update(np.ascontiguousarray(self.recipe.classes).data)
        if self.recipe.units is not None:
            found.update(np.ascontiguousarray(self.recipe.units).data)
        return found.hexdigest()[:16]

    def plates(self, seeds: Sequence[int]) -> list[list[int]]:
        """Seeds grouped by the head sizes and training sizes of their tasks: each group can be one plate."""
        groups: dict[tuple, list[int]] = {}
        for seed in seeds:
            groups.setdefault(self._layout(self.recipe.outlines_of(seed)), []).append(seed)
        return list(groups.values())

    def tasks(self, seeds: Sequence[int], device: str | torch.device = "cpu") -> list[Task]:
        """The tasks in order with one replicate for each seed, all pointing into one tensor of images."""
        if len(self.plates(seeds)) != 1:
            raise InputError(
                f"seeds={list(seeds)} of {self.name} do not make one plate: run each group of plates(seeds) on its own."
            )
        images = self.images.to(device)
        classes = torch.from_numpy(self.recipe.classes).to(device)
        outlines = [self.recipe.outlines_of(seed) for seed in seeds]
        splits = [self.recipe.split(seed) for seed in seeds]
        # rows and sizes of all parts, by classes: permuted tasks share theirs
        rows: dict[tuple, list[tuple[Tensor, tuple[int, ...]]]] = {}
        tasks = []
        for number, mine in enumerate(zip(*outlines, strict=True)):
            key = tuple(outline.classes for outline in mine)
            if key not in rows:
                drawn = [
                    [self.recipe.rows(*one, part) for one in zip(splits, mine, strict=True)]
                    for part in range(len(PARTS))
                ]
                rows[key] = [(_stack(part).to(device), tuple(len(own) for own in part)) for part in drawn]
            head = torch.from_numpy(np.stack([self.recipe.head(outline) for outline in mine])).to(device)
            pixels = self._pixels(seeds, number, device)
            variants = [self._variants(seeds, number, rows[key][0][1], device), None, None]
            parts = [
                Part(
                    images=images,
                    classes=classes,
                    rows=own,
                    sizes=tuple(size * (some.fold if some else 1) for size in sizes),
                    head=head,
                    flat=self.net.kind == "mlp",
                    pixels=pixels,
                    variants=some,
                )
                for (own, sizes), some in zip(rows[key], variants, strict=True)
            ]
            names = {outline.name for outline in mine}
            name = names.pop() if len(names) == 1 else f"task {number + 1}"
            tasks.append(Task(name, *self._layout(outlines[0])[number], *parts))
        return tasks

    def _layout(self, outlines: Sequence[Outline]) -> tuple[tuple[int, int], ...]:
        """Head size and nominal training size of each task."""
        single = 1 + max(max(outline.head) for outline in outlines)
        heads = [single if self.heads == "single" else len(outline.classes) for outline in outlines]
        return tuple(zip(heads, self.recipe.nominal_sizes(outlines), strict=True))

    def _pixels(self, seeds: Sequence[int], number: int, device: str | torch.device) -> Tensor | None:
        if not self.recipe.permute_pixels:
            return None
        inputs = self.images[0].numel()
        return torch.from_numpy(np.stack([self.recipe.pixels(seed, number, inputs) for seed in seeds])).to(device)

    def _variants(
        self, seeds: Sequence[int], number: int, images: Sequence[int], device: str | torch.device
    ) -> Variants | None:
        if self.recipe.fold == 1:
            return None
        width = self.images.shape[-1]
        numbers = [self.recipe.variants(seed, number, own, width) for seed, own in zip(seeds, images, strict=True)]
        return Variants(_stack(numbers).to(device), self.recipe.fold)


def _stack(arrays: Sequence[np.ndarray]) -> Tensor:
    """Arrays of unequal length as one tensor; a short one goes on with its first entry, so that all are its own."""
    longest = max(len(own) for own in arrays)
    return torch.from_numpy(np.stack([np.concatenate([own, own[:1].repeat(longest - len(own), 0)]) for own in arrays]))
