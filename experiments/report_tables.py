"""The tables of a report that the paper has too: accuracy, with its ceiling, and run time."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pyroclaw import metrics
from pyroclaw.experiments import paper
from pyroclaw.experiments.compare import BOUNDS, CEILING
from pyroclaw.experiments.report_cells import MISSING, Cell, Row, Table
from pyroclaw.experiments.report_records import Bench, Setting, ordered, shown
from pyroclaw.experiments.significance import LEVEL, mean_and_error

BOLD = f"Bold: above every other method measured, by a paired t-test, p = {LEVEL}; floor and ceilings do not count."
REMARKS = {"split_notmnist": ["The paper's notMNIST is a larger set of images, so this comparison is a rough one."]}


def overview(benches: Sequence[Bench]) -> Table:
    """Method by benchmark: ours, and the paper's beside it."""
    measured = [bench for bench in benches if bench.main]
    methods = ordered(name for bench in measured for name in bench.methods())
    best = {bench.title: bench.best() for bench in measured}
    rows = []
    for method in [name for name in methods if name not in BOUNDS] + [name for name in methods if name in BOUNDS]:
        row = [Cell(shown(method))]
        for bench in measured:
            setting, figure = bench.main.get(method), bench.reported(method)
            mine = ours(setting, best[bench.title] == method)
            beside = (fewer(setting), f"({figure[0]})" if figure else "", mine.beside)
            row.append(Cell(mine.text, mine.record, mine.bold, " ".join(filter(None, beside))))
        rows.append(row)
    caption = (
        f"Average test accuracy over all tasks after the last one, %, mean ± standard error of {paper.REPETITIONS} "
        f"repetitions, or as many as stand in square brackets; in round ones the paper's figure. {BOLD}"
    )
    return Table("overview", caption, ["method", *(bench.title for bench in measured)], [("", rows)])


def headline(bench: Bench) -> Table:
    """Paper, ours and ceiling side by side."""
    best, ceiling = bench.best(), ours(bench.main.get(CEILING))
    rows = [
        [
            Cell(shown(name)),
            _reported(bench.reported(name)),
            ours(bench.main.get(name), name == best),
            ceiling,
            repetitions(bench.main.get(name)),
        ]
        for name in bench.methods()
    ]
    caption = f"{bench.title}: average test accuracy over all tasks after the last one, %; bold as above."
    columns = ["method", "paper", "ours", "ceiling (independent)", "repetitions"]
    return Table(f"headline-{slug(bench.title)}", caption, columns, [("", rows)])


def above_ceiling(bench: Bench) -> str:
    """Which figures of the paper its own net does not reach even if nothing has to be remembered."""
    if bench.stand_in:
        return f"These data stand in for others ({_source(bench)}): the paper has no figures for them."
    if CEILING not in bench.main:
        return "The ceiling is not measured yet."
    mean = 100 * bench.main[CEILING].summary["average_accuracy"]["mean"]
    figures = [(name, bench.reported(name)) for name in bench.methods()]
    above = [f"{shown(name)} {figure[0]}" for name, figure in figures if figure and figure[0] > mean]
    ceiling = f"the ceiling of its own net, {ours(bench.main[CEILING]).text} (each task trained alone)"
    return " ".join(
        [f"Figures of the paper above {ceiling}: {', '.join(above) or 'none'}.", *REMARKS.get(bench.protocol, [])]
    )


def last_two(benches: Sequence[Bench]) -> Table:
    """The paper's table 1."""

    def row(bench: Bench, name: str) -> Row:
        setting = bench.main.get(name)
        averages = metrics.average_accuracy(setting.matrix()) if setting else np.zeros((0, 0))
        before = None if bench.stand_in else paper.accuracy_before_last(bench.protocol, name)
        earlier, last = MISSING, ours(setting)
        if setting and len(averages) > 1:
            earlier = Cell(mean_and_error(averages[-2], 100), setting.folder, beside=fewer(setting))
        last = replace(last, beside=" ".join(filter(None, (fewer(setting), last.beside))))
        return [_reported(before), earlier, _reported(bench.reported(name)), last]

    columns = [
        "method",
        "paper, last task but one",
        "ours, last task but one",
        "paper, last task",
        "ours, last task",
    ]
    caption = (
        f"Average test accuracy after the last two tasks, %, mean ± standard error of {paper.REPETITIONS} repetitions, "
        "or as many as stand in square brackets."
    )
    return grouped("table-1", caption, columns, benches, row)


def run_time(benches: Sequence[Bench]) -> Table:
    """The paper's table 2, as ratios."""

    def timed(setting: Setting, value: float, digits: int) -> Cell:
        return Cell(f"{value:.{digits}f}", setting.folder, beside=setting.note)  # a reduced use takes less time

    def row(bench: Bench, name: str) -> Row:
        setting, vcl = bench.main.get(name), bench.main.get("vcl")
        theirs, base = (None if bench.stand_in else paper.seconds(bench.protocol, each) for each in (name, "vcl"))
        return [
            Cell(f"{theirs / base:.2f}") if theirs and base else MISSING,
            timed(setting, setting.seconds / vcl.seconds, 2) if setting and vcl else MISSING,
            Cell(f"{theirs:.0f}") if theirs else MISSING,
            timed(setting, setting.seconds, 0) if setting else MISSING,
        ]

    columns = ["method", "paper, ratio to VCL", "ours, ratio to VCL", "paper, seconds", "ours, seconds"]
    caption = (
        "Training time of all tasks, of one repetition. Seconds depend on the machine and its load, and repetitions "
        "that share a plate share its time; ratios to VCL depend on them less, if both ran under the same load."
    )
    return grouped("table-2", caption, columns, benches, row)


def grouped(
    name: str, caption: str, columns: Sequence[str], benches: Sequence[Bench], row: Callable[[Bench, str], Row]
) -> Table:
    """A table with a group for each measured benchmark and a row for each method that `row` has cells for."""
    groups = []
    for bench in benches:
        rows = [[Cell(shown(method)), *cells] for method in bench.methods() if (cells := row(bench, method))]
        if bench.main and rows:
            groups.append((bench.title, rows))
    return Table(name, caption, columns, groups)


def ours(setting: Setting | None, bold: bool = False) -> Cell:
    """Average accuracy after the last task."""
    if setting is None:
        return MISSING
    return Cell(mean_and_error(list(setting.by_seed().values()), 100), setting.folder, bold, setting.note)


def fewer(setting: Setting | None) -> str:
    """The number of repetitions, if it is not the paper's."""
    count = len(setting.summary["seeds"]) if setting else paper.REPETITIONS
    return f"[{count}]" if count != paper.REPETITIONS else ""


def repetitions(setting: Setting | None) -> Cell:
    return Cell(str(len(setting.summary["seeds"])), setting.folder) if setting else MISSING


def _reported(figure: tuple[float, float] | None) -> Cell:
    return Cell(f"{figure[0]} ± {figure[1]}") if figure else MISSING


def _source(bench: Bench) -> str:
    return next(setting.config["data_source"] for setting in bench.everything())


def slug(title: str) -> str:
    """A part of an id on the page."""
    return "".join(letter if letter.isalnum() else "-" for letter in title.lower()).strip("-")
