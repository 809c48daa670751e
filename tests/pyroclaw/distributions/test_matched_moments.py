"""The moments of adapted weights in one function are those of the formula, with its gradients."""

import pytest
import torch

from pyroclaw.distributions import MatchedGaussian, product_moments
from pyroclaw.distributions.matched_moments import are_matrices, matched_moments

both = pytest.mark.parametrize("rows", [False, True], ids=["neurons", "neurons and inputs"])


def example(rows, dtype=torch.float64, batch=(2, 1)):
    """γ, log σ² and the moments of the gains, of neurons and, if asked, of input units."""
    gamma, log_variance = (torch.randn(*batch, 4, 3, dtype=dtype) for _ in range(2))
    gains = [(*batch, 1, 3), *([(*batch, 4, 1)] if rows else [])]
    factors = [
        moment for shape in gains for moment in (torch.randn(shape, dtype=dtype), torch.rand(shape, dtype=dtype))
    ]
    return [one.requires_grad_() for one in (gamma, log_variance, *factors)]


def fused(gamma, log_variance, *factors):
    moments, own = matched_moments(gamma, log_variance, *zip(factors[::2], factors[1::2], strict=True))
    return *moments, *own


def formula(gamma, log_variance, *factors):
    gain, *more = zip(factors[::2], factors[1::2], strict=True)
    mean, spread = product_moments(*more, gain) if more else gain
    variance = log_variance.exp()
    return gamma * mean, gamma**2 * spread + variance * (mean**2 + spread), gamma, variance


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
    gamma, log_variance, *factors = example(rows)
    gains = list(zip(factors[::2], factors[1::2], strict=True))
    q, (*expected, _, variance) = (
        MatchedGaussian.from_gains(gamma, gains, log_variance),
        formula(gamma, log_variance, *factors),
    )
    torch.testing.assert_close([q.mean, q.variance], expected)
    torch.testing.assert_close(q.own_variance, variance)
    torch.testing.assert_close(q.scale, variance.sqrt())
    whole = MatchedGaussian.from_gain(gamma, q.gain_mean, q.gain_variance, variance.sqrt())
    torch.testing.assert_close([whole.mean, whole.variance], expected)
    tied = MatchedGaussian.from_gains(gamma, gains)
    assert tied.tied and tied.scale is None
    torch.testing.assert_close(tied.variance, gamma**2 * q.gain_variance)
    wider = q.expand((5, *q.batch_shape))
    torch.testing.assert_close(wider.variance, expected[1].expand(wider.batch_shape))


@both
def test_gradients_of_a_weights_own_moments_are_those_without_a_gain(rows):
    """Alone, and together with those of the weight that has one."""
    inputs = example(rows)
    gamma, log_variance, *factors = inputs
    q = MatchedGaussian.from_gains(gamma, list(zip(factors[::2], factors[1::2], strict=True)), log_variance)
    mean, variance = q.global_moments
    alone = torch.autograd.grad((mean * variance).sum(), inputs[:2], retain_graph=True)
    torch.testing.assert_close(alone, torch.autograd.grad((gamma * log_variance.exp()).sum(), inputs[:2]))
    expected = torch.autograd.grad(sum(one.sum() for one in formula(*inputs)[:2]), inputs[:2])
    both = torch.autograd.grad((mean * variance + q.mean + q.variance).sum(), inputs[:2])
    torch.testing.assert_close(both, tuple(map(torch.add, alone, expected)))


def test_noise_of_another_shape_than_a_matrix():
    gamma, log_variance, m, v, *_ = example(rows=False)
    q = MatchedGaussian.from_gains(gamma, [(m[:1], v[:1])], log_variance)
    torch.testing.assert_close((q.mean, q.variance), formula(gamma, log_variance, m[:1], v[:1])[:2])
    torch.testing.assert_close(q.global_moments, (gamma, log_variance.exp()))


def test_other_shapes_are_left_to_the_formula():
    gamma, variance, m, v, mu, nu = example(rows=True)
    assert are_matrices(gamma, variance, (m, v)) and are_matrices(gamma, variance, (m, v), (mu, nu))
    assert not are_matrices(gamma, variance[:1], (m, v))
    assert not are_matrices(gamma, variance, (m[:1], v))
    assert not are_matrices(gamma, variance, (m, v), (mu, nu[..., :1, :]))
    assert not are_matrices(gamma[0, 0, 0], variance[0, 0, 0], (m, v))
