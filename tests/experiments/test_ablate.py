"""Ablations: all of them by one command, what is on record is not run again, and each is tested against CLAW."""

import dataclasses

import numpy as np
import pytest

from pyroclaw.experiments import ablate, job
from pyroclaw.experiments.records import read, summarise
from pyroclaw.experiments.significance import by_seed, paired
from pyroclaw.models import METHODS


@pytest.fixture
def ran(monkeypatch):
    """The settings that were really run, and their seeds."""
    seen = []
    original = job.Job.run

    def run(self, seeds, *args):
        seen.append((self.settings, list(seeds)))
        return original(self, seeds, *args)

    monkeypatch.setattr(job.Job, "run", run)
    return seen


def arguments(data_dir, out, *more):
    fixed = ["--bench", "split_notmnist", "--data-dir", str(data_dir), "--out", str(out), "--epochs", "1", "--quiet"]
    return [*fixed, "--samples", "0", "--tasks", "2", *more]


def test_all_are_run_once_and_differ_from_claw_in_one_setting(data_dir, tmp_path, ran, capsys):
    call = arguments(data_dir, tmp_path, "--replicates", "2")
    assert ablate.main(call) == 0
    usual, *others = [dataclasses.asdict(settings) for settings, _ in ran]
    assert usual == dataclasses.asdict(METHODS["claw"].settings())
    differ = [[f"{key}-{one[key]}" for key in one if one[key] != usual[key]] for one in others]
    assert differ == [[name] for name in ablate.ABLATIONS]  # as their records are named
    first = capsys.readouterr().out
    assert ablate.main(call) == 0 and len(ran) == len(others) + 1
    assert capsys.readouterr().out == first  # from records alone
    assert ablate.main([*call, "--changes", "gamma=tied", "--seed", "1"]) == 0
    assert [seeds for _, seeds in ran[len(others) + 1 :]] == [[2], [2]]


def test_the_table_says_what_the_records_say(data_dir, tmp_path, capsys):
    assert ablate.main(arguments(data_dir, tmp_path, "--replicates", "3", "--changes", "gamma=tied", "--transfer")) == 0
    lines = capsys.readouterr().out.splitlines()
    folders = {folder.name.rpartition("-")[0]: folder for folder in (tmp_path / "split_notmnist/claw").iterdir()}
    usual, tied = (summarise(read(folders[name])) for name in ("epochs-1.0_tasks-2", "gamma-tied_epochs-1.0_tasks-2"))
    differences, p = paired(by_seed(tied), by_seed(usual))
    row = next(line for line in lines if line.startswith("tied γ")).split()
    gained = 100 * np.mean(np.subtract(tied["forward_transfer"][-1], tied["forward_transfer"][0]))
    assert row[2].startswith(f"{100 * tied['average_accuracy']['mean']:.2f}±")
    assert row[3].startswith(f"{100 * differences.mean():.2f}±") and row[4] == f"{p:.3f}"
    assert row[6].startswith(f"{gained:.2f}±")
    assert "first 2 tasks, 1 epoch" in " ".join(lines)


@pytest.mark.parametrize(
    ("changes", "says"),
    [(["gamma=tide"], "did you mean gamma=tied"), (["gamma"], "unknown change"), ([], "names none")],
)
def test_bad_input_is_one_sentence(data_dir, tmp_path, capsys, changes, says):
    assert ablate.main(arguments(data_dir, tmp_path, "--changes", *changes)) == 2
    error = capsys.readouterr().err
    assert error.startswith("ablate: ") and says in error and error.count("\n") == 1
