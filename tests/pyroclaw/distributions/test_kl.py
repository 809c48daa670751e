import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import TraceMeanField_ELBO
from torch.distributions import Independent, kl_divergence

from pyroclaw.distributions import LogScale, MatchedGaussian, Tempered, log_scale_kl, log_scale_kl_from_ratio

R, IN, OUT = 2, 3, 4


def matched(scale=None, dtype=torch.float64):
    """A layer of the net: γ and σ per weight, b and p per neuron."""
    b, p = torch.rand(R, 1, 1, OUT, dtype=dtype) * 1.5 - 0.7, torch.rand(R, 1, 1, OUT, dtype=dtype) * 0.8 + 0.1
    gamma, noise = torch.randn(R, 1, IN, OUT, dtype=dtype), torch.rand(R, 1, IN, OUT, dtype=dtype)
    return MatchedGaussian(gamma, b, p, None if scale is None else noise * 0.2 + scale)


def normal(dtype=torch.float64):
    return dist.Normal(torch.randn(R, 1, IN, OUT, dtype=dtype), torch.rand(R, 1, IN, OUT, dtype=dtype) + 0.3)


GUIDES = {"tied": matched, "mean-field": lambda: matched(0.3), "normal": normal}
PRIORS = {"log-scale": lambda: LogScale((R, 1, IN, OUT)), **GUIDES}
PAIRS = [(guide, prior) for guide in GUIDES for prior in PRIORS]


def closed_form(q, p):
    """The KL per weight from means and variances alone."""
    if isinstance(p, LogScale):
        return log_scale_kl_from_ratio(q.variance / q.mean.square())
    spread = (q.variance + (q.mean - p.mean).square()) / p.variance
    return 0.5 * (spread - 1 + p.variance.log() - q.variance.log())


@pytest.mark.parametrize(("guide", "prior"), PAIRS)
def test_against_monte_carlo(guide, prior):
    q, p = GUIDES[guide](), PRIORS[prior]()
    kl = kl_divergence(q, p)
    assert kl.shape == (R, 1, IN, OUT)
    w = q.sample((20_000,))
    terms = q.log_prob(w) - p.log_prob(w)
    assert ((kl - terms.mean(0)).abs() < 5 * terms.std(0) / len(w) ** 0.5).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("prior", ["log-scale", "normal"])
def test_keeps_the_dtype_and_sends_gradients(dtype, prior):
    q = matched(0.3, dtype)
    for x in (q.gamma, q.gain_mean, q.gain_variance, q.scale):
        x.requires_grad_()
    p = normal(dtype) if prior == "normal" else LogScale((R, 1, IN, OUT))
    kl = kl_divergence(q, p)
    assert kl.dtype == dtype
    for gradient in torch.autograd.grad(kl.sum(), (q.gamma, q.gain_mean, q.gain_variance, q.scale)):
        assert gradient.isfinite().all() and gradient.abs().max() > 0


def test_tied_log_scale_kl_is_computed_per_neuron_and_does_not_see_gamma():
    q = matched()
    q.gamma.requires_grad_()
    kl = kl_divergence(q, LogScale((R, 1, IN, OUT)))
    assert kl.stride(-2) == 0  # one value per neuron, seen by all its weights
    assert not kl.requires_grad
    torch.testing.assert_close(kl, log_scale_kl(q.mean, q.variance).detach())
    zero = MatchedGaussian.from_gain(torch.zeros_like(q.gamma), q.gain_mean, q.gain_variance)
    torch.testing.assert_close(kl_divergence(zero, LogScale((R, 1, IN, OUT))), kl)


@pytest.mark.parametrize(("guide", "prior"), PAIRS)
def test_event_dimensions_are_summed(guide, prior):
    q, p = GUIDES[guide](), PRIORS[prior]()
    kl = kl_divergence(q.to_event(2), p.to_event(2))
    assert kl.shape == (R, 1)
    torch.testing.assert_close(kl, closed_form(q, p).sum((-1, -2)))


def test_log_scale_with_an_event_shape_of_its_own():
    q = matched(0.3)
    expected = kl_divergence(q.to_event(2), LogScale((R, 1, IN, OUT)).to_event(2))
    torch.testing.assert_close(kl_divergence(q.to_event(2), LogScale((R, 1), (IN, OUT))), expected)
    with pytest.raises(ValueError, match="events of shape"):
        kl_divergence(q.to_event(2), LogScale((R, 1, IN), (OUT,)))


@pytest.mark.parametrize("guide", GUIDES)
def test_broadcasts_over_the_prior(guide):
    q = GUIDES[guide]()
    for p in (LogScale(), dist.Normal(torch.zeros(()).double(), torch.ones(()).double()), LogScale((5, R, 1, IN, OUT))):
        shape = torch.broadcast_shapes(q.batch_shape, p.batch_shape)
        torch.testing.assert_close(kl_divergence(q, p), closed_form(q, p).expand(shape))
        torch.testing.assert_close(kl_divergence(q, Tempered(p)), closed_form(q, p).expand(shape))


@pytest.mark.parametrize("tempered", [False, True])
@pytest.mark.parametrize(("guide", "prior"), PAIRS)
def test_elbo_takes_the_registered_kl(guide, prior, tempered):
    q, p = GUIDES[guide](), PRIORS[prior]()

    def run_guide():
        with pyro.plate("replicate", R, dim=-2):
            pyro.sample("w", q.to_event(2))

    def run_model():
        with pyro.plate("replicate", R, dim=-2):
            pyro.sample("w", (Tempered(p, beta=0.5) if tempered else p).to_event(2))

    losses = [TraceMeanField_ELBO().loss(run_model, run_guide) for _ in range(2)]
    assert losses[0] == losses[1]  # no Monte Carlo
    assert losses[0] == pytest.approx((closed_form(q, p).sum() * (0.5 if tempered else 1)).item(), rel=1e-9)


def test_elbo_trains_a_guide_to_the_prior():
    prior = dist.Normal(torch.tensor([0.5, -1.0]), torch.tensor([0.3, 0.6]))
    gamma, log_scale = torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    optimiser = torch.optim.Adam([gamma, log_scale], lr=0.05)

    def guide():
        gain = torch.tensor(1.5), torch.tensor(0.01)
        pyro.sample("w", MatchedGaussian.from_gain(gamma, *gain, scale=log_scale.exp()).to_event(1))

    def model():
        pyro.sample("w", Tempered(prior).to_event(1))

    for _ in range(300):
        optimiser.zero_grad()
        TraceMeanField_ELBO().differentiable_loss(model, guide).backward()
        optimiser.step()
    q = MatchedGaussian.from_gain(gamma, torch.tensor(1.5), torch.tensor(0.01), scale=log_scale.exp())
    torch.testing.assert_close(q.mean, prior.mean, atol=1e-3, rtol=0)
    torch.testing.assert_close(q.stddev, prior.stddev, atol=1e-3, rtol=0)


def test_independent_of_an_unknown_base_is_left_to_others():
    with pytest.raises(NotImplementedError):
        kl_divergence(Independent(dist.Laplace(torch.zeros(2), 1.0), 1), LogScale((), (2,)))
