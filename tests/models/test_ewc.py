"""EWC's penalty: against finite differences, against one term per task, and with heads that come and go."""

import pytest
import torch
import torch.nn.functional as F

from pyroclaw.distributions import GaussianProduct
from pyroclaw.inference.elbo import AnalyticELBO
from pyroclaw.inference.method import Budget, TaskInfo
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models.ewc import Ewc, Settings
from pyroclaw.models.finetune import Finetune
from pyroclaw.nets import MLP, make_net
from pyroclaw.streams import Streams


def learn(bench, heads="multi", seeds=(0, 1), epochs=5, **settings):
    method = Ewc(make_net(bench.net, bench.input_shape), heads, Streams(seeds, "init"), Settings(**settings))
    return method, list(learn_tasks(method, bench.tasks(seeds), Budget(epochs, 16), seeds))


def test_a_product_of_gaussians_has_the_slope_of_the_sum_of_its_terms():
    terms = [(torch.randn(4, dtype=torch.float64), torch.rand(4, dtype=torch.float64)) for _ in range(3)]
    product = GaussianProduct.flat(torch.zeros(4, dtype=torch.float64))
    for mean, precision in terms:
        product = product.times(mean, precision)
    theta = torch.randn(4, dtype=torch.float64, requires_grad=True)
    folded, summed = product.log_prob(theta), sum(-0.5 * f * (theta - m) ** 2 for m, f in terms)
    (ours,), (theirs,) = (torch.autograd.grad(value.sum(), theta) for value in (folded, summed))
    torch.testing.assert_close(ours, theirs)
    other = torch.randn(4, dtype=torch.float64)
    difference = product.log_prob(theta) - product.log_prob(other)
    torch.testing.assert_close(difference, summed - sum(-0.5 * f * (other - m) ** 2 for m, f in terms))


def test_no_information_leaves_the_density_flat():
    product = GaussianProduct.flat(torch.zeros(2)).times(torch.tensor([3.0, 3.0]), torch.tensor([0.0, 2.0]))
    assert product.log_prob(torch.tensor([9.0, 9.0])).tolist() == [0.0, -36.0]
    assert torch.isfinite(product.mean).all()


def anchored(size=20):
    """A learner in float64 at its second task, with its loss as a function of one matrix."""
    method = Ewc(MLP(3, (4,)), "multi", Streams([0], "init"), Settings(lam=7.0))
    for task, classes in enumerate((2, 3)):
        method.begin_task(TaskInfo(task, "", classes, (size,)), Streams([0], "begin", task))
    for name, mean in method.weights.mean.items():
        method.weights.mean[name] = mean.double()
    weight = method.weights.mean["hidden_1"]
    precision = torch.rand(weight.shape, dtype=torch.float64)
    anchor = weight + 0.3 * torch.randn(weight.shape, dtype=torch.float64)
    method.anchors["hidden_1"] = GaussianProduct.flat(weight).times(anchor, method.settings.lam * precision)
    method.priors["hidden_1"] = method.prior("hidden_1", None)
    x, y = torch.randn(1, size, 3, dtype=torch.float64), torch.randint(3, (1, size))

    def loss(value):
        method.weights.mean["hidden_1"] = value
        return AnalyticELBO().differentiable_loss(method.model, method.guide, x, y)

    return method, loss, weight, anchor, precision, (x, y)


def test_the_gradient_of_the_penalised_loss_is_that_of_finite_differences():
    _, loss, weight, *_ = anchored()
    assert torch.autograd.gradcheck(loss, (weight.clone().requires_grad_(True),), check_undefined_grad=False)


def test_the_loss_is_cross_entropy_plus_the_penalty_over_the_number_of_examples():
    method, loss, weight, anchor, precision, (x, y) = anchored()
    error = F.cross_entropy(method.logits(1, x)[0], y[0])
    penalty = 0.5 * 7.0 * (precision * (weight - anchor) ** 2).sum() / 20
    torch.testing.assert_close(loss(weight), error + penalty)


def test_heads_of_unequal_size_need_no_anchor_and_keep_still(toy_pictures):
    method, notes = learn(toy_pictures)
    assert set(method.anchors) == {"conv_1", "conv_2"}
    assert method.weights.mean["head_1"].shape[-1] == 2 and method.weights.mean["head_2"].shape[-1] == 3
    assert notes[1].test.shape == (2, 2)


def test_a_single_head_is_anchored_too(toy):
    method, _ = learn(toy, heads="single")
    assert set(method.anchors) == {"hidden_1", "hidden_2", "head"}


def test_every_task_adds_its_term(toy):
    method, _ = learn(toy)
    one = Ewc(make_net(toy.net, toy.input_shape), "multi", Streams([0, 1], "init"), Settings())
    list(learn_tasks(one, toy.tasks([0, 1])[:1], Budget(5, 16), [0, 1]))
    for name, anchor in one.anchors.items():
        assert (method.anchors[name].precision >= anchor.precision).all()
        assert (method.anchors[name].precision > anchor.precision).any()
        assert (anchor.mean[anchor.precision > 0] == one.weights.mean[name][anchor.precision > 0]).all()


def test_a_stiff_penalty_holds_what_matters_and_none_is_fine_tuning(toy):
    plain = Finetune(make_net(toy.net, toy.input_shape), "multi", Streams([0, 1], "init"), Settings())
    notes = list(learn_tasks(plain, toy.tasks([0, 1]), Budget(5, 16), [0, 1]))
    free, same = learn(toy, lam=0.0)
    for name, mean in plain.weights.mean.items():
        torch.testing.assert_close(free.weights.mean[name], mean)
    assert torch.equal(same[-1].test, notes[-1].test)
    stiff, _ = learn(toy, lam=1e6)
    first = Ewc(make_net(toy.net, toy.input_shape), "multi", Streams([0, 1], "init"), Settings(lam=1e6))
    list(learn_tasks(first, toy.tasks([0, 1])[:1], Budget(5, 16), [0, 1]))
    for name, anchor in first.anchors.items():
        moves = [(one.weights.mean[name] - first.weights.mean[name]).square() for one in (stiff, free)]
        held, loose = ((move * anchor.precision).sum() for move in moves)
        assert held < 0.05 * loose


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_what_is_stored_does_not_grow_but_for_heads(toy, heads):
    _, (first, second) = learn(toy, heads=heads)
    head = 0 if heads == "single" else 9 * 2
    assert second.parameters - first.parameters == head
    assert second.stored_bytes - first.stored_bytes == 4 * head
