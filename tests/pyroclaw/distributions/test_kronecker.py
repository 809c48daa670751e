"""The matrix Gaussian against torch's multivariate one, and its KL against theirs."""

import pyro
import pytest
import torch
from pyro.distributions.testing.gof import auto_goodness_of_fit
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from pyroclaw.distributions import KroneckerGaussian, MatchedGaussian
from pyroclaw.inference.elbo import AnalyticELBO

ROWS, COLUMNS = 3, 2


def positive(*shape, n):
    root = torch.randn(*shape, n, n, dtype=torch.float64)
    return root @ root.mT + 0.5 * torch.eye(n, dtype=torch.float64)


@pytest.fixture
def prior():
    return KroneckerGaussian(
        torch.randn(4, 1, ROWS, COLUMNS, dtype=torch.float64), positive(4, 1, n=ROWS), positive(4, 1, n=COLUMNS)
    )


def dense(prior):
    """The same law of the matrix written row by row."""
    precision = torch.einsum("...ik,...jl->...ijkl", prior.rows, prior.columns).flatten(-4, -3).flatten(-2)
    return MultivariateNormal(prior.mean.flatten(-2), precision_matrix=precision)


def guide(like):
    return Independent(Normal(torch.randn_like(like), torch.rand_like(like) + 0.1), 2)


def test_its_density_and_moments_are_those_of_the_dense_gaussian(prior):
    value = torch.randn(7, *prior.mean.shape, dtype=torch.float64)
    torch.testing.assert_close(prior.log_prob(value), dense(prior).log_prob(value.flatten(-2)))
    torch.testing.assert_close(prior.variance.flatten(-2), dense(prior).variance)


def test_its_samples_have_its_law():
    """Every direction is normal, with the variance of the dense Gaussian; so is the whole."""
    prior = KroneckerGaussian(torch.randn(ROWS, COLUMNS, dtype=torch.float64), positive(n=ROWS), positive(n=COLUMNS))
    samples = prior.rsample((20000,)).flatten(1)
    for direction in torch.randn(5, ROWS * COLUMNS, dtype=torch.float64):
        law = Normal(dense(prior).mean @ direction, (direction @ dense(prior).covariance_matrix @ direction).sqrt())
        drawn = samples @ direction
        assert auto_goodness_of_fit(drawn, law.log_prob(drawn).exp()) > 2e-5


def test_the_kl_is_that_of_the_dense_gaussian(prior):
    q = guide(prior.mean)
    as_dense = MultivariateNormal(q.mean.flatten(-2), torch.diag_embed(q.variance.flatten(-2)))
    torch.testing.assert_close(kl_divergence(q, prior), kl_divergence(as_dense, dense(prior)))


def test_beta_weighs_all_of_the_kl(prior):
    q, tempered = guide(prior.mean), KroneckerGaussian(prior.mean, prior.rows, prior.columns, beta=0.2)
    torch.testing.assert_close(kl_divergence(q, tempered), 0.2 * kl_divergence(q, prior))


def test_a_guide_with_a_gain_is_compared_by_its_global_weight(prior):
    gamma, scale = torch.randn_like(prior.mean), torch.rand_like(prior.mean) + 0.1
    gain, spread = torch.full((COLUMNS,), 1.7, dtype=torch.float64), torch.full((COLUMNS,), 0.3, dtype=torch.float64)
    matched = Independent(MatchedGaussian.from_gain(gamma, gain, spread, scale=scale), 2)
    torch.testing.assert_close(
        kl_divergence(matched, prior), kl_divergence(Independent(Normal(gamma, scale), 2), prior)
    )


def test_plates_expand_it_without_factorising_again(prior, monkeypatch):
    q, before = guide(prior.mean), prior.log_determinant
    monkeypatch.setattr(torch.linalg, "cholesky", None)
    expanded = prior.expand((4, 1))
    assert expanded.log_determinant is before and expanded.batch_shape == (4, 1)
    torch.testing.assert_close(kl_divergence(q, expanded), kl_divergence(q, prior))


def test_gradients_of_the_kl(prior):
    mean, scale = torch.randn_like(prior.mean, requires_grad=True), torch.rand_like(prior.mean) + 0.5
    assert torch.autograd.gradcheck(
        lambda m, s: kl_divergence(Independent(Normal(m, s), 2), prior), (mean, scale.requires_grad_())
    )


def test_a_guide_of_another_shape_is_refused(prior):
    with pytest.raises(ValueError, match="events of shape"):
        kl_divergence(Independent(Normal(torch.zeros(4, 1, ROWS, COLUMNS), torch.ones(4, 1, ROWS, COLUMNS)), 1), prior)


def test_the_elbo_takes_this_kl_and_does_not_fall_back_to_monte_carlo(prior):
    q = guide(prior.mean)

    def model():
        with pyro.plate("replicate", 4, dim=-2):
            pyro.sample("w", prior)

    def pair_guide():
        with pyro.plate("replicate", 4, dim=-2):
            pyro.sample("w", pyro.distributions.Normal(q.mean, q.stddev).to_event(2))

    terms = AnalyticELBO().terms(model, pair_guide)
    torch.testing.assert_close(terms["w"], -kl_divergence(q, prior))
