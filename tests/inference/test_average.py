"""The mean of the last iterates is what a phase ends with, and nearer to where the ELBO is largest."""

import pytest
import torch

from pyroclaw.data.part import Task
from pyroclaw.inference.average import Average
from pyroclaw.inference.method import Budget, Training
from pyroclaw.inference.sequence import _streams
from pyroclaw.models.claw import Claw, Settings
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


class Watched(Claw):
    """Notes what each step leaves of the trained head, and what the task ends with."""

    def constrain(self):
        super().constrain()
        self.__dict__.setdefault("seen", []).append(self.weights.mean["head_1"].detach().clone())

    def end_task(self, task: Task, training: Training):
        self.ended = self.weights.mean["head_1"].clone()
        super().end_task(task, training)


def learned(bench, averaged=None, **settings):
    claw = Watched(make_net(bench.net, bench.input_shape), bench.heads, Streams([0], "init"), Settings(**settings))
    task = bench.tasks([0])[0]
    claw.learn(0, task, Training(Budget(4, 16, averaged), lambda purpose: _streams([0], 0, "cpu", purpose)))
    return claw


def test_the_running_mean_is_the_mean_of_all_that_was_taken():
    values = torch.randn(7, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    one = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    average = Average([one])
    for value in values:
        with torch.no_grad():
            one.copy_(value)
        average.take()
    average.settle()
    assert torch.allclose(one, values.mean(0), rtol=0, atol=1e-14)


def test_nothing_taken_leaves_the_last_iterate():
    one = torch.full((2,), 5.0)
    Average([one]).settle()
    assert torch.equal(one, torch.full((2,), 5.0))


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_task_ends_with_the_mean_of_its_last_steps(toy, share):
    claw = learned(toy, average=share)
    count = max(1, round(share * len(claw.seen)))
    assert torch.allclose(claw.ended, torch.stack(claw.seen[-count:]).mean(0), rtol=1e-5, atol=1e-7)
    if share == 1.0:
        assert not torch.allclose(claw.ended, claw.seen[-1], rtol=1e-2)


def test_the_budget_may_ask_for_another_share(toy):
    asked, own = learned(toy, 0.5, average=0.0), learned(toy, average=0.5)
    assert torch.equal(asked.ended, own.ended)
    assert torch.equal(learned(toy, 0.0, average=0.5).ended, learned(toy, average=0.0).ended)


def test_iterates_of_a_constant_rate_scatter_and_their_mean_does_not():
    """A quadratic with noisy gradients, whose maximum is known: 400 runs side by side."""
    generator = torch.Generator().manual_seed(1)
    place = torch.zeros(400, 1, dtype=torch.float64, requires_grad=True)
    adam, average = torch.optim.Adam([place], lr=0.05), Average([place])
    for step in range(600):
        place.grad = place.detach() - 1 + torch.randn(400, 1, dtype=torch.float64, generator=generator)
        adam.step()
        if step >= 300:
            average.take()
    last = (place.detach() - 1).square().mean().sqrt()
    average.settle()
    mean = (place.detach() - 1).square().mean().sqrt()
    assert last > 0.1 and mean < 0.7 * last
