"""The report says how settings were chosen: by how many trials, on which budget, or not at all."""

import json
from pathlib import Path

import pytest

from pyroclaw.errors import InputError
from pyroclaw.experiments import report
from pyroclaw.experiments.missing import RESULTS
from pyroclaw.experiments.report_records import Bench, Setting, collect, shown
from pyroclaw.experiments.report_tuning import UNEQUAL, tuning

WHOLE = {"tasks": 20, "epochs": 15.0, "batch_size": 256, "reduced": ""}


def bench(**lams):
    """A benchmark with a row for each method, by what its λ is."""
    config = {"bench": "cifar100", "data": "0123"}
    main = {
        name: Setting(name, "default", Path(name), config | {"settings": {"lam": lam}}, {}, 1.0)
        for name, lam in lams.items()
    }
    return Bench("CIFAR-100", "cifar100", main=main)


def study(results, method, values, budget=WHOLE, benches=("cifar100",)):
    """A search whose trial k has λ = k."""
    folder = results / "studies" / "+".join(benches) / f"{method}-01234567"
    folder.mkdir(parents=True)
    trials = [{"number": k, "value": value, "settings": {"lam": float(k)}} for k, value in enumerate(values)]
    content = {"method": method, "space": {"lam": {}}, "seeds": {one: [0, 1] for one in benches}, "trials": trials}
    content |= {"best": max(trials, key=lambda one: one["value"])["number"]}
    content |= {"budget": {one: budget for one in benches}} if budget else {}
    (folder / "study.json").write_text(json.dumps(content))


def texts(table):
    return {title: [[cell.text for cell in row] for row in rows] for title, rows in table.groups}


def test_trials_budget_and_what_is_used_are_said(tmp_path):
    study(tmp_path, "vcl", [0.5, 0.7, 0.6])
    study(tmp_path, "ewc", [0.7, 0.5, 0.6], benches=("cifar100", "omniglot"))
    study(tmp_path, "ltg", [0.5, 0.6, 0.7])
    study(tmp_path / "tuning", "pnc", [0.5, 0.6, 0.7])
    rows = texts(tuning([bench(vcl=1.0, ewc=0.0, ltg=0.0, pnc=9.0, claw=1.0, joint=1.0)], tmp_path))["CIFAR-100"]
    counted = ["3", "whole protocol", "2"]
    assert sorted(rows) == sorted(
        [
            ["VCL", *counted, "the best was trial 1, 70.00 %; trial 0 had 50.00 %; used: the best"],
            ["EWC", *counted, "none was better than trial 0, 70.00 %; used: the best"],
            ["LTG", *counted, "the best was trial 2, 70.00 %; trial 0 had 50.00 %; used: trial 0"],
            [
                "P&C",
                *counted,
                "the best was trial 2, 70.00 %; trial 0 had 50.00 %; used: another setting",
            ],
            ["all others", "0", "–", "–", "not searched here: CLAW, joint (ceiling)"],
        ]
    )


@pytest.mark.parametrize(
    ("values", "budget"), [([0.5, 0.6], WHOLE), ([0.5, 0.6, 0.7], WHOLE | {"reduced": "first 5 tasks"})]
)
def test_an_unequal_search_is_called_so(tmp_path, values, budget):
    study(tmp_path, "vcl", [0.5, 0.7, 0.6])
    study(tmp_path, "ewc", values, budget)
    ((title, rows),) = texts(tuning([bench(vcl=1.0, ewc=0.0)], tmp_path)).items()
    assert title == f"CIFAR-100 ({UNEQUAL})"
    assert rows[1][2] == (budget["reduced"] or "whole protocol")


def test_methods_with_shorter_runs_only_are_in_the_table(tmp_path):
    study(tmp_path, "vcl", [0.5, 0.7])
    study(tmp_path, "ltg", [0.5, 0.7])
    one = bench(vcl=1.0)
    config = {"bench": "cifar100", "protocol": "cifar100", "data": "0123", "tasks": 5, "settings": {"lam": 1.0}}
    shorter = [Setting("ltg", "tasks-5", Path("ltg"), config, {}, 1.0)]
    changed = Setting("frcl", "lr-0.1_tasks-5", Path("frcl"), config, {}, 1.0)
    one.reduced["first 5 tasks"] = [*shorter, changed]
    rows = texts(tuning([one], tmp_path))["CIFAR-100"]
    assert [row[0] for row in rows] == ["VCL", "LTG"]
    assert all(row[-1].endswith("used: the best") for row in rows)


def test_a_budget_that_is_not_recorded_is_not_made_up(tmp_path):
    study(tmp_path, "vcl", [0.5, 0.7], budget=None)
    assert texts(tuning([bench(vcl=1.0)], tmp_path))["CIFAR-100"][0][2] == "not recorded"


def test_settings_tried_by_hand_are_counted_and_trials_are_not(tmp_path):
    study(tmp_path / "tuning", "claw", [0.5, 0.7, 0.6])
    for lam, more in ((1.0, {}), (8.0, {}), (9.0, {}), (9.0, {"tasks": 2})):
        folder = tmp_path / "tuning" / "cifar100" / "any name" / f"lam-{lam}{more}" / "seed0"
        folder.mkdir(parents=True)
        config = {"bench": "cifar100", "protocol": "cifar100", "method": "claw", "epochs": 15.0, "batch_size": 256}
        (folder / "config.json").write_text(json.dumps(config | {"settings": {"lam": lam}} | more))
    searched, by_hand = texts(tuning([bench(claw=1.0)], tmp_path))["CIFAR-100"]
    assert searched[1] == "3"
    assert by_hand == ["CLAW", "3 by hand", "first 2 tasks; whole protocol", "–", "settings tried one by one"]


def test_nothing_is_said_of_benchmarks_without_a_row(tmp_path):
    study(tmp_path, "vcl", [0.5, 0.7])
    assert not tuning([bench()], tmp_path)


def test_a_broken_study_is_one_sentence(tmp_path, capsys):
    study(tmp_path, "vcl", [0.5])
    (path,) = tmp_path.glob("studies/*/*/study.json")
    path.write_text("{")
    with pytest.raises(InputError):
        tuning([bench(vcl=1.0)], tmp_path)
    assert report.main(["--results", str(tmp_path), "--out", str(tmp_path / "report.html")]) == 2
    error = capsys.readouterr().err
    assert "study.json" in error and "delete it" in error and error.count("\n") == 1


def test_every_method_on_record_is_in_the_table_of_its_benchmark():
    benches = collect(RESULTS)
    for group, one in zip(tuning(benches, RESULTS).groups, [each for each in benches if each.main], strict=True):
        named = " ".join(cell.text for row in group[1] for cell in row)
        assert group[0].startswith(one.title) and all(shown(name) in named for name in one.main)
