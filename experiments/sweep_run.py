"""One run of a sweep: a plate of repetitions of a method on a benchmark.

A plate is what can be given away without changing a bit: its repetitions are trained by one SVI, while no plate depends
on another. Where repetitions share no plate, as with convolutions on CPUs or nets that grow, each is a run of its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pyroclaw.data.benchmark import Benchmark
from pyroclaw.errors import InputError
from pyroclaw.experiments.console import Watcher
from pyroclaw.experiments.job import Common, plan, settings_of
from pyroclaw.experiments.missing import complete
from pyroclaw.inference.svi import Diverged, Interrupted


class Run(NamedTuple):
    """All that another machine must be told, but for the data."""

    common: Common
    method: str
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """
        >>> Run(Common(bench="split_mnist"), "vcl", (3, 4)).name
        'vcl on split_mnist, seeds 3 4'
        """
        seeds = " ".join(map(str, self.seeds))
        return f"{self.method} on {self.common.bench}, seed{'s' * (len(self.seeds) > 1)} {seeds}"


class Outcome(NamedTuple):
    """How a run ended: with its records, or why not."""

    records: list[dict[str, Any]]
    failure: str | None = None
    interrupted: bool = False


def learn(run: Run, bench: Benchmark, view: Watcher, stop: Callable[[], bool]) -> Outcome:
    """Run what has no record yet, from its checkpoints if there are any."""
    if stop():
        return Outcome([], interrupted=True)
    try:
        device = run.common.prepare()
        job = plan(run.common, bench, run.method, settings_of(run.common.bench, run.method), device)
        return Outcome(complete(job, run.common, run.seeds, view, stop))
    except Interrupted:
        return Outcome([], interrupted=True)
    except (InputError, Diverged) as error:
        return Outcome([], failure=str(error))
    except Exception as error:  # whatever it is, the other runs are not to be lost with this one
        return Outcome([], failure=f"{type(error).__name__}: {error}")
