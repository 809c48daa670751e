"""Learn very many small tasks, and say what grows with them.

python experiments/soak.py --method claw --tasks 200

Each task adds what the method keeps of it, e.g. a head and three numbers a unit for CLAW. Nothing else may grow: not
the memory of tensors, nor what a checkpoint holds besides, nor the time that a task takes. The slope of each is that of
a straight line through all measurements, per task.
"""

import gc
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro

from pyroclaw import Learner
from pyroclaw.errors import InputError, choose
from pyroclaw.models import METHODS

FAILED, INPUTS, CLASSES, EXAMPLES = 2, 8, 2, 24


@dataclass(frozen=True)
class Options:
    """Learn very many small tasks, and say what grows with them."""

    method: str = "claw"
    """Method."""
    tasks: int = 200
    """How many tasks."""
    every: int = 10
    """Tasks between two measurements."""
    out: Path | None = None
    """Folder for the checkpoints; if not given, one that is removed at the end."""


class Soaked(NamedTuple):
    """After so many tasks."""

    tasks: int
    stored: int  # bytes of what the method says that it keeps
    checkpoint: int  # bytes on disk
    tensors: int  # bytes of all tensors that are alive
    resident: int  # bytes of the process
    seconds: float  # of the last task


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="soak")
    try:
        choose("method", options.method, METHODS)
        if options.tasks < 2 * options.every:
            raise InputError(f"--tasks {options.tasks} allows no two measurements: give twice --every or more")
        with tempfile.TemporaryDirectory() as folder:
            found = soak(options.method, options.tasks, options.every, options.out or Path(folder))
    except InputError as error:
        print(f"soak: {error}", file=sys.stderr)
        return FAILED
    for name in ("stored", "checkpoint", "tensors", "resident"):
        first, last, slope = getattr(found[0], name), getattr(found[-1], name), growth(found, name)
        print(f"{name:<11} {first / 1e3:9.1f} kB to {last / 1e3:9.1f} kB, {slope:9.1f} bytes more a task")
    first, last, slope = found[0].seconds, found[-1].seconds, growth(found, "seconds")
    print(f"{'seconds':<11} {1e3 * first:9.1f} ms to {1e3 * last:9.1f} ms, {1e6 * slope:9.1f} microseconds more a task")
    return 0


def soak(method: str, tasks: int, every: int, folder: Path) -> list[Soaked]:
    learner = Learner(method, net=(6,), epochs=2, batch_size=12, device="cpu")
    found = []
    for number in range(1, tasks + 1):
        rng = np.random.default_rng(number)
        y = np.arange(EXAMPLES) % CLASSES
        x = rng.normal(size=(EXAMPLES, INPUTS)) + 2 * rng.normal(size=(CLASSES, INPUTS))[y]
        began = time.perf_counter()
        learner.learn((x, y))
        seconds = time.perf_counter() - began
        if number % every == 0:
            learner.save(folder)
            found.append(measure(learner, number, folder, seconds))
    return found


def measure(learner: Learner, tasks: int, folder: Path, seconds: float) -> Soaked:
    gc.collect()
    kept = [*learner.method.parameters().values(), *learner.method.memory().values()]
    alive = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in gc.get_objects() if _own(one)}
    newest = max(folder.glob("state-*.json"), key=lambda path: int(path.stem[6:]))
    size = newest.stat().st_size + newest.with_suffix(".safetensors").stat().st_size
    return Soaked(tasks, sum(one.nbytes for one in kept), size, sum(alive.values()), _resident(), seconds)


def _own(thing: object) -> bool:
    return type(thing) is torch.Tensor and thing.device.type == "cpu" and thing.layout == torch.strided


def _resident() -> int:
    """0 where the system does not tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 if status.exists() else 0


def growth(found: list[Soaked], name: str) -> float:
    """The slope of a straight line through a column."""
    return float(np.polyfit([one.tasks for one in found], [getattr(one, name) for one in found], 1)[0])


if __name__ == "__main__":
    sys.exit(main())
