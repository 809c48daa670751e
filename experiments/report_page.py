"""The page of a report: one HTML file that needs nothing else, for screens of any width, print and screen readers."""

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from pyroclaw.experiments import paper
from pyroclaw.experiments import report_figures as figures
from pyroclaw.experiments import report_measures as measures
from pyroclaw.experiments import report_settings as changes
from pyroclaw.experiments import report_tables as tables
from pyroclaw.experiments.report_cells import Cell, Table, html_table, markdown_table
from pyroclaw.experiments.report_records import Bench, Setting, ordered, shown

STYLE = Path(__file__).parent / "report.css"
TITLE = "Continual learning with adaptive weights: results"
NONE = "<p>Not measured yet.</p>"
REDUCED = (
    '<p>Not measured yet with the paper’s protocol; other runs are in <a href="#reduced">a table of their own</a>.</p>'
)
BOUNDED = (
    "The floor is fine-tuning, whose line may leave the frame (arrow); the ceilings are independent nets and joint "
    "training. "
)
LOWEST = "The line of tied γ may leave the frame (arrow). "
KEY = (
    f"The numbers are those at the end, with that of repetitions in square brackets where they are not "
    f"{paper.REPETITIONS}. Points stand a little apart, so that no bar hides another."
)
INTRODUCTION = (
    "Every number is computed from the records it links to, and none is copied by hand. “Paper” is Adel, Zhao & Turner "
    "(ICLR 2020). The ceiling is the same net trained on each task alone, which has nothing to remember; transfer "
    "between tasks could lift a method above it."
)


def page(benches: Sequence[Bench], base: Path, chosen: Table) -> str:
    """The whole page; links are relative to the folder `base`.

    :param chosen: how settings were chosen.
    """
    sections = {
        "Headline": _headline(benches, base),
        **{figures.FIGURES[name].title: _figure(benches, name, base) for name in ("average", "retention", "transfer")},
        "Ablations": _figure(benches, "ablations", base) + _table(changes.ablations(benches), base, ""),
        "Table 1: accuracy after the last two tasks": _table(tables.last_two(benches), base),
        "Table 2: run time": _table(tables.run_time(benches), base),
        "Other protocols": _table(changes.reduced(benches), base, "<p>All runs have the paper's protocol.</p>"),
        "Forgetting and transfer": _table(measures.forgetting(benches), base) + _matrices(benches, base),
        "Calibration": _table(measures.calibration(benches), base) + _calibration(benches, base),
        "Parameters and memory": _table(measures.memory(benches), base),
        "Other settings": _table(changes.others(benches), base, "<p>None.</p>"),
        "Settings": _table(settings(benches), base) + _table(chosen, base, ""),
        "Data and protocol": _table(data(benches), base),
        "Versions": _table(versions(benches), base),
    }
    contents = "".join(f'<li><a href="#part-{n}">{escape(title)}</a></li>' for n, title in enumerate(sections, 1))
    body = "\n".join(
        f'<section aria-labelledby="part-{n}">\n<h2 id="part-{n}">{escape(title)}</h2>\n{content}\n</section>'
        for n, (title, content) in enumerate(sections.items(), 1)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(TITLE)}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
<h1>{escape(TITLE)}</h1>
<p>{escape(INTRODUCTION)}</p>
<nav aria-label="Contents"><ol>{contents}</ol></nav>
{body}
</main>
</body>
</html>
"""


def markdown(benches: Sequence[Bench], base: Path, chosen: Table) -> str:
    """The tables and the lines about the ceiling, for a README in the folder `base`."""
    measured = [bench for bench in benches if bench.main]
    parts = [_markdown(tables.overview(benches), base)] if measured else []
    parts += ["\n".join(f"- {bench.title}: {tables.above_ceiling(bench)}" for bench in measured)] if measured else []
    others = (
        changes.ablations,
        tables.last_two,
        tables.run_time,
        changes.reduced,
        measures.forgetting,
        measures.calibration,
        measures.memory,
        changes.others,
    )
    parts += [_markdown(table, base) for table in (*(make(benches) for make in others), chosen) if table]
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table, base: Path) -> str:
    return f"{table.caption}\n\n{markdown_table(table, base)}"


def _table(table: Table, base: Path, without: str = NONE) -> str:
    return html_table(table, base) if table else without


def _details(summary: str, made: Sequence[Table], base: Path) -> str:
    """Tables that are opened by those who want them."""
    content = "\n".join(html_table(table, base) for table in made)
    return f"<details>\n<summary>{escape(summary)}</summary>\n{content}\n</details>"


def _matrices(benches: Sequence[Bench], base: Path) -> str:
    return "\n".join(
        _details(f"Accuracy matrices: {bench.title}", [measures.matrices(bench)], base)
        for bench in benches
        if bench.main
    )


def _calibration(benches: Sequence[Bench], base: Path) -> str:
    """Over time: pictures of the ECE, and all measures as tables."""
    parts = [_figure(benches, name, base) for name in ("calibration", "calibration-samples")]
    for bench in benches:
        if any(one.summary["calibration"] for one in bench.main.values()):
            parts.append(_details(f"All measures: {bench.title}", measures.calibration_over_time(bench), base))
    return "\n".join(parts)


def _headline(benches: Sequence[Bench], base: Path) -> str:
    parts = [html_table(tables.overview(benches), base)] if any(bench.main for bench in benches) else []
    for bench in benches:
        parts.append(f"<h3>{escape(bench.title)}</h3>")
        if bench.stand_in:
            parts.append('<p class="loud">Stand-in data: not the data set that the paper used.</p>')
        parts.append(html_table(tables.headline(bench), base) if bench.main else REDUCED if bench.reduced else NONE)
        if bench.main:
            parts.append(f"<p>{escape(tables.above_ceiling(bench))}</p>")
        changed = [
            f"{shown(name)} ({', '.join(names)})" for name, one in bench.main.items() if (names := one.outdated())
        ]
        if changed:
            line = (
                f"Settings that the preset has changed since: {', '.join(changed)}. The rows are of those from before."
            )
            parts.append(f'<p class="loud">{escape(line)}</p>')
        if bench.unfinished:
            items = "".join(f"<li>{escape(line)}</li>" for line in bench.unfinished)
            parts.append(f"<p>Not finished, and not counted:</p><ul>{items}</ul>")
    return "\n".join(parts)


def _figure(benches: Sequence[Bench], figure: str, base: Path) -> str:
    """A picture and its numbers for each benchmark that has lines, and a list of those without."""
    parts, without = [], []
    for bench in benches:
        lines = figures.curves(bench, figure)
        if not lines:
            without.append(bench.title)
            continue
        source = base64.b64encode(figures.draw(bench, figure, lines).encode()).decode()
        text = escape(figures.describe(bench, figure, lines))
        picture = f'<img alt="{text}" src="data:image/svg+xml;base64,{source}">'
        parts.append(f"<figure>{picture}{_details('Numbers', [measures.numbers(bench, figure, lines)], base)}</figure>")
    key = (LOWEST if figure == "ablations" else BOUNDED) + KEY
    caption = f"{figures.FIGURES[figure].about}: mean and standard error over repetitions. {key}"
    drawn = f'<p class="caption">{escape(caption)}</p>\n<div class="figures">{"".join(parts)}</div>\n'
    missing = f"<p>Not measured yet: {escape(', '.join(without))}.</p>" if without else ""
    return (drawn if parts else "") + missing


def settings(benches: Sequence[Bench]) -> Table:
    """Settings of each method, and the benchmarks they were used on."""
    used: dict[tuple[str, str], list[tuple[str, Setting]]] = {}
    for bench in benches:
        for method in bench.main:
            values = ", ".join(f"{key} = {value}" for key, value in bench.main[method].config["settings"].items())
            used.setdefault((method, values), []).append((bench.title, bench.main[method]))
    order = ordered(method for method, _ in used)
    rows = [
        [
            Cell(shown(method)),
            Cell(", ".join(title for title, _ in places), words=True),
            Cell(values, places[0][1].folder, words=True),
        ]
        for (method, values), places in sorted(used.items(), key=lambda item: order.index(item[0][0]))
    ]
    return Table("settings", "Settings of each method's rows above.", ["method", "on", "settings"], [("", rows)])


def data(benches: Sequence[Bench]) -> Table:
    """What each benchmark is made of."""
    rows = []
    for bench in benches:
        for one in bench.everything()[:1]:
            config = one.config
            texts = (
                "STAND-IN" if bench.stand_in else "real",
                f"{config['data_source']} ({config['data']})",
                _net(config["net"]),
                f"{config['heads']} head{'s' * (config['heads'] == 'multi')}",
                f"{config['epochs']:g} epochs of batches of {config['batch_size']}"
                + (f"; so far only: {one.protocol}" if one.protocol else ""),
            )
            rows.append([Cell(bench.title), *(Cell(text, words=True) for text in texts)])
    caption = "Data as the runs found them, with a hash of their content, and what the protocol fixes."
    return Table("data", caption, ["benchmark", "data", "source", "net", "heads", "training"], [("", rows)])


def _net(net: dict[str, Any]) -> str:
    if net["kind"] == "mlp":
        return f"MLP, hidden {'-'.join(map(str, net['hidden']))}"
    return f"CNN, {net['blocks']} blocks, {net['filters']} filters"


def versions(benches: Sequence[Bench]) -> Table:
    """What ran them."""
    found: dict[str, list[Setting]] = {}
    for bench in benches:
        for setting in bench.everything():
            for environment in setting.summary["environments"]:
                found.setdefault(environment, []).append(setting)
    rows = []
    for environment, places in sorted(found.items()):
        ran = json.loads(environment)
        packages = ", ".join(f"{name} {number}" for name, number in ran["versions"].items())
        texts = f"Python {ran['python']}, {packages}", ran["machine"], f"{len(places)} settings, such as"
        example = f"{places[0].config['bench']}/{places[0].method}/{places[0].folder.name}"
        words = [Cell(text, words=True) for text in texts]
        rows.append([Cell(ran["commit"] or "not recorded"), *words, Cell(example, places[0].folder, words=True)])
    columns = ["commit", "versions", "machine", "records", "example"]
    return Table("versions", "Versions, commits and machines of the records.", columns, [("", rows)])
