"""How fast a benchmark's data can be fed, and how much memory that takes.

    python experiments/bench_data.py --names permuted_mnist split_mnist --data-dir FOLDER

Each benchmark runs in a process of its own, so that its peak memory (torch included) is its own too.
"""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
import tyro

from pyroclaw.data.benchmark import Benchmark
from pyroclaw.data.benchmarks import KNOWN, make
from pyroclaw.errors import InputError

PROC = Path("/proc/self/status")


@dataclass
class Options:
    """Time of one training batch for all replicates, and peak memory."""

    names: tuple[str, ...] = KNOWN
    replicates: int = 10
    batches: int = 100
    threads: int = 2
    device: str = "cpu"
    data_dir: Path | None = None


def peak_megabytes() -> float:
    """The most memory this process has held; a child's `getrusage` would count its parent's at the fork."""
    if PROC.exists():
        line = next(line for line in PROC.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def batch_times(bench: Benchmark, replicates: int, batches: int, device: str = "cpu") -> list[float]:
    """Seconds of each of some random training batches, over all tasks in turn."""
    tasks = bench.tasks(bench.plates(range(replicates))[0], device)
    times = []
    for number in range(batches):
        part = tasks[number % len(tasks)].train
        positions = (torch.rand(len(part.sizes), bench.batch_size, device=device) * part.sizes[:, None]).long()
        start = time.perf_counter()
        part.batch(positions)
        if part.images.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times


def report(options: Options) -> str:
    """One line about the only benchmark asked for."""
    torch.set_num_threads(options.threads)
    bench = make(options.names[0], options.data_dir)
    times = batch_times(bench, options.replicates, options.batches, options.device)
    replicates = len(bench.plates(range(options.replicates))[0])
    shape = "×".join(map(str, (replicates, bench.batch_size, *bench.input_shape)))
    return (
        f"{bench.title:16} {shape:20} {1000 * median(times):7.2f} ms median {1000 * min(times):7.2f} ms least "
        f"{peak_megabytes():6.0f} MB peak  ({bench.source})"
    )


def main() -> None:
    options = tyro.cli(Options)
    try:
        if len(options.names) == 1:
            print(report(options))
            return
    except InputError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    rest = [f"--{key}={getattr(options, key)}" for key in ("replicates", "batches", "threads", "device")]
    rest += [f"--data-dir={options.data_dir}"] if options.data_dir else []
    codes = [subprocess.call([sys.executable, __file__, "--names", name, *rest]) for name in options.names]
    raise SystemExit(max(codes))


if __name__ == "__main__":
    main()
