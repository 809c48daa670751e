"""What choosing FRCL's inducing points costs: the batched selection against one proposal at a time.

    python experiments/bench_selection.py --examples 4000 --points 200

Both make the same proposals, the points of one shuffled list in turn, and keep what lowers the trace criterion

    Σ_n [k_nn - k_nZ K_ZZ⁻¹ k_Zn].

One at a time, each proposal is a new K_ZZ and a pass over the training examples. Batched, the five proposals for a
place share one rank-one update, and all repetitions go together. Rounds are interleaved, so that whatever else the
machine does slows both.
"""

import sys
import time
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
import tyro
from torch import Tensor

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.data.own import from_arrays
from pyroclaw.inference.inducing import choose, with_jitter
from pyroclaw.streams import Streams

PROPOSALS = 5


@dataclass
class Options:
    """Time of a task's selection of inducing points, and its ratio to one proposal at a time."""

    examples: int = 4000
    """Training examples of the task."""
    points: int = 200
    """Inducing points."""
    features: int = 150
    """Features, the 1 for the bias not counted."""
    replicates: int = 10
    """Repetitions that are chosen for together."""
    places: int = 5
    """Places that one proposal at a time is timed on; the others would take as long."""
    rounds: int = 3
    """How often each is timed."""
    threads: int = 1
    """CPU threads."""


def one_at_a_time(phi: Tensor, chosen: Tensor, places: int) -> Tensor:
    """The criterion's own loop for one repetition, over the first places; phi [n, D] are all features."""
    chosen, following = chosen.clone(), len(chosen)
    for i in range(places):
        best = trace(phi, chosen)
        for _ in range(PROPOSALS):
            tried = chosen.clone()
            tried[i] = following % len(phi)
            following += 1
            if (value := trace(phi, tried)) < best:
                best, chosen = value, tried
    return chosen


def trace(phi: Tensor, chosen: Tensor) -> Tensor:
    cross = phi[chosen] @ phi.T
    solved = torch.cholesky_solve(cross, torch.linalg.cholesky(with_jitter(cross[:, chosen])))
    return phi.square().sum() - (cross * solved).sum()


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv)
    torch.set_num_threads(options.threads)
    inputs = np.random.default_rng(0).normal(size=(options.examples * 5 // 3, options.features)).astype("f4")
    labels = np.arange(len(inputs)) % 2
    bench = from_arrays("inputs", [(inputs, labels)], net=NetPreset("mlp", hidden=(1,)), epochs=1, batch_size=1)
    seeds = list(range(options.replicates))
    train = bench.tasks(seeds)[0].train
    phi = with_one(train.batch(torch.arange(train.sizes[0]).expand(len(seeds), -1))[0][0]).double()
    batched, alone = [], []
    for _ in range(options.rounds):
        began = time.perf_counter()
        choose(train, with_one, options.points, Streams(seeds, "bench"), proposals=PROPOSALS)
        between = time.perf_counter()
        one_at_a_time(phi, torch.arange(options.points), options.places)
        batched.append(between - began)
        alone.append((time.perf_counter() - between) * options.points / options.places * len(seeds))
    ratios = sorted(slow / fast for slow, fast in zip(alone, batched, strict=True))
    print(
        f"{options.points} of {len(phi)} examples, {phi.shape[1]} features, {len(seeds)} repetitions: batched "
        f"{median(batched):.1f} s, one proposal at a time {median(ratios):.0f} times as long "
        f"({ratios[0]:.0f} to {ratios[-1]:.0f} in {options.rounds} rounds)"
    )
    return 0


def with_one(x: Tensor) -> Tensor:
    """The inputs as features, with 1 for the bias."""
    return torch.nn.functional.pad(x, (0, 1), value=1.0)


if __name__ == "__main__":
    sys.exit(main())
