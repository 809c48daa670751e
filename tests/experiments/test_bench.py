"""The benchmark: its bare-torch step is the same mathematics, and the documented figures are those of a record."""

import json
from pathlib import Path

import pytest
import torch

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.experiments import bench, bench_growth, bench_methods, bench_precision
from pyroclaw.experiments.bench_bare import bare_losses
from pyroclaw.experiments.bench_step import begun
from pyroclaw.experiments.bench_timing import interleaved, ratio, slope, some_tasks
from pyroclaw.handlers import LocalReparameterisation
from pyroclaw.inference.elbo import AnalyticELBO
from pyroclaw.precision import lower
from pyroclaw.streams import Streams

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("index", [0, 1], ids=["log-scale prior", "Kronecker prior"])
@pytest.mark.parametrize("replicates", [1, 3])
def test_the_bare_step_has_the_loss_and_gradients_of_the_pyro_step(replicates, index):
    claw, task = begun(some_tasks(2, 200, NetPreset("mlp", hidden=(9, 7)), (12,)), replicates, index)
    trained = [one.requires_grad_() for group in claw.phases()[-1].groups for one in group["params"]]
    x, y = task.train.batch(torch.arange(32).expand(replicates, -1))
    with LocalReparameterisation(Streams(range(replicates), "noise")):
        pyro_losses = AnalyticELBO().replicate_losses(claw.model, claw.guide, x, y)
    bare = bare_losses(claw, x, y, Streams(range(replicates), "noise"))
    torch.testing.assert_close(bare, pyro_losses)
    for own, expected in zip(*(torch.autograd.grad(one.sum(), trained) for one in (bare, pyro_losses)), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-3, atol=1e-6)


def test_a_ratio_is_that_of_rounds_and_its_interval_covers_it():
    value, low, high = ratio([2.0, 4.4, 8.0], [1.0, 2.0, 4.0])
    assert low < value < high and value == pytest.approx(2.2 ** (1 / 3) * 2 ** (2 / 3))
    assert ratio([6.0, 3.0], [2.0, 1.0]) == pytest.approx((3.0, 3.0, 3.0))


def test_a_slope_is_that_of_a_line():
    assert slope([1.0, 2.0, 3.0], [3.0, 5.0, 7.0]) == pytest.approx((2.0, 2.0, 2.0))


def test_all_take_turns_and_the_first_round_is_not_counted():
    order = []
    seconds = interleaved({name: lambda name=name: order.append(name) for name in "ab"}, rounds=2)
    assert order == list("ababab") and all(len(own) == 2 for own in seconds.values())


def test_methods_stand_beside_the_papers_ratio():
    rows = bench_methods.method_rows(2, ["claw", "finetune"], examples=100, epochs=1)
    step, claw, finetune = rows
    assert step.target == 1.05 and claw.paper == pytest.approx(667 / 682) and finetune.paper is None


def test_storage_grows_by_the_documented_constant(monkeypatch):
    monkeypatch.setattr(bench_growth, "REPLICATES", (1, 2, 3))
    monkeypatch.setattr(bench_growth, "WIDTHS", (4, 8, 16))
    stored, *_, of_replicates, _, _ = bench_growth.growth_rows(2, tasks=8, every=2)
    assert stored.value == pytest.approx(1.0)
    assert of_replicates.value == pytest.approx(1.0)


def test_precisions_are_compared_on_steps_that_really_have_them(monkeypatch):
    seen = []
    monkeypatch.setattr(bench_precision, "CNN", NetPreset("cnn", filters=4, blocks=2))
    monkeypatch.setattr(bench_precision, "fit", lambda *_: seen.append(lower()))
    rows = bench_precision.precision_rows(2, examples=60)
    assert seen == [torch.bfloat16, None] * 6  # two methods, and rounds of two after one that is not counted
    assert [row.section for row in rows] == ["precision"] * 2 and all(row.value > 0 for row in rows)


def test_a_section_is_shown_and_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(bench.SECTIONS, "plate", lambda rounds: [bench.Row("plate", "ten over one", 5.5, 5.0, 6.1)])
    assert bench.main(["--only", "plate", "--out", str(tmp_path / "bench.json")]) == 0
    assert "5.5×" in capsys.readouterr().out
    assert json.loads((tmp_path / "bench.json").read_text())["rows"][0]["value"] == 5.5
    assert bench.rows_of(tmp_path / "bench.json")[0].name == "ten over one"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [(["--only", "stepp"], "did you mean step"), (["--rounds", "1"], "--rounds 1"), (["--out", "no/b.json"], "create")],
)
def test_wrong_options_are_one_sentence(wrong, sentence, capsys):
    assert bench.main(wrong) == 2
    assert sentence in capsys.readouterr().err


def test_the_documented_figures_are_those_of_the_record():
    rows = bench.rows_of(ROOT / "experiments" / "results" / "bench.json")
    assert {row.section for row in rows} == set(bench.SECTIONS)
    assert bench.markdown(rows) in (ROOT / "docs" / "speed.md").read_text()
