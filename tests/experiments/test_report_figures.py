"""Figures of the report: each line is in the frame and has its name, and no two methods look alike."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pyroclaw.experiments import report_figures as figures
from pyroclaw.experiments.ablate import ABLATIONS
from pyroclaw.experiments.report_records import NAMES, Bench, Setting
from pyroclaw.experiments.significance import mean_and_error
from pyroclaw.models import METHODS

GENERATOR = np.random.default_rng(0)


def setting(method, final, tasks=3, transfer=None, seeds=4):
    """Accuracies that fall to `final`, with a little noise."""
    rows = [np.linspace(0.99, final, tasks)[t] + GENERATOR.normal(0, 1e-4, (t + 1, seeds)) for t in range(tasks)]
    summary = {
        "test_accuracy": [row.tolist() for row in rows],
        "seeds": list(range(seeds)),
        "forward_transfer": transfer,
        "calibration": {},
    }
    return Setting(method, "default", Path(method), {"data": "0123"}, summary, 1.0)


@pytest.fixture
def bench():
    found = {name: setting(name, 0.95 - 0.0005 * place) for place, name in enumerate(METHODS)}
    return Bench("split MNIST", "split_mnist", main=found | {"finetune": setting("finetune", 0.4)})


def words(svg):
    """Texts and their places from the top."""
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return {"".join(text.itertext()): text for text in found}


def test_every_method_has_a_name_and_a_look_of_its_own():
    assert set(NAMES) == set(METHODS) == set(figures.STYLES)
    assert len(set(figures.STYLES.values())) == len(METHODS)
    assert len({marker for _, _, marker in figures.STYLES.values()}) == len(METHODS)  # also without colours


def test_ablations_have_names_and_looks_of_their_own_beside_claw(bench):
    assert set(ABLATIONS) == set(figures.ABLATION_STYLES)
    looks = {figures.STYLES["claw"], *figures.ABLATION_STYLES.values()}
    assert len(looks) == len({marker for _, _, marker in looks}) == 1 + len(ABLATIONS)
    usual = replace(bench.main["claw"], config={"settings": {"gamma": "mean-field"}})
    tied = replace(usual, name="gamma-tied", config={"settings": {"gamma": "tied"}})
    bench.main["claw"], bench.others = usual, [tied]
    assert list(figures.curves(bench, "ablations")) == ["claw", "gamma-tied"]
    assert "tied γ 95.0 [4]" in words(figures.draw(bench, "ablations", figures.curves(bench, "ablations")))


def test_ablations_are_drawn_over_the_seeds_that_all_have(bench):
    usual = replace(bench.main["claw"], config={"settings": {"gamma": "mean-field"}})
    seeds = usual.summary["seeds"]
    bench.main["claw"] = usual
    fewer = usual.summary | {
        "seeds": seeds[1:],
        "test_accuracy": [[one[1:] for one in row] for row in usual.summary["test_accuracy"]],
    }
    bench.others = [replace(usual, name="gamma-tied", config={"settings": {"gamma": "tied"}}, summary=fewer)]
    lines = figures.curves(bench, "ablations")
    assert lines["claw"].shape[1] == len(seeds) - 1 and np.array_equal(lines["claw"], lines["gamma-tied"])
    bench.others[0].summary["seeds"] = [seed + 100 for seed in seeds[1:]]
    assert not figures.curves(bench, "ablations")


def test_calibration_is_drawn_in_its_own_units(bench):
    ece = [[[0.01, 0.02]], [[0.03, 0.04], [0.05, 0.06]]]
    claw = bench.main["claw"]
    bench.main["claw"] = replace(claw, summary=claw.summary | {"calibration": {"samples": {"ece": ece}}})
    lines = figures.curves(bench, "calibration-samples")
    np.testing.assert_allclose(lines["claw"], [[0.01, 0.02], [0.04, 0.05]])
    texts = words(figures.draw(bench, "calibration-samples", lines))
    assert {"split MNIST: ECE (%), samples", "CLAW 4.5 [2]"} <= set(texts)
    assert figures.curves(bench, "calibration") == {}


def test_all_lines_are_named_with_their_last_value(bench):
    svg = figures.draw(bench, "average", figures.curves(bench, "average"))
    texts = words(svg)
    assert "split MNIST: test accuracy (%)" in texts and "fine-tuning 40.0 [4] ↓" in texts
    assert {"CLAW 95.0 [4]", "P&C 94.7 [4]", "joint 94.4 [4]"} <= set(texts)
    assert svg == figures.draw(bench, "average", figures.curves(bench, "average"))


def test_ten_repetitions_are_not_counted(bench):
    bench.main["claw"] = setting("claw", 0.95, seeds=10)
    assert {"CLAW 95.0", "P&C 94.7 [4]"} <= set(words(figures.draw(bench, "average", figures.curves(bench, "average"))))


def test_names_do_not_overlap(bench, monkeypatch):
    seen = []
    original = figures.Axes.text
    monkeypatch.setattr(
        figures.Axes, "text", lambda self, *args, **kw: seen.append(args) or original(self, *args, **kw)
    )
    figures.draw(bench, "average", figures.curves(bench, "average"))
    heights = sorted(place for _, place, _ in seen)
    assert len(seen) == len(METHODS) and min(np.diff(heights)) > figures.GAP - 1e-9
    assert heights[0] >= 0 and heights[-1] <= 1 + 1e-9


def test_curves_are_the_metrics_and_only_of_what_was_measured(bench):
    claw = bench.main["claw"]
    np.testing.assert_allclose(
        figures.curves(bench, "average")["claw"][1], np.mean(claw.summary["test_accuracy"][1], axis=0)
    )
    np.testing.assert_allclose(figures.curves(bench, "retention")["claw"][2], claw.summary["test_accuracy"][2][0])
    assert figures.curves(bench, "transfer") == {}
    bench.main["claw"] = replace(claw, summary=claw.summary | {"forward_transfer": [[0.5, 0.6], [0.7, 0.8]]})
    assert figures.curves(bench, "transfer")["claw"].tolist() == [[0.5, 0.6], [0.7, 0.8]]
    assert "CLAW 75.0 %" in figures.describe(bench, "transfer", figures.curves(bench, "transfer"))


@pytest.mark.parametrize("method", ["claw", "finetune", "a new one"])
def test_one_method_one_task_and_one_repetition_will_do(method):
    alone = Bench("toy", "toy", main={method: setting(method, 0.9, tasks=1, seeds=1)})
    assert f"{NAMES.get(method, method).partition(' (')[0]} 99.0 [1]" in words(
        figures.draw(alone, "average", figures.curves(alone, "average"))
    )


def test_bold_is_for_the_seeds_that_two_methods_share():
    bench = Bench("toy", "toy", main={"claw": setting("claw", 0.97), "vcl": setting("vcl", 0.9)})
    assert bench.best() == "claw"
    bench.main["independent"] = setting("independent", 0.99)
    assert bench.best() == "claw"  # ceilings do not compete
    bench.main["ewc"] = setting("ewc", 0.8, seeds=1)
    assert bench.best() is None  # one shared seed shows nothing
    bench.main["ewc"] = setting("ewc", 0.8, seeds=3)
    assert bench.best() == "claw"
    apart = setting("ewc", 0.8)
    bench.main["ewc"] = replace(apart, summary=apart.summary | {"seeds": [10, 11, 12, 13]})
    assert bench.best() is None


def test_an_error_needs_two_repetitions():
    assert mean_and_error([0.5, 0.6], 100) == "55.00 ± 5.00" and mean_and_error([0.5]) == "0.50"
