"""The moments of adapted weights in one function are those of the formula, with its gradients."""

import pytest
import torch

from pyroclaw.distributions import MatchedGaussian, product_moments
from pyroclaw.distributions.matched_moments import are_matrices, matched_moments

both = pytest.mark.parametrize("rows", [False, True], ids=["neurons", "neurons and inputs"])


def example(rows, dtype=torch.float64, batch=(2, 1)):
    """γ, σ² and the moments of the gains, of neurons and, if asked, of input units."""
    gamma, variance = torch.randn(*batch, 4, 3, dtype=dtype), torch.rand(*batch, 4, 3, dtype=dtype)
    gains = [(*batch, 1, 3), *([(*batch, 4, 1)] if rows else [])]
    factors = [
        moment for shape in gains for moment in (torch.randn(shape, dtype=dtype), torch.rand(shape, dtype=dtype))
    ]
    return [one.requires_grad_() for one in (gamma, variance, *factors)]


def fused(gamma, variance, *factors):
    return matched_moments(gamma, variance, *zip(factors[::2], factors[1::2], strict=True))


def formula(gamma, variance, *factors):
    gain, *more = zip(factors[::2], factors[1::2], strict=True)
    mean, spread = product_moments(*more, gain) if more else gain
    return gamma * mean, gamma**2 * spread + variance * (mean**2 + spread)


@both
@pytest.mark.parametrize("batch", [(), (2, 1)])
def test_gradients_are_those_of_differences(rows, batch):
    assert torch.autograd.gradcheck(fused, example(rows, batch=batch))


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_those_of_the_formula(rows, dtype):
    inputs = example(rows, dtype)
    found, expected = fused(*inputs), formula(*inputs)
    torch.testing.assert_close(found, expected)
    slopes = [torch.randn_like(one) for one in found]
    for own, other in zip(*(torch.autograd.grad(one, inputs, slopes) for one in (found, expected)), strict=True):
        torch.testing.assert_close(own, other)


@both
def test_a_distribution_takes_gains_as_factors(rows):
    gamma, variance, *factors = example(rows)
    gains = list(zip(factors[::2], factors[1::2], strict=True))
    q, expected = MatchedGaussian.from_gains(gamma, gains, variance), formula(gamma, variance, *factors)
    torch.testing.assert_close((q.mean, q.variance), expected)
    torch.testing.assert_close(q.own_variance, variance)
    torch.testing.assert_close(q.scale, variance.sqrt())
    whole = MatchedGaussian.from_gain(gamma, q.gain_mean, q.gain_variance, variance.sqrt())
    torch.testing.assert_close((whole.mean, whole.variance), expected)
    tied = MatchedGaussian.from_gains(gamma, gains)
    assert tied.tied and tied.scale is None
    torch.testing.assert_close(tied.variance, gamma**2 * q.gain_variance)
    wider = q.expand((5, *q.batch_shape))
    torch.testing.assert_close(wider.variance, expected[1].expand(wider.batch_shape))


def test_other_shapes_are_left_to_the_formula():
    gamma, variance, m, v, mu, nu = example(rows=True)
    assert are_matrices(gamma, variance, (m, v)) and are_matrices(gamma, variance, (m, v), (mu, nu))
    assert not are_matrices(gamma, variance[:1], (m, v))
    assert not are_matrices(gamma, variance, (m[:1], v))
    assert not are_matrices(gamma, variance, (m, v), (mu, nu[..., :1, :]))
    assert not are_matrices(gamma[0, 0, 0], variance[0, 0, 0], (m, v))
