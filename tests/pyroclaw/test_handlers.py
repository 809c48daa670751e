"""Local reparameterisation: the law of activations is that of sampled weights."""

import pyro
import pyro.distributions as dist
import pytest
import torch
import torch.nn.functional as F

from pyroclaw.handlers import LocalReparameterisation, affine, convolution
from pyroclaw.streams import Streams

DRAWS = 4000


def weights(replicates: int, fan_in: int, out: int) -> dist.Normal:
    shape = (replicates, 1, fan_in + 1, out)
    return dist.Normal(torch.randn(shape), 0.1 + torch.rand(shape))


CASES = {
    "affine": (affine, lambda: (torch.rand(2, 3, 4), weights(2, 4, 5))),
    "convolution": (convolution, lambda: (torch.rand(2, 1, 3, 4, 4), weights(2, 27, 2))),
}


def test_affine_is_a_matrix_product_with_bias():
    x, w = torch.randn(2, 3, 4), torch.randn(2, 1, 5, 6)
    expected = torch.stack([x[r] @ w[r, 0, :-1] + w[r, 0, -1] for r in range(2)])
    torch.testing.assert_close(affine(x, w), expected)


def test_convolution_is_one_ordinary_convolution_per_replicate():
    x, w = torch.randn(3, 2, 4, 6, 6), torch.randn(3, 1, 37, 5)
    expected = torch.stack(
        [F.conv2d(x[r], w[r, 0, :-1].T.reshape(5, 4, 3, 3), w[r, 0, -1], padding=1) for r in range(3)]
    )
    torch.testing.assert_close(convolution(x, w), expected)


@pytest.mark.parametrize("case", CASES)
def test_moments_of_activations_equal_those_of_sampled_weights(case):
    op, make = CASES[case]
    x, w = make()
    streams = Streams([0, 1], "test")
    sampled = torch.stack([op(x, w.sample()) for _ in range(DRAWS)])
    with LocalReparameterisation(streams):
        mean_weight = pyro.sample("w", w)
        local = torch.stack([op(x, mean_weight) for _ in range(DRAWS)])
    assert torch.equal(mean_weight, w.mean)
    error = sampled.std(0) * (2 / DRAWS) ** 0.5  # of the difference of two means
    assert ((sampled.mean(0) - local.mean(0)).abs() < 5 * error).all()
    # the variance of a Gaussian has relative standard error sqrt(2 / n); two of them differ by sqrt(2) more
    assert ((sampled.var(0) / local.var(0) - 1).abs() < 5 * 2 / DRAWS**0.5).all()


@pytest.mark.parametrize("case", CASES)
def test_gradients_agree_in_expectation_with_those_of_sampled_weights(case):
    """E[∇ tanh(h)] in the weights' means and scales, over weight noise and over activation noise."""
    op, make = CASES[case]
    x, w = make()
    mean, scale, draws, streams = w.loc.requires_grad_(), w.scale.requires_grad_(), 500, Streams([0, 1], "test")

    def gradient(activations):
        return torch.cat([g.flatten() for g in torch.autograd.grad(activations.tanh().sum(), (mean, scale))])

    def local_draw():
        with LocalReparameterisation(streams):
            return op(x, pyro.sample("w", dist.Normal(mean, scale)))

    local = torch.stack([gradient(local_draw()) for _ in range(draws)])
    direct = torch.stack([gradient(op(x, dist.Normal(mean, scale).rsample())) for _ in range(draws)])
    error = ((direct.var(0) + local.var(0)) / draws).sqrt() + 1e-6
    assert ((direct.mean(0) - local.mean(0)).abs() < 5 * error).all()
    assert local.var(0).mean() < direct.var(0).mean()  # what it is for


def test_without_noise_activations_take_their_means():
    w = weights(1, 4, 5)
    with LocalReparameterisation(None):
        h = affine(torch.ones(1, 2, 4), pyro.sample("w", w))
    torch.testing.assert_close(h, affine(torch.ones(1, 2, 4), w.mean))


def test_weights_that_are_points_give_finite_gradients():
    mean, scale = torch.zeros(1, 1, 3, 2, requires_grad=True), torch.zeros(1, 1, 3, 2, requires_grad=True)
    with LocalReparameterisation(Streams([0], "test")):
        affine(torch.ones(1, 4, 2), pyro.sample("w", dist.Normal(mean, scale, validate_args=False))).sum().backward()
    assert torch.isfinite(mean.grad).all() and torch.isfinite(scale.grad).all()
