"""Learn the tasks of a benchmark one after the other, and say what is remembered.

python experiments/run.py --bench split_notmnist
"""

import shlex
import sys
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console

from pyroclaw import metrics
from pyroclaw.errors import InputError
from pyroclaw.experiments.console import View, report
from pyroclaw.experiments.figure import draw
from pyroclaw.experiments.interrupt import sigint
from pyroclaw.experiments.job import Common, plan, settings_of
from pyroclaw.inference.svi import Diverged, Interrupted
from pyroclaw.models import METHODS

INTERRUPTED, FAILED = 130, 2


@dataclass(frozen=True)
class Options(Common):
    """Learn the tasks of a benchmark one after the other, and say what is remembered."""

    method: Annotated[str, tyro.conf.arg(help=f"Method: {', '.join(METHODS)}; 'list' explains them.")] = "claw"
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = field(default=())
    """Change a setting of the method, as NAME=VALUE; may be repeated."""
    resume: bool = False
    """Go on from the checkpoints of a run that was stopped or killed; without it a run begins anew."""
    adapt: bool = False
    """With rcl: each task also learns a gain of each existing neuron, so that fewer units need be added."""


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="pyroclaw")
    console = Console()
    if options.method == "list":
        for name, entry in METHODS.items():
            console.print(f"{name:<14} {entry.about}", highlight=False, soft_wrap=True)
        return 0
    try:
        return run(options, console)
    except (InputError, Diverged) as error:
        print(f"pyroclaw: {error}", file=sys.stderr)
        return FAILED


def run(options: Options, console: Console) -> int:
    """The whole job: data, method, task loop, record, report."""
    options.check()
    if options.adapt and options.method != "rcl":
        raise InputError(f"--adapt is for --method rcl only: leave it out with {options.method}")
    changes = (*options.set, "adapt=true") if options.adapt else options.set
    settings = settings_of(options.bench, options.method, changes)
    device = options.prepare()
    with View(console, options.quiet) as view, sigint() as stop:
        bench = options.benchmark(view.say)
        job = plan(options, bench, options.method, settings, device)
        try:
            names = job.run(
                options.seeds(), view, stop, options.samples, options.transfer, options.resume, adopt=options.resume
            )
        except Interrupted:
            return _interrupted(job.results)
    summary = job.results.summary()
    matrix = metrics.accuracy_matrix([np.array(row) for row in summary["test_accuracy"]])
    title = f"{options.method} on {bench.title}" + (f" ({bench.source})" if bench.standin else "")
    draw(job.results.folder / "figure.png", title, matrix, summary["elbo"], names)
    report(console, summary, matrix, names, str(job.results.folder), job.results.config)
    return 0


def _interrupted(results) -> int:
    done = sum(len(tasks) for _, tasks in results.plates)
    again = shlex.join(["pyroclaw", *(word for word in sys.argv[1:] if word != "--resume"), "--resume"])
    print(
        f"pyroclaw: interrupted; {done} finished tasks are kept in {results.folder}; to go on from here: {again}",
        file=sys.stderr,
    )
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
