"""Every number in FINDINGS.md is that of its record."""

import re
from pathlib import Path

import numpy as np
import pytest

from pyroclaw.experiments import records

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FINDINGS = (EXPERIMENTS / "FINDINGS.md").read_text()
ROWS = re.findall(r"^\| (split_\w+|cifar100) \| (\S+) \| ([\d.]+) \| ([\d.]+) \|$", FINDINGS, re.MULTILINE)


def test_there_are_rows_to_check():
    assert len(ROWS) > 30


@pytest.mark.parametrize(("bench", "setting", "average", "when_learned"), sorted(set(ROWS)))
def test_a_row_is_that_of_its_record(bench, setting, average, when_learned):
    kind = EXPERIMENTS / "results" / "tuning" / bench / (setting if "/" in setting else f"claw/{setting}")
    (folder,) = kind.parent.glob(f"{kind.name}-????????")
    found = records.read(folder)
    accuracy, config = records.summarise(found)["validation_accuracy"], found[0]["config"]
    assert average == f"{100 * np.mean(accuracy[-1]):.2f}"
    assert when_learned == f"{100 * np.mean([np.mean(row[-1]) for row in accuracy]):.2f}"
    later = kind.parent.name in ("claw_consolidated", "claw_noise")
    seeds = range({"cifar100": 1, "split_notmnist": 4 if later else 2}.get(bench, 2))
    assert config["stand_in"] is False and [record["seed"] for record in found] == list(seeds)
    for name, value in re.findall(r"(beta|lam|warm|lr_film|lr|gamma)-(tied|-?[\d.]+)", setting.replace("lr_a", "")):
        assert str(config["settings"][name]) == value
