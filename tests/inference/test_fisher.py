"""The Fisher information against gradients of one example at a time, and against its exact value."""

import pytest
import torch
import torch.nn.functional as F

from pyroclaw.errors import InputError
from pyroclaw.inference import fisher as module
from pyroclaw.inference.fisher import fisher
from pyroclaw.inference.method import TaskInfo
from pyroclaw.models.finetune import Finetune, Settings
from pyroclaw.nets import MLP, make_net
from pyroclaw.streams import Streams


def learner(net, seeds, classes, heads="multi"):
    method = Finetune(net, heads, Streams(seeds, "init"), Settings())
    method.begin_task(TaskInfo(0, "one", classes, (9,) * len(seeds)), Streams(seeds, "begin"))
    return method, {name: method.weights.mean[name] for name in method.sites(0)}


@pytest.mark.parametrize("fixture", ["toy", "toy_pictures"])
def test_it_is_the_sum_of_squared_gradients_of_single_examples(fixture, request, monkeypatch):
    """Every gradient by `torch.func.vmap` over `torch.func.grad` with respect to the weights themselves."""
    bench = request.getfixturevalue(fixture)
    method, weights = learner(make_net(bench.net, bench.input_shape), [0, 1], 3)
    train = bench.tasks([0, 1])[0].train
    labels = []
    monkeypatch.setattr(module, "draw", lambda logits, _: labels.append(logits.argmax(-1)) or labels[-1])
    found = fisher(lambda x, w: method.forward(x, w, 0), weights, train, Streams([0, 1], "fisher"))
    order = Streams([0, 1], "fisher")
    for r, size in enumerate(train.sizes):
        positions = order.permutation(r, size)
        x = train.batch(positions.expand(2, -1))[0][r]
        own = {name: weight[r : r + 1] for name, weight in weights.items()}

        def loss(w, x, y):
            return F.cross_entropy(method.forward(x[None, None], w, 0)[0, 0], y)

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(own, x, torch.cat(labels, 1)[r, :size])
        for name, gradients in each.items():
            torch.testing.assert_close(found[name][r : r + 1], gradients.square().sum(0), rtol=1e-4, atol=1e-6)


def test_drawn_labels_give_the_exact_information_of_softmax_regression(given):
    """There F_(i, c) = Σ_n x_i² p_c (1 - p_c); each example adds (x_i (p_c - [y = c]))², so its variance is known."""
    repeats, generator = 4000, torch.Generator().manual_seed(0)
    points = torch.randn(3, 2, generator=generator)
    method, weights = learner(MLP(2, ()), [0], 3)
    train = given(points.repeat(repeats, 1)[None], [3 * repeats])
    (found,) = fisher(lambda x, w: method.forward(x, w, 0), weights, train, Streams([0], "fisher")).values()
    x = torch.cat([points, torch.ones(3, 1)], 1)
    p = method.forward(points[None], weights, 0)[0].softmax(-1)
    exact = torch.einsum("ni,nc->ic", x**2, p * (1 - p)) * repeats
    fourth = torch.einsum("ni,nc->ic", x**4, p * (1 - p) ** 4 + (1 - p) * p**4)  # E of the squared summand
    second = torch.einsum("ni,nc->ic", x**4, (p * (1 - p)) ** 2)
    error = (repeats * (fourth - second)).sqrt()
    assert ((found[0, 0] - exact).abs() < 4.5 * error).all()


def test_a_subset_is_scaled_to_the_whole_task_and_unequal_replicates_keep_to_themselves(given):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 50, 4, generator=generator)
    method, weights = learner(MLP(4, (5,)), [0, 1], 2)
    forward = lambda x, w: method.forward(x, w, 0)  # noqa: E731
    both = fisher(forward, weights, given(x, [50, 20]), Streams([0, 1], "f"))
    alone = fisher(
        lambda x, w: method.forward(x, w, 0),
        {name: weight[1:] for name, weight in weights.items()},
        given(x[1:], [20]),
        Streams([1], "f"),
    )
    for name, value in alone.items():
        torch.testing.assert_close(both[name][1:], value)
    same = torch.ones(1, 50, 4).mul(x[:1, :1])
    one = {name: weight[:1] for name, weight in weights.items()}
    few = fisher(forward, one, given(same.repeat(1, 20, 1), [1000]), Streams([0], "f"), examples=400)
    many = fisher(forward, one, given(same.repeat(1, 20, 1), [1000]), Streams([0], "f"))
    torch.testing.assert_close(few["hidden_1"], many["hidden_1"], rtol=0.3, atol=0.5)


def test_a_weight_that_no_example_reaches_has_no_information(given):
    method, weights = learner(MLP(3, (4,)), [0], 2)
    x = torch.randn(1, 30, 3)
    x[..., 1] = 0
    found = fisher(lambda x, w: method.forward(x, w, 0), weights, given(x, [30]), Streams([0], "f"))
    assert (found["hidden_1"][0, 0, 1] == 0).all() and (found["hidden_1"][0, 0, [0, 2, 3]].sum(1) > 0).all()


def test_fewer_than_no_examples_are_refused(given):
    method, weights = learner(MLP(3, (4,)), [0], 2)
    with pytest.raises(InputError, match="fisher_examples is -1"):
        fisher(lambda x, w: method.forward(x, w, 0), weights, given(torch.randn(1, 5, 3), [5]), Streams([0], "f"), -1)
