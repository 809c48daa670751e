"""CLAW with a coreset: answers change, what is propagated does not."""

import pytest
import torch

from pyroclaw.inference.method import Budget
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models.claw import Claw
from pyroclaw.models.claw_coreset import ClawCoreset, Settings
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


class Unrefined(ClawCoreset):
    """Sets coresets aside, and never looks at them."""

    end_task = Claw.end_task


def learn(bench, make, heads="multi", epochs=5):
    method = make(make_net(bench.net, bench.input_shape), heads, Streams([0, 1], "init"), Settings(points=12))
    return method, list(learn_tasks(method, bench.tasks([0, 1]), Budget(epochs, 16), [0, 1]))


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_posterior_and_adaptation_that_go_on_never_see_the_coreset(toy, heads):
    refined, unrefined = (learn(toy, make, heads)[0] for make in (ClawCoreset, Unrefined))
    for name, value in unrefined.parameters().items():
        assert torch.equal(value, refined.parameters()[name])
    assert torch.equal(refined.max_adaptation, unrefined.max_adaptation)
    x = torch.randn(2, 4, 12)
    for task in range(2):
        assert not torch.equal(refined.logits(task, x), unrefined.logits(task, x))


def test_each_task_has_a_copy_of_its_own_even_with_one_head(toy):
    method, _ = learn(toy, ClawCoreset, heads="single")
    assert method.refined[0] is not method.refined[1]
    twin = method.refined[0]
    assert not torch.equal(twin.adaptations[0].a, method.adaptations[0].a)
    assert torch.equal(twin.adaptations[1].a, method.adaptations[1].a)


def rates(method):
    """Of p, a and the head of the second task."""
    p, a, _ = method.adaptations[1]
    by_parameter = {id(one): group["lr"] for group in method.phases()[-1].groups for one in group["params"]}
    return [by_parameter[id(one)] for one in (p, a, method.weights.mean["head_2"])]


def test_a_copy_moves_nothing_faster_than_what_tasks_share(toy):
    method, _ = learn(toy, ClawCoreset)
    usual = Settings()
    assert rates(method) == [usual.lr_adaptation, usual.lr_adaptation, usual.lr_head]
    assert rates(method.refined[1]) == [usual.lr] * 3
    assert method.refined[1].phases()[0].share == 0  # nothing has to be warmed up


def test_it_learns_both_tasks(toy):
    _, notes = learn(toy, ClawCoreset, epochs=40)
    assert notes[1].test.min() > 0.9
    assert notes[1].summary["coreset_points"] == 12 and "adaptation" in notes[1].summary
