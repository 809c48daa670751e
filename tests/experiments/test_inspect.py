"""Looking at a run's posterior; and a script's name that is also a module of the standard library."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pyroclaw.experiments import inspection, posteriors, run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz as az

FOLDER = Path(run.__file__).parent


@pytest.fixture(scope="module")
def runs(data_dir, tmp_path_factory):
    """Folders of a run of CLAW and one of VCL, two repetitions each."""
    out = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posteriors, "EXAMPLES", 60)
        for method in ("claw", "vcl"):
            place = ("--data-dir", str(data_dir), "--out", str(out), "--method", method, "--threads", "1", "--quiet")
            assert run.main([*place, "--replicates", "2", "--epochs", "4", "--batch-size", "16"]) == 0
    return {path.parent.name: path for path in out.glob("split_notmnist/*/*")}


def test_a_run_leaves_the_posterior_of_each_repetition(runs):
    alone = az.from_netcdf(str(runs["claw"] / "seed1" / "posterior.nc"))
    assert alone.posterior.chain.values.tolist() == [1] and alone.posterior.task.values.tolist()[0] == "A/F"
    both = posteriors.read(runs["claw"])
    assert both.posterior.chain.values.tolist() == [0, 1]
    np.testing.assert_array_equal(both.posterior.gain.sel(chain=1), alone.posterior.gain.sel(chain=1))
    assert both.log_likelihood.label.shape[2] == 2 * alone.log_likelihood.label.shape[2] == 2 * 5 * 12


def test_the_probabilities_are_those_that_the_record_is_about(runs):
    """The mean accuracy over the test examples, by arviz's groups and by the record."""
    both = posteriors.read(runs["vcl"])
    right = both.predictions.probability.argmax("class") == both.predictions_constant_data.label
    found = right.groupby("held_out_task").mean().mean("held_out_task")
    for seed in (0, 1):
        record = json.loads((runs["vcl"] / f"seed{seed}" / "results.json").read_text())
        assert float(found.sel(chain=seed)) == pytest.approx(np.mean(record["test_accuracy"][-1]), abs=0.15)


def test_methods_are_compared_on_equal_observations(runs):
    data = {name: posteriors.read(path) for name, path in runs.items()}
    np.testing.assert_array_equal(data["claw"].observed_data.label, data["vcl"].observed_data.label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arviz tells of Pareto k
        table = az.compare(data)
        scores = {name: az.loo(one).elpd_loo for name, one in data.items()}
    assert table.index[0] == max(scores, key=scores.get) and set(table.index) == {"claw", "vcl"}


@pytest.mark.parametrize(("method", "plots"), [("claw", 4), ("vcl", 3)])
def test_the_plots_are_drawn(runs, method, plots, tmp_path, capsys):
    assert inspection.main([str(runs[method]), "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out.split()
    assert len(shown) == plots == len(list(tmp_path.iterdir()))
    for path in shown:
        colours = np.unique(np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3), axis=0)
        assert len(colours) > 20  # not an empty page


def test_a_folder_without_posteriors_is_one_sentence(tmp_path, capsys):
    assert inspection.main([str(tmp_path)]) == 2
    assert str(tmp_path) in (error := capsys.readouterr().err) and error.count("\n") == 1


def test_a_damaged_posterior_is_named(tmp_path, capsys):
    (tmp_path / "seed0").mkdir()
    (tmp_path / "seed0" / "posterior.nc").write_bytes(b"CDF no more")
    assert inspection.main([str(tmp_path)]) == 2
    assert "posterior.nc cannot be read" in (error := capsys.readouterr().err) and error.count("\n") == 1


SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


def test_no_script_hides_the_standard_library():
    """What `import inspect` finds from within their folder, and whether the rest of Python can live on it."""
    code = "import inspect, dataclasses, sys; print(inspect.signature(dataclasses.field).parameters['kw_only'].name)"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "kw_only\n"


@pytest.mark.parametrize("script", ["inspect.py", "run.py"])
def test_scripts_of_the_folder_start(script):
    assert script in SCRIPTS
    done = subprocess.run([sys.executable, str(FOLDER / script), "--help"], capture_output=True, text=True, check=True)
    assert "--out" in done.stdout
