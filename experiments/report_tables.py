"""The tables of a report: accuracy, its ceiling, run time, calibration, memory, and what changes of a setting do."""

from collections.abc import Callable, Sequence

import numpy as np

from pyroclaw import metrics
from pyroclaw.experiments import paper
from pyroclaw.experiments.compare import BOUNDS, CEILING, LEVEL
from pyroclaw.experiments.report_cells import MISSING, Cell, Row, Table
from pyroclaw.experiments.report_records import Bench, Setting, mean_and_error, shown

BOLD = f"Bold: above every other method measured, by a paired t-test, p = {LEVEL}; floor and ceilings do not count."
REMARKS = {"split_notmnist": ["The paper's notMNIST is a larger set of images, so this comparison is a rough one."]}
MEASURES = {"ece": ("ECE (%)", 100, 2), "nll": ("NLL", 1, 4), "brier": ("Brier", 1, 4)}


def overview(benches: Sequence[Bench]) -> Table:
    """Method by benchmark: ours, and the paper's beside it."""
    measured = [bench for bench in benches if bench.main]
    methods = list(dict.fromkeys(name for bench in measured for name in bench.methods()))
    best = {bench.title: bench.best() for bench in measured}
    rows = []
    for method in [name for name in methods if name not in BOUNDS] + [name for name in methods if name in BOUNDS]:
        row = [Cell(shown(method))]
        for bench in measured:
            setting, figure = bench.main.get(method), bench.reported(method)
            ours, count = _ours(setting, best[bench.title] == method), len(setting.summary["seeds"]) if setting else 0
            fewer = [f"[{count}]"] if 0 < count < paper.REPETITIONS else []
            figures = [f"({figure[0]})"] if figure else []
            row.append(Cell(ours.text, ours.record, ours.bold, " ".join([*fewer, *figures, ours.beside]).strip()))
        rows.append(row)
    caption = (
        f"Average test accuracy over all tasks after the last one, %, mean ± standard error of {paper.REPETITIONS} "
        f"repetitions, or as many as stand in square brackets; in round ones the paper's figure. {BOLD}"
    )
    return Table("overview", caption, ["method", *(bench.title for bench in measured)], [("", rows)])


def headline(bench: Bench) -> Table:
    """Paper, ours and ceiling side by side."""
    best, ceiling = bench.best(), _ours(bench.main.get(CEILING))
    rows = [
        [
            Cell(shown(name)),
            _reported(bench.reported(name)),
            _ours(bench.main.get(name), name == best),
            ceiling,
            Cell(str(len(bench.main[name].summary["seeds"])) if name in bench.main else "–"),
        ]
        for name in bench.methods()
    ]
    caption = f"{bench.title}: average test accuracy over all tasks after the last one, %; bold as above."
    columns = ["method", "paper", "ours", "ceiling (independent)", "repetitions"]
    return Table(f"headline-{_slug(bench.title)}", caption, columns, [("", rows)])


def above_ceiling(bench: Bench) -> str:
    """Which figures of the paper its own net does not reach even if nothing has to be remembered."""
    if bench.stand_in:
        return f"These data stand in for others ({_source(bench)}): the paper has no figures for them."
    if CEILING not in bench.main:
        return "The ceiling is not measured yet."
    mean = 100 * bench.main[CEILING].summary["average_accuracy"]["mean"]
    figures = [(name, bench.reported(name)) for name in bench.methods()]
    above = [f"{shown(name)} {figure[0]}" for name, figure in figures if figure and figure[0] > mean]
    ceiling = f"the ceiling of its own net, {_ours(bench.main[CEILING]).text} (each task trained alone)"
    return " ".join(
        [f"Figures of the paper above {ceiling}: {', '.join(above) or 'none'}.", *REMARKS.get(bench.protocol, [])]
    )


def last_two(benches: Sequence[Bench]) -> Table:
    """The paper's table 1."""

    def row(bench: Bench, name: str) -> Row:
        setting = bench.main.get(name)
        averages = metrics.average_accuracy(setting.matrix()) if setting else np.zeros((0, 0))
        before = None if bench.stand_in else paper.accuracy_before_last(bench.protocol, name)
        earlier = Cell(mean_and_error(averages[-2], 100), setting.folder) if setting and len(averages) > 1 else MISSING
        return [_reported(before), earlier, _reported(bench.reported(name)), _ours(setting)]

    columns = ["method", "paper, last task but one", "ours", "paper, last task", "ours"]
    caption = "Average test accuracy after the last two tasks, %, mean ± standard error over repetitions."
    return _grouped("table-1", caption, columns, benches, row)


def run_time(benches: Sequence[Bench]) -> Table:
    """The paper's table 2, as ratios."""

    def row(bench: Bench, name: str) -> Row:
        setting, vcl = bench.main.get(name), bench.main.get("vcl")
        theirs, base = (None if bench.stand_in else paper.seconds(bench.protocol, each) for each in (name, "vcl"))
        return [
            Cell(f"{theirs / base:.2f}") if theirs and base else MISSING,
            Cell(f"{setting.seconds / vcl.seconds:.2f}", setting.folder) if setting and vcl else MISSING,
            Cell(f"{theirs:.0f}") if theirs else MISSING,
            Cell(f"{setting.seconds:.0f}", setting.folder) if setting else MISSING,
        ]

    columns = ["method", "paper, ratio to VCL", "ours, ratio to VCL", "paper, seconds", "ours, seconds"]
    caption = (
        "Training time of all tasks, of one repetition. Seconds depend on the machine and its load, and repetitions "
        "that share a plate share its time; ratios to VCL depend on them less, if both ran under the same load."
    )
    return _grouped("table-2", caption, columns, benches, row)


def calibration(benches: Sequence[Bench]) -> Table:
    """How good probabilities are at the end; benchmarks and methods without any record of it are left out."""
    found = [one.summary["calibration"] for bench in benches for one in bench.main.values()]
    predictions = list(dict.fromkeys(prediction for each in found for prediction in each))

    def row(bench: Bench, name: str) -> Row:
        setting = bench.main.get(name)
        measured = setting.summary["calibration"] if setting else {}
        if not measured or not setting:
            return []
        return [
            Cell(mean_and_error(np.mean(measured[prediction][measure][-1], axis=0), scale, digits), setting.folder)
            if prediction in measured
            else MISSING
            for prediction in predictions
            for measure, (_, scale, digits) in MEASURES.items()
        ]

    columns = [f"{title}, {prediction}" for prediction in predictions for title, _, _ in MEASURES.values()]
    caption = (
        "Calibration on the test parts of all tasks at the end, mean ± standard error over repetitions; 0 is best."
    )
    return _grouped("calibration", caption, ["method", *columns], benches, row)


def memory(benches: Sequence[Bench]) -> Table:
    """What must be kept, to answer and to go on learning."""

    def row(bench: Bench, name: str) -> Row:
        setting = bench.main.get(name)
        if setting is None:
            return []
        parameters = np.mean([each[-1] for each in setting.summary["parameters"]])
        stored = np.mean(setting.summary["stored_bytes"], axis=0) / 1e3
        more = f"{(stored[-1] - stored[0]) / (len(stored) - 1):,.1f}" if len(stored) > 1 else "–"
        texts = f"{parameters:,.0f}", f"{stored[-1]:,.0f}", f"{stored[-1] / len(stored):,.0f}", more
        return [Cell(text, setting.folder) for text in texts]

    columns = ["method", "parameters", "stored (kB)", "stored a task (kB)", "more with each task (kB)"]
    caption = (
        "Parameters: numbers that answer all tasks at the end. Stored: these and what is kept to go on learning "
        "(anchors, coresets, old data). Of one repetition, mean over repetitions."
    )
    return _grouped("memory", caption, columns, benches, row)


def ablations(benches: Sequence[Bench]) -> Table:
    """Other settings of a method beside its own."""
    groups = [(bench.title, [_ablation(bench, setting) for setting in bench.others]) for bench in benches]
    columns = ["method and setting", "average accuracy (%)", "difference to the default", "repetitions"]
    caption = (
        "Settings that differ from a method's own in what their name says; the difference is over the seeds that both "
        "have, mean ± standard error."
    )
    return Table("ablations", caption, columns, [group for group in groups if group[1]])


def _ablation(bench: Bench, setting: Setting) -> Row:
    usual = bench.main.get(setting.method)
    mine, theirs = setting.by_seed(), usual.by_seed() if usual else {}
    shared = sorted(mine.keys() & theirs.keys())
    difference = mean_and_error([mine[seed] - theirs[seed] for seed in shared], 100) if shared else "–"
    return [
        Cell(f"{shown(setting.method)}: {setting.name}"),
        _ours(setting),
        Cell(difference, setting.folder if shared else None),
        Cell(str(len(mine))),
    ]


def _grouped(
    name: str, caption: str, columns: Sequence[str], benches: Sequence[Bench], row: Callable[[Bench, str], Row]
) -> Table:
    """A table with a group for each measured benchmark and a row for each method that `row` has cells for."""
    groups = []
    for bench in benches:
        rows = [[Cell(shown(method)), *cells] for method in bench.methods() if (cells := row(bench, method))]
        if bench.main and rows:
            groups.append((bench.title, rows))
    return Table(name, caption, columns, groups)


def _ours(setting: Setting | None, bold: bool = False) -> Cell:
    if setting is None:
        return MISSING
    return Cell(mean_and_error(list(setting.by_seed().values()), 100), setting.folder, bold, setting.note)


def _reported(figure: tuple[float, float] | None) -> Cell:
    return Cell(f"{figure[0]} ± {figure[1]}") if figure else MISSING


def _source(bench: Bench) -> str:
    return next(setting.config["data_source"] for setting in (*bench.main.values(), *bench.others))


def _slug(title: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in title.lower()).strip("-")
