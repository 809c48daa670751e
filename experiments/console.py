"""What a run shows while it runs and at its end."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from torch import Tensor

from pyroclaw import metrics
from pyroclaw.experiments import paper
from pyroclaw.experiments.significance import mean_and_error

REFRESH = 10  # steps between two readings of the ELBO where it is shown: each waits for the device


class Watcher(Protocol):
    """Who is told how a run gets on."""

    def say(self, text: str) -> None: ...

    def begin(self, steps: int) -> None:
        """Of all plates together."""

    def skip(self, steps: int) -> None:
        """Steps that an earlier process has made."""

    def step(self, names: Sequence[str], task: int, step: int, elbo: Tensor) -> None: ...

    def learned(self, name: str, accuracies: np.ndarray) -> None: ...


class Screen(AbstractContextManager):
    """Lines, and progress bars below them while it is open.

    :param middle: columns between a bar and its times.
    """

    def __init__(self, console: Console, quiet: bool, *middle: ProgressColumn) -> None:
        self.console, self.quiet = console, quiet
        times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False)
        columns = TextColumn("{task.description}"), BarColumn(), *middle, *times
        self.progress = Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *error) -> None:
        self.progress.stop()

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class View(Screen):
    """A progress bar over all steps of the run, with the ELBO, and a line of accuracies after each task."""

    def __init__(self, console: Console, quiet: bool) -> None:
        super().__init__(console, quiet, MofNCompleteColumn(), TextColumn("ELBO {task.fields[elbo]}"))

    def __enter__(self) -> Self:
        super().__enter__()
        self.bar = self.progress.add_task("", total=None, elbo="-")
        return self

    def begin(self, steps: int) -> None:
        self.progress.reset(self.bar, total=steps)  # there may have been a job before

    def skip(self, steps: int) -> None:
        self.progress.advance(self.bar, steps)

    def step(self, names: Sequence[str], task: int, step: int, elbo: Tensor) -> None:
        if step % REFRESH == 0 and not self.progress.disable:
            self.progress.update(self.bar, description=names[task], elbo=f"{elbo.item():.4f}")
        self.progress.advance(self.bar)

    def learned(self, name: str, accuracies: np.ndarray) -> None:
        """One line: the mean accuracy on every task so far."""
        means = 100 * accuracies.mean(axis=1)
        shown = " ".join(f"{value:5.1f}" for value in means[-10:])
        dots = "… " if len(means) > 10 else ""
        self.say(f"learned {name:<24.24} accuracy on tasks so far {dots}{shown}   average {means.mean():.2f} %")


def report(
    console: Console,
    result: dict[str, Any],
    matrix: np.ndarray,
    names: Sequence[str],
    where: str,
    config: Mapping[str, Any],
) -> None:
    """The end of a run: accuracy matrix, average, task 1 over time, adaptation, time, data source, folder."""
    console.print(_accuracies(matrix, names))
    repetitions = matrix.shape[2]
    of = f"mean ± standard error of {repetitions}" if repetitions > 1 else "one repetition"
    note = result["summary"][0][-1].get("note")
    first = " ".join(f"{100 * value:.1f}" for value in metrics.retention(matrix).mean(axis=1))
    seconds = sum(map(sum, result["train_seconds"]))
    lines = [
        f"average accuracy  {mean_and_error(metrics.average_accuracy(matrix)[-1], 100)} %  ({of})",
        f"in the paper      {_paper(result, paper.another_protocol(config))}",
        *([f"note              {note}"] if note else []),
        *_transferred(result),
        f"forgetting        {mean_and_error(metrics.forgetting(matrix), 100)} points",
        f"backward transfer {mean_and_error(metrics.backward_transfer(matrix), 100)} points",
        f"task 1 over time  {first}",
        f"calibration       {_calibration(result)}",
        f"training time     {seconds:.0f} s for all repetitions, peak memory {result['peak_memory_mb']:.0f} MB",
        f"parameters        {result['parameters'][0][-1]:,} of one repetition at the end; {_stored(result)}",
        f"data              {result['data_source']}",
        f"run's folder      {where}",
    ]
    if "adaptation" in result["summary"][0][0]:
        console.print(_adaptation([task["adaptation"] for plate in result["summary"] for task in plate]))
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _paper(result: dict[str, Any], differs: str) -> str:
    """What the paper of CLAW reports for this method and benchmark, and why it may not be compared."""
    figure = paper.accuracy(result["protocol"], result["method"])
    if figure is None:
        return "no figure for this method and benchmark"
    protocol = f" (with all of its protocol, not {differs})" if differs else ""
    data = " (on the real data, not this stand-in)" * result["stand_in"]
    return f"{figure[0]:.2f} ± {figure[1]:.2f} %{protocol}{data}"


def _transferred(result: dict[str, Any]) -> list[str]:
    """The last task's accuracy after 0, 1, ... others, if it was measured."""
    if result["forward_transfer"] is None:
        return []
    return [f"forward transfer  {' '.join(f'{100 * np.mean(row):.1f}' for row in result['forward_transfer'])}"]


def _calibration(result: dict[str, Any]) -> str:
    """ECE and NLL over all tasks at the end."""
    shown = []
    for prediction, measures in result["calibration"].items():
        ece, nll = (np.mean(measures[name][-1]) for name in ("ece", "nll"))
        shown.append(f"ECE {100 * ece:.2f} %, NLL {nll:.4f} with {prediction}")
    return "; ".join(shown)


def _stored(result: dict[str, Any]) -> str:
    """What is stored at the end, and how much of it a task adds."""
    stored = result["stored_bytes"][0]
    text = f"stored {stored[-1] / 1e6:.2f} MB"
    return text + (
        f", {(stored[-1] - stored[0]) / (len(stored) - 1) / 1e3:.1f} kB more a task" if len(stored) > 1 else ""
    )


def _accuracies(matrix: np.ndarray, names: Sequence[str]) -> Table:
    """Rows: after which task; columns: on which; the last ten of each when there are more."""
    table = Table(title="test accuracy (%), mean over repetitions", title_justify="left")
    shown = range(max(0, len(matrix) - 10), len(matrix))
    table.add_column("after")
    for k in shown:
        table.add_column(names[k], justify="right")
    table.add_column("average", justify="right", style="bold")
    averages = metrics.average_accuracy(matrix)
    for t in shown:
        row = [f"{100 * matrix[t, k].mean():.1f}" if k <= t else "" for k in shown]
        table.add_row(f"{t + 1} {names[t]}", *row, f"{100 * averages[t].mean():.2f}")
    return table


def _adaptation(tasks: Sequence[dict]) -> Table:
    """Per layer, averaged over tasks: how many units adapt, and by what gain."""
    table = Table(title="adaptation, mean over tasks", title_justify="left")
    for name in ("layer", "units adapted", "mean probability", "mean gain", "gain from", "to"):
        table.add_column(name, justify="left" if name == "layer" else "right")
    for layer in tasks[0]:
        rows = [task[layer] for task in tasks]
        adapted, probability, gain = (np.mean([row[key] for row in rows]) for key in ("adapted", "probability", "gain"))
        low, high = min(row["gain_range"][0] for row in rows), max(row["gain_range"][1] for row in rows)
        table.add_row(layer, f"{100 * adapted:.0f} %", f"{probability:.2f}", f"{gain:.2f}", f"{low:.2f}", f"{high:.2f}")
    return table
