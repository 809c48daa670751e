"""Compare methods on a benchmark: run what is missing, reuse what is finished, and say who is significantly better.

python experiments/compare.py --bench split_notmnist --methods all --replicates 10

A repetition that has a finished record, with the same settings, budget and data, is not run again: in the folder of
runs, or among the results that come with pyroclaw. Repetitions of all methods share seeds and hence splits, so methods
are compared by a paired t-test over seeds, one-sided, p = 0.05. As in the paper, a method is in bold if it is
significantly better than every other; floor and ceilings do not compete.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from scipy.stats import ttest_rel

from pyroclaw import metrics
from pyroclaw.errors import InputError, choose
from pyroclaw.experiments import paper
from pyroclaw.experiments.console import View
from pyroclaw.experiments.job import Common, plan, settings_of, sigint
from pyroclaw.experiments.missing import complete
from pyroclaw.experiments.records import summarise
from pyroclaw.inference.svi import Diverged, Interrupted
from pyroclaw.models import METHODS

BOUNDS = ("finetune", "independent", "joint")  # floor and ceilings
CEILING = "independent"
LEVEL = 0.05
SPREAD = 1e-9  # of differences that are the same but for rounding
INTERRUPTED, FAILED = 130, 2


@dataclass(frozen=True)
class Options(Common):
    """Compare methods on a benchmark; repetitions that have a record are not run again."""

    methods: tuple[str, ...] = ("all",)
    """Methods, or all."""


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="compare")
    console = Console()
    try:
        options.check()
        names = list(METHODS) if options.methods == ("all",) else options.methods
        chosen = {name: settings_of(options.bench, name) for name in names}
        device = options.prepare()
        with View(console, options.quiet) as view, sigint() as stop:
            bench = options.benchmark(view.say)
            found, differs = {}, ""
            for name, settings in chosen.items():
                job = plan(options, bench, choose("method", name, METHODS), settings, device)
                view.say(str(job.results.folder.relative_to(options.out)))
                differs = paper.another_protocol(job.results.config)  # for all methods the same
                found[name] = summarise(complete(job, options, options.seeds(), view, stop))
    except Interrupted:
        print("compare: interrupted; what is finished is kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    except (InputError, Diverged) as error:
        print(f"compare: {error}", file=sys.stderr)
        return FAILED
    console.print(table(found, f"{bench.title}: {bench.source}", differs))
    return 0


def significantly_best(accuracies: Mapping[str, Sequence[float]]) -> str | None:
    """The method whose accuracies (by seed) are higher than those of each other one by a paired t-test; or None.

    >>> significantly_best({"a": [0.91, 0.92, 0.93], "b": [0.81, 0.83, 0.82]})
    'a'
    >>> significantly_best({"a": [0.91, 0.92, 0.93], "b": [0.90, 0.93, 0.93]})
    """
    ranked = sorted(accuracies, key=lambda name: -float(np.mean(accuracies[name])))
    if len(ranked) < 2 or len(accuracies[ranked[0]]) < 2:
        return None
    best, *rivals = ranked
    wins = [_higher(np.asarray(accuracies[best]), np.asarray(accuracies[rival])) for rival in rivals]
    return best if all(wins) else None


def _higher(one: np.ndarray, other: np.ndarray) -> bool:
    differences = one - other
    if np.ptp(differences) < SPREAD:  # the t-test has no answer
        return bool(differences[0] > 0)
    return bool(ttest_rel(one, other, alternative="greater").pvalue < LEVEL)


def table(found: dict[str, dict[str, Any]], title: str, differs: str = "") -> Table:
    """Method by method: ours beside the paper's and the ceiling, and what it costs.

    :param differs: from the paper's protocol, in words.
    """
    accuracies = {name: np.mean(one["test_accuracy"][-1], axis=0) for name, one in found.items()}
    best = significantly_best({name: values for name, values in accuracies.items() if name not in BOUNDS})
    ceiling = f"{100 * accuracies[CEILING].mean():.2f}" if CEILING in accuracies else "–"
    shown = Table(title=title, title_justify="left", caption_justify="left", box=None, padding=(0, 1, 0, 0))
    shown.add_column("method", no_wrap=True)
    for column in ("paper", "ours", "ceiling", "forgot", "ECE", "params", "kB/task", "s"):
        shown.add_column(column, justify="right", no_wrap=True)
    for name, one in found.items():
        mean, error = one["average_accuracy"]["mean"], one["average_accuracy"]["standard_error"]
        ours = f"{100 * mean:.2f}±{100 * error:.2f}"
        matrix = metrics.accuracy_matrix([np.array(row) for row in one["test_accuracy"]])
        reported = paper.accuracy(one["protocol"], name)
        stored = one["stored_bytes"][0]
        calibration = one["calibration"].get("mean weights")
        shown.add_row(
            name,
            f"{reported[0]}±{reported[1]}" if reported else "–",
            f"[bold]{ours}[/bold]" if name == best else ours,
            ceiling,
            f"{100 * metrics.forgetting(matrix).mean():.2f}",
            f"{100 * np.mean(calibration['ece'][-1]):.2f}" if calibration else "–",
            f"{np.mean([each[-1] for each in one['parameters']]) / 1e3:,.0f}k",
            f"{(stored[-1] - stored[0]) / max(1, len(stored) - 1) / 1e3:.0f}",
            f"{sum(map(sum, one['train_seconds'])) / len(one['seeds']):.0f}",
        )
    repetitions = ", ".join(map(str, sorted({len(one["seeds"]) for one in found.values()})))
    shown.caption = (
        f"ours: average test accuracy after the last task, %, mean ± standard error of {repetitions}; bold: above "
        f"each other method by a paired t-test, p = {LEVEL}; forgot: points lost since a task's best; params: numbers "
        "of one repetition that answer all tasks; s: seconds of training, a repetition"
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
