"""What grows as the work does: with tasks, replicates and width, as slopes with confidence intervals.

Of 200 tasks the storage must be a straight line, whose slope is three numbers a unit and a head, and the time of a task
must not grow. In replicates and width, the slope is that of logarithms: 1 is proportional, 2 is the square.
"""

import tempfile
from pathlib import Path

import numpy as np

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.experiments.bench_step import begun, training
from pyroclaw.experiments.bench_timing import Row, interleaved, slope, some_tasks
from pyroclaw.experiments.soak import CLASSES, INPUTS, soak
from pyroclaw.models.claw import Claw

HIDDEN = 6  # of the net that soak trains
REPLICATES = (1, 2, 5, 10, 20, 50)
WIDTHS = (50, 100, 200, 400)
FLOAT = 4  # bytes


def kept_by_a_task() -> int:
    """Bytes: p, a and s of each unit, and a head's means and log-variances."""
    return FLOAT * (3 * (INPUTS + HIDDEN) + 2 * (HIDDEN + 1) * CLASSES)


def stored(claw: Claw) -> int:
    return sum(one.nbytes for one in (*claw.parameters().values(), *claw.memory().values()))


def growth_rows(rounds: int, tasks: int = 200, every: int = 5) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        found = soak("claw", tasks, every, Path(folder))
    counts = [one.tasks for one in found]
    bytes_a_task = slope(counts, [one.stored / kept_by_a_task() for one in found])
    typical = float(np.median([one.seconds for one in found]))
    time_a_task = slope(counts, [100 * one.seconds / typical for one in found])
    resident = slope(counts, [one.resident / 1e3 for one in found])
    rows = [
        Row("growth", "stored with each task, over 3 numbers a unit and a head", *bytes_a_task),
        Row("growth", "time of a task, more with each task", *time_a_task, unit=" %"),
        Row("growth", "memory of the process, more with each task", *resident, unit=" kB"),
    ]
    return (
        rows
        + _exponents("replicates", {r: begun(_bench(100), r, 0) for r in REPLICATES}, rounds)
        + _exponents("width", {w: begun(_bench(w), 1, 0) for w in WIDTHS}, rounds)
    )


def _bench(width: int):
    return some_tasks(1, 1300, NetPreset("mlp", hidden=(width, width)))


def _exponents(name: str, cases: dict, rounds: int) -> list[Row]:
    seconds = interleaved({str(size): training(claw, task, 3) for size, (claw, task) in cases.items()}, min(rounds, 3))
    sizes = [float(np.log(size)) for size in cases]
    times = [float(np.log(np.median(own))) for own in seconds.values()]
    storage = [float(np.log(stored(claw))) for claw, _ in cases.values()]
    shown = f"{min(cases)} to {max(cases)} {name}" if name == "replicates" else f"{name} {min(cases)} to {max(cases)}"
    return [
        Row("growth", f"exponent of a step's time, {shown}", *slope(sizes, times), unit=""),
        Row("growth", f"exponent of what is stored, {shown}", *slope(sizes, storage), unit=""),
    ]
