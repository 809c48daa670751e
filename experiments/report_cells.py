"""Tables of a report, as HTML and as Markdown, whose numbers link to the records they were computed from."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote


@dataclass(frozen=True)
class Cell:
    """A text, the folder of records behind it, and what stands beside it in small print; a number unless `words`."""

    text: str
    record: Path | None = None
    bold: bool = False
    beside: str = ""
    words: bool = False


MISSING = Cell("–")
SENTENCE = 20  # letters; less is a number in brackets
Row = Sequence[Cell]  # the first names the row


@dataclass(frozen=True)
class Table:
    """Rows under the names of their groups; a single group may have none."""

    name: str
    caption: str
    columns: Sequence[str]
    groups: Sequence[tuple[str, Sequence[Row]]]

    def __bool__(self) -> bool:
        return any(rows for _, rows in self.groups)


def link(record: Path, base: Path) -> str:
    """Address of a record for a page in the folder `base`."""
    return quote(Path(os.path.relpath(record.resolve(), base.resolve())).as_posix()) + "/"


def html_table(table: Table, base: Path) -> str:
    """The table in a container of its own, which scrolls where the page is too narrow for it."""
    kinds = [
        _kind(cell) for cell in next((rows[0] for _, rows in table.groups if rows), [MISSING] * len(table.columns))
    ]
    named = zip(kinds, table.columns, strict=True)
    head = "".join(f'<th scope="col"{kind}>{escape(column)}</th>' for kind, column in named)
    lines = [
        f'<p class="caption" id="{table.name}">{escape(table.caption)}</p>',  # outside, so that it never scrolls
        f'<div class="scroll" role="region" aria-labelledby="{table.name}" tabindex="0">',
        f'<table aria-labelledby="{table.name}">',
        f"<thead><tr>{head}</tr></thead>",
    ]
    for title, rows in table.groups:
        lines.append("<tbody>")
        if title:
            width = len(table.columns)
            lines.append(f'<tr class="group"><th scope="rowgroup" colspan="{width}">{escape(title)}</th></tr>')
        for first, *others in rows:
            cells = "".join(f"<td{_kind(cell)}>{_html(cell, base)}</td>" for cell in others)
            lines.append(f'<tr><th scope="row">{_html(first, base)}</th>{cells}</tr>')
        lines.append("</tbody>")
    return "\n".join([*lines, "</table></div>"])


def _kind(cell: Cell) -> str:
    """Numbers stay on one line, at the right; words may be broken."""
    return ' class="words"' if cell.words else ""


def _html(cell: Cell, base: Path) -> str:
    text = escape(cell.text)
    if cell.record:
        text = f'<a href="{escape(link(cell.record, base))}">{text}</a>'
    if cell.bold:
        text = f"<strong>{text}</strong>"
    kind = ' class="note"' if len(cell.beside) > SENTENCE else ""
    return text + (f" <small{kind}>{escape(cell.beside)}</small>" if cell.beside else "")


def markdown_table(table: Table, base: Path) -> str:
    """The same table; groups become rows with a name only."""
    width = len(table.columns)
    lines = [_line(table.columns), _line(["---"] + ["---:"] * (width - 1))]
    for title, rows in table.groups:
        if title:
            lines.append(_line([f"*{title}*"] + [""] * (width - 1)))
        lines += [_line([_markdown(cell, base) for cell in row]) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(cell: Cell, base: Path) -> str:
    text = cell.text.replace("|", r"\|")
    if cell.bold:
        text = f"**{text}**"
    if cell.record:
        text = f"[{text}]({link(cell.record, base)})"
    return text + (f" *{cell.beside}*" if cell.beside else "")
