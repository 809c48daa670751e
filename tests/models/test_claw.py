"""CLAW as a whole: its sites, its prior from task to task, and replicates that do not know of each other."""

import math
from functools import partial

import pytest
import torch
from torch.distributions import kl_divergence

from pyroclaw.distributions import KroneckerGaussian
from pyroclaw.handlers import LocalReparameterisation, affine
from pyroclaw.inference import svi
from pyroclaw.inference.adaptation import Adaptation
from pyroclaw.inference.consolidation import curvature
from pyroclaw.inference.elbo import AnalyticELBO
from pyroclaw.inference.method import Budget, TaskInfo, Training
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models.claw import Claw, Settings
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def learner(bench, seeds, **settings):
    return Claw(make_net(bench.net, bench.input_shape), bench.heads, Streams(seeds, "init"), Settings(**settings))


def learn(bench, seeds, epochs=2.0, **settings):
    """Learn all tasks: the learner and what was noted after each."""
    claw = learner(bench, seeds, **settings)
    return claw, list(learn_tasks(claw, bench.tasks(seeds), Budget(epochs, bench.batch_size), seeds))


def begin(claw, bench, seeds, task=0):
    it = bench.tasks(seeds)[task]
    claw.begin_task(TaskInfo(task, it.name, it.classes, it.train.sizes), Streams(seeds, "begin", task))
    return it


@pytest.mark.parametrize("fixture", ["toy", "toy_pictures"])
def test_a_replicate_follows_the_same_trajectory_alone_and_in_a_plate(fixture, request):
    bench = request.getfixturevalue(fixture)
    together, notes = learn(bench, [3, 4, 5])
    alone, note = learn(bench, [4])
    for name, mean in alone.weights.mean.items():
        torch.testing.assert_close(together.weights.mean[name][1:2], mean, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(
            together.weights.log_variance[name][1:2], alone.weights.log_variance[name], rtol=1e-3, atol=1e-3
        )
    for ours, theirs in zip(together.adaptations, alone.adaptations, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a[1:2], b, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(notes[-1].validation[:, 1:2], note[-1].validation, atol=0.03, rtol=0)


def test_replicates_do_not_influence_each_other(toy):
    one, other = learn(toy, [3, 4])[0], learn(toy, [3, 9])[0]
    for name, mean in one.weights.mean.items():
        torch.testing.assert_close(mean[0], other.weights.mean[name][0])
        assert not torch.allclose(mean[1], other.weights.mean[name][1])


@pytest.mark.parametrize(
    "settings", [{}, {"consolidation": "none"}, {"gamma": "tied"}, {"log_scale": "fitted"}, {"adapt_input": False}]
)
def test_every_kl_is_in_closed_form_at_every_task(toy, settings):
    """The ELBO refuses a site without one; here also that the KL terms carry no noise, and are those registered."""
    claw = learner(toy, [0, 1], **settings)
    for index in range(2):
        task = begin(claw, toy, [0, 1], index)
        x, y = task.train.batch(torch.arange(16).expand(2, -1))
        terms = []
        for noise in ("a", "b"):
            with LocalReparameterisation(Streams([0, 1], noise)):
                terms.append(AnalyticELBO().terms(claw.model, claw.guide, x, y))
        assert set(terms[0]) == {"hidden_1", "hidden_2", f"head_{index + 1}", "label"}
        posterior = claw.posterior(index)
        for name, q in posterior.items():
            assert torch.equal(terms[0][name], terms[1][name])
            prior = claw.priors[name]
            kl = kl_divergence(q.to_event(2), prior.to_event(2 - prior.event_dim)).squeeze(1) / claw.sizes[:, 0]
            torch.testing.assert_close(terms[0][name].squeeze(1), -kl)
        svi.fit(claw, task, Budget(1, 16), Streams([0, 1], "t", index))
        claw.end_task(task, Training(Budget(1, 16), partial(Streams, [0, 1])))


def test_the_elbo_is_cross_entropy_plus_kl_per_example(toy):
    claw = learner(toy, [0])
    task = begin(claw, toy, [0])
    x, y = task.train.batch(torch.arange(16).expand(1, -1))
    with LocalReparameterisation(None):
        terms = AnalyticELBO().terms(claw.model, claw.guide, x, y)
    expected = torch.nn.functional.cross_entropy(claw.logits(0, x)[0], y[0])
    torch.testing.assert_close(terms["label"].sum(), -expected)


def test_the_posterior_of_a_task_is_the_prior_of_the_next(toy):
    claw, _ = learn(toy, [0], consolidation="none")
    means = {name: mean.clone() for name, mean in claw.weights.mean.items()}
    claw.begin_task(TaskInfo(2, "third", 2, (50,)), Streams([0], "begin", 2))
    for layer in claw.net.layers:
        base = claw.priors[layer.name].base
        torch.testing.assert_close(base.mean, means[layer.name])
        torch.testing.assert_close(base.stddev, claw.weights.scale(layer.name))
        assert base.mean is not claw.weights.mean[layer.name]  # training moves the posterior, not the prior
        kl = kl_divergence(claw.posterior(2)[layer.name], claw.priors[layer.name])
        torch.testing.assert_close(kl, torch.zeros_like(kl), atol=1e-5, rtol=0)


def test_a_consolidated_prior_has_the_means_of_the_guide_and_the_curvature_of_all_tasks(toy):
    claw = learner(toy, [0, 1])
    for index, task in enumerate(toy.tasks([0, 1])):
        before = dict(claw.precisions)
        claw.learn(index, task, Training(Budget(1, 16), partial(Streams, [0, 1])))
        scales = claw.adaptations[index].mean_scales(claw.net, True)
        with LocalReparameterisation(Streams([0, 1], "consolidate")):  # the same noise again
            weights = claw._sample(claw.posterior(index))
            noise = Streams([0, 1], "consolidate")
            found = curvature(lambda x: claw.forward(x, weights, index), weights, task.train, noise, 5000, 2.0)  # noqa: B023
        for layer in claw.net.layers:
            own = found[layer.name].scaled(*scales[layer.name])
            trace = sum(_trace(one) for one in (own, before.get(layer.name)) if one is not None)
            torch.testing.assert_close(_trace(claw.precisions[layer.name]), trace, rtol=0.2, atol=0)
    claw.begin_task(TaskInfo(2, "third", 2, (50, 50)), Streams([0, 1], "begin", 2))
    assert set(claw.precisions) == {"hidden_1", "hidden_2"}  # heads are not trained again
    for layer in claw.net.layers:
        prior, mean = claw.priors[layer.name], claw.weights.mean[layer.name]
        torch.testing.assert_close(prior.mean, mean)
        assert prior.mean is not mean
        own = claw.precisions[layer.name].positive()
        torch.testing.assert_close(prior.beta * prior.rows, 2 * own.rows)  # βλ = 1, and cL = 2
        for coupling in (0.5, 0.0):  # cL is 1 or below
            loose = learner(toy, [0, 1], coupling=coupling).prior(layer.name, KroneckerGaussian(mean, *own))
            torch.testing.assert_close(2 * loose.rows, prior.rows)


def _trace(precision):
    rows, columns = (factor.diagonal(dim1=-2, dim2=-1).sum(-1) for factor in precision)
    return rows * columns


def test_a_neuron_that_a_task_switches_off_adds_no_precision(toy):
    claw = learner(toy, [0])
    task = begin(claw, toy, [0])
    p, a, _ = claw.adaptations[0]
    off = 12 + 3  # behind the input's twelve units: the fourth neuron of the first layer
    p[:, off], a[:, off] = 1.0, -100.0
    claw._consolidate(task, Streams([0], "c"))
    columns = claw.precisions["hidden_1"].columns[0, 0]
    assert columns[3].abs().max() < 1e-12 and columns.diagonal().max() > 1e-3
    assert claw.precisions["hidden_2"].rows[0, 0, 3].abs().max() < 1e-5  # nor the weights out of it, but for the floor


def test_an_old_task_keeps_its_adaptation_and_is_answered_with_todays_weights(toy):
    claw, _ = learn(toy, [0])
    x = torch.randn(1, 5, 12)
    before = claw.logits(0, x)
    claw.adaptations[1] = Adaptation(*(torch.rand_like(v) for v in claw.adaptations[1]))
    claw.max_adaptation += 1
    torch.testing.assert_close(claw.logits(0, x), before)
    by_hand = x
    gains = claw.adaptations[0].gains(claw.net, adapt_input=True)
    for layer in claw.net.layers:
        gain = math.prod(mean for mean, _ in gains[layer.name])
        by_hand = affine(by_hand, claw.weights.mean[layer.name] * gain).relu()
    torch.testing.assert_close(before, affine(by_hand, claw.weights.mean["head_1"]))
    claw.weights.mean["hidden_1"] += 0.5
    assert not torch.allclose(claw.logits(0, x), before)


def test_probabilities_of_adapting_stay_probabilities(toy):
    claw, _ = learn(toy, [0], lr_adaptation=0.5)
    for p, _, _ in claw.adaptations:
        assert p.min() >= 0 and p.max() <= 1
    ends = torch.cat([p.flatten() for p, _, _ in claw.adaptations])
    assert ((ends == 0) | (ends == 1)).any()  # projected onto the boundary, not squashed inside it


def test_a_warm_phase_moves_adaptation_and_head_only(toy):
    claw = learner(toy, [0], warm=1.0)
    for index in range(2):
        task = begin(claw, toy, [0], index)
        before = {name: mean.clone() for name, mean in claw.weights.mean.items()}
        svi.fit(claw, task, Budget(2, 16), Streams([0], "t", index))
    for layer in claw.net.layers:
        assert torch.equal(claw.weights.mean[layer.name], before[layer.name])
    assert not torch.equal(claw.weights.mean["head_2"], before["head_2"])
    assert not torch.equal(claw.adaptations[1].a, torch.zeros_like(claw.adaptations[1].a))


def rates(claw):
    """Adam's rate of each parameter in the last phase, by identity."""
    return {id(one): group["lr"] for group in claw.phases()[-1].groups for one in group["params"]}


def test_a_head_of_its_own_learns_as_fast_as_adaptation_and_faster_than_what_is_shared(toy):
    claw = learner(toy, [0], lr=1e-4, lr_head=0.02, lr_variance=0.03, lr_adaptation=0.04)
    begin(claw, toy, [0])
    found, weights = rates(claw), claw.weights
    assert found[id(weights.mean["head_1"])] == 0.02 and found[id(weights.mean["hidden_1"])] == 1e-4
    assert found[id(weights.log_variance["head_1"])] == 0.03 and found[id(claw.adaptations[0].a)] == 0.04
    assert len(found) == 2 * 3 + 2  # mean and log-variance of three matrices, p and a: each once


def test_a_head_of_rate_0_stays(toy):
    claw = learner(toy, [0], lr_head=0.0)
    task = begin(claw, toy, [0])
    before = claw.weights.mean["head_1"].clone()
    svi.fit(claw, task, Budget(2, 16), Streams([0], "t"))
    assert torch.equal(claw.weights.mean["head_1"], before)


def test_a_head_that_tasks_share_learns_as_they_do_and_nothing_waits_for_it(toy_one_head):
    claw = learner(toy_one_head, [0], lr=1e-4, lr_head=0.02, warm=0.5)
    for index in range(2):
        task = begin(claw, toy_one_head, [0], index)
        (phase,) = claw.phases()
        assert phase.share == 1.0 and rates(claw)[id(claw.weights.trained("head"))] == 1e-4
        claw.end_task(task, Training(Budget(1, 16), lambda purpose: Streams([0], purpose)))


@pytest.mark.parametrize("settings", [{}, {"gamma": "tied", "average": 0.0}])  # tied, it still learns at the end
def test_it_learns_both_tasks_and_remembers(toy, settings):
    _, notes = learn(toy, [0, 1], epochs=40, **settings)
    assert notes[0].test.shape == (1, 2) and notes[1].test.shape == (2, 2)
    assert notes[1].test.min() > 0.9


def test_ablations_fix_the_probability_of_adapting(toy):
    always, _ = learn(toy, [0], adaptation="always")
    never, _ = learn(toy, [0], adaptation="never")
    for kept in always.adaptations:
        assert (kept.p == 1).all() and (kept.b().abs() > 1e-4).any()
    x = torch.randn(1, 5, 12)
    by_hand = x
    for layer in never.net.layers:
        by_hand = affine(by_hand, never.weights.mean[layer.name]).relu()
    torch.testing.assert_close(never.logits(0, x), affine(by_hand, never.weights.mean["head_1"]))


def test_with_the_general_maximum_adaptation_a_task_keeps_the_general_value_of_its_time(toy):
    claw, _ = learn(toy, [0], max_adaptation="general")
    own, _ = learn(toy, [0])
    torch.testing.assert_close(claw.adaptations[1].s, claw.max_adaptation)
    assert not torch.equal(own.adaptations[1].s, own.max_adaptation)


def test_the_general_maximum_adaptation_moves_and_each_task_keeps_its_own(toy):
    claw, _ = learn(toy, [0])
    start = Settings().initial_max_adaptation
    assert not torch.allclose(claw.max_adaptation, torch.full_like(claw.max_adaptation, start))
    assert not torch.equal(claw.adaptations[0].s, claw.adaptations[1].s)


def test_a_single_head_carries_its_posterior_on(toy):
    claw = Claw(make_net(toy.net, toy.input_shape), "single", Streams([0], "init"), Settings())
    list(learn_tasks(claw, toy.tasks([0]), Budget(1, 16), [0]))
    assert set(claw.carried()) == {"hidden_1", "hidden_2", "head"} and "head_1" not in claw.weights.mean
