"""Very many tasks: what grows is what a task keeps, and nothing else."""

import numpy as np
import pytest

from pyroclaw.experiments import soak


@pytest.fixture(scope="module")
def claw(tmp_path_factory):
    return soak.soak("claw", 200, 20, tmp_path_factory.mktemp("soak"))


def test_after_200_tasks_all_has_grown_as_the_stored_parameters_do(claw):
    """A task keeps p, a and s of 14 units and a head of 7 × 2 means and log-variances: 280 bytes."""
    assert [one.tasks for one in claw] == list(range(20, 201, 20))
    stored = soak.growth(claw, "stored")
    assert stored == pytest.approx(4 * (3 * 14 + 2 * 7 * 2))
    assert soak.growth(claw, "tensors") < 2.5 * stored  # besides them the ELBO trace
    assert soak.growth(claw, "checkpoint") < stored + 1500  # besides them the names of six tensors in JSON, twice


def test_the_growth_is_a_straight_line(claw):
    for name in ("stored", "checkpoint", "tensors"):
        values = np.array([getattr(one, name) for one in claw], float)
        line = np.polyval(np.polyfit([one.tasks for one in claw], values, 1), [one.tasks for one in claw])
        assert np.abs(values - line).max() < 0.02 * values[-1], name


def test_the_slopes_are_told(capsys):
    assert soak.main(["--method", "finetune", "--tasks", "4", "--every", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("more a task") == 5 and "checkpoint" in shown


@pytest.mark.parametrize(("wrong", "sentence"), [(["--method", "clav"], "did you mean"), (["--tasks", "5"], "--every")])
def test_bad_input_is_one_sentence(wrong, sentence, capsys):
    assert soak.main(wrong) == 2
    assert sentence in (error := capsys.readouterr().err) and error.count("\n") == 1
