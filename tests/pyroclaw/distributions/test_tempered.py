import pickle

import pyro.distributions as dist
import pytest
import torch
from torch.distributions import kl_divergence

from pyroclaw.distributions import LogScale, MatchedGaussian, Tempered, log_scale_kl, sigmoid_fit_kl
from pyroclaw.errors import InputError

SHAPE = (2, 1, 3, 4)
NEURON = (2, 1, 1, 4)


def matched(scale=None):
    b, p = torch.rand(NEURON).double(), torch.rand(NEURON).double() * 0.8 + 0.1
    return MatchedGaussian(torch.randn(SHAPE).double(), b, p, scale and torch.rand(SHAPE).double() + scale)


def normal():
    return dist.Normal(torch.randn(SHAPE).double(), torch.rand(SHAPE).double() + 0.1)


GUIDES = {"tied": matched, "mean-field": lambda: matched(0.1), "normal": normal}
PRIORS = {"log-scale": lambda: LogScale(SHAPE), **GUIDES}


@pytest.mark.parametrize("prior", PRIORS)
def test_is_its_base_but_for_the_kl(prior):
    base = PRIORS[prior]()
    tempered = Tempered(base, beta=0.1, lam=10.0)
    value = torch.randn(5, *SHAPE).double()
    assert tempered.batch_shape == SHAPE and tempered.event_shape == ()
    torch.testing.assert_close(tempered.log_prob(value), base.log_prob(value))
    assert tempered.support.event_dim == 0 and tempered.support.check(value).all()
    assert tempered.has_rsample == base.has_rsample
    if prior == "log-scale":
        with pytest.raises(NotImplementedError, match="improper"):
            tempered.sample()
    else:
        torch.testing.assert_close(tempered.mean, base.mean)
        torch.testing.assert_close(tempered.variance, base.variance)
        assert tempered.sample((5,)).shape == tempered.rsample((5,)).shape == value.shape


@pytest.mark.parametrize("prior", PRIORS)
def test_expands_and_pickles(prior):
    tempered = Tempered(PRIORS[prior](), beta=0.1, lam=10.0)
    for again in (tempered.expand((6, *SHAPE)), pickle.loads(pickle.dumps(tempered)).expand((6, *SHAPE))):
        assert type(again) is Tempered and again.batch_shape == (6, *SHAPE)
        q = normal()
        assert again.log_prob(q.mean).shape == (6, *SHAPE)
        torch.testing.assert_close(kl_divergence(q, again), kl_divergence(q, tempered).expand(6, *SHAPE))


@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.parametrize("prior", PRIORS)
def test_untempered_is_the_kl_of_the_base(guide, prior):
    q, base = GUIDES[guide](), PRIORS[prior]()
    torch.testing.assert_close(kl_divergence(q, Tempered(base)), kl_divergence(q, base))


@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.parametrize("prior", GUIDES)
def test_beta_weighs_the_kl_and_lambda_its_quadratic_part(guide, prior):
    q, base = GUIDES[guide](), GUIDES[prior]()
    quadratic = 0.5 * (q.mean - base.mean).square() / base.variance
    kl = kl_divergence(q, Tempered(base, beta=0.2, lam=5.0))
    torch.testing.assert_close(kl, 0.2 * (kl_divergence(q, base) + 4 * quadratic))


@pytest.mark.parametrize("guide", GUIDES)
def test_lambda_has_nothing_to_weigh_in_the_log_scale_kl(guide):
    q = GUIDES[guide]()
    kl = kl_divergence(q, Tempered(LogScale(SHAPE), beta=0.2, lam=5.0))
    torch.testing.assert_close(kl, 0.2 * log_scale_kl(q.mean, q.variance))


@pytest.mark.parametrize("prior", PRIORS)
def test_on_global_leaves_the_gain_out(prior):
    q, base = matched(0.1), PRIORS[prior]()
    if prior == "tied":
        with pytest.raises(InputError, match="tied"):
            Tempered(base, on="global")
        return
    kl = kl_divergence(q, Tempered(base, beta=0.2, lam=5.0, on="global"))
    weight = base.global_weight if prior == "mean-field" else base
    torch.testing.assert_close(kl, kl_divergence(q.global_weight, Tempered(weight, beta=0.2, lam=5.0)))
    other_gain = MatchedGaussian(q.gamma, torch.tensor(0.7), torch.tensor(0.2), q.scale)
    torch.testing.assert_close(kl, kl_divergence(other_gain, Tempered(base, beta=0.2, lam=5.0, on="global")))


def test_a_tied_guide_has_no_global_kl():
    with pytest.raises(InputError, match="tied"):
        kl_divergence(matched(), Tempered(normal(), on="global"))


@pytest.mark.parametrize("guide", GUIDES)
def test_fitted_log_scale_kl(guide):
    q = GUIDES[guide]()
    exact, fitted = (kl_divergence(q, Tempered(LogScale(SHAPE), log_scale=how)) for how in ("exact", "fitted"))
    torch.testing.assert_close(fitted, sigmoid_fit_kl(q.variance / q.mean.square()))
    assert 0 < (exact - fitted).abs().max() < 0.01


@pytest.mark.parametrize("log_scale", ["exact", "fitted"])
@pytest.mark.parametrize("scale", [None, 0.1])
@pytest.mark.parametrize("gamma", [0.0, 0.7])
@pytest.mark.parametrize(("b", "p"), [(0.5, 0.0), (0.5, 1.0), (0.0, 0.5), (-1.0, 1.0), (-1.0, 0.5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_limits_are_finite_in_value_and_gradient(log_scale, scale, gamma, b, p, dtype):
    values = [gamma, b, p] + ([] if scale is None else [scale])
    parameters = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in values]
    kl = kl_divergence(MatchedGaussian(*parameters), Tempered(LogScale(), log_scale=log_scale))
    gradients = torch.autograd.grad(kl, parameters, allow_unused=True)
    assert kl.isfinite()
    assert all(g is None or (g.isfinite() and g.float().square().isfinite()) for g in gradients)
    if scale is None:
        assert gradients[0] is None or gradients[0] == 0  # γ cancels


def test_a_prior_of_constants_is_reused_over_steps():
    tempered = Tempered(normal(), beta=0.5)
    mean = torch.zeros(SHAPE, dtype=torch.float64, requires_grad=True)
    gradients = []
    for _ in range(2):
        kl = kl_divergence(dist.Normal(mean, torch.ones(SHAPE).double()), tempered)
        gradients.append(torch.autograd.grad(kl.sum(), mean)[0])
    assert torch.equal(*gradients) and gradients[0].abs().max() > 0


def test_refuses_what_it_cannot_temper():
    with pytest.raises(InputError, match="LogScale, Normal or MatchedGaussian"):
        Tempered(dist.Laplace(0.0, 1.0))
    with pytest.raises(InputError, match="to_event on the result"):
        Tempered(LogScale((2,), (3,)))
    with pytest.raises(InputError, match=r"on='weights'.*task, global"):
        Tempered(normal(), on="weights")
    with pytest.raises(InputError, match=r"log_scale='cubic'.*exact, fitted"):
        Tempered(normal(), log_scale="cubic")
