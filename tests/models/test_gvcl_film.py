"""Generalised VCL: its tempered KL, its FiLM layers, and VCL as the special case."""

import pyro.distributions as dist
import pytest
import torch
from torch.distributions import kl_divergence

from pyroclaw.distributions import Tempered
from pyroclaw.handlers import affine
from pyroclaw.inference.method import Budget
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models import vcl
from pyroclaw.models.gvcl_film import GvclFilm, Settings
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def learn(make, settings, bench, heads="multi", seeds=(0, 1), epochs=10):
    method = make(make_net(bench.net, bench.input_shape), heads, Streams(seeds, "init"), settings)
    return method, list(learn_tasks(method, bench.tasks(seeds), Budget(epochs, 16), seeds))


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_without_film_and_tempering_it_is_vcl(toy, heads):
    ours, notes = learn(GvclFilm, Settings(beta=1.0, lam=1.0, film=False), toy, heads)
    theirs, others = learn(vcl.Vcl, vcl.Settings(), toy, heads)
    for name, mean in theirs.weights.mean.items():
        torch.testing.assert_close(ours.weights.mean[name], mean, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours.weights.log_variance[name], theirs.weights.log_variance[name])
    for one, other in zip(notes, others, strict=True):
        torch.testing.assert_close(one.elbo, other.elbo)
        assert one.parameters == other.parameters


def test_lambda_weighs_the_precision_that_data_brought():
    m, m0 = torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    v, v0 = torch.rand(5, dtype=torch.float64) + 0.1, torch.tensor([0.01, 0.5, 1.0, 2.0, 10.0], dtype=torch.float64)
    q, p = dist.Normal(m, v.sqrt()), dist.Normal(m0, v0.sqrt())
    found = kl_divergence(q, Tempered(p, beta=0.2, lam=30.0, lam_above=1.0))
    weight = 30.0 * (1 / v0 - 1).clamp_min(0) + (1 / v0).clamp_max(1)
    torch.testing.assert_close(found, 0.1 * (v / v0 + weight * (m - m0) ** 2 + (v0 / v).log() - 1))
    untouched = kl_divergence(q, Tempered(p, beta=1.0, lam=1.0, lam_above=1.0))
    torch.testing.assert_close(untouched, kl_divergence(q, p))


def test_the_gradient_of_that_kl_is_that_of_finite_differences():
    prior = Tempered(dist.Normal(torch.zeros(4).double(), torch.tensor([0.1, 0.5, 1.0, 3.0]).double()), 0.3, 9.0)
    above = Tempered(prior.base, 0.3, 9.0, lam_above=1.0)
    for one in (prior, above):
        assert torch.autograd.gradcheck(
            lambda m, s, one=one: kl_divergence(dist.Normal(m, s.exp()), one),
            (torch.randn(4).double().requires_grad_(True), torch.randn(4).double().requires_grad_(True)),
        )


def test_a_task_keeps_its_scales_and_shifts_and_is_answered_with_todays_weights(toy):
    method, notes = learn(GvclFilm, Settings(lr_film=0.05), toy)
    x = torch.randn(2, 5, 12)
    by_hand = x
    for layer in method.net.layers:
        scale, shift = (value[:, None] for value in method.films[0][layer.name])
        assert (scale != 1).any() and (shift != 0).any()
        by_hand = (affine(by_hand, method.weights.mean[layer.name]) * scale + shift).relu()
    torch.testing.assert_close(method.logits(0, x), affine(by_hand, method.weights.mean["head_1"]))
    assert not torch.equal(method.films[0]["hidden_1"][0], method.films[1]["hidden_1"][0])
    assert notes[1].parameters - notes[0].parameters == 2 * (10 + 8) + 2 * 9 * 2  # FiLM, and a head's two numbers each


def test_film_acts_before_pooling_and_relu_on_pictures(toy_pictures):
    method, _ = learn(GvclFilm, Settings(), toy_pictures, epochs=1)
    x = torch.randn(2, 3, 1, 8, 8)
    for pair in method.films[0].values():
        pair[0].fill_(-1.0)  # a negative scale does not commute with ReLU or the maximum
        pair[1].fill_(0.1)
    weights = {}
    for layer in method.net.layers:  # the same as a plain net with these weights
        weights[layer.name] = -method.weights.mean[layer.name]
        weights[layer.name][..., -1, :] += 0.1
    torch.testing.assert_close(method.logits(0, x), affine(method.net(x, weights), method.weights.mean["head_1"]))


def test_it_learns_both_tasks_and_remembers(toy):
    _, notes = learn(GvclFilm, Settings(), toy, epochs=40)
    assert notes[1].test.min() > 0.9
