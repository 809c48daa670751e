"""What a report is made of: finished records, by benchmark, method and setting.

    RESULTS/BENCHMARK/METHOD/SETTING-FINGERPRINT/seed*

A method's row is its setting "default"; others are shown as what they are, changes of it. Methods of a benchmark are
compared by seed, so those on other data or with a second default are refused, and stand-ins are benchmarks of their
own. Repetitions that are not finished are named and not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyroclaw import metrics
from pyroclaw.errors import InputError
from pyroclaw.experiments import paper
from pyroclaw.experiments.compare import BOUNDS, significantly_best
from pyroclaw.experiments.records import read, summarise
from pyroclaw.models import METHODS

DEFAULT = "default"
BENCHMARKS = {
    "permuted_mnist": "permuted MNIST",
    "split_mnist": "split MNIST",
    "split_notmnist": "split notMNIST",
    "split_fashion": "split Fashion-MNIST",
    "omniglot": "Omniglot",
    "cifar100": "CIFAR-100",
}
NAMES = {
    "claw": "CLAW",
    "claw_coreset": "CLAW + coreset",
    "vcl": "VCL",
    "vcl_coreset": "VCL + coreset",
    "ewc": "EWC",
    "gvcl_film": "GVCL-FiLM",
    "pnc": "P&C",
    "rcl": "RCL",
    "frcl": "FRCL",
    "ltg": "LTG",
    "finetune": "fine-tuning (floor)",
    "independent": "independent (ceiling)",
    "joint": "joint (ceiling)",
}


@dataclass(frozen=True)
class Setting:
    """The finished repetitions of a method with a setting."""

    method: str
    name: str
    folder: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    seconds: float  # of training, a repetition
    note: str = ""  # where it is less than the published method, in what

    def matrix(self) -> NDArray:
        """Accuracies [T, T, R]."""
        return metrics.accuracy_matrix([np.array(row) for row in self.summary["test_accuracy"]])

    def by_seed(self) -> dict[int, float]:
        """Average accuracy after the last task."""
        return dict(zip(self.summary["seeds"], np.mean(self.summary["test_accuracy"][-1], axis=0), strict=True))


@dataclass
class Bench:
    """A benchmark, by the name it may be called by."""

    title: str
    protocol: str
    stand_in: bool = False
    main: dict[str, Setting] = field(default_factory=dict)
    others: list[Setting] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    def methods(self) -> list[str]:
        """With a record or a figure in the paper, in a fixed order."""
        reported = {} if self.stand_in else paper.tables().get(self.protocol, {})
        known = [name for name in METHODS if name in self.main or name in reported]
        return known + sorted(set(self.main) - set(known))

    def reported(self, method: str) -> tuple[float, float] | None:
        """The paper's accuracy; it has none on a stand-in."""
        return None if self.stand_in else paper.accuracy(self.protocol, method)

    def best(self) -> str | None:
        """The method that is significantly better than each other one, on the seeds it shares with it; or None."""
        scores = {name: one.by_seed() for name, one in self.main.items() if name not in BOUNDS}
        if len(scores) < 2:
            return None
        best = max(scores, key=lambda name: np.mean(list(scores[name].values())))
        for rival in scores.keys() - {best}:
            shared = sorted(scores[best].keys() & scores[rival].keys())
            if (
                significantly_best(
                    {name: [scores[name][s] for s in shared] for name in (best, rival)} if shared else {}
                )
                != best
            ):
                return None
        return best


def shown(method: str) -> str:
    return NAMES.get(method, method)


def collect(results: Path) -> list[Bench]:
    """All benchmarks of a folder, and those of the paper without any record; the paper's first, in its order."""
    if not results.is_dir():
        raise InputError(
            f"--results {results} is not a folder: name one with BENCHMARK/METHOD/SETTING folders of records"
        )
    benches = {(name, False): Bench(title, name) for name, title in BENCHMARKS.items()}
    for folder in sorted({seed.parent for seed in results.glob("*/*/*/seed*")}):
        found = read(folder)
        if not found:
            continue
        bench, protocol, stand_in, method = (found[0][key] for key in ("bench", "protocol", "stand_in", "method"))
        place = benches.setdefault((bench, stand_in), Bench(_title(bench, protocol, stand_in), protocol, stand_in))
        name = folder.name.rpartition("-")[0]
        finished = [record for record in found if record["tasks_finished"] == record["tasks"]]
        place.unfinished += [
            f"{shown(method)} ({name}), seed {record['seed']}: {record['tasks_finished']} of {record['tasks']} tasks"
            for record in found
            if record not in finished
        ]
        if finished:
            seconds = np.mean([sum(record["train_seconds"]) / len(record["plate"]) for record in finished])
            note = finished[0]["summary"][-1].get("note", "")
            _add(place, Setting(method, name, folder, found[0]["config"], summarise(finished), float(seconds), note))
    return list(benches.values())


def _title(bench: str, protocol: str, stand_in: bool) -> str:
    if not stand_in:
        return BENCHMARKS.get(bench, bench)
    real = BENCHMARKS.get(protocol, protocol)
    return f"stand-in for {real}" if bench == protocol else f"{bench} (stand-in, not {real})"


def _add(bench: Bench, setting: Setting) -> None:
    if setting.name != DEFAULT:
        bench.others.append(setting)
        return
    for other in bench.main.values():
        if other.method == setting.method or other.config["data"] != setting.config["data"]:
            raise InputError(
                f"the records {other.folder} and {setting.folder} come from different settings or data: keep one"
            )
    bench.main[setting.method] = setting


def mean_and_error(values: Sequence[float] | NDArray, scale: float = 1, digits: int = 2) -> str:
    """Mean ± standard error as it is printed; one repetition has no error.

    >>> mean_and_error([0.5, 0.6], scale=100)
    '55.00 ± 5.00'
    """
    mean, error = metrics.mean_and_error(scale * np.asarray(values))
    return f"{mean:.{digits}f} ± {error:.{digits}f}" if len(values) > 1 else f"{mean:.{digits}f}"
