"""One job: a method learns the tasks of a benchmark, for some seeds. What the command lines have in common."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from pyroclaw.data import benchmarks
from pyroclaw.data.benchmark import Benchmark
from pyroclaw.errors import InputError, choose
from pyroclaw.experiments import posteriors, presets
from pyroclaw.experiments.console import Watcher
from pyroclaw.experiments.records import Results, checkpoints, fingerprint
from pyroclaw.inference.memory import keep_freed_memory
from pyroclaw.inference.resume import Resumable
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.inference.svi import Budget
from pyroclaw.models import METHODS, Entry
from pyroclaw.nets import make_net
from pyroclaw.precision import Precision, convolutions_in
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Common:
    """Options of every command that runs jobs."""

    bench: str = "split_notmnist"
    """Benchmark: permuted_mnist, split_mnist, split_notmnist, split_fashion, omniglot or cifar100."""
    replicates: int | None = None
    """Repetitions of the protocol, each with its own split, initialisation and noise; if not given, the preset's 10."""
    seed: int = 0
    """Seed of the first repetition; the others follow it."""
    tasks: int | None = None
    """Learn only so many tasks, the first ones; named in the record. If not given, all."""
    epochs: float | None = None
    """Passes over each task's training data; if not given, the paper's number."""
    batch_size: int | None = None
    """Examples a step; if not given, the paper's number."""
    average: float | None = None
    """End a task with the mean of this share of its SVI steps, the last ones; if not given, the method's own share."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; auto takes a GPU if there is one."""
    precision: Precision = "float32"
    """What convolutions multiply in: bfloat16 is faster where the processor knows it, and named in the record."""
    data_dir: Path | None = None
    """Folder with data sets; if not given, PYROCLAW_DATA, else the user's cache."""
    data: Literal["auto", "real"] = "auto"
    """Whether a stand-in may take the place of a data set that cannot be found."""
    split: Literal["image", "font"] = "image"
    """Split notMNIST at random, or so that no font is in two parts."""
    augment: bool = True
    """Omniglot's 20-fold rotations and shifts."""
    out: Path = Path("runs")
    """Folder for the records of runs."""
    samples: int = 10
    """Samples of the posterior, for the calibration of averaged predictions; 0 leaves it and posterior.nc out."""
    transfer: bool = False
    """Measure forward transfer too: the last task's accuracy after each number of others. Doubles the time."""
    checkpoint: float = 60.0
    """Seconds between two checkpoints inside a task; 0 makes one after each step. There is always one after a task."""
    threads: int | None = None
    """CPU threads; if not given, all cores."""
    quiet: bool = False
    """Print the final report only."""

    def check(self) -> None:
        """What can be wrong about them, before anything is done."""
        choose("benchmark", self.bench, benchmarks.KNOWN)
        if self.precision != "float32" and benchmarks.PROTOCOLS[self.bench].net.kind != "cnn":
            raise InputError(f"--precision {self.precision}: the net of {self.bench} has no convolutions, leave it out")
        for name in ("replicates", "tasks", "epochs", "batch_size", "threads"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError(f"--{name.replace('_', '-')} is {value}, but must be above 0")
        if self.average is not None and not 0 <= self.average <= 1:
            raise InputError(f"--average is {self.average}, but must be from 0 to 1: it is a share of a task's steps")
        for name in ("seed", "samples", "checkpoint"):
            if getattr(self, name) < 0:
                raise InputError(f"--{name} is {getattr(self, name)}, but must be 0 or above")

    def seeds(self) -> list[int]:
        count = self.replicates or presets.preset(self.bench).get("replicates", 10)
        return [self.seed + k for k in range(count)]

    def benchmark(self, say: Callable[[str], None]) -> Benchmark:
        made = benchmarks.make(self.bench, self.data_dir, self.data, augment=self.augment, split=self.split, log=say)
        return made.first(self.tasks) if self.tasks else made

    def prepare(self) -> torch.device:
        """Set torch up; the device."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InputError("--device cuda: torch finds no CUDA device; use --device auto or cpu")
        device = torch.device("cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu")
        if device.type == "cpu":
            keep_freed_memory()
        if self.threads:
            torch.set_num_threads(self.threads)
        return device


def methods_of(names: Sequence[str]) -> Sequence[str]:
    """Methods that --methods names, or all."""
    if not names:
        raise InputError("--methods names none: name some, or all")
    return list(METHODS) if tuple(names) == ("all",) else [choose("method", name, METHODS) for name in names]


def settings_of(bench: str, method: str, assignments: Sequence[str] = ()) -> Any:
    """A method's settings on a benchmark, with NAME=VALUE changes."""
    entry = METHODS[choose("method", method, METHODS)]
    return presets.settings(entry.settings, presets.preset(bench).get(method, {}), assignments)


@dataclass(frozen=True)
class Job:
    """All that is decided before the first step."""

    bench: Benchmark
    entry: Entry
    settings: Any
    budget: Budget
    device: torch.device
    results: Results
    checkpoint: float
    precision: Precision

    def plates(self, seeds: Sequence[int]) -> list[list[int]]:
        """Seeds that are trained together; no plate depends on another."""
        one_by_one = self.entry.one_by_one
        if self.device.type == "cpu" and self.bench.net.kind == "cnn":
            # a core is busy with one replicate's convolutions: two in a plate take longer than one after the other
            one_by_one = True
        return [[seed] for seed in seeds] if one_by_one else self.bench.plates(seeds)

    def run(
        self,
        seeds: Sequence[int],
        view: Watcher,
        stop: Callable[[], bool],
        samples: int,
        transfer: bool,
        resume: bool = True,
        adopt: bool = False,
    ) -> list[str]:
        """Every plate of repetitions through all tasks; the names of the tasks.

        :param resume: go on from checkpoints; otherwise begin anew.
        :param adopt: leave out plates that have finished records.
        """
        plates = self.plates(seeds)
        names = [f"task {t + 1}" for t in range(self.bench.task_count)]
        with convolutions_in(self.precision):
            for number, plate in enumerate(plates):
                tasks = self.bench.tasks(plate, self.device)
                net = make_net(self.bench.net, self.bench.input_shape)
                streams = Streams(plate, "init", device=self.device)
                method = self.entry.make(net, self.bench.heads, streams, self.settings)
                efforts = [method.effort(index) * self.budget.steps(task) for index, task in enumerate(tasks)]
                if number == 0:
                    view.begin(len(plates) * round(sum(efforts)))
                if len(plates) == 1 or self.bench.recipe.shuffle == "nothing":
                    names = [task.name for task in tasks]
                resumable = self._resumable(plate, tasks, samples, transfer, view.say)
                found = resumable.load(method, self.device) if resume else None
                if adopt and found is None and self.results.adopt(plate):
                    view.skip(round(sum(efforts)))
                    continue
                if not resume:
                    resumable.clear()
                method, done = found or (method, [])
                if done:
                    view.say(f"going on after task {len(done)} of {len(tasks)}, from {resumable.folder}")
                view.skip(round(sum(efforts[: len(done)])))
                self.results.begin_plate(plate, done)
                for learned in learn_tasks(
                    method,
                    tasks,
                    self.budget,
                    plate,
                    self.device,
                    partial(view.step, names),
                    stop,
                    samples=samples,
                    transfer=transfer,
                    resumable=resumable,
                    done=done,
                ):
                    self.results.add(learned)
                    view.learned(names[learned.index], learned.test.cpu().numpy())
                if samples:
                    posteriors.write(self.results.folder, method, tasks, self.results.plates[-1][1], plate, self.device)
                resumable.clear()
        return names

    def _resumable(self, plate: Sequence[int], tasks, samples: int, transfer: bool, say) -> Resumable:
        """Checkpoints of a plate; what is measured along the way belongs to its identity too."""
        identity = {
            "fingerprint": fingerprint(self.results.config),
            "seeds": list(plate),
            "device": str(self.device),
            "samples": samples,
            "transfer": transfer,
        }
        return Resumable(checkpoints(self.results.folder, plate), identity, tasks, self.checkpoint, say)


def plan(common: Common, bench: Benchmark, method: str, settings: Any, device: torch.device) -> Job:
    """The job, and the place of its records."""
    budget = Budget(float(common.epochs or bench.epochs), common.batch_size or bench.batch_size, common.average)
    config = {
        "bench": bench.title,
        "protocol": bench.name,
        "method": method,
        "settings": dataclasses.asdict(settings),
        "data_source": bench.source,
        "data": bench.digest(),
        "stand_in": bench.standin,
        "split": common.split,
        "augment": common.augment,
        "epochs": budget.epochs,
        "batch_size": budget.batch_size,
        "net": dataclasses.asdict(bench.net),
        "heads": bench.heads,
        "device": str(device),
        "threads": torch.get_num_threads(),
    }
    protocol = {"epochs": bench.epochs, "batch_size": bench.batch_size, "split": "image", "augment": True}
    used = {key: config[key] for key in protocol}
    if bench.recipe.first:
        config["tasks"] = used["tasks"] = bench.task_count
        protocol["tasks"] = None
    if common.precision != "float32":
        config["precision"] = used["precision"] = common.precision
        protocol["precision"] = "float32"
    if common.average is not None:
        config["averaged"] = used["averaged"] = common.average
        protocol["averaged"] = None
    setting = presets.setting_name(settings, settings_of(common.bench, method), protocol, used)
    results = Results(common.out, setting, config, bench.task_count)
    return Job(bench, METHODS[method], settings, budget, device, results, common.checkpoint, common.precision)
