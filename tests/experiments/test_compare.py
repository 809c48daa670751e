"""Comparing methods: what is on record is not run again, and bold means significant."""

import numpy as np
import pytest

from pyroclaw.experiments import compare, job
from pyroclaw.experiments.compare import significantly_best


@pytest.fixture
def ran(monkeypatch):
    """The seeds that were really run, by method."""
    seen = []
    original = job.Job.run

    def run(self, seeds, *args):
        seen.append((self.results.config["method"], list(seeds)))
        return original(self, seeds, *args)

    monkeypatch.setattr(job.Job, "run", run)
    return seen


def arguments(data_dir, out, *more):
    fixed = ["--bench", "split_notmnist", "--data-dir", str(data_dir), "--out", str(out), "--epochs", "2", "--quiet"]
    return [*fixed, "--samples", "0", *more]


def test_only_what_is_missing_is_run(data_dir, tmp_path, ran, capsys):
    call = arguments(data_dir, tmp_path, "--methods", "finetune", "vcl")
    assert compare.main([*call, "--replicates", "2"]) == 0
    first = capsys.readouterr().out
    assert ran == [("finetune", [0, 1]), ("vcl", [0, 1])]
    assert compare.main([*call, "--replicates", "3"]) == 0
    assert ran[2:] == [("finetune", [2]), ("vcl", [2])]
    capsys.readouterr()
    assert compare.main([*call, "--replicates", "2"]) == 0
    assert len(ran) == 4 and capsys.readouterr().out == first  # the table is made of records alone
    assert "92.1±0.3" in first and "ceiling" in first
    assert "; 2 epochs" in " ".join(first.split()) and "paper: all of its protocol, not 2 epochs" in " ".join(
        first.split()
    )


def test_records_of_another_budget_or_without_transfer_are_not_taken(data_dir, tmp_path, ran):
    call = ("--methods", "finetune", "--replicates", "1")
    assert compare.main(arguments(data_dir, tmp_path, *call)) == 0
    assert compare.main(arguments(data_dir, tmp_path, *call, "--batch-size", "8")) == 0
    assert compare.main(arguments(data_dir, tmp_path, *call, "--transfer")) == 0
    assert len(ran) == 3


def test_an_unfinished_record_is_run_again(data_dir, tmp_path, ran):
    call = arguments(data_dir, tmp_path, "--methods", "finetune", "--replicates", "1")
    assert compare.main(call) == 0
    (record,) = tmp_path.rglob("results.json")
    record.rename(record.with_name("unfinished.json"))
    content = record.with_name("unfinished.json").read_text()
    record.with_name("unfinished.json").write_text(content.replace('"tasks_finished": 5', '"tasks_finished": 4'))
    assert compare.main(call) == 0
    assert len(ran) == 2 and record.exists()


def test_bad_input_is_one_sentence(data_dir, tmp_path, capsys):
    assert compare.main(arguments(data_dir, tmp_path, "--methods", "clav")) == 2
    error = capsys.readouterr().err
    assert "did you mean claw" in error and error.count("\n") == 1


def test_the_best_must_beat_each_rival_seed_by_seed():
    noise = np.linspace(-0.05, 0.05, 10)
    ours = 0.9 + noise
    assert significantly_best({"a": ours, "b": ours - 0.01 + 0.001 * np.cos(np.arange(10))}) == "a"
    assert significantly_best({"a": ours, "b": ours[::-1] - 0.001}) is None  # higher on average, not by seed
    assert significantly_best({"a": ours, "b": ours - 0.01, "c": ours[::-1] - 0.001}) is None
    assert significantly_best({"a": ours, "b": ours - 0.01}) == "a"  # always by the same amount
    assert significantly_best({"a": ours, "b": ours}) is None
    assert significantly_best({"a": ours}) is None and significantly_best({"a": [0.9], "b": [0.1]}) is None


def test_a_false_bold_is_as_rare_as_its_level():
    """Two methods that are equally good: with the better one tested one-sidedly, 2 × 5 % of bold are expected."""
    generator = np.random.default_rng(0)
    bold = [
        significantly_best({"a": generator.normal(size=10), "b": generator.normal(size=10)}) is not None
        for _ in range(2000)
    ]
    error = (0.1 * 0.9 / 2000) ** 0.5
    assert abs(np.mean(bold) - 0.1) < 4 * error
