"""How the settings of a report's rows were chosen: trials of each method on each benchmark, their budget, or none.

RESULTS/[tuning/]studies/BENCHMARK/METHOD-FINGERPRINT/study.json    searches by experiments/tune.py
RESULTS/tuning/BENCHMARK/*/SETTING-FINGERPRINT/seed*                settings that were tried by hand
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyroclaw.errors import InputError
from pyroclaw.experiments import paper
from pyroclaw.experiments.report_cells import MISSING, Cell, Row, Table
from pyroclaw.experiments.report_records import Bench, Setting, ordered, shown

WHOLE = "whole protocol"
UNEQUAL = "not equal: trials, budget or repetitions differ"


class Search(NamedTuple):
    """A study of a method's settings."""

    folder: Path
    study: dict[str, Any]

    def budget(self, bench: str) -> str:
        """What each trial learned, in words; studies from before it was recorded do not say."""
        known = self.study.get("budget", {}).get(bench)
        return "not recorded" if known is None else known["reduced"] or WHOLE

    def kind(self, bench: str) -> tuple[int, str, int]:
        """What has to be equal for all methods of a benchmark."""
        return len(self.study["trials"]), self.budget(bench), len(self.study["seeds"][bench])

    def outcome(self, used: Mapping[str, Any]) -> str:
        """Which of the trials is used, and what the validation parts said."""
        trials, best = self.study["trials"], self.study["best"]
        value, before = (f"{100 * trials[number]['value']:.2f} %" for number in (best, 0))
        if best == 0:
            found = f"none was better than trial 0, {before}"
        else:
            found = f"the best was trial {best}, {value}; trial 0 had {before}"
        matching = [one["number"] for one in trials if all(one["settings"][k] == used[k] for k in self.study["space"])]
        if best in matching:
            return f"{found}; used: the best"
        return f"{found}; used: {f'trial {matching[0]}' if matching else 'another setting'}"


def tuning(benches: Sequence[Bench], results: Path) -> Table:
    """By benchmark: each method that was searched, and the names of the others."""
    searches = _searches(results)
    by_hand = _by_hand(results, searches)
    groups = []
    for bench in [one for one in benches if one.main]:
        name, own = next(iter(bench.main.values())).config["bench"], bench.own_settings()
        here = [one for one in searches if name in one.study["seeds"] and one.study["method"] in own]
        rows = [row for method in ordered(own) for row in _rows(own[method], name, here, by_hand)]
        tried = {one.study["method"] for one in here} | {method for place, method in by_hand if place == name}
        others = [shown(method) for method in ordered(own) if method not in tried]
        if others:
            text = f"not searched here: {', '.join(others)}"
            rows.append([Cell("all others" if rows else "all"), Cell("0"), MISSING, MISSING, Cell(text, words=True)])
        unequal = len({one.kind(name) for one in here}) > 1
        groups.append((f"{bench.title} ({UNEQUAL})" if unequal else bench.title, rows))
    caption = (
        "How settings were chosen, always by validation accuracy. Trials are those of a search in a declared space, of "
        "which number 0 is the setting from before, each with the budget and the repetitions named; where the best is "
        "not used, the benchmark's preset says why. Where a method was not searched, its settings are the published "
        "ones, its defaults, or those found on another benchmark. “By "
        "hand”: settings that were tried one by one and have a record, of however many repetitions."
    )
    return Table("tuning", caption, ["method", "trials", "budget", "repetitions", "outcome"], groups)


def _rows(
    setting: Setting, name: str, here: Sequence[Search], by_hand: Mapping[tuple[str, str], list[dict]]
) -> list[Row]:
    method = setting.method
    rows: list[Row] = []
    for search in [one for one in here if one.study["method"] == method]:
        trials, budget, seeds = search.kind(name)
        outcome = search.outcome(setting.config["settings"])
        rows.append(
            [
                Cell(shown(method)),
                Cell(str(trials), search.folder),
                Cell(budget),
                Cell(str(seeds)),
                Cell(outcome, words=True),
            ]
        )
    if tried := by_hand.get((name, method)):
        budgets = sorted({paper.another_protocol(config) or WHOLE for config in tried})
        text = Cell("settings tried one by one", words=True)
        rows.append([Cell(shown(method)), Cell(f"{len(tried)} by hand"), Cell("; ".join(budgets)), MISSING, text])
    return rows


def _searches(results: Path) -> list[Search]:
    paths = sorted([*results.glob("studies/*/*/study.json"), *results.glob("tuning/studies/*/*/study.json")])
    return [Search(path.parent, _read(path)) for path in paths]


def _by_hand(results: Path, searches: Sequence[Search]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """A configuration for each setting that is no trial of a search, by benchmark and method."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    trials = [
        (bench, one.study["method"], trial["settings"])
        for one in searches
        for bench in one.study["seeds"]
        for trial in one.study["trials"]
    ]
    for folder in sorted({seed.parent for seed in results.glob("tuning/*/*/*/seed*")}):
        config = _read(min(folder.glob("seed*/config.json")))
        if (config["bench"], config["method"], config["settings"]) not in trials:
            found.setdefault((config["bench"], config["method"]), []).append(config)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): delete it") from error
