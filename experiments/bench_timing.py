"""Ratios of times with confidence intervals, from rounds in which everything measured has its turn.

Whatever else a machine does slows all that is measured in a round, so ratios within a round mean more than seconds. A
ratio is the geometric mean over rounds, with the 95 % interval of Student's t on its logarithm. Seconds are those of
the processor, not of the clock on the wall: what waits for other processes is not counted.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import linregress, t

from pyroclaw.data.benchmark import Benchmark, Heads, NetPreset
from pyroclaw.data.own import from_arrays
from pyroclaw.products import product

LEVEL = 0.95


class Row(NamedTuple):
    """One figure of the benchmark."""

    section: str
    name: str
    value: float
    low: float  # of the confidence interval
    high: float
    unit: str = "×"
    target: float | None = None  # at most
    paper: float | None = None  # the same figure in the paper


def interleaved(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each work in each round; a first round warms up and is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds + 1):
        for name, work in works.items():
            began = time.process_time()
            work()
            seconds[name].append(time.process_time() - began)
    return {name: own[1:] for name, own in seconds.items()}


def ratio(over: Sequence[float], under: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of the rounds' ratios, and its confidence interval."""
    logs = np.log(over) - np.log(under)
    reach = t.ppf((1 + LEVEL) / 2, len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else 0.0
    return tuple(float(x) for x in np.exp(logs.mean() + np.array([0, -reach, reach])))  # type: ignore[return-value]


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Slope of a straight line, and its confidence interval."""
    line = linregress(x, y)
    reach = t.ppf((1 + LEVEL) / 2, len(x) - 2) * line.stderr
    return float(line.slope), float(line.slope - reach), float(line.slope + reach)


def some_tasks(count: int, examples: int, net: NetPreset, shape: tuple[int, ...] = (784,), **options) -> Benchmark:
    """Random bytes with ten labels: as fast to learn from as pictures."""
    rng, heads = np.random.default_rng(0), options.pop("heads", "single")
    tasks = [(rng.integers(0, 256, (examples, *shape), "u1"), np.arange(examples) % 10) for _ in range(count)]
    return from_arrays("random bytes", tasks, heads=_heads(heads), net=net, **options)


def _heads(name: str) -> Heads:
    return "single" if name == "single" else "multi"


def gemm_peak(size: int = 1024, rounds: int = 8) -> float:
    """Floating-point operations a second of this machine's fastest product of two float32 matrices."""
    one = torch.randn(1, size, size)
    seconds = interleaved({"product": lambda: product(one, one)}, rounds)["product"]
    return 2 * size**3 / min(seconds)
