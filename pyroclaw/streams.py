"""Random streams, one per replicate, so that a replicate does not know what company it keeps.

A repetition of the protocol is fixed by its seed. In a plate of R repetitions every random number (initial weights,
order of the batches, noise of the activations) is drawn from a generator of its own repetition. So replicate k of a
plate follows the trajectory of the same repetition run alone, and replicates do not influence each other.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pyroclaw.normal_numbers import fill_normal


class Streams:
    """R generators on one device, seeded by (repetition's seed, key).

    :param seeds: the seeds of the R repetitions.
    :param key: what the numbers are for, e.g. ``"train", 3``: other keys give independent numbers, so that neither
        evaluation nor an added task shifts the noise of another part of the run.

    >>> both, alone = Streams([7, 8], "doc"), Streams([8], "doc")
    >>> bool((both.normal(2, 5)[1] == alone.normal(1, 5)[0]).all())
    True
    """

    def __init__(self, seeds: Sequence[int], *key: str | int, device: torch.device | str = "cpu") -> None:
        self.seeds = tuple(seeds)
        self.device = torch.device(device)
        words = [int.from_bytes(k.encode(), "little") if isinstance(k, str) else k for k in key]
        self.generators = [
            torch.Generator(self.device).manual_seed(int(np.random.SeedSequence([seed, *words]).generate_state(1)[0]))
            for seed in seeds
        ]

    def __len__(self) -> int:
        return len(self.generators)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers [R, ...], the row of each replicate from its own stream."""
        out = torch.empty(shape, device=self.device)
        for row, generator in zip(out, self.generators, strict=True):
            fill_normal(row, generator)
        return out

    def permutation(self, replicate: int, n: int) -> Tensor:
        """A random order of 0..n-1 from the stream of one replicate."""
        return torch.randperm(n, generator=self.generators[replicate], device=self.device)
