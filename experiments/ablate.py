"""CLAW without a part of it: the paper's ablations and ours, each beside CLAW as it is.

python experiments/ablate.py --bench split_fashion --replicates 10

The paper's are a general s in place of s_t, adaptation always and never; ours are inputs that do not adapt, γ tied to
α, the fitted KL, steps in single weights, layers each for itself, the last step in place of the mean of the last
ones, and a head that learns no faster than what tasks share. What is on record is not run again, and each is compared
with CLAW as it is by a paired t-test over seeds, two-sided. With --transfer the gain of the last task from the others
is measured too.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import tyro
from rich.table import Table

from pyroclaw import metrics
from pyroclaw.errors import InputError, choose
from pyroclaw.experiments.compare import command
from pyroclaw.experiments.job import Common, settings_of
from pyroclaw.experiments.significance import by_seed, paired, percent, probability

METHOD = "claw"
ABLATIONS = {  # setting and value, as records name them: the paper's three, then ours
    "max_adaptation-general": "general s (instead of s_t)",
    "adaptation-always": "always adapted",
    "adaptation-never": "never adapted",
    "adapt_input-False": "fixed inputs (not adapted)",
    "gamma-tied": "tied γ (no noise of its own)",
    "log_scale-fitted": "fitted KL (instead of exact)",
    "coordinates-weights": "single weights (steps not along the prior's axes)",
    "coupling-0.0": "lone layers (not counted together)",
    "average-0.0": "last step (not the mean of the last ones)",
    "lr_head-0.001": "slow head (as slow as what tasks share)",
}
CHANGES = {name.replace("-", "=", 1): title for name, title in ABLATIONS.items()}


@dataclass(frozen=True)
class Options(Common):
    """Compare CLAW with itself without a part; repetitions that have a record are not run again."""

    changes: tuple[str, ...] = ("all",)
    """Which ablations, as NAME=VALUE (adaptation=never, gamma=tied and so on), or all."""

    def chosen(self) -> dict[str, tuple[str, Any]]:
        """CLAW itself first."""
        names = list(CHANGES) if self.changes == ("all",) else self.changes
        if not names:
            raise InputError("--changes names none: name some, or all")
        changed = {name: settings_of(self.bench, METHOD, [choose("change", name, CHANGES)]) for name in names}
        return {METHOD: (METHOD, settings_of(self.bench, METHOD))} | {
            name: (METHOD, settings) for name, settings in changed.items()
        }


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="ablate")
    return command("ablate", options, options.chosen, table)


def table(found: dict[str, dict[str, Any]], title: str, differs: str = "") -> Table:
    """What each change does to accuracy, to what is forgotten and, where it was measured, to forward transfer."""
    usual, transfer = by_seed(found[METHOD]), all(one["forward_transfer"] for one in found.values())
    title = f"{title}; {differs}" if differs else title
    shown = Table(title=title, title_justify="left", caption_justify="left", box=None, padding=(0, 1, 0, 0))
    shown.add_column("CLAW", no_wrap=True)
    for column in ("accuracy", "difference", "p", "forgot", *(["transfer"] * transfer)):
        shown.add_column(column, justify="right", no_wrap=True)
    for name, one in found.items():
        differences, p = paired(by_seed(one), usual)
        matrix = metrics.accuracy_matrix([np.array(row) for row in one["test_accuracy"]])
        cells = [
            percent(list(by_seed(one).values())),
            percent(differences) if name != METHOD else "",
            probability(p) if p is not None else "",
            f"{100 * metrics.forgetting(matrix).mean():.2f}",
        ]
        if transfer:
            cells.append(percent(np.subtract(one["forward_transfer"][-1], one["forward_transfer"][0])))
        shown.add_row(CHANGES.get(name, "as it is").partition(" (")[0], *cells)
    shown.caption = (
        f"accuracy: on average over all tasks after the last one, %, mean ± standard error, repetitions: {len(usual)}; "
        "difference to CLAW as it is, and p of a two-sided paired t-test; forgot: points lost since a task's best"
        + "; transfer: points that the tasks before add to the last one"
        * transfer
    )
    return shown


if __name__ == "__main__":
    sys.exit(main())
