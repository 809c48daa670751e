"""What a search of settings found: a line for each trial, a table at the end, and what follows from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from pyroclaw.experiments import presets
from pyroclaw.experiments.preset_writer import put
from pyroclaw.experiments.spaces import Space
from pyroclaw.models import METHODS


def best_of(trials: Sequence[Any]) -> Any:
    """The trial with the highest value; of equals the first, so that nothing is changed without a gain."""
    return max(trials, key=lambda trial: trial.value)


class Found(NamedTuple):
    """The end of a search."""

    method: str
    folder: Path
    trials: Sequence[Any]  # of optuna; number 0 is what the others are compared with
    space: Space
    reduced: str = ""  # the budget of a trial, in words, if it is not all of the protocol

    @property
    def best(self) -> Any:
        return best_of(self.trials)

    @property
    def changes(self) -> dict[str, Any]:
        """What is searched, with the best trial's values."""
        return {name: self.best.user_attrs["settings"][name] for name in self.space}


def progress(method: str, trials: Sequence[Any], total: int, space: Space) -> str:
    """A line about the last trial."""
    last, best = trials[-1], best_of(trials)
    values = ", ".join(f"{name}={last.user_attrs['settings'][name]}" for name in space)
    value = "diverged" if last.user_attrs["failure"] is not None else f"validation {100 * last.value:.2f} %"
    number = f"{method}: trial {last.number} ({len(trials)} of {total})"
    return f"{number}: {values}: {value}, best {100 * best.value:.2f} % of trial {best.number}"


def table(found: Sequence[Found], trials: int, title: str) -> Table:
    """Method by method: the best setting, what it gains, and how many were tried."""
    shown = Table(title=title, title_justify="left", caption_justify="left", box=None, padding=(0, 1, 0, 0))
    shown.add_column("method", no_wrap=True)
    shown.add_column("best setting")
    for column in ("validation", "trial 0", "trials", "diverged"):
        shown.add_column(column, justify="right", no_wrap=True)
    for one in found:
        made = len(one.trials)
        shown.add_row(
            one.method,
            " ".join(f"{name}={value}" for name, value in one.changes.items()),
            f"{100 * one.best.value:.2f}",
            f"{100 * one.trials[0].value:.2f}",
            str(made) if made == trials else f"{made} (all)",
            str(sum(trial.user_attrs["failure"] is not None for trial in one.trials)),
        )
    if found and found[0].reduced:  # as that of all
        shown.title = f"{title}; trials with {found[0].reduced}"
    shown.caption = (
        "validation: accuracy after the last task, %, mean over tasks and repetitions, with the best setting; trial 0: "
        "with the preset, or the defaults if benchmarks share the setting; (all): the space has no more settings"
    )
    return shown


def conclude(found: Found, joint: Sequence[str], bench: str | None) -> list[str]:
    """Lines that say what follows; what was found for one benchmark is put into its preset.

    :param joint: benchmarks that share the setting.
    :param bench: whose preset is to be written, if any.
    """
    lines = [f"{found.method}: all trials are in {found.folder / 'study.json'}"]
    if found.best.number == 0:
        return [*lines, f"{found.method}: no setting was better than that of trial 0, nothing is to be changed"]
    if joint:
        values = ", ".join(f"{name} = {value}" for name, value in found.changes.items())
        lines.append(f"{found.method}: defaults to set in {METHODS[found.method].settings.__module__}: {values}")
        own = [f"presets/{name}.toml" for name in joint if presets.preset(name).get(found.method)]
        lines += [f"{found.method}: {name} has a table [{found.method}], which must go" for name in own]
    elif bench:
        path = presets.FOLDER / f"{bench}.toml"
        put(path, found.method, presets.preset(bench).get(found.method, {}) | found.changes, _origin(found))
        lines.append(f"{found.method}: the setting was put into {path}")
    return lines


def _origin(found: Found) -> str:
    """A comment: where a preset's values come from."""
    best, before = 100 * found.best.value, 100 * found.trials[0].value
    trials = f"best of {len(found.trials)} trials on the validation part, {best:.2f} % (before: {before:.2f} %)"
    trials += f", with {found.reduced}" if found.reduced else ""
    return f"{trials}, study {found.folder.name}"
