import pickle

import pyro.distributions as dist
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyro.distributions.testing.gof import auto_goodness_of_fit

from pyroclaw.distributions import VARIANCE_FLOOR, MatchedGaussian, gain_moments, product_moments
from pyroclaw.errors import InputError

FAILURE_RATE = 2e-5
DTYPES = [torch.float32, torch.float64]
SCALES = [None, 0.3]
real = st.floats(-3, 3)
probability = st.floats(0, 1)


def example(dtype=torch.float64, scale=None, requires_grad=False):
    """γ per weight, b and p per neuron, with a leading replicate dimension."""
    gamma = torch.randn(2, 1, 3, 4, dtype=dtype)
    b = torch.rand(2, 1, 1, 4, dtype=dtype) * 2 - 0.9
    p = torch.rand(2, 1, 1, 4, dtype=dtype) * 0.8 + 0.1
    parameters = [gamma, b, p] + ([] if scale is None else [torch.rand_like(gamma) * 0.2 + scale])
    return [x.requires_grad_(requires_grad) for x in parameters]


@given(b=real, p=probability)
def test_gain_moments_are_those_of_the_bernoulli(b, p):
    mean, variance = gain_moments(torch.tensor(b, dtype=torch.float64), torch.tensor(p, dtype=torch.float64))
    expected_mean = (1 - p) * 1 + p * (1 + b)
    expected_variance = (1 - p) * (1 - expected_mean) ** 2 + p * (1 + b - expected_mean) ** 2
    assert mean.item() == pytest.approx(expected_mean, abs=1e-12)
    assert variance.item() == pytest.approx(expected_variance, abs=1e-12)


@given(first=st.tuples(real, probability), second=st.tuples(real, probability))
def test_product_moments(first, second):
    def tensors(moments):
        return tuple(torch.tensor(x, dtype=torch.float64) for x in moments)

    mean, variance = product_moments(tensors(first), tensors(second))
    (m1, v1), (m2, v2) = first, second
    assert mean.item() == pytest.approx(m1 * m2, abs=1e-12)
    assert variance.item() == pytest.approx((m1**2 + v1) * (m2**2 + v2) - (m1 * m2) ** 2, abs=1e-10)
    assert variance.item() >= 0


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_moments_are_those_of_the_adapted_weight(scale, dtype):
    gamma, b, p, *own = example(dtype, scale)
    q = MatchedGaussian(gamma, b, p, *own)
    # w = γ(1 + bα) with α from the Bernoulli itself, and γ from its Gaussian.
    samples = 200_000
    noise = torch.randn(samples, *gamma.shape, dtype=dtype) * own[0] if own else 0.0
    alpha = torch.bernoulli(p.expand(samples, *p.shape))
    w = (gamma + noise) * (1 + b * alpha)
    standard_error = w.std(0) / samples**0.5
    assert ((w.mean(0) - q.mean).abs() < 5 * standard_error + 1e-6).all()
    squared = (w - q.mean).square()
    assert ((squared.mean(0) - q.variance).abs() < 5 * squared.std(0) / samples**0.5 + 1e-6).all()
    torch.testing.assert_close(q.stddev.square(), q.variance)
    assert q.mean.dtype == q.variance.dtype == q.rsample().dtype == dtype


@pytest.mark.parametrize("scale", SCALES)
def test_from_gain_is_the_same_distribution(scale):
    gamma, b, p, *own = example(scale=scale)
    direct, by_gain = MatchedGaussian(gamma, b, p, *own), MatchedGaussian.from_gain(gamma, *gain_moments(b, p), *own)
    torch.testing.assert_close(direct.mean, by_gain.mean)
    torch.testing.assert_close(direct.variance, by_gain.variance)
    torch.testing.assert_close(direct.log_prob(gamma), by_gain.log_prob(gamma))


@settings(deadline=None, max_examples=50)
@given(data=st.data(), tied=st.booleans(), sample_shape=st.sampled_from([(), (5,), (2, 3)]))
def test_shapes_broadcast_and_expand(data, tied, sample_shape):
    full = (2, 3, 4)
    shapes = [
        data.draw(st.sampled_from([full, (2, 1, 4), (3, 1), (4,), ()]), label=name)
        for name in ("gamma", "b", "p", "scale")
    ]
    gamma, b, p, scale = (torch.rand(shape) for shape in shapes)
    q = MatchedGaussian(gamma, b, p, None if tied else scale + 0.1)
    shape = torch.broadcast_shapes(*(shapes[:3] if tied else shapes))
    assert q.batch_shape == shape and q.event_shape == ()
    assert q.gamma.shape == gamma.shape and q.gain_mean.shape == torch.broadcast_shapes(b.shape, p.shape)
    for d, batch in ((q, shape), (q.expand((6, *full)), (6, *full))):
        assert type(d) is MatchedGaussian and d.batch_shape == batch
        value = d.rsample(sample_shape)
        assert value.shape == sample_shape + batch
        assert d.log_prob(value).shape == sample_shape + batch
        assert d.mean.shape == d.variance.shape == d.stddev.shape == batch
    event = q.expand(full).to_event(2)
    assert event.batch_shape == full[:1] and event.event_shape == full[1:]
    assert event.log_prob(event.rsample()).shape == full[:1]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_log_prob_against_scipy(scale, dtype):
    q = MatchedGaussian(*example(dtype, scale))
    value = q.sample((10,))
    expected = scipy.stats.norm(q.mean.double().numpy(), q.variance.double().sqrt().numpy()).logpdf(value.double())
    torch.testing.assert_close(q.log_prob(value).double(), torch.tensor(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_fit_the_density(scale, dtype):
    gamma, b, p, *own = (x.flatten()[:4] for x in example(dtype, scale))
    q = MatchedGaussian(gamma, b, p, *own)
    samples = q.sample((20_000,))
    for k in range(4):
        assert auto_goodness_of_fit(samples[:, k], q.log_prob(samples)[:, k].exp()) > FAILURE_RATE


@pytest.mark.parametrize("scale", SCALES)
def test_samples_of_weights_of_one_neuron_are_independent(scale):
    q = MatchedGaussian(torch.ones(2, 1), torch.tensor(0.5), torch.tensor(0.4), scale)
    samples = q.sample((20_000,)).squeeze(-1)
    assert abs(torch.corrcoef(samples.T)[0, 1]) < 5 / 20_000**0.5


@pytest.mark.parametrize("scale", SCALES)
def test_gradcheck(scale):
    parameters = example(scale=scale, requires_grad=True)
    value = torch.randn(2, 1, 3, 4, dtype=torch.float64)

    def sample(*parameters):
        torch.manual_seed(0)
        return MatchedGaussian(*parameters).rsample()

    assert torch.autograd.gradcheck(sample, parameters)
    assert torch.autograd.gradcheck(lambda *x: MatchedGaussian(*x).log_prob(value), parameters)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("gamma", [0.0, 0.7])
@pytest.mark.parametrize(("b", "p"), [(0.5, 0.0), (0.5, 1.0), (0.0, 0.5), (-1.0, 1.0), (-1.0, 0.5)])
def test_point_masses_give_no_nan(gamma, b, p, scale, dtype):
    values = [gamma, b, p] + ([] if scale is None else [scale])
    parameters = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in values]
    q = MatchedGaussian(*parameters)
    # The exact variance: zero for a point mass, also where it is held in samples and density.
    v, m = b * b * p * (1 - p), 1 + b * p
    expected = gamma**2 * v + (scale or 0.0) ** 2 * (m * m + v)
    assert q.variance.item() == pytest.approx(expected, abs=1e-7)
    for result in (q.rsample((100,)), q.stddev, q.log_prob(q.mean.detach() + 1e-9)):
        assert result.isfinite().all()
        assert all(g.isfinite().all() for g in torch.autograd.grad(result.sum(), parameters, retain_graph=True))
    if expected == 0:
        assert (q.rsample((100,)) - q.mean).abs().max() < 6 * VARIANCE_FLOOR**0.5
    assert q.stddev > 0


def test_global_weight_leaves_the_gain_out():
    q = MatchedGaussian(torch.ones(3, 1), torch.rand(4), torch.tensor(0.5), torch.full((3, 1), 0.2))
    weight = q.global_weight
    assert isinstance(weight, dist.Normal) and weight.batch_shape == (3, 4)
    assert (weight.loc == 1).all() and (weight.scale == 0.2).all()
    with pytest.raises(InputError, match="tied"):
        _ = MatchedGaussian(1.0, 0.5, 0.5).global_weight


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_p_outside_of_the_unit_interval_is_refused(p):
    with pytest.raises(InputError, match=r"p of MatchedGaussian.*\[0, 1\]"):
        MatchedGaussian(torch.zeros(2), torch.ones(2), torch.tensor([0.5, p]), validate_args=True)


def test_other_bad_parameters_are_refused_when_validating():
    with pytest.raises(InputError, match="scale"):
        MatchedGaussian(0.0, 1.0, 0.5, scale=0.0, validate_args=True)
    with pytest.raises(ValueError, match="gamma"):
        MatchedGaussian(float("nan"), 1.0, 0.5, validate_args=True)
    with pytest.raises(ValueError, match="gain_variance"):
        MatchedGaussian.from_gain(1.0, 1.0, -1.0, validate_args=True)
    assert MatchedGaussian(0.0, 1.0, 1.5, validate_args=False).batch_shape == ()


@pytest.mark.parametrize("scale", SCALES)
def test_numbers_take_the_dtype_of_gamma_and_pickling_keeps_all(scale):
    q = MatchedGaussian(torch.ones(3, dtype=torch.float64), 0.5, 0.25, scale)
    assert q.variance.dtype == torch.float64
    again = pickle.loads(pickle.dumps(q))
    torch.testing.assert_close(again.mean, q.mean)
    torch.testing.assert_close(again.variance, q.variance)
