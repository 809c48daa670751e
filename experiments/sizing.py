"""What the paper's sweep costs: 8 methods × 6 benchmarks × 10 repetitions, on cores, on a GPU, on a cluster.

python experiments/sizing.py --into docs/cluster.md

Where there are records, the cost is what they measured: the training seconds of all runs times their threads, scaled to
ten repetitions if there are fewer. Elsewhere it is an estimate, marked by ~: floating-point operations over a rate,

    10 repetitions × Σ_tasks steps × passes × 3 × forward operations of a batch,

where a backward pass counts as two forward ones, and `passes` says how often a method runs the net in a step of the
budget. On an MLP the rate of a core is the one that the method's records reach, with all that a method does besides; on
a CNN, and on a GPU, it is assumed (`CNN_RATE`, `GPU_RATE`). A GPU cannot make a pass faster than its
kernels are launched (`GPU_PASS`), which is what small nets cost there.
"""

import heapq
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from pyroclaw.data.augment import FOLD
from pyroclaw.data.benchmarks import PERMUTATIONS, PROTOCOLS
from pyroclaw.data.recipe import Recipe
from pyroclaw.errors import InputError
from pyroclaw.experiments import paper
from pyroclaw.experiments.job import settings_of
from pyroclaw.experiments.missing import RESULTS
from pyroclaw.experiments.pages import put_between
from pyroclaw.experiments.records import read
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net

CNN_RATE = 36e9  # operations a second that a core sustains: fine-tuning and VCL on CIFAR-100, one core
GPU_RATE, GPU_PASS = 5e12, 0.005  # operations a second that a GPU sustains, and seconds that a pass takes at least
BLOCKS = 2  # of a layer that learn-to-grow can choose from when a task comes, on average
CORES, GPUS = 64, 8  # of the cluster
FAILED = 2


class Size(NamedTuple):
    """What decides the steps of a benchmark."""

    tasks: int
    images: int  # of a task, on average, all parts and variants
    classes: int  # of a head, on average
    shape: tuple[int, ...]


SIZES = {
    "permuted_mnist": Size(PERMUTATIONS, 70_000, 10, (784,)),
    "split_mnist": Size(5, 14_000, 2, (784,)),
    "split_notmnist": Size(5, 4_329, 2, (784,)),
    "split_fashion": Size(5, 14_000, 2, (784,)),
    "omniglot": Size(50, 649 * FOLD, 32, (1, 28, 28)),
    "cifar100": Size(20, 3_000, 5, (3, 32, 32)),
}


class Cost(NamedTuple):
    """Of all repetitions of a method on a benchmark."""

    core_hours: float
    measured: bool
    runs: int  # that can be on different machines
    gpu_hours: float
    gpu_runs: int


@dataclass(frozen=True)
class Options:
    """Say what the paper's sweep costs."""

    into: Path | None = None
    """File whose part between the two marks is replaced; if not given, it is printed."""


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="sizing")
    try:
        text = tables(costs())
        if options.into is None:
            print(text)
        else:
            put_between(options.into, "sizing.py", text)
    except InputError as error:
        print(f"sizing: {error}", file=sys.stderr)
        return FAILED
    return 0


def forward(bench: str) -> float:
    """Operations of the net and a head on one batch: a multiplication and an addition for each weight and position.

    >>> forward("split_mnist") == 128 * 2 * (785 * 256 + 257 * 256 + 257 * 2)
    True
    """
    size, protocol = SIZES[bench], PROTOCOLS[bench]
    net = make_net(protocol.net, size.shape)
    sides = [size.shape[-1] >> depth if protocol.net.kind == "cnn" else 1 for depth in range(len(net.layers))]
    weights = sum((layer.fan_in + 1) * layer.units * side**2 for layer, side in zip(net.layers, sides, strict=True))
    return 2.0 * protocol.batch_size * (weights + (net.features + 1) * size.classes)


def steps(bench: str) -> int:
    """Of a task."""
    protocol = PROTOCOLS[bench]
    return max(1, round(protocol.epochs * Recipe.shares[0] * SIZES[bench].images / protocol.batch_size))


def passes(method: str, settings: Any, task: int, batch_size: int) -> float:
    """How often the net is run forward and backward in a step of the budget, in task 0, 1, ..."""
    match method:
        case "claw" | "vcl" | "vcl_coreset":
            return 2.0  # mean and variance of each activation
        case "pnc":
            return 3.0  # progress and compress, each with half a pass more for the other column
        case "frcl":
            return 1.0 + settings.points * task / batch_size  # the inducing points of all past tasks
        case "ltg":  # the search runs each block as it is and adapted, and a new one, for weights and architecture
            return 1.0 + (2 * settings.search * (2 * BLOCKS + 1) if task else 0.0)
        case "rcl":
            return float(settings.trials) if task else 1.0
    return 1.0


def all_passes(bench: str, method: str) -> float:
    """Of all steps of all tasks, for one repetition or a plate of them."""
    settings, batch_size = settings_of(bench, method), PROTOCOLS[bench].batch_size
    return steps(bench) * sum(passes(method, settings, task, batch_size) for task in range(SIZES[bench].tasks))


def operations(bench: str, method: str) -> float:
    """Of all repetitions."""
    return paper.REPETITIONS * all_passes(bench, method) * 3 * forward(bench)


def measured(bench: str, method: str, results: Path) -> float | None:
    """Seconds of one core for all repetitions, from the records of the preset's setting; None if there are none."""
    records = [record for folder in (results / bench / method).glob("default-*") for record in read(folder)]
    records = [one for one in records if one["tasks_finished"] == one["tasks"] and one["config"]["device"] == "cpu"]
    plates = {tuple(one["plate"]): sum(one["train_seconds"]) * one["config"]["threads"] for one in records}
    return sum(plates.values()) * paper.REPETITIONS / len(records) if records else None


def costs(results: Path = RESULTS) -> dict[str, dict[str, Cost]]:
    """By method, then by benchmark."""
    found = {}
    for method in [name for name in METHODS if paper.accuracy("split_mnist", name)]:
        seconds = {bench: measured(bench, method, results) for bench in SIZES}
        found[method] = {bench: cost(bench, method, seconds) for bench in SIZES}
    return found


def cost(bench: str, method: str, seconds: dict[str, float | None]) -> Cost:
    """:param seconds: what was measured of the method, by benchmark."""
    known = {name: value for name, value in seconds.items() if value and PROTOCOLS[name].net.kind == "mlp"}
    rate = CNN_RATE
    if PROTOCOLS[bench].net.kind == "mlp":
        rate = sum(operations(name, method) for name in known) / sum(known.values()) if known else CNN_RATE
    own = seconds[bench]
    core_hours = (operations(bench, method) / rate if own is None else own) / 3600
    one_by_one = METHODS[method].one_by_one
    runs = paper.REPETITIONS if one_by_one or PROTOCOLS[bench].net.kind == "cnn" else 1
    gpu_runs = (
        paper.REPETITIONS if one_by_one or bench == "omniglot" else 1
    )  # whose repetitions have heads of other sizes
    gpu_seconds = max(operations(bench, method) / GPU_RATE, gpu_runs * all_passes(bench, method) * GPU_PASS)
    return Cost(core_hours, own is not None, runs, gpu_seconds / 3600, gpu_runs)


def makespan(runs: Sequence[float], places: int) -> float:
    """Hours until the last run ends, if the longest of those left always goes to the first place that is free.

    >>> makespan([3, 2, 2], 2)
    4.0
    """
    ends = [0.0] * places
    for hours in sorted(runs, reverse=True):
        heapq.heapreplace(ends, ends[0] + hours)
    return max(ends)


def tables(found: dict[str, dict[str, Cost]]) -> str:
    """Core-hours by method and benchmark, and hours on different machines, as Markdown."""
    lines = [f"| core-hours | {' | '.join(SIZES)} |", f"|---|{'---|' * len(SIZES)}"]
    for method, row in found.items():
        cells = [("" if one.measured else "~") + significant(one.core_hours) for one in row.values()]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    every = [one for row in found.values() for one in row.values()]
    known = sum(one.core_hours for one in every if one.measured)
    cpu = [one.core_hours / one.runs for one in every for _ in range(one.runs)]
    gpu = [one.gpu_hours / one.gpu_runs for one in every for _ in range(one.gpu_runs)]
    lines += ["", "| on | runs | hours | longest run |", "|---|---|---|---|"]
    for name, runs, places, besides in (
        ("2 cores", cpu, 2, f", of which measured {significant(known / 2)}"),
        (f"a cluster of {CORES} cores", cpu, CORES, ""),
        ("one GPU", gpu, 1, ""),
        (f"a cluster of {GPUS} GPUs", gpu, GPUS, ""),
    ):
        hours, longest = significant(makespan(runs, places)), significant(max(runs))
        lines.append(f"| {name} | {len(runs)} | ~{hours}{besides} | ~{longest} |")
    return "\n".join(lines)


def significant(hours: float) -> str:
    """Two digits, which is more than an estimate deserves.

    >>> significant(1234.5), significant(3.14159), significant(0.0123)
    ('1,200', '3.1', '0.012')
    """
    digits = 1 - math.floor(math.log10(hours))
    return f"{round(hours, digits):,.{max(digits, 0)}f}"


if __name__ == "__main__":
    sys.exit(main())
