"""Records: one folder for each benchmark, method, setting and seed.

    OUT/BENCHMARK/METHOD/SETTING-FINGERPRINT/seed3/config.json       all that decides the run
                                                   unfinished.json   after each task, by atomic replace
                                                   results.json      in its place after the last one

The fingerprint is a hash of everything that decides a result: settings, budget, net, and the data themselves. So
records of one folder always belong together, and a run with other settings or data can not be mixed in. What a figure
or table shows is computed from records alone (:func:`summarise`).
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pyroclaw.errors import InputError
from pyroclaw.inference.calibration import Calibration
from pyroclaw.inference.checkpoint import replace_file, writing
from pyroclaw.inference.sequence import Learned

VERSIONED = ("pyroclaw", "pyro-ppl", "torch", "torchvision", "numpy")
SAME = ("bench", "protocol", "method", "data_source", "stand_in")  # of all records of a folder
IDENTITY = ("protocol", "method", "settings", "data", "split", "augment", "epochs", "batch_size", "net", "heads")
IF_GIVEN = ("tasks", "averaged", "precision")  # belong to the identity where they are not left to benchmark and method
FINISHED, UNFINISHED = "results.json", "unfinished.json"
WINDOWS = 50  # means that a task's ELBO is kept as


def fingerprint(config: Mapping[str, Any]) -> str:
    """A hash of what decides the result of a run, but for its seed."""
    keys = (*IDENTITY, *(key for key in IF_GIVEN if key in config))
    identity = json.dumps({key: config[key] for key in keys}, sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write by atomic replace: readers see the old file or the new one, never a part."""
    replace_file(path, json.dumps(content, indent=1, allow_nan=False).encode())


def checkpoints(folder: Path, plate: Sequence[int]) -> Path:
    """Where the checkpoints of a plate of seeds are, in the folder of its run, until it is finished."""
    return folder / f"checkpoint-{plate[0]}-{plate[-1]}"


def environment() -> dict[str, Any]:
    """What ran it: versions, commit and machine."""
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in VERSIONED},
        "commit": commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def commit() -> str | None:
    """The commit of the code, with a mark if it was changed since; None where it is not in a repository of its own."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def peak_megabytes() -> float:
    """The most memory this process has held; `getrusage` of a child would count its parent's at the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Results:
    """Writes the records of a run, plate by plate."""

    def __init__(self, out: Path, setting: str, config: Mapping[str, Any], tasks: int) -> None:
        self.folder = out / config["bench"] / config["method"] / f"{setting}-{fingerprint(config)}"
        self.config, self.tasks, self.environment = config, tasks, environment()
        self.plates: list[tuple[list[int], list[Learned]]] = []
        self.adopted: list[int] = []  # seeds whose finished records were there

    def adopt(self, seeds: list[int]) -> bool:
        """Take the records of these seeds as they are, if all are finished."""
        finished = all((self.folder / f"seed{seed}" / FINISHED).exists() for seed in seeds)
        self.adopted += seeds if finished else []
        return finished

    def begin_plate(self, seeds: list[int], done: Sequence[Learned] = ()) -> None:
        """:param done: tasks that an earlier process has learned."""
        self.plates.append((seeds, list(done)))
        for seed in seeds:
            folder = self.folder / f"seed{seed}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                write_json(folder / "config.json", {**self.config, "seed": seed})
            except OSError as error:
                raise InputError(
                    f"--out: the record {folder} cannot be written ({error.strerror}); name another folder"
                ) from error

    def add(self, learned: Learned) -> None:
        seeds, tasks = self.plates[-1]
        tasks.append(learned)
        for replicate, seed in enumerate(seeds):
            folder, record = self.folder / f"seed{seed}", self._record(seeds, tasks, replicate)
            with writing(folder):
                write_json(folder / UNFINISHED, record)
                if len(tasks) == self.tasks:  # an earlier run of the same is replaced only now
                    os.replace(folder / UNFINISHED, folder / FINISHED)

    def summary(self) -> dict[str, Any]:
        """Of the records of this run."""
        own = [seed for seeds, tasks in self.plates if tasks for seed in seeds]
        return summarise(read(self.folder, [*self.adopted, *own]))

    def _record(self, plate: list[int], tasks: list[Learned], r: int) -> dict[str, Any]:
        transfer = [round(task.transfer[r].item(), 6) for task in tasks if task.transfer is not None]
        return {
            **{key: self.config[key] for key in SAME},
            "seed": plate[r],
            "plate": plate,
            "tasks": self.tasks,
            "tasks_finished": len(tasks),
            "test_accuracy": [_column(task.test, r) for task in tasks],
            "validation_accuracy": [_column(task.validation, r) for task in tasks],
            "calibration": {
                prediction: {
                    measure: [_column(task.calibration[prediction][m], r) for task in tasks]
                    for m, measure in enumerate(Calibration._fields)
                }
                for prediction in tasks[0].calibration
            },
            "forward_transfer": transfer or None,
            "parameters": [task.parameters for task in tasks],
            "stored_bytes": [task.stored_bytes for task in tasks],
            "train_seconds": [task.seconds for task in tasks],  # of the whole plate
            "elbo": [_windows(task.elbo[:, r].cpu().double().numpy()) for task in tasks],
            "summary": [task.summary for task in tasks],
            "peak_memory_mb": peak_megabytes(),
            "environment": self.environment,
        }


def _column(values, replicate: int) -> list[float]:
    """One repetition's [tasks so far] of [tasks so far, R]."""
    return np.round(values[:, replicate].cpu().double().numpy(), 6).tolist()


def _windows(trace: np.ndarray) -> list[float]:
    return [round(float(part.mean()), 4) for part in np.array_split(trace, min(WINDOWS, len(trace)))]


def read(folder: Path, seeds: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """The records of a folder by seed, all of them or those asked for.

    Each also has its "config". Records whose configurations differ in more than the seed are refused.
    """
    found = []
    for path in sorted(folder.glob("seed*"), key=lambda path: int(path.name[4:])):
        name = FINISHED if (path / FINISHED).exists() else UNFINISHED
        if (path / name).exists() and (seeds is None or int(path.name[4:]) in seeds):
            try:
                record, config = (json.loads((path / file).read_text()) for file in (name, "config.json"))
            except (OSError, ValueError) as error:
                raise InputError(f"the record {path} cannot be read ({error}): delete it") from error
            found.append(record | {"config": config})
    kinds = {fingerprint(record["config"]) for record in found}
    if len(kinds) > 1:
        raise InputError(f"records in {folder} come from different settings or data: keep those of one kind")
    return found


def put(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write finished records, as :func:`read` gives them, that the folder does not have: another machine made them."""
    for record in records:
        place = folder / f"seed{record['seed']}"
        result = {key: value for key, value in record.items() if key != "config"}
        with writing(place):
            place.mkdir(parents=True, exist_ok=True)
            for path, content in ((place / "config.json", record["config"]), (place / FINISHED, result)):
                if not path.exists() or json.loads(path.read_bytes()) != content:
                    write_json(path, content)


def summarise(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Records of one folder as one: repetitions become the last index of accuracies.

    Only repetitions that are as far as the farthest are counted; others are named under "unfinished". Forward transfer
    and calibration are of the repetitions that have them, which may be fewer.
    """
    finished = max(record["tasks_finished"] for record in records)
    level = [record for record in records if record["tasks_finished"] == finished]
    test, validation = (_together(level, name) for name in ("test_accuracy", "validation_accuracy"))
    averages = np.mean(test[-1], axis=0)
    error = float(np.std(averages, ddof=1) / np.sqrt(len(averages))) if len(averages) > 1 else 0.0
    plates = {tuple(record["plate"]): record for record in level}
    first = level[0]
    transfers = [record["forward_transfer"] for record in level if record["forward_transfer"]]
    calibrations = [record["calibration"] for record in level]
    predictions = dict.fromkeys(prediction for each in calibrations for prediction in each)
    return {
        **{key: first[key] for key in SAME},
        "seeds": [record["seed"] for record in level],
        "unfinished": [record["seed"] for record in records if record["tasks_finished"] < finished],
        "tasks_finished": finished,
        "average_accuracy": {"mean": float(averages.mean()), "standard_error": error},
        "test_accuracy": test,
        "validation_accuracy": validation,
        "calibration": {
            prediction: {
                measure: _together([each[prediction] for each in calibrations if prediction in each], measure)
                for measure in Calibration._fields
            }
            for prediction in predictions
        },
        "forward_transfer": np.transpose(transfers).tolist() if transfers else None,
        "parameters": [record["parameters"] for record in level],
        "stored_bytes": [record["stored_bytes"] for record in level],
        "train_seconds": [record["train_seconds"] for record in plates.values()],
        "elbo": _mean_elbo(level),
        "summary": [record["summary"] for record in plates.values()],
        "peak_memory_mb": max(record["peak_memory_mb"] for record in level),
        "environments": sorted({json.dumps(record["environment"], sort_keys=True) for record in level}),
    }


def _together(records: Sequence[Mapping[str, Any]], name: str) -> list[list[list[float]]]:
    """[after task t][on task k ≤ t][repetition]"""
    return [np.transpose(rows).tolist() for rows in zip(*(record[name] for record in records), strict=True)]


def _mean_elbo(records: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Over repetitions, task by task; of the first alone where nets of their own took different numbers of steps."""
    tasks = list(zip(*(record["elbo"] for record in records), strict=True))
    even = all(len({len(trace) for trace in task}) == 1 for task in tasks)
    return [np.mean(task, axis=0).tolist() for task in tasks] if even else list(records[0]["elbo"])
