"""What a sweep shows: one bar for all runs, below it one for each run under way, wherever it is."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import TaskID, TextColumn
from torch import Tensor

from pyroclaw.experiments.console import Screen
from pyroclaw.experiments.sweep_run import Outcome, Run

EVERY = 0.2  # seconds between two reports of a run


class News(NamedTuple):
    """From one run: how many of its steps are done, and what it has to say."""

    run: int
    done: int = 0
    steps: int | None = None
    at: str = ""
    lines: tuple[str, ...] = ()


class Reporter:
    """Watches one run and passes on how it gets on, now and then."""

    def __init__(self, run: int, send: Callable[[News], None]) -> None:
        self.news, self.send, self.sent = News(run), send, 0.0

    def say(self, text: str) -> None:
        self.send(self.news._replace(lines=(text,)))

    def begin(self, steps: int) -> None:
        self.news = self.news._replace(steps=steps)
        self.send(self.news)

    def skip(self, steps: int) -> None:
        self.news = self.news._replace(done=self.news.done + steps)

    def step(self, names: Sequence[str], task: int, step: int, elbo: Tensor) -> None:
        self.skip(1)
        if time.monotonic() - self.sent > EVERY:
            self.news = self.news._replace(at=f"{names[task]}, ELBO {elbo.item():.4f}")
            self.send(self.news)
            self.sent = time.monotonic()

    def learned(self, name: str, accuracies: np.ndarray) -> None:
        pass


class SweepView(Screen):
    """Shows the news of all runs."""

    def __init__(self, console: Console, quiet: bool) -> None:
        super().__init__(console, quiet, TextColumn("{task.fields[at]}"))
        self.runs: Sequence[Run] = ()
        self.bars: dict[int, tuple[TaskID, News]] = {}  # of runs under way
        self.count = 0

    def begin(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.say(f"runs that are missing: {len(runs)}")
        self.whole = self.progress.add_task("all runs", total=len(runs), at="")

    def show(self, news: News) -> None:
        run = self.runs[news.run]
        if news.run not in self.bars:
            self.bars[news.run] = self.progress.add_task(run.name, total=None, at=""), news
        bar, _ = self.bars[news.run]
        self.bars[news.run] = bar, news
        self.progress.update(bar, completed=news.done, total=news.steps, at=news.at)
        for line in news.lines:
            self.say(f"{run.name}: {line}")
        self._whole()

    def ended(self, number: int, outcome: Outcome) -> None:
        if number in self.bars:
            self.progress.remove_task(self.bars.pop(number)[0])
        if not outcome.interrupted:
            self.count += 1
            how = f"failed: {outcome.failure}" if outcome.failure else f"accuracy {_accuracy(outcome):.2f} %"
            self.say(f"{self.count} of {len(self.runs)}: {self.runs[number].name}: {how}")
        self._whole()

    def _whole(self) -> None:
        parts = [news.done / news.steps for _, news in self.bars.values() if news.steps]
        at = f"{self.count} of {len(self.runs)} done, {len(self.bars)} under way"
        self.progress.update(self.whole, completed=self.count + sum(parts), at=at)


def _accuracy(outcome: Outcome) -> float:
    return 100 * float(np.mean([record["test_accuracy"][-1] for record in outcome.records]))
