"""A step that is no number is not taken, and the site is named."""

import pytest
import torch

from pyroclaw.inference.guard import Diverged, check_elbo, check_gradients
from pyroclaw.inference.method import Budget, TaskInfo, Training
from pyroclaw.inference.svi import fit
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def method(name, bench, **settings):
    entry = METHODS[name]
    return entry.make(
        make_net(bench.net, bench.input_shape), bench.heads, Streams([0], "init"), entry.settings(**settings)
    )


def test_the_summand_that_is_not_finite_is_named():
    terms = {"label": torch.zeros(2, 3), "hidden_1": torch.tensor([[0.0], [-torch.inf]])}
    check_elbo(torch.zeros(2), terms, "a", 0)
    with pytest.raises(Diverged, match=r"task 'a' is -inf in step 8, by site 'hidden_1'; the state before"):
        check_elbo(torch.tensor([0.0, torch.inf]), terms, "a", 7)


def test_the_gradient_that_is_not_finite_is_named(toy):
    pair = method("vcl", toy)
    trained = [*pair.weights.mean.values(), *pair.weights.log_variance.values()]
    for parameter in trained:
        parameter.grad = torch.full_like(parameter, 3e38)  # the sum overflows, the entries do not
    check_gradients(pair, trained, "a", 0)
    pair.weights.log_variance["hidden_2"].grad[0, 0, 1, 2] = torch.nan
    with pytest.raises(Diverged, match=r"gradient of 'weights.log_variance.hidden_2' is not finite in step 1"):
        check_gradients(pair, trained, "a", 0)


def test_the_last_good_state_is_kept(toy):
    """After the step before the one that is no number, whichever that is."""
    task = toy.tasks([0])[0]
    pair = method("vcl", toy, lr=1e15)
    pair.begin_task(TaskInfo(0, task.name, task.classes, task.train.sizes), Streams([0], "begin", 0))
    steps = []
    with pytest.raises(Diverged, match=task.name):
        fit(pair, task, Budget(5, 16), Streams([0], "t"), lambda step, elbo: steps.append(elbo))
    assert all(torch.isfinite(tensor).all() for tensor in pair.parameters().values())
    assert all(torch.isfinite(elbo) for elbo in steps) and len(steps) >= 1


@pytest.mark.parametrize("name", ["claw", "ewc", "frcl", "pnc", "rcl"])
def test_every_kind_of_method_stops(toy, name):
    task = toy.tasks([0])[0]
    pair = method(name, toy, lr=1e30)
    with pytest.raises(Diverged, match=r"in step \d+.*is kept"):
        pair.learn(0, task, Training(Budget(5, 16), lambda purpose: Streams([0], purpose, 0)))
