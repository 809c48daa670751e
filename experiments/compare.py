"""Compare methods on a benchmark: run what is missing, reuse what is finished, and say who is significantly better.

python experiments/compare.py --bench split_notmnist --methods all --replicates 10

A repetition that has a finished record, with the same settings, budget and data, is not run again: in the folder of
runs, or among the results that come with pyroclaw. Repetitions of all methods share seeds and hence splits, so methods
are compared by a paired t-test over seeds, one-sided, p = 0.05. As in the paper, a method is in bold if it is
significantly better than every other (and has a star, where there is no bold); floor and ceilings do not compete.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from pyroclaw import metrics
from pyroclaw.errors import InputError
from pyroclaw.experiments import paper
from pyroclaw.experiments.console import View
from pyroclaw.experiments.interrupt import sigint
from pyroclaw.experiments.job import Common, methods_of, plan, settings_of
from pyroclaw.experiments.missing import summaries
from pyroclaw.experiments.significance import LEVEL, by_seed, percent, significantly_best
from pyroclaw.inference.svi import Diverged, Interrupted

BOUNDS = ("finetune", "independent", "joint")  # floor and ceilings
CEILING = "independent"
INTERRUPTED, FAILED = 130, 2


@dataclass(frozen=True)
class Options(Common):
    """Compare methods on a benchmark; repetitions that have a record are not run again."""

    methods: tuple[str, ...] = ("all",)
    """Methods, or all."""

    def chosen(self) -> dict[str, tuple[str, Any]]:
        """Method and settings of each row."""
        return {name: (name, settings_of(self.bench, name)) for name in methods_of(self.methods)}


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="compare")
    return command("compare", options, options.chosen, table)


def command(
    prog: str,
    options: Common,
    chosen: Callable[[], Mapping[str, tuple[str, Any]]],
    shown: Callable[[dict[str, Any], str, str], Table],
) -> int:
    """Run what is missing of rows of a table, and print the table; the exit code.

    :param chosen: gives the method and the settings of each row, by its name.
    """
    console = Console()
    try:
        options.check()
        rows = chosen()
        device = options.prepare()
        with View(console, options.quiet) as view, sigint() as stop:
            bench = options.benchmark(view.say)
            jobs = {name: plan(options, bench, *row, device) for name, row in rows.items()}
            found = summaries(jobs, options, view, stop)
    except Interrupted:
        print(f"{prog}: interrupted; what is finished is kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    except (InputError, Diverged) as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return FAILED
    differs = paper.another_protocol(next(iter(jobs.values())).results.config)  # for all rows the same
    console.print(shown(found, f"{bench.title}: {bench.source}", differs))
    return 0


def table(found: dict[str, dict[str, Any]], title: str, differs: str = "") -> Table:
    """Method by method: ours beside the paper's and the ceiling, and what it costs.

    :param differs: from the paper's protocol, in words.
    """
    accuracies = {name: list(by_seed(one).values()) for name, one in found.items()}
    best = significantly_best({name: values for name, values in accuracies.items() if name not in BOUNDS})
    ceiling = f"{100 * np.mean(accuracies[CEILING]):.2f}" if CEILING in accuracies else "–"
    shown = Table(title=title, title_justify="left", caption_justify="left", box=None, padding=(0, 1, 0, 0))
    shown.add_column("method", no_wrap=True)
    for column in ("paper", "ours", "ceiling", "forgot", "ECE", "params", "kB/task", "s"):
        shown.add_column(column, justify="right", no_wrap=True)
    for name, one in found.items():
        ours = percent(accuracies[name])
        matrix = metrics.accuracy_matrix([np.array(row) for row in one["test_accuracy"]])
        reported = None if one["stand_in"] else paper.accuracy(one["protocol"], name)
        stored = one["stored_bytes"][0]
        calibration = one["calibration"].get("mean weights")
        shown.add_row(
            name,
            f"{reported[0]}±{reported[1]}" if reported else "–",
            f"[bold]{ours}*[/bold]" if name == best else ours,
            ceiling,
            f"{100 * metrics.forgetting(matrix).mean():.2f}",
            f"{100 * np.mean(calibration['ece'][-1]):.2f}" if calibration else "–",
            f"{np.mean([each[-1] for each in one['parameters']]) / 1e3:,.0f}k",
            f"{(stored[-1] - stored[0]) / max(1, len(stored) - 1) / 1e3:.0f}",
            f"{sum(map(sum, one['train_seconds'])) / len(one['seeds']):.0f}",
        )
    shown.caption = (
        f"ours: average test accuracy after the last task, %, mean ± standard error, repetitions: "
        f"{len(next(iter(accuracies.values())))}; bold and *: above each other method by a paired t-test, p = {LEVEL}; "
        "ceiling: each task trained alone; forgot: points lost since a task's best; params: numbers of one repetition "
        "that answer all tasks; s: seconds of training, a repetition"
    )
    notes = {name: one["summary"][0][-1].get("note") for name, one in found.items()}
    shown.caption += "".join(f"; {name}: {note}" for name, note in notes.items() if note)
    if differs:
        shown.title, shown.caption = (
            f"{title}; {differs}",
            f"paper: all of its protocol, not {differs}; {shown.caption}",
        )
    return shown


if __name__ == "__main__":
    sys.exit(main())
