"""Search the settings of methods on the validation parts, with the same number of trials for each.

python experiments/tune.py --bench split_notmnist --methods claw vcl ewc --trials 20 --replicates 2

Trial 0 is the method's preset, the others come from its declared space (spaces.toml) by optuna's tree-structured Parzen
estimator. A trial's value is the validation accuracy after the last task, averaged over tasks and repetitions; a trial
that diverges has the value 0. Test accuracies are not looked at. A space with fewer settings than trials is tried out.

With --joint, benchmarks share one setting: trial 0 is the method's defaults, and the value is also averaged over
benchmarks. What is found are new defaults.

    OUT/BENCHMARK/METHOD/SETTING-FINGERPRINT/    records of trials, as of any run; what is on record is not run again
    OUT/studies/BENCHMARK/METHOD-FINGERPRINT/    journal.jsonl, from which a search goes on, and study.json to read

The fingerprint of a study is a hash of space, seeds, preset, budget and data: with another of them it is another study.

Where a run is dear, --tasks and --epochs give each trial a smaller budget, the same for all methods of the call:

python experiments/tune.py --bench cifar100 --methods vcl ewc ltg --trials 8 --replicates 1 --tasks 5

It is named in study.json, in the presets that are written and in the report.
"""

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from filelock import FileLock, Timeout
from rich.console import Console

from pyroclaw.data.benchmark import Benchmark
from pyroclaw.errors import InputError
from pyroclaw.experiments import paper, presets
from pyroclaw.experiments.console import View
from pyroclaw.experiments.found import Found, conclude, progress, table
from pyroclaw.experiments.interrupt import sigint
from pyroclaw.experiments.job import Common, Job, methods_of, plan, settings_of
from pyroclaw.experiments.missing import complete
from pyroclaw.experiments.records import environment, fingerprint, write_json
from pyroclaw.experiments.spaces import Space, space
from pyroclaw.experiments.study import Study
from pyroclaw.inference.svi import Diverged, Interrupted
from pyroclaw.models import METHODS

INTERRUPTED, FAILED = 130, 2


@dataclass(frozen=True)
class Options(Common):
    """Search the settings of methods on the validation parts, with the same number of trials for each."""

    methods: tuple[str, ...] = ("all",)
    """Methods, or all."""
    joint: tuple[str, ...] = ()
    """Benchmarks that are to share one setting, in place of --bench."""
    trials: int = 20
    """Trials of each method, the one of its preset included."""
    replicates: int | None = 2
    """Repetitions of the protocol in each trial."""
    write_presets: bool = False
    """Put what is found into the benchmark's preset; with --joint it is printed only."""
    samples: Annotated[int, tyro.conf.Suppress] = 0
    transfer: Annotated[bool, tyro.conf.Suppress] = False

    def check(self) -> None:
        for one in self.each():
            Common.check(one)
        if self.trials < 1:
            raise InputError(f"--trials is {self.trials}, but must be above 0")
        if len(set(self.joint)) < len(self.joint):
            raise InputError(f"--joint {' '.join(self.joint)} names a benchmark twice: leave one out")

    def each(self) -> list["Options"]:
        """These options for each of the benchmarks."""
        return [dataclasses.replace(self, bench=bench) for bench in self.joint or (self.bench,)]


class Blind(View):
    """A view that does not show test accuracies."""

    def learned(self, name: str, accuracies: np.ndarray) -> None:
        pass


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="tune")
    console = Console()
    try:
        options.check()
        spaces = {method: space(method) for method in methods_of(options.methods)}
        device = options.prepare()
        with Blind(console, options.quiet) as view, sigint() as stop:
            benches = [one.benchmark(view.say) for one in options.each()]
            if options.write_presets and any(bench.standin for bench in benches):
                raise InputError("--write-presets: the data are a stand-in; search on the real ones, with --data real")
            found = [search(options, benches, method, spaces[method], device, view, stop) for method in spaces]
        title = ", ".join(f"{bench.title}: {bench.source}" for bench in benches)
        console.print(table(found, options.trials, title))
        for one in found:
            for line in conclude(one, options.joint, options.bench if options.write_presets else None):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    except Interrupted:
        print("tune: interrupted; finished trials are kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    except InputError as error:
        print(f"tune: {error}", file=sys.stderr)
        return FAILED
    return 0


def search(
    options: Options,
    benches: list[Benchmark],
    method: str,
    space: Space,
    device: torch.device,
    view: View,
    stop: Callable[[], bool],
) -> Found:
    """Make the trials of a method that are missing."""

    def jobs(values: Mapping[str, Any]) -> dict[str, Job]:
        """By benchmark."""
        return {
            bench.title: plan(one, bench, method, settings(one, method, values), device)
            for one, bench in zip(options.each(), benches, strict=True)
        }

    usual = jobs({})
    identity = {
        "method": method,
        "space": space,
        "seed": options.seed,
        "seeds": {bench: one.seeds() for bench, one in zip(usual, options.each(), strict=True)},
        "preset": {bench: fingerprint(job.results.config) for bench, job in usual.items()},
    }
    content = identity | {"budget": {bench: budget(job) for bench, job in usual.items()}}
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
    folder = options.out / "studies" / "+".join(usual) / f"{method}-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock", timeout=0):
            study = Study(folder, space, options.seed)
            while len(study.trials) < options.trials:
                values = study.propose() if study.trials else {}
                if values is None:
                    break
                trial(study, jobs(values), space, options, view, stop)
                view.say(progress(method, study.trials, options.trials, space))
                keep(folder, content, study)
            keep(folder, content, study)  # a kill may have come between journal and file
    except Timeout as error:
        raise InputError(f"the study {folder} is being searched by another process: let it end") from error
    except OSError as error:
        raise InputError(f"--out: {folder} cannot be written ({error.strerror}); name another folder") from error
    # a study may have more trials, from an earlier call: no method is to profit from that
    return Found(method, folder, study.trials[: options.trials], space, reduced(usual.values()))


def budget(job: Job) -> dict[str, Any]:
    """What a trial is given on a benchmark, in numbers and, if it is not all of the protocol, in words."""
    asked = {"tasks": job.bench.task_count, "epochs": job.budget.epochs, "batch_size": job.budget.batch_size}
    return asked | {"reduced": paper.another_protocol(job.results.config)}


def reduced(jobs: Iterable[Job]) -> str:
    """The budget's difference from the protocol, in words; benchmarks that share a setting may differ in it."""
    return " / ".join(dict.fromkeys(words for job in jobs if (words := budget(job)["reduced"])))


def settings(options: Options, method: str, values: Mapping[str, Any]) -> Any:
    """The preset's settings with these values; or the defaults with them, if they are to serve several benchmarks."""
    assignments = [f"{name}={value}" for name, value in values.items()]
    if options.joint:
        return presets.settings(METHODS[method].settings, {}, assignments)
    return settings_of(options.bench, method, assignments)


def trial(study: Study, jobs: Mapping[str, Job], space: Space, options: Options, view: View, stop) -> None:
    """Measure a setting on each benchmark, and add it to the study."""
    used = dataclasses.asdict(next(iter(jobs.values())).settings)
    accuracies, failure = {}, None
    try:
        for (bench, job), one in zip(jobs.items(), options.each(), strict=True):
            if stop():
                raise Interrupted
            accuracies[bench] = accuracy(job, one, view, stop)
    except (Diverged, torch.linalg.LinAlgError) as error:
        failure = str(error)
    value = 0.0 if failure is not None else float(np.mean(list(accuracies.values())))
    values = {name: used[name] for name in space}
    study.add(values, value, settings=used, accuracies=accuracies, failure=failure)


def accuracy(job: Job, options: Options, view: View, stop) -> float:
    """Validation accuracy after the last task, mean over tasks and repetitions; only missing repetitions are run."""
    records = complete(job, options, options.seeds(), view, stop)
    return float(np.mean([record["validation_accuracy"][-1] for record in records]))


def keep(folder: Path, content: Mapping[str, Any], study: Study) -> None:
    """study.json: all that can be said about the study."""
    trials = [{"number": one.number, "value": one.value, **one.user_attrs} for one in study.trials]
    best = max(trials, key=lambda one: one["value"])
    searched_by = environment()
    searched_by["versions"]["optuna"] = version("optuna")
    result = {"value": "mean validation accuracy after the last task", "best": best["number"]}
    write_json(folder / "study.json", {**content, **result, "trials": trials, "environment": searched_by})


if __name__ == "__main__":
    sys.exit(main())
