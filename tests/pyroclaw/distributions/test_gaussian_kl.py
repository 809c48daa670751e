import pytest
import torch
from torch.distributions import Normal, kl_divergence

from pyroclaw.distributions import VARIANCE_FLOOR, GaussianPrior, gaussian_kl


def example(dtype=torch.float64, requires_grad=False):
    mean, prior_mean = torch.randn(2, 3, dtype=dtype), torch.randn(3, dtype=dtype)
    variance, prior_variance = torch.rand(2, 3, dtype=dtype) + 0.1, torch.rand(2, 1, dtype=dtype) + 0.1
    return [x.requires_grad_(requires_grad) for x in (mean, variance, prior_mean, prior_variance)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_kl_of_torch(dtype):
    mean, variance, prior_mean, prior_variance = example(dtype)
    kl = gaussian_kl(mean, variance, GaussianPrior.from_moments(prior_mean, prior_variance))
    expected = kl_divergence(Normal(mean, variance.sqrt()), Normal(prior_mean, prior_variance.sqrt()))
    torch.testing.assert_close(kl, expected)


def test_beta_weighs_all_and_lambda_the_quadratic_part():
    mean, variance, prior_mean, prior_variance = example()
    prior = GaussianPrior.from_moments(prior_mean, prior_variance)
    quadratic = 0.5 * (mean - prior_mean).square() / prior_variance
    tempered = gaussian_kl(mean, variance, prior, beta=0.2, lam=5.0)
    torch.testing.assert_close(tempered, 0.2 * (gaussian_kl(mean, variance, prior) + 4 * quadratic))


def test_gradcheck_of_posterior_and_prior():
    def kl(mean, variance, prior_mean, prior_variance):
        return gaussian_kl(mean, variance, GaussianPrior.from_moments(prior_mean, prior_variance), 0.2, 5.0)

    parameters = example(requires_grad=True)
    assert torch.autograd.gradcheck(kl, parameters)
    fixed = [x.detach() for x in parameters[2:]]
    assert torch.autograd.gradcheck(lambda m, v: kl(m, v, *fixed), parameters[:2])


def test_leaves_its_arguments_alone():
    arguments = example()
    copies = [x.clone() for x in arguments]
    prior = GaussianPrior.from_moments(*arguments[2:])
    prior_copies = [x.clone() for x in prior]
    gaussian_kl(arguments[0], arguments[1], prior)
    for before, after in zip(copies + prior_copies, [*arguments, *prior], strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_variance_of_zero_is_held_at_the_floor_with_an_inward_gradient(dtype):
    mean, variance = torch.zeros(1, dtype=dtype), torch.zeros(1, dtype=dtype, requires_grad=True)
    prior = GaussianPrior.from_moments(torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype))
    kl = gaussian_kl(mean, variance, prior)
    torch.testing.assert_close(kl, gaussian_kl(mean, torch.full_like(mean, VARIANCE_FLOOR), prior))
    (slope,) = torch.autograd.grad(kl, variance)
    assert slope < 0 and slope.float().square().isfinite()


def test_prior_that_is_a_point_mass_is_finite():
    prior = GaussianPrior.from_moments(torch.zeros(1), torch.zeros(1))
    mean = torch.ones(1, requires_grad=True)
    kl = gaussian_kl(mean, torch.ones(1), prior)
    (slope,) = torch.autograd.grad(kl, mean)
    assert kl.isfinite() and slope.square().isfinite() and slope > 0
