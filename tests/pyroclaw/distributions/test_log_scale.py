import math
import pickle

import pyro
import pyro.distributions as dist
import pytest
import scipy.stats
import torch
from pyro import poutine
from torch.distributions import constraints

from pyroclaw.distributions import LogScale


@pytest.mark.parametrize("batch_shape", [(), (3,), (2, 1, 3)])
@pytest.mark.parametrize("event_shape", [(), (4,), (5, 4)])
def test_shapes(batch_shape, event_shape):
    prior = LogScale(batch_shape, event_shape)
    assert prior.batch_shape == batch_shape and prior.event_shape == event_shape
    assert prior.log_prob(torch.randn(batch_shape + event_shape)).shape == batch_shape
    assert prior.log_prob(torch.randn((7, *batch_shape, *event_shape))).shape == (7, *batch_shape)
    expanded = prior.expand((6, *batch_shape))
    assert type(expanded) is LogScale
    assert expanded.log_prob(torch.randn(event_shape)).shape == (6, *batch_shape)


def test_to_event_equals_own_event_shape():
    value = torch.randn(2, 5, 4)
    inside, outside = LogScale((2,), (5, 4)), LogScale((2, 5, 4)).to_event(2)
    assert outside.batch_shape == (2,) and outside.event_shape == (5, 4)
    torch.testing.assert_close(inside.log_prob(value), outside.log_prob(value))
    torch.testing.assert_close(inside.log_prob(value), -value.abs().log().sum((-1, -2)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_prob_is_that_of_loguniform_up_to_its_normaliser(dtype):
    value = torch.randn(100, dtype=dtype)
    low, high = 1e-6, 1e2
    log_uniform = scipy.stats.loguniform(low, high)
    # scipy's density lives on |w| in [low, high]; log(log(high / low)) is the normaliser an improper prior has not.
    expected = torch.tensor(log_uniform.logpdf(value.abs().double().numpy())).to(dtype)
    constant = torch.log(torch.log(torch.tensor(high / low, dtype=torch.float64))).to(dtype)
    torch.testing.assert_close(LogScale().log_prob(value), expected + constant)
    assert LogScale().log_prob(value).dtype == dtype


def test_log_prob_is_uniform_in_the_logarithm():
    value = torch.logspace(-8, 8, 50, dtype=torch.float64)
    torch.testing.assert_close(LogScale().log_prob(value) + value.log(), torch.zeros_like(value))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient(dtype):
    value = torch.tensor([-2.0, 0.5, 0.0, 1e-30], dtype=dtype, requires_grad=True)
    log_prob = LogScale().log_prob(value)
    assert log_prob.isfinite().all()
    (gradient,) = torch.autograd.grad(log_prob.sum(), value)
    torch.testing.assert_close(gradient, torch.tensor([0.5, -2.0, 0.0, -1e30], dtype=dtype))


def test_gradcheck():
    value = torch.tensor([-2.0, 0.5, 1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(LogScale((), (3,)).log_prob, value)


def test_support():
    support = LogScale((2,), (3, 4)).support
    assert support.event_dim == 2 and support.check(torch.randn(2, 3, 4)).all()
    assert LogScale((2,)).support.event_dim == constraints.real.event_dim
    with pytest.raises(ValueError, match="within the support"):
        LogScale((2,), validate_args=True).log_prob(torch.tensor([1.0, float("nan")]))


@pytest.mark.parametrize("method", ["sample", "rsample"])
def test_sampling_says_what_to_do_instead(method):
    with pytest.raises(NotImplementedError, match=r"improper.*sample from the guide"):
        getattr(LogScale((2,)), method)()
    assert not LogScale().has_rsample


def test_in_a_plate():
    def model():
        with pyro.plate("replicate", 3, dim=-2):
            return pyro.sample("w", LogScale().expand((5, 4)).to_event(2), obs=torch.ones(3, 1, 5, 4) * 2)

    site = poutine.trace(model).get_trace().nodes["w"]
    assert site["fn"].batch_shape == (3, 1)
    torch.testing.assert_close(site["fn"].log_prob(site["value"]), torch.full((3, 1), -20 * math.log(2)))


def test_masks_and_pickles():
    value = torch.tensor([2.0, 3.0])
    masked = LogScale((2,)).mask(torch.tensor([True, False])).log_prob(value)
    torch.testing.assert_close(masked, torch.tensor([-0.6931472, 0.0]))
    again = pickle.loads(pickle.dumps(LogScale((2,), (3,))))
    assert isinstance(again, LogScale) and again.shape() == (2, 3)
    assert isinstance(again, dist.TorchDistribution)
