"""What feeding a benchmark's data costs: time of a batch, its share of a training step, and peak memory.

    python experiments/bench_data.py --names permuted_mnist split_mnist --data-dir FOLDER

Each benchmark runs in a process of its own, so that its peak memory (torch included) is its own too. Batches and CLAW's
training steps are timed in turns in one process, so that whatever else the machine does slows both.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
import tyro

from pyroclaw.data.benchmark import Benchmark
from pyroclaw.data.benchmarks import KNOWN, make
from pyroclaw.errors import InputError, choose
from pyroclaw.experiments.records import peak_megabytes
from pyroclaw.inference.method import TaskInfo
from pyroclaw.inference.svi import Budget, fit
from pyroclaw.models.claw import Claw, Settings
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


@dataclass
class Options:
    """Time of one training batch for all replicates, its share of a training step, and peak memory."""

    names: tuple[str, ...] = KNOWN
    """Benchmarks to measure."""
    replicates: int = 10
    """Repetitions in one plate."""
    rounds: int = 10
    """How often a turn of batches and a turn of steps is timed."""
    steps: int = 5
    """Batches and steps a turn."""
    threads: int = 2
    """CPU threads."""
    data_dir: Path | None = None
    """Folder with data sets."""


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def feeding(bench: Benchmark, options: Options) -> tuple[float, float]:
    """Seconds of a batch, and of a whole training step, each the median over rounds."""
    seeds = bench.plates(range(options.replicates))[0]
    task, streams = bench.tasks(seeds)[0], Streams(seeds, "bench")
    claw = Claw(make_net(bench.net, bench.input_shape), bench.heads, streams, Settings())
    claw.begin_task(TaskInfo(0, task.name, task.classes, task.train.sizes), streams)
    budget = Budget(options.steps * bench.batch_size / task.nominal_size, bench.batch_size)
    positions = (torch.rand(len(seeds), bench.batch_size) * torch.tensor(task.train.sizes)[:, None]).long()

    def batches() -> None:
        for _ in range(options.steps):
            task.train.batch(positions)

    pairs = [(timed(batches), timed(lambda: fit(claw, task, budget, streams))) for _ in range(options.rounds + 1)]
    batch, step = (median(times) / options.steps for times in zip(*pairs[1:], strict=True))  # the first warms up
    return batch, step


def report(options: Options) -> str:
    """One line about the only benchmark asked for."""
    torch.set_num_threads(options.threads)
    bench = make(choose("benchmark", options.names[0], KNOWN), options.data_dir, log=lambda line: None)
    batch, step = feeding(bench, options)
    shape = "×".join(map(str, (len(bench.plates(range(options.replicates))[0]), bench.batch_size, *bench.input_shape)))
    return (
        f"{bench.title:16} {shape:20} batch {1000 * batch:6.2f} ms, {100 * batch / step:4.1f} % of a step of "
        f"{1000 * step:7.1f} ms, peak {peak_megabytes():5.0f} MB  ({bench.source})"
    )


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv)
    if len(options.names) == 1:
        try:
            print(report(options))
        except InputError as error:
            print(f"pyroclaw: {error}", file=sys.stderr)
            return 2
        return 0
    rest = [f"--{key}={getattr(options, key)}" for key in ("replicates", "rounds", "steps", "threads")]
    rest += [f"--data-dir={options.data_dir}"] if options.data_dir else []
    return max(subprocess.call([sys.executable, __file__, "--names", name, *rest]) for name in options.names)


if __name__ == "__main__":
    sys.exit(main())
