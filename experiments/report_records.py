"""What a report is made of: finished records, by benchmark, method and setting.

    RESULTS/BENCHMARK/METHOD/SETTING-FINGERPRINT/seed*

A method's row is its setting "default"; others are shown as what they are, changes of it. Runs of another protocol are
compared among themselves only; those of fewer tasks also with the first tasks of longer runs. Methods of a benchmark
are compared by seed, so those on other data or with a second default are refused, and stand-ins are benchmarks of their
own. Repetitions that are not finished are named and not counted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyroclaw import metrics
from pyroclaw.errors import InputError
from pyroclaw.experiments.ablate import ABLATIONS
from pyroclaw.experiments.compare import BOUNDS
from pyroclaw.experiments.job import settings_of
from pyroclaw.experiments.paper import accuracy, another_protocol, tables
from pyroclaw.experiments.records import read, summarise
from pyroclaw.experiments.shorter import begins_with, cut
from pyroclaw.experiments.significance import best_by_seed, by_seed
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
PROTOCOL_PARTS = re.compile(
    r"(?:(?:^|_)(?:epochs|batch_size|split|augment|tasks|averaged|precision)-[^_]+)+$"
)  # of a setting's name
# joint training that left out what comes before its last: it ends as the default does
WAITED = re.compile(r"first-\d+")


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

    @property
    def changes(self) -> str:
        """What its name says of settings that are not the method's own; "" if they are."""
        return PROTOCOL_PARTS.sub("", self.name).replace(DEFAULT, "")

    def against(self, usual: "Setting | None") -> str:
        """What differs from `usual`, by the settings themselves: a name is from when the default may have been other.

        Only of settings that an older record does not know, the name is taken at its word.
        """
        if usual is None:
            return self.changes
        mine, theirs = self.config["settings"], usual.config["settings"]
        differ = [f"{key}-{mine[key]}" for key in mine if key in theirs and mine[key] != theirs[key]]
        unknown = [re.search(rf"(?:^|_)({key}-[^_]+)", self.changes) for key in theirs if key not in mine]
        return "_".join([*differ, *(found[1] for found in unknown if found)])

    def outdated(self) -> list[str]:
        """Names of settings that the benchmark's preset has changed since the run."""
        if self.method not in METHODS:
            return []
        today, used = asdict(settings_of(self.config["protocol"], self.method)), self.config["settings"]
        return [name for name in used if name in today and used[name] != today[name]]

    @property
    def protocol(self) -> str:
        """What differs from the paper's protocol, in words; "" if nothing does."""
        return another_protocol(self.config)

    def matrix(self) -> NDArray:
        """Accuracies [T, T, R]."""
        return metrics.accuracy_matrix([np.array(row) for row in self.summary["test_accuracy"]])

    def by_seed(self) -> dict[int, float]:
        """Average accuracy after the last task."""
        return by_seed(self.summary)


@dataclass
class Bench:
    """A benchmark, by the name it may be called by."""

    title: str
    protocol: str
    stand_in: bool = False
    main: dict[str, Setting] = field(default_factory=dict)
    others: list[Setting] = field(default_factory=list)  # changes of a method's own settings
    reduced: dict[str, list[Setting]] = field(default_factory=dict)  # by what differs from the protocol
    unfinished: list[str] = field(default_factory=list)

    def methods(self) -> list[str]:
        """With a record or a figure in the paper, in a fixed order."""
        reported = {} if self.stand_in else tables().get(self.protocol, {})
        return ordered([*self.main, *reported])

    def reported(self, method: str) -> tuple[float, float] | None:
        """The paper's accuracy; it has none on a stand-in."""
        return None if self.stand_in else accuracy(self.protocol, method)

    def everything(self) -> list[Setting]:
        return [*self.main.values(), *self.others, *(one for group in self.reduced.values() for one in group)]

    def own_settings(self) -> dict[str, Setting]:
        """Each method's own setting, of a method that has shorter runs only as they have it."""
        shorter = [one for group in self.reduced.values() for one in group if not one.changes and not one.outdated()]
        return {one.method: one for one in shorter} | self.main

    def ablations(self) -> dict[str, Setting]:
        """CLAW's, by what differs from its own setting."""
        found = {one.against(self.main.get("claw")): one for one in self.others if one.method == "claw"}
        return {name: found[name] for name in ABLATIONS if name in found}

    def best(self) -> str | None:
        """The method that is significantly better than each other one; or None."""
        return best_by_seed({name: one.by_seed() for name, one in self.main.items() if name not in BOUNDS})


def ordered(methods: Iterable[str]) -> list[str]:
    """Each once, in the order of the registry; those that are not in it at the end."""
    places = {name: place for place, name in enumerate(METHODS)}
    return sorted(set(methods), key=lambda name: (places.get(name, len(places)), name))


def shown(name: str) -> str:
    """A method or an ablation, as it is called on the page."""
    return NAMES.get(name) or ABLATIONS.get(name, name)


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
            _add(place, _setting(method, name, folder, finished))
    for bench in benches.values():
        _add_first_tasks(bench)
    return list(benches.values())


def _setting(method: str, name: str, folder: Path, records: Sequence[Mapping[str, Any]]) -> Setting:
    seconds = np.mean([sum(record["train_seconds"]) / len(record["plate"]) for record in records])
    note = records[0]["summary"][-1].get("note", "")
    config = records[0]["config"]
    summary = _without_untrained(summarise(records), config["settings"].get("first", 1) - 1)
    return Setting(method, name, folder, config, summary, float(seconds), note)


def _without_untrained(summary: dict[str, Any], count: int) -> dict[str, Any]:
    """After so many tasks joint training had not begun, and what its net answered then is not measured: NaN."""

    def hidden(rows: Sequence[Any]) -> list[Any]:
        return [np.full(np.shape(row), np.nan) if t < count else row for t, row in enumerate(rows)]

    calibration = {
        prediction: {measure: hidden(rows) for measure, rows in measures.items()}
        for prediction, measures in summary["calibration"].items()
    }
    return {**summary, "test_accuracy": hidden(summary["test_accuracy"]), "calibration": calibration}


def _title(bench: str, protocol: str, stand_in: bool) -> str:
    if not stand_in:
        return BENCHMARKS.get(bench, bench)
    real = BENCHMARKS.get(protocol, protocol)
    return f"stand-in for {real}" if bench == protocol else f"{bench} (stand-in, not {real})"


def _add(bench: Bench, setting: Setting) -> None:
    """Put a setting where it is compared; whatever is compared must be on the same data."""
    peers = bench.reduced.get(setting.protocol, []) if setting.protocol else [*bench.main.values(), *bench.others]
    for other in peers:
        if (other.method, other.name) == (setting.method, setting.name) or other.config["data"] != setting.config[
            "data"
        ]:
            raise InputError(
                f"the records {other.folder} and {setting.folder} come from different settings or data: keep one"
            )
    if setting.protocol:
        bench.reduced.setdefault(setting.protocol, []).append(setting)
    elif setting.name == DEFAULT or (WAITED.fullmatch(setting.name) and setting.method not in bench.main):
        bench.main[setting.method] = setting
    else:
        bench.others.append(setting)


def _add_first_tasks(bench: Bench) -> None:
    """Beside runs of fewer tasks, the first tasks of each method's own run, for repetitions that have no such run."""
    for protocol, group in bench.reduced.items():
        tasks = group[0].config.get("tasks")
        if tasks is None:
            continue
        made = {one.method: one for one in group if not one.changes}
        for method, usual in bench.main.items():
            longer = usual.summary["tasks_finished"] > tasks >= usual.config["settings"].get("first", 1)
            if longer and another_protocol({**usual.config, "tasks": tasks}) == protocol:
                if method not in made:
                    group.append(_first_tasks(usual, tasks))
                elif begins_with(usual.config, made[method].config):
                    group[group.index(made[method])] = _first_tasks(usual, tasks, made[method])


def _first_tasks(longer: Setting, tasks: int, made: Setting | None = None) -> Setting:
    """The first tasks of a method's run, joined to the repetitions that were made of these tasks alone."""
    found = {record["seed"]: cut(record, tasks) for record in read(longer.folder, longer.summary["seeds"])}
    if made:
        found |= {record["seed"]: record for record in read(made.folder, made.summary["seeds"])}
    folder = made.folder if made else longer.folder
    return _setting(longer.method, f"tasks-{tasks}", folder, [found[seed] for seed in sorted(found)])
