"""How fast it is, as ratios in one run; docs/speed.md says what they mean.

    python experiments/bench.py                          # everything, some minutes on one core
    python experiments/bench.py --only step plate        # some sections
    python experiments/bench.py --out bench.json         # for a record

Every figure has a 95 % confidence interval over interleaved rounds, some have a target, and those about whole methods
stand beside the ratio of the paper's table 2.
"""

import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table

from pyroclaw.errors import InputError, choose
from pyroclaw.experiments.bench_growth import growth_rows
from pyroclaw.experiments.bench_methods import method_rows, transfer_rows
from pyroclaw.experiments.bench_precision import precision_rows
from pyroclaw.experiments.bench_step import data_rows, peak_rows, plate_rows, step_rows
from pyroclaw.experiments.bench_timing import Row
from pyroclaw.inference.memory import keep_freed_memory

FAILED = 2
SECTIONS: dict[str, Callable[[int], list[Row]]] = {
    "step": step_rows,
    "plate": plate_rows,
    "methods": method_rows,
    "transfer": transfer_rows,
    "peak": peak_rows,
    "data": data_rows,
    "precision": precision_rows,
    "growth": growth_rows,
}
HEADER = ("", "measured", "95 % interval", "target", "paper")


@dataclass(frozen=True)
class Options:
    """How fast it is, as ratios in one run."""

    only: tuple[str, ...] = tuple(SECTIONS)
    """Sections to measure."""
    rounds: int = 8
    """Interleaved rounds of each comparison."""
    threads: int = 1
    """CPU threads."""
    out: Path | None = None
    """JSON file for the figures."""


def main(argv: Sequence[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="bench", description=__doc__)
    try:
        names = [choose("section", name, SECTIONS) for name in options.only]
        if options.rounds < 2:
            raise InputError(f"--rounds {options.rounds} gives no confidence interval: give 2 or more")
        if options.out and not options.out.parent.is_dir():
            raise InputError(f"--out {options.out}: there is no folder {options.out.parent}; create it first")
    except InputError as error:
        print(f"bench: {error}", file=sys.stderr)
        return FAILED
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    console, rows = Console(width=None if sys.stdout.isatty() else 120), list[Row]()
    for name in names:
        found = SECTIONS[name](options.rounds)
        console.print(table(name, found))
        rows += found
    if options.out:
        options.out.write_text(json.dumps(record(rows, options), indent=1, ensure_ascii=False) + "\n")
    return 0


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is shown."""
    target = "" if row.target is None else f"≤ {row.target:g}{row.unit}"
    interval = f"{number(row.low)} to {number(row.high)}"
    return row.name, f"{number(row.value)}{row.unit}", interval, target, "" if row.paper is None else number(row.paper)


def number(value: float) -> str:
    """Three digits that matter.

    >>> number(1.2345), number(0.01234), number(123.4)
    ('1.23', '0.0123', '123')
    """
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def table(section: str, rows: Sequence[Row]) -> Table:
    shown = Table(title=section, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in HEADER:
        shown.add_column(name, no_wrap=True)
    for row in rows:
        missed = row.target is not None and row.value > row.target
        shown.add_row(*cells(row), style="bold red" if missed else None)
    return shown


def markdown(rows: Sequence[Row]) -> str:
    """The tables of docs/speed.md."""
    lines = []
    for section in dict.fromkeys(row.section for row in rows):
        lines += [f"| {section} | " + " | ".join(HEADER[1:]) + " |", "|" + "---|" * len(HEADER)]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in rows if row.section == section] + [""]
    return "\n".join(lines)


def record(rows: Sequence[Row], options: Options) -> dict[str, Any]:
    machine = {"processor": platform.machine(), "threads": options.threads, "torch": torch.__version__}
    return {"machine": machine, "rounds": options.rounds, "rows": [row._asdict() for row in rows]}


def rows_of(path: Path) -> list[Row]:
    """The figures of a record."""
    return [Row(**row) for row in json.loads(path.read_text())["rows"]]


if __name__ == "__main__":
    sys.exit(main())
