"""Comparing methods: what is on record is not run again, and bold means significant."""

import io

import numpy as np
import pytest
from rich.console import Console

from pyroclaw.experiments import compare, job


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
    assert compare.main(arguments(data_dir, tmp_path, "--methods")) == 2
    assert "--methods names none" in capsys.readouterr().err


def test_what_is_to_be_run_is_said_before_it_is(data_dir, tmp_path, capsys):
    call = [word for word in arguments(data_dir, tmp_path, "--replicates", "2") if word != "--quiet"]
    assert compare.main([*call, "--methods", "finetune"]) == 0
    capsys.readouterr()
    assert compare.main([*call, "--methods", "finetune", "vcl"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines[2:5]] == [
        "finetune: 2 on record",
        "vcl: 2 of 2 to run",
        "vcl learns",
    ]


def test_one_repetition_has_no_error_and_all_tasks_are_no_reduced_run(data_dir, tmp_path, ran, capsys):
    call = arguments(data_dir, tmp_path, "--methods", "finetune", "--replicates", "1")
    assert compare.main(call) == 0
    table = capsys.readouterr().out
    assert "±" not in next(line for line in table.splitlines() if line.startswith("finetune"))
    assert compare.main([*call, "--tasks", "5"]) == 0
    assert capsys.readouterr().out == table and len(ran) == 1
    assert compare.main([*call, "--tasks", "4"]) == 0
    assert "first 4 tasks" in " ".join(capsys.readouterr().out.split()) and len(ran) == 1


def summary(accuracy, **changes):
    """Of three repetitions of two tasks."""
    noise = np.array([0.0, 0.001, 0.002])
    rows = [[(accuracy + noise).tolist()] * (t + 1) for t in range(2)]
    fixed = {"protocol": "split_mnist", "stand_in": False, "seeds": [0, 1, 2], "test_accuracy": rows, "calibration": {}}
    sizes = {"stored_bytes": [[10, 20]], "parameters": [[5, 5]], "train_seconds": [[1.0, 1.0]], "summary": [[{}]]}
    return fixed | sizes | changes


def printed(table):
    """Rows of the table by their first word, where there is neither colour nor bold."""
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    return {line.split()[0]: line.split() for line in console.file.getvalue().splitlines() if line.split()}


def test_the_best_is_starred_where_there_is_no_bold():
    found = {"claw": summary(0.9), "vcl": summary(0.8), "independent": summary(0.99)}
    rows = printed(compare.table(found, "split_mnist"))
    assert rows["claw"][1:4] == ["99.1±0.2", "90.10±0.06*", "99.10"]
    assert rows["vcl"][2] == "80.10±0.06" and rows["independent"][2] == "99.10±0.06"  # ceilings do not compete


def test_a_stand_in_has_no_figure_of_the_paper():
    rows = printed(compare.table({"claw": summary(0.9, stand_in=True)}, "split_digits"))
    assert rows["claw"][1] == "–"
