"""Every number in FINDINGS.md is that of its record."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
ROWS = re.findall(
    r"^\| (split_\w+) \| (\S+) \| ([\d.]+) \| ([\d.]+) \|$", (EXPERIMENTS / "FINDINGS.md").read_text(), re.MULTILINE
)


def test_there_are_rows_to_check():
    assert len(ROWS) > 30


@pytest.mark.parametrize(("bench", "setting", "average", "when_learned"), sorted(set(ROWS)))
def test_a_row_is_that_of_its_record(bench, setting, average, when_learned):
    folder = EXPERIMENTS / "results" / "tuning" / bench / (setting if "/" in setting else f"claw/{setting}")
    results, config = (json.loads((folder / f"{name}.json").read_text()) for name in ("results", "config"))
    accuracy = results["validation_accuracy"]
    assert average == f"{100 * np.mean(accuracy[-1]):.2f}"
    assert when_learned == f"{100 * np.mean([np.mean(row[-1]) for row in accuracy]):.2f}"
    assert results["stand_in"] is False and config["seeds"] == [0, 1]
    for part in re.findall(r"(beta|lam|warm|lr|gamma|film_rate)-(tied|-?[\d.]+)", setting.replace("lr_adaptation", "")):
        assert str(config["settings"][part[0].replace("film_rate", "lr_film")]) == part[1]
