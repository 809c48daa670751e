"""Run methods on benchmarks, here or on a Ray cluster: what is missing is run, what failed is named.

python experiments/sweep.py --benches split_mnist split_notmnist --methods claw vcl ewc --engine ray

What is divided among machines are runs: one plate of repetitions of one method on one benchmark
(:mod:`pyroclaw.experiments.sweep_run`). A repetition that has a finished record is not run again, a run that was
stopped or killed goes on from its checkpoints, and a run that fails leaves the others alone.
"""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from pyroclaw.data import benchmarks
from pyroclaw.data.benchmark import Benchmark
from pyroclaw.errors import InputError, choose
from pyroclaw.experiments import cluster
from pyroclaw.experiments.interrupt import sigint
from pyroclaw.experiments.job import Common, Job, methods_of, plan, settings_of
from pyroclaw.experiments.missing import known
from pyroclaw.experiments.records import put, summarise
from pyroclaw.experiments.sweep_run import Outcome, Run, learn
from pyroclaw.experiments.sweep_view import Reporter, SweepView

ENGINES = ("process", "ray")
SOME_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
Jobs = Mapping[tuple[str, str], Job]  # by benchmark and method


@dataclass(frozen=True)
class Options(Common):
    """Run methods on benchmarks, here or on a Ray cluster; repetitions that have a record are not run again."""

    benches: tuple[str, ...] = ("split_notmnist",)
    """Benchmarks, or all."""
    methods: tuple[str, ...] = ("all",)
    """Methods, or all."""
    engine: str = "process"
    """Who runs them: process (this one, one after the other) or ray (as many at once as there is room for)."""
    address: str | None = None
    """HOST:PORT of an existing Ray cluster, or auto for the one on this machine; if not given, Ray is started here."""
    cpus_per_run: int = 1
    """CPUs of a run, which are also its threads; with the same number both engines give the same bits."""
    gpus_per_run: float = 0.0
    """GPUs of a run, up to 1; 0.5 lets two share one, 0 computes on CPUs."""
    bench: Annotated[str, tyro.conf.Suppress] = "split_notmnist"
    device: Annotated[Literal["auto", "cpu", "cuda"], tyro.conf.Suppress] = "auto"
    threads: Annotated[int | None, tyro.conf.Suppress] = None

    def check(self) -> None:
        choose("engine", self.engine, ENGINES)
        if self.cpus_per_run < 1:
            raise InputError(f"--cpus-per-run is {self.cpus_per_run}, but must be above 0")
        if not 0 <= self.gpus_per_run <= 1:
            raise InputError(f"--gpus-per-run is {self.gpus_per_run}, but must be from 0 to 1: a run uses one at most")
        for one in self.each():
            Common.check(one)
            for method in self.names():
                settings_of(one.bench, method)
        if self.engine == "ray":
            cluster.check(self.address)
        elif self.address:
            raise InputError("--address is for --engine ray: add that, or leave it out")
        elif self.gpus_per_run and not torch.cuda.is_available():
            raise InputError(f"--gpus-per-run is {self.gpus_per_run}, but torch finds no CUDA device: leave it out")

    def names(self) -> Sequence[str]:
        return methods_of(self.methods)

    def each(self) -> list["Options"]:
        """These options for each of the benchmarks, with what gives both engines the same bits."""
        benches = benchmarks.KNOWN if self.benches == ("all",) else self.benches
        device: Literal["cpu", "cuda"] = "cuda" if self.gpus_per_run else "cpu"
        threads, out = self.cpus_per_run, self.out.resolve()  # a worker has another working folder
        return [dataclasses.replace(self, bench=bench, device=device, threads=threads, out=out) for bench in benches]


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="sweep")
    console = Console()
    try:
        options.check()
        with SweepView(console, options.quiet) as view, sigint() as stop:
            each = {one.bench: one for one in options.each()}
            benches = {name: one.benchmark(view.say) for name, one in each.items()}
            jobs = planned(options, each, benches)
            runs = missing(each, jobs)
            view.begin(runs)
            if options.engine == "ray":
                outcomes = cluster.outcomes(runs, benches, options, view, stop)
            else:
                outcomes = in_this_process(runs, benches, view, stop)
            found = gathered(runs, jobs, outcomes, view) if runs else []
    except InputError as error:
        print(f"sweep: {error}", file=sys.stderr)
        return BAD_INPUT
    if len(found) < len(runs):
        done = f"{len(found)} of {len(runs)} runs are finished"
        print(f"sweep: interrupted; {done}, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    failed = {run.name: outcome.failure for run, outcome in found if outcome.failure}
    console.print(table(each, jobs, benches))
    for line in [*explained(benches), *(f"failed: {name}: {reason}" for name, reason in failed.items())]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return SOME_FAILED if failed else 0


def planned(options: Options, each: Mapping[str, Options], benches: Mapping[str, Benchmark]) -> Jobs:
    return {
        (bench, method): plan(one, benches[bench], method, settings_of(bench, method), torch.device(one.device))
        for bench, one in each.items()
        for method in options.names()
    }


def missing(each: Mapping[str, Options], jobs: Jobs) -> list[Run]:
    """What is to be run: plates of the seeds that have no record."""
    runs = []
    for (bench, method), job in jobs.items():
        one = each[bench]
        found = known(job, one, one.seeds())
        plates = job.plates([seed for seed in one.seeds() if seed not in found])
        runs += [Run(one, method, tuple(plate)) for plate in plates]
    return runs


def in_this_process(
    runs: Sequence[Run], benches: Mapping[str, Benchmark], view: SweepView, stop
) -> Iterator[tuple[int, Outcome]]:
    """One after the other, by number."""
    for number, run in enumerate(runs):
        yield number, learn(run, benches[run.common.bench], Reporter(number, view.show), stop)


def gathered(
    runs: Sequence[Run], jobs: Jobs, outcomes: Iterable[tuple[int, Outcome]], view: SweepView
) -> list[tuple[Run, Outcome]]:
    """The runs that came to an end, good or bad; their records are put where this process reads them."""
    found = []
    for number, outcome in outcomes:
        run = runs[number]
        if not outcome.interrupted:
            found.append((run, outcome))
            put(jobs[run.common.bench, run.method].results.folder, outcome.records)
        view.ended(number, outcome)
    return found


def table(each: Mapping[str, Options], jobs: Jobs, benches: Mapping[str, Benchmark]) -> Table:
    """Methods by benchmarks: accuracy of the repetitions that are on record, and how many there are."""
    shown = Table(box=None, padding=(0, 1, 0, 0))
    shown.add_column("method", no_wrap=True)
    for bench in benches.values():
        shown.add_column(bench.title, justify="right")
    for method in dict.fromkeys(method for _, method in jobs):
        cells = [_cell(known(jobs[name, method], one, one.seeds()), len(one.seeds())) for name, one in each.items()]
        shown.add_row(method, *cells)
    return shown


def explained(benches: Mapping[str, Benchmark]) -> list[str]:
    """What the numbers are, and of which data."""
    about = "average test accuracy after the last task, %, mean ± standard error [repetitions]"
    return [about, *(f"{bench.title}: {bench.source}" for bench in benches.values())]


def _cell(found: Mapping[int, Mapping[str, Any]], asked: int) -> str:
    if not found:
        return f"– \\[0 of {asked}]"
    accuracy = summarise(list(found.values()))["average_accuracy"]
    count = str(asked) if len(found) == asked else f"{len(found)} of {asked}"
    return f"{100 * accuracy['mean']:.2f}±{100 * accuracy['standard_error']:.2f} \\[{count}]"


if __name__ == "__main__":
    sys.exit(main())
