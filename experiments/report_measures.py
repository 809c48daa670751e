"""The tables of a report that the paper has not: forgetting, transfer, calibration, memory, and numbers over time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pyroclaw import metrics
from pyroclaw.experiments import report_figures as figures
from pyroclaw.experiments.report_cells import MISSING, Cell, Row, Table
from pyroclaw.experiments.report_records import Bench, Setting, shown
from pyroclaw.experiments.report_tables import grouped, slug
from pyroclaw.experiments.significance import mean_and_error

MEASURES = {"ece": ("ECE (%)", 100, 2), "nll": ("NLL", 1, 4), "brier": ("Brier", 1, 4)}
FEWER = " In square brackets the number of repetitions, where it was measured on some only."
Rows = Sequence[Sequence[Sequence[float]]]  # [after task t][on task k ≤ t][repetition]


def forgetting(benches: Sequence[Bench]) -> Table:
    """What later tasks did to earlier ones, and earlier ones to the last."""

    def row(bench: Bench, name: str) -> Row:
        setting = bench.main.get(name)
        if setting is None:
            return []
        matrix, transfer = setting.matrix(), figures.transfer(setting)
        kept = metrics.forgetting(matrix), metrics.backward_transfer(matrix), metrics.retention(matrix)[-1]
        cells = [Cell(mean_and_error(values, 100), setting.folder) for values in kept]
        if transfer is None:
            return [*cells, MISSING, MISSING]
        gained = transfer[-1], transfer[-1] - transfer[0]
        return [*cells, *(Cell(mean_and_error(v, 100), setting.folder, beside=_fewer(v, setting)) for v in gained)]

    columns = [
        "method",
        "forgetting",
        "backward transfer",
        "task 1 at the end",
        "last task, after all others",
        "more than alone (forward transfer)",
    ]
    caption = (
        "Points of test accuracy, mean ± standard error over repetitions. Forgetting: lost since a task's best, mean "
        "of all but the last; backward transfer: gained since it was learned; forward transfer: what the others before "
        "it add to the last task, every k of it in figure 3."
    )
    return _noted(grouped("forgetting", caption, columns, benches, row))


def calibration(benches: Sequence[Bench]) -> Table:
    """How good probabilities are at the end; benchmarks and methods without any record of it are left out."""
    found = [one.summary["calibration"] for bench in benches for one in bench.main.values()]
    predictions = list(dict.fromkeys(prediction for each in found for prediction in each))

    def cell(setting: Setting, prediction: str, measure: str) -> Cell:
        _, scale, digits = MEASURES[measure]
        values = np.mean(setting.summary["calibration"][prediction][measure][-1], axis=0)
        return Cell(mean_and_error(values, scale, digits), setting.folder, beside=_fewer(values, setting))

    def row(bench: Bench, name: str) -> Row:
        setting = bench.main.get(name)
        if not setting or not (measured := setting.summary["calibration"]):
            return []
        pairs = [(prediction, measure) for prediction in predictions for measure in MEASURES]
        return [cell(setting, *pair) if pair[0] in measured else MISSING for pair in pairs]

    columns = [f"{title}, {prediction}" for prediction in predictions for title, _, _ in MEASURES.values()]
    caption = (
        "Calibration on the test parts of all tasks at the end, mean ± standard error over repetitions; 0 is best. "
        "Predictions are those of the mean weights, or averaged over samples of the posterior."
    )
    return _noted(grouped("calibration", caption, ["method", *columns], benches, row))


def calibration_over_time(bench: Bench) -> list[Table]:
    """All measures after each task, and of each task at the end."""
    return [
        _calibration(bench, "after", "average over the tasks so far, after each number of tasks", _so_far),
        _calibration(bench, "each", "of each task, after the last one", _at_the_end),
    ]


def _so_far(rows: Rows) -> list[NDArray]:
    return [np.mean(row, axis=0) for row in rows]


def _at_the_end(rows: Rows) -> list[NDArray]:
    return [np.array(row) for row in rows[-1]]


def _calibration(bench: Bench, name: str, what: str, pick: Callable[[Rows], list[NDArray]]) -> Table:
    groups = []
    for prediction in dict.fromkeys(key for one in bench.main.values() for key in one.summary["calibration"]):
        settings = {
            method: bench.main[method]
            for method in bench.methods()
            if method in bench.main and prediction in bench.main[method].summary["calibration"]
        }
        for measure, (title, scale, digits) in MEASURES.items():
            lines = {m: pick(one.summary["calibration"][prediction][measure]) for m, one in settings.items()}
            groups.append((f"{title}, {prediction}", _rows(settings, lines, scale, digits)))
    caption = f"{bench.title}: calibration {what}; mean over repetitions, 0 is best."
    return Table(f"calibration-{name}-{slug(bench.title)}", caption, _tasks(groups), groups)


def numbers(bench: Bench, figure: str, lines: Mapping[str, NDArray]) -> Table:
    """The numbers that a figure shows."""
    settings = figures.shown_in(bench, figure)
    rows = [
        [
            Cell(
                shown(name),
                settings[name].folder,
                beside=f"{_fewer(values[0], settings[name])} {settings[name].note}".strip(),
            ),
            *(Cell(mean_and_error(value, 100)) for value in values),
        ]
        for name, values in lines.items()
    ]
    drawn = figures.FIGURES[figure]
    caption = f"{bench.title}: {drawn.quantity} over {drawn.over}, mean ± standard error over repetitions."
    groups = [("", _filled(rows))]
    return _noted(Table(f"numbers-{figure}-{slug(bench.title)}", caption, _tasks(groups), groups))


def matrices(bench: Bench) -> Table:
    """The accuracy matrix of each method."""
    groups = []
    for method in [name for name in bench.methods() if name in bench.main]:
        setting = bench.main[method]
        means = 100 * np.mean(setting.matrix(), axis=2)
        rows = [
            [
                Cell(f"after task {t + 1}", setting.folder),
                *(Cell(mean_and_error([value], digits=1)) for value in row[: t + 1]),
            ]
            for t, row in enumerate(means)
        ]
        groups.append((shown(method), rows))
    filled = [(title, _filled(rows, max(len(rows) for _, rows in groups) + 1)) for title, rows in groups]
    caption = f"{bench.title}: test accuracy (%) on each task, after each; mean over repetitions."
    return Table(f"matrix-{slug(bench.title)}", caption, _tasks(filled, "method, on task"), filled)


def memory(benches: Sequence[Bench]) -> Table:
    """What must be kept, to answer and to go on learning, and what it takes to learn."""

    def row(bench: Bench, name: str) -> Row:
        setting = bench.main.get(name)
        if setting is None:
            return []
        parameters = np.mean(setting.summary["parameters"], axis=0)
        stored = np.mean(setting.summary["stored_bytes"], axis=0) / 1e3
        texts = [f"{parameters[-1]:,.0f}", _growth(parameters, 0), f"{stored[-1]:,.0f}"]
        texts += [f"{stored[-1] / len(stored):,.0f}", _growth(stored, 1), f"{setting.summary['peak_memory_mb']:,.0f}"]
        return [Cell(text, setting.folder) for text in texts]

    columns = [
        "method",
        "parameters",
        "more with each task",
        "stored (kB)",
        "stored a task (kB)",
        "more with each task (kB)",
        "peak memory (MB)",
    ]
    caption = (
        "Parameters: numbers that answer all tasks at the end. Stored: these and what is kept to go on learning "
        "(anchors, coresets, old data). Both of one repetition, mean over repetitions. Peak memory: of the process "
        "that trained, with its data and with all repetitions that shared a plate."
    )
    return grouped("memory", caption, columns, benches, row)


def _growth(values: NDArray, digits: int) -> str:
    return f"{(values[-1] - values[0]) / (len(values) - 1):,.{digits}f}" if len(values) > 1 else "–"


def _fewer(values: Sequence[float] | NDArray, setting: Setting) -> str:
    """How many repetitions, where not all were measured."""
    return f"[{len(values)}]" if len(values) < len(setting.summary["seeds"]) else ""


def _noted(table: Table) -> Table:
    """With the meaning of square brackets, where there are any."""
    bracketed = any(cell.beside.startswith("[") for _, rows in table.groups for row in rows for cell in row)
    return replace(table, caption=table.caption + FEWER) if bracketed else table


def _rows(
    settings: Mapping[str, Setting], lines: Mapping[str, Sequence[NDArray]], scale: float, digits: int
) -> list[Row]:
    """Means over repetitions; the method's name links to the records."""
    return _filled(
        [
            [
                Cell(shown(name), settings[name].folder),
                *(Cell(mean_and_error([np.mean(v)], scale, digits)) for v in values),
            ]
            for name, values in lines.items()
        ]
    )


def _filled(rows: Sequence[Row], width: int = 0) -> list[Row]:
    """Rows of the same length."""
    width = max([width, *(len(row) for row in rows)])
    return [[*row, *[Cell("")] * (width - len(row))] for row in rows]


def _tasks(groups: Sequence[tuple[str, Sequence[Row]]], first: str = "method") -> list[str]:
    width = max((len(row) for _, rows in groups for row in rows), default=1)
    return [first, *(str(t) for t in range(1, width))]
