"""What the README says is so: its map of the code, its example, its numbers."""

import re
from pathlib import Path

import numpy as np
import pytest

from pyroclaw.experiments import paper, records

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = re.findall(r"\| \[(\S+):(\d+)\]\((\S+)#L(\d+)\) \| `(.+?)` \|", README)
TITLES = {
    "CLAW": "claw",
    "CLAW + coreset": "claw_coreset",
    "VCL": "vcl",
    "VCL + coreset": "vcl_coreset",
    "EWC": "ewc",
    "GVCL-FiLM": "gvcl_film",
    "P&C": "pnc",
    "FRCL": "frcl",
    "RCL": "rcl",
    "LTG": "ltg",
    "fine-tuning (floor)": "finetune",
    "independent nets (ceiling)": "independent",
    "joint training (ceiling)": "joint",
}
BENCHMARKS = ("permuted_mnist", "split_mnist", "split_notmnist", "split_fashion")


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


def rows():
    """(method, benchmark, cell) of every cell of the results table."""
    for title, cells in re.findall(r"^\| ([^|]+?) \|((?: [\d.]+ ± [\d.]+[^|]*\| ?| – \| ?)+)$", README, re.MULTILINE):
        for bench, cell in zip(BENCHMARKS, cells.strip(" |").split("|"), strict=True):
            yield TITLES[title], bench, cell.strip()


@pytest.mark.parametrize(("method", "bench", "cell"), list(rows()))
def test_numbers_of_the_table_are_those_of_the_records_and_of_the_paper(method, bench, cell):
    folders = list((ROOT / "experiments" / "results" / bench / method).glob("default-*"))
    if cell == "–":
        assert folders == []
        return
    (folder,) = folders
    results = records.summarise(records.read(folder))
    final = 100 * np.mean(results["test_accuracy"][-1], axis=0)
    assert results["stand_in"] is False and len(final) >= 3
    fewer = "" if len(final) == 10 else f" [{len(final)}]"
    reported = paper.accuracy(bench, method)
    beside = f" *({reported[0]})*" if reported else ""
    assert cell == f"{final.mean():.2f} ± {final.std(ddof=1) / len(final) ** 0.5:.2f}{fewer}{beside}"


def test_the_table_has_every_measured_method():
    measured = {folder.name for bench in BENCHMARKS for folder in (ROOT / "experiments" / "results" / bench).iterdir()}
    assert measured == {method for method, _, _ in rows()} and len(measured) >= 8
