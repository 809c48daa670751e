"""The record of a run: a folder with its configuration, and its results after every task.

``results.json`` is written anew after each task by atomic replace, so at any moment it is whole, and holds every task
that was finished.
"""

import json
import os
import platform
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pyroclaw import metrics
from pyroclaw.errors import InputError
from pyroclaw.inference.calibration import Calibration
from pyroclaw.inference.sequence import Learned

VERSIONED = ("pyroclaw", "pyro-ppl", "torch", "torchvision", "numpy")


def new_folder(out: Path, bench: str, method: str, seed: int) -> Path:
    """A folder of its own for this run."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = out / bench / method / f"{stamp}-seed{seed}-{os.getpid()}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"--out {out}: cannot make the run's folder there ({error.strerror}); name another") from error
    return folder


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write by atomic replace: readers see the old file or the new one, never a part."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        try:
            json.dump(content, file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def environment() -> dict[str, Any]:
    """What ran it: versions and machine."""
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in VERSIONED},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def peak_megabytes() -> float:
    """The most memory this process has held; `getrusage` of a child would count its parent's at the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Results:
    """Collects what each plate of repetitions learned.

    Plates may run one after the other. Those that are as far as the first make up the accuracies of the record; one
    that is still behind it stands apart, under "unfinished", until it has caught up.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.folder, self.config = folder, config
        self.plates: list[tuple[list[int], list[Learned]]] = []
        write_json(folder / "config.json", config)

    def begin_plate(self, seeds: list[int]) -> None:
        self.plates.append((seeds, []))

    def add(self, learned: Learned) -> None:
        self.plates[-1][1].append(learned)
        write_json(self.folder / "results.json", self.as_dict())

    def level(self) -> list[tuple[list[int], list[Learned]]]:
        """The plates that have learned as many tasks as the first."""
        return [plate for plate in self.plates if len(plate[1]) == len(self.plates[0][1])]

    def matrix(self, part: str = "test") -> np.ndarray:
        """Accuracies [T, T, R] of the level plates' repetitions."""
        return _matrix([tasks for _, tasks in self.level()], part)

    def as_dict(self) -> dict[str, Any]:
        test, validation, level = self.matrix(), self.matrix("validation"), self.level()
        mean, error = metrics.mean_and_error(metrics.average_accuracy(test)[-1])
        return {
            **{key: self.config[key] for key in ("bench", "protocol", "method", "data_source", "stand_in")},
            "seeds": [seed for seeds, _ in level for seed in seeds],
            "tasks_finished": len(test),
            "average_accuracy": {"mean": mean, "standard_error": error},
            "test_accuracy": _rows(test),
            "validation_accuracy": _rows(validation),
            "unfinished": [
                {"seeds": plate[0], "test_accuracy": _rows(_matrix([plate[1]], "test"))}
                for plate in self.plates
                if 0 < len(plate[1]) < len(test)
            ],
            "parameters": [[task.parameters for task in tasks] for _, tasks in self.plates],
            "stored_bytes": [[task.stored_bytes for task in tasks] for _, tasks in self.plates],
            "calibration": _calibration([tasks for _, tasks in level]),
            "forward_transfer": _transfer([tasks for _, tasks in level]),
            "train_seconds": [[task.seconds for task in tasks] for _, tasks in self.plates],
            "elbo": [[[round(v, 6) for v in task.elbo.mean(1).tolist()] for task in tasks] for _, tasks in self.plates],
            "summary": [[task.summary for task in tasks] for _, tasks in self.plates],
            "peak_memory_mb": peak_megabytes(),
            "environment": environment(),
        }


def _matrix(plates: list[list[Learned]], part: str) -> np.ndarray:
    rows = [[getattr(task, part).cpu().double().numpy() for task in tasks] for tasks in plates]
    return metrics.accuracy_matrix([np.concatenate(after, axis=1) for after in zip(*rows, strict=True)])


def _rows(matrix: np.ndarray) -> list[list[list[float]]]:
    """[after task t][on task k ≤ t][repetition]"""
    return [np.round(row[: t + 1], 6).tolist() for t, row in enumerate(matrix)]


def _calibration(plates: list[list[Learned]]) -> dict[str, dict[str, list]]:
    """By prediction and measure: [after task t][on task k ≤ t][repetition]."""
    found: dict[str, dict[str, list]] = {}
    for prediction in plates[0][0].calibration:
        rows = [
            np.concatenate([one.calibration[prediction].cpu() for one in after], 2)
            for after in zip(*plates, strict=True)
        ]
        found[prediction] = {
            measure: [np.round(row[number].astype(float), 5).tolist() for row in rows]
            for number, measure in enumerate(Calibration._fields)
        }
    return found


def _transfer(plates: list[list[Learned]]) -> list[list[float]] | None:
    """Accuracy of the last task after 0, 1, ... others, by repetition; None if it was not measured."""
    known = [[task.transfer for task in tasks if task.transfer is not None] for tasks in plates]
    if not known[0]:
        return None
    return [
        np.round(np.concatenate([one.cpu().double() for one in after]), 6).tolist()
        for after in zip(*known, strict=True)
    ]
