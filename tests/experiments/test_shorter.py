"""The first tasks of a run are the run of so many, for every method, so that it need not be made."""

import numpy as np
import pytest

from pyroclaw.experiments import compare, job, report, run
from pyroclaw.experiments.records import read
from pyroclaw.experiments.report_records import collect
from pyroclaw.experiments.shorter import begins_with, cut
from pyroclaw.models import METHODS

MEASURED = ("train_seconds", "peak_memory_mb")


def arguments(data_dir, out, *more):
    fixed = ["--bench", "split_notmnist", "--data-dir", str(data_dir), "--out", str(out), "--epochs", "1", "--quiet"]
    return [*fixed, "--replicates", "1", "--samples", "0", *more]


def learn(data_dir, out, method, *more):
    assert run.main([*arguments(data_dir, out, *more), "--method", method]) == 0
    (folder,) = {path.parent.parent for path in out.rglob("results.json")}
    return read(folder)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_of_fewer_tasks_is_the_beginning_of_a_longer_one(method, data_dir, tmp_path):
    more = ("--set", "trials=2") if method == "rcl" else ()
    (longer,) = learn(data_dir, tmp_path / "longer", method, *more, "--tasks", "3")
    (made,) = learn(data_dir, tmp_path / "made", method, *more, "--tasks", "2")
    assert begins_with(longer["config"], made["config"])
    found = cut(longer, 2)
    assert len(found["train_seconds"]) == 2
    assert {name: value for name, value in found.items() if name not in MEASURED} == {
        name: value for name, value in made.items() if name not in MEASURED
    }


@pytest.mark.parametrize("changed", [{"epochs": 2.0}, {"settings": {"lr": 0.1}}, {"data": "9"}, {"tasks": 2}])
def test_a_run_that_differs_or_is_not_longer_is_another(changed, data_dir, tmp_path):
    (record,) = learn(data_dir, tmp_path, "finetune", "--tasks", "3")
    wanted = {**record["config"], "tasks": 2}
    assert begins_with(record["config"], wanted)
    whole = {name: value for name, value in record["config"].items() if name != "tasks"}
    assert begins_with(whole, wanted) and not begins_with(whole, whole)
    assert not begins_with({**record["config"], **changed}, wanted)


def test_compare_runs_only_what_no_longer_run_has(data_dir, tmp_path, monkeypatch, capsys):
    call = [*arguments(data_dir, tmp_path), "--methods", "finetune", "ewc"]
    assert compare.main(call) == 0
    monkeypatch.setattr(job.Job, "run", lambda *_: pytest.fail("it is on record"))
    assert compare.main([*call, "--tasks", "2"]) == 0
    assert "first 2 tasks" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(pytest.fail.Exception, match="on record"):  # a longer run has not the transfer of a shorter one
        compare.main([*call, "--tasks", "2", "--transfer"])


def test_the_report_has_them_beside_shorter_runs(data_dir, tmp_path):
    out = tmp_path / "records"
    (whole,) = learn(data_dir, out, "ewc", "--epochs", "10")
    (folder,) = {path.parent.parent for path in out.rglob("results.json")}
    assert run.main([*arguments(data_dir, out, "--epochs", "10", "--tasks", "2")]) == 0
    pages = tmp_path / "report.html", tmp_path / "report.md"
    assert report.main(["--results", str(out), "--out", str(pages[0]), "--markdown", str(pages[1])]) == 0
    after = f"{100 * sum(whole['test_accuracy'][1]) / 2:.2f}"
    table = pages[1].read_text().partition("first 2 tasks")[2].partition("\n\n")[0]
    (row,) = [line for line in table.splitlines() if line.startswith("| EWC")]
    assert after in row and f"/ewc/{folder.name}/" in row and "| CLAW |" in table


def test_the_report_joins_them_to_other_repetitions_of_so_many_tasks(data_dir, tmp_path):
    out = tmp_path / "records"
    learn(data_dir, out, "ewc", "--epochs", "10")
    for seed in ("1", "2"):
        call = arguments(data_dir, out, "--epochs", "10", "--tasks", "2", "--seed", seed)
        assert run.main([*call, "--method", "ewc"]) == 0
    assert (
        run.main([*arguments(data_dir, out, "--epochs", "10", "--tasks", "2"), "--method", "vcl", "--set", "lr=0.01"])
        == 0
    )
    (bench,) = [one for one in collect(out) if one.reduced]
    ((protocol, group),) = bench.reduced.items()
    joined, other = sorted(group, key=lambda one: one.method)
    assert protocol == "first 2 tasks" and joined.summary["seeds"] == [0, 1, 2] and other.summary["seeds"] == [0]
    whole, *made = [record for folder in sorted(out.glob("*/ewc/*")) for record in read(folder)]
    expected = {whole["seed"]: np.mean(whole["test_accuracy"][1])}
    expected |= {record["seed"]: np.mean(record["test_accuracy"][-1]) for record in made}
    assert joined.by_seed() == pytest.approx(expected)


def test_joint_training_that_had_not_begun_then_is_not_beside_them(data_dir, tmp_path):
    out = tmp_path / "records"
    learn(data_dir, out, "joint", "--epochs", "10", "--set", "first=3")
    assert run.main([*arguments(data_dir, out, "--epochs", "10", "--tasks", "2")]) == 0
    pages = tmp_path / "report.html", tmp_path / "report.md"
    assert report.main(["--results", str(out), "--out", str(pages[0]), "--markdown", str(pages[1])]) == 0
    table = pages[1].read_text().partition("first 2 tasks")[2].partition("\n\n")[0]
    assert "| CLAW |" in table and "| joint" not in table
