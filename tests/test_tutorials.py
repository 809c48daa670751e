"""The tutorials run; with few steps, so what they learn is not looked at closely."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"


def run(name, epochs):
    return runpy.run_path(str(FOLDER / f"{name}.py"))["main"](epochs)


def test_own_images(capsys):
    assert min(run("own_images", 10).values()) > 0.8
    assert "least sure of" in capsys.readouterr().out


def test_a_stream_of_tasks():
    rows = run("task_stream", 8)
    assert rows.shape == (5, 2) and (rows[:, 0] > 0.7).all()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_inspecting_the_posterior(capsys):
    assert run("posterior", 2) in ("claw", "vcl")
    shown = capsys.readouterr().out
    assert "gain[spring, hidden_1]" in shown and "elpd_loo" in shown


def test_every_tutorial_is_run():
    names = {path.stem for path in FOLDER.glob("*.py")}
    assert names == {"own_images", "task_stream", "posterior"}
