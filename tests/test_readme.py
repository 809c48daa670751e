"""What the README says is so: its map of the code, its example, its numbers."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = re.findall(r"\| \[(\S+):(\d+)\]\((\S+)#L(\d+)\) \| `(.+?)` \|", README)
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


def test_numbers_of_the_table_are_those_of_the_records():
    (row,) = re.findall(r"^\| CLAW \|(.*)\|$", README, re.MULTILINE)
    for bench, cell in zip(BENCHMARKS, row.split("|"), strict=False):
        (record,) = (ROOT / "experiments" / "results" / bench / "claw").glob("*/results.json")
        results = json.loads(record.read_text())
        final = 100 * np.mean(results["test_accuracy"][-1], axis=0)
        assert results["stand_in"] is False and len(final) == 10
        assert cell.strip() == f"{final.mean():.2f} ± {final.std(ddof=1) / 10**0.5:.2f}"
