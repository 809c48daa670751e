"""The tables of a report about other settings and other protocols than a method's row has: ablations, reduced runs."""

from collections import Counter
from collections.abc import Sequence

from pyroclaw import metrics
from pyroclaw.experiments.compare import BOUNDS, CEILING
from pyroclaw.experiments.report_cells import MISSING, Cell, Row, Table
from pyroclaw.experiments.report_records import Bench, Setting, shown
from pyroclaw.experiments.report_tables import ours, repetitions
from pyroclaw.experiments.significance import LEVEL, best_by_seed, mean_and_error, paired, probability
from pyroclaw.models import METHODS

COLUMNS = ["average accuracy (%)", "difference to the default", "p", "repetitions"]


def ablations(benches: Sequence[Bench]) -> Table:
    """CLAW without a part, beside CLAW: the paper's ablations and ours."""
    groups = []
    for bench in benches:
        claw, found = bench.main.get("claw"), bench.ablations()
        if found:
            whole = [Cell(shown("claw")), ours(claw), MISSING, MISSING, repetitions(claw)]
            groups.append((bench.title, [whole, *(_change(shown(name), one, claw) for name, one in found.items())]))
    caption = (
        "CLAW without a part of it. The first three are the paper's (its appendix has plots of them and no numbers to "
        "set beside ours); CLAW itself has learned adaptation of all units, inputs too, γ with a mean field of its own "
        "and the exact KL. Differences are over the seeds that both have, mean ± standard error; p is that of a "
        "two-sided paired t-test."
    )
    return Table("ablations", caption, ["setting", *COLUMNS], groups)


def others(benches: Sequence[Bench]) -> Table:
    """Other settings of a method beside its own."""
    groups = []
    for bench in benches:
        known = bench.ablations().values()
        rows = []
        for setting in [one for one in bench.others if one not in known]:
            usual = bench.main.get(setting.method)
            rows.append(_change(f"{shown(setting.method)}: {setting.against(usual)}", setting, usual))
        groups.append((bench.title, rows))
    caption = "Settings that differ from a method's own in what is named; differences and p as above."
    return Table("others", caption, ["method and setting", *COLUMNS], [group for group in groups if group[1]])


def reduced(benches: Sequence[Bench]) -> Table:
    """Methods compared under another protocol than the paper's, such as fewer tasks."""
    groups = [
        (f"{bench.title}: {protocol}", _compared(settings))
        for bench in benches
        for protocol, settings in sorted(bench.reduced.items())
    ]
    caption = (
        "Runs that are not the paper's protocol, by what differs: their figures stand beside each other, not beside "
        "the paper's or those above. Average test accuracy over the tasks learned, %, and forgetting, mean ± standard "
        f"error. Bold: above every other method of the group, by a paired t-test over shared seeds, p = {LEVEL}; floor "
        "and ceilings do not count."
    )
    columns = ["method", "average accuracy (%)", "ceiling (independent)", "forgetting", "repetitions"]
    return Table("reduced", caption, columns, groups)


def _compared(settings: Sequence[Setting]) -> list[Row]:
    """A row for each setting; a method with several competes with its own, the others only show what they change."""
    order = [*METHODS, *sorted({one.method for one in settings})]
    settings = sorted(settings, key=lambda one: (one.method in BOUNDS, order.index(one.method), one.changes))
    count = Counter(one.method for one in settings)
    competing = {
        one.method: one for one in settings if one.method not in BOUNDS and (count[one.method] == 1 or not one.changes)
    }
    best = best_by_seed({name: one.by_seed() for name, one in competing.items()})
    ceiling = ours(next((one for one in settings if one.method == CEILING and not one.changes), None))
    return [
        [
            Cell(shown(one.method) + (f": {shown(one.changes)}" if one.changes else "")),
            ours(one, best == one.method and competing[best] is one),
            ceiling,
            Cell(mean_and_error(metrics.forgetting(one.matrix()), 100), one.folder),
            repetitions(one),
        ]
        for one in settings
    ]


def _change(name: str, setting: Setting, usual: Setting | None) -> Row:
    differences, p = paired(setting.by_seed(), usual.by_seed() if usual else {})
    return [
        Cell(name),
        ours(setting),
        Cell(mean_and_error(differences, 100), setting.folder) if len(differences) else MISSING,
        Cell(probability(p), setting.folder) if p is not None else MISSING,
        repetitions(setting),
    ]
