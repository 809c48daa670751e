"""The posterior in arviz's hands: its own functions read it, and find what is known of it."""

import warnings

import numpy as np
import pytest

from pyroclaw import Learner
from pyroclaw.models import METHODS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz as az

FEWER = {"rcl": {"trials": 2, "choices": 3}, "vcl_coreset": {"points": 5}, "claw_coreset": {"points": 5}}
RNG = np.random.default_rng(0)
Y = np.arange(60) % 2
DATA = {name: ((RNG.normal(size=(60, 5)) * 0.7 + np.outer(2 * Y - 1, RNG.normal(size=5))), Y) for name in ("a", "b")}


def learned(method, **more):
    learner = Learner(method, net=(6, 4), batch_size=16, **({"epochs": 10, "settings": FEWER.get(method)} | more))
    for name, data in DATA.items():
        learner.learn(data, name=name)
    return learner


@pytest.fixture(scope="module")
def claw():
    learner = learned("claw", replicates=2, epochs=40)
    return learner, learner.to_arviz(DATA, draws=400, weights=True)


def test_draws_have_the_moments_of_the_posterior(claw):
    """By arviz's summary: α has mean p and variance p(1 - p), the gain 1 + bp; within 5 standard errors."""
    learner, data = claw
    summary = az.summary(data.sel(chain=[0]), var_names=["alpha", "gain"], kind="stats", round_to="none")
    p, b = (getattr(data.constant_data, name).sel(chain=0) for name in ("adaptation_probability", "adaptation"))
    for task in ("a", "b"):
        for unit in (0, 7, 14):
            alpha, gain = summary.loc[f"alpha[{task}, {unit}]"], summary.loc[f"gain[{task}, {unit}]"]
            mean, shift = float(p.sel(task=task)[unit]), float(b.sel(task=task)[unit])
            spread = (mean * (1 - mean)) ** 0.5
            assert alpha["mean"] == pytest.approx(mean, abs=5 * spread / 20 + 1e-5)
            assert alpha["sd"] == pytest.approx(spread, rel=0.25, abs=1e-5)
            assert gain["mean"] == pytest.approx(1 + shift * mean, abs=5 * abs(shift) * spread / 20 + 1e-5)
    assert learner.method.adaptations[1].p.shape == (2, 15)


def test_axes_have_names(claw):
    _, data = claw
    assert data.posterior.gain.dims == ("chain", "draw", "task", "unit")
    assert data.posterior.unit_layer.values.tolist() == ["input"] * 5 + ["hidden_1"] * 6 + ["hidden_2"] * 4
    assert data.posterior.unit_neuron.values.tolist() == [*range(5), *range(6), *range(4)]
    first = data.posterior.gain.where(data.posterior.unit_layer == "hidden_1", drop=True)
    assert first.sizes == {"chain": 2, "draw": 400, "task": 2, "unit": 6}
    assert data.posterior.layer.values.tolist() == ["hidden_1", "hidden_2", "head_1", "head_2"]
    assert az.extract(data, var_names="hidden_1").sizes["hidden_1_neuron"] == 6
    assert list(data.svi.elbo.dims) == ["chain", "task", "step"] and np.isfinite(data.svi.elbo).all()


def test_leave_one_out_finds_the_better_method(claw):
    """A method that was trained against one that was not, by az.loo and az.compare."""
    _, trained = claw
    poor = learned("vcl", epochs=0.5).to_arviz(DATA, draws=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arviz tells of Pareto k
        scores = {name: az.loo(data) for name, data in {"claw": trained, "poor": poor}.items()}
        table = az.compare({"claw": trained, "poor": poor})
    assert table.index[0] == "claw" and table.loc["claw", "rank"] == 0
    assert scores["claw"].elpd_loo > scores["poor"].elpd_loo and scores["claw"].n_data_points == 120
    assert table.loc["claw", "elpd_loo"] == pytest.approx(scores["claw"].elpd_loo)
    lpd = np.log(np.exp(trained.log_likelihood.label).mean(("chain", "draw"))).sum()
    assert scores["claw"].elpd_loo <= float(lpd)  # what was left out is never foreseen better


def test_predictive_draws_agree_with_the_data(claw):
    _, data = claw
    right = (data.posterior_predictive.label == data.observed_data.label).mean()
    by_prior = (data.prior_predictive.label == data.observed_data.label[60:].values).mean()
    assert right > 0.65 > by_prior > 0.35
    expected = np.exp(data.log_likelihood.label).mean()
    assert float(right) == pytest.approx(float(expected), abs=0.02)


def test_it_survives_the_disk(claw, tmp_path):
    _, data = claw
    data.to_netcdf(str(tmp_path / "posterior.nc"))
    again = az.from_netcdf(str(tmp_path / "posterior.nc"))
    assert again.groups() == data.groups()
    np.testing.assert_array_equal(again.posterior.gain, data.posterior.gain)
    assert again.posterior.unit_layer.values.tolist() == data.posterior.unit_layer.values.tolist()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_posterior_to_look_at(name):
    data = learned(name, epochs=2).to_arviz(DATA, draws=20)
    summary = az.summary(data, var_names=["weight_rms"], kind="stats")
    assert (summary["mean"] > 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points have no tail to fit
        assert np.isfinite(az.loo(data).elpd_loo)
    assert data.prior_predictive.label.shape == (1, 20, 60)
    assert set(np.unique(data.posterior_predictive.label)) <= {0, 1}
