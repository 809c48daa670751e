"""What the README says is so: its map of the code, its example, its numbers."""

import re
from pathlib import Path

import numpy as np
import pytest

from pyroclaw.experiments import paper, records
from pyroclaw.experiments.report_records import BENCHMARKS, NAMES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = re.findall(r"\| \[(\S+):(\d+)\]\((\S+)#L(\d+)\) \| `(.+?)` \|", README)
TABLE = README.partition("<!-- made by experiments/report.py -->")[2].partition("<!-- end -->")[0]


@pytest.mark.parametrize(("file", "line", "link", "anchor", "code"), MAP)
def test_the_map_points_at_the_lines_it_names(file, line, link, anchor, code):
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = [number for number, text in enumerate(lines, 1) if code in text]
    assert (link, anchor) == (file, line)
    assert found == [int(line)]


def test_the_map_covers_every_equation_of_the_model():
    assert len(MAP) >= 15
    equations = re.findall(r"^\| (\(.*?) \|", README, re.MULTILINE)
    assert {"(3)", "(4)", "(5)", "(6)", "(7)", "(8)", "(9) to (12)", "(13)", "(14)"} <= set(equations)


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYROCLAW_DATA", str(tmp_path))  # nothing there: the embedded digits are used
    (example,) = re.findall(r"## In ten lines\n\n```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "8/9 tensor([" in shown


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([\w./-]+)(?:#\w+)?\)", README):
        assert (ROOT / target).exists(), target


def cells():
    """(method, benchmark, cell) of every cell of the results table, by the names that records have."""
    methods, benches = ({title: name for name, title in names.items()} for names in (NAMES, BENCHMARKS))
    head, _, *rows = (line.strip("| ").split(" | ") for line in TABLE.strip().splitlines())
    for title, *row in rows:
        yield from ((methods[title], benches[bench], cell) for bench, cell in zip(head[1:], row, strict=True))


@pytest.mark.parametrize(("method", "bench", "cell"), list(cells()))
def test_numbers_of_the_table_are_those_of_the_records_and_of_the_paper(method, bench, cell):
    """If they are not: python experiments/report.py --into README.md."""
    made = (ROOT / "experiments" / "results" / bench / method).glob("*")
    named = {re.sub(r"-[^-]+$", "", folder.name): folder for folder in made}
    # a joint run that waited for its last task ends as the default does, and stands for it where there is none
    usual = re.compile("default" if "default" in named else r"first-\d+")
    folders = [folder for name, folder in named.items() if usual.fullmatch(name)]
    reported = paper.accuracy(bench, method)
    beside = f"({reported[0]})" if reported else ""
    if not folders:
        assert cell == " ".join(["–", *([f"*{beside}*"] if beside else [])])
        return
    (folder,) = folders
    found = records.read(folder)
    results, note = records.summarise(found), found[0]["summary"][-1].get("note", "")
    final = 100 * np.mean(results["test_accuracy"][-1], axis=0)
    assert results["stand_in"] is False
    number = f"{final.mean():.2f}" + (f" ± {final.std(ddof=1) / len(final) ** 0.5:.2f}" if len(final) > 1 else "")
    small = " ".join(part for part in ("" if len(final) == 10 else f"[{len(final)}]", beside, note) if part)
    shown = f"[{number}]({folder.relative_to(ROOT).as_posix()}/)" + (f" *{small}*" if small else "")
    assert cell.replace("**", "") == shown


def test_the_table_has_every_measured_method():
    results = ROOT / "experiments" / "results"
    measured = {folder.parent.name for bench in BENCHMARKS for folder in results.glob(f"{bench}/*/default-*")}
    assert measured == {method for method, _, _ in cells()} and len(measured) >= 8
