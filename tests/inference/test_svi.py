import pytest
import torch

from pyroclaw.inference.method import TaskInfo
from pyroclaw.inference.svi import Budget, Diverged, Interrupted, fit, order
from pyroclaw.models.claw import Claw, Settings
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def begun(bench, seeds=(0,), **settings):
    """A learner about to train on the first task, and that task."""
    task = bench.tasks(seeds)[0]
    claw = Claw(make_net(bench.net, bench.input_shape), bench.heads, Streams(seeds, "init"), Settings(**settings))
    claw.begin_task(TaskInfo(0, task.name, task.classes, task.train.sizes), Streams(seeds, "begin", 0))
    return claw, task


def test_every_pass_holds_each_example_once():
    positions = order([7, 5], 35, Streams([0, 1], "x"))
    assert positions.shape == (2, 35)
    for i in range(5):
        assert sorted(positions[0, 7 * i : 7 * i + 7].tolist()) == list(range(7))
    for i in range(7):
        assert sorted(positions[1, 5 * i : 5 * i + 5].tolist()) == list(range(5))


def test_the_order_of_a_replicate_does_not_depend_on_the_size_of_another():
    together = order([3, 9], 20, Streams([4, 5], "x"))
    alone = order([9], 20, Streams([5], "x"))
    assert torch.equal(together[1], alone[0])


def test_the_number_of_steps_is_that_of_the_epochs(toy):
    claw, task = begun(toy)
    assert Budget(10, 16).steps(task) == round(10 * task.nominal_size / 16)
    assert len(fit(claw, task, Budget(2, 16), Streams([0], "t"))) == Budget(2, 16).steps(task)


def test_the_elbo_rises(toy):
    claw, task = begun(toy)
    trace = fit(claw, task, Budget(20, 16), Streams([0], "t"))
    assert trace[-5:].mean() > trace[:5].mean() + 0.2


def test_stopping_is_noticed_after_the_step(toy):
    claw, task = begun(toy)
    seen = []
    with pytest.raises(Interrupted):
        fit(claw, task, Budget(2, 16), Streams([0], "t"), lambda step, elbo: seen.append(step), lambda: len(seen) == 3)
    assert seen == [0, 1, 2]


def test_an_elbo_that_is_no_number_is_reported(toy):
    claw, task = begun(toy, lr=1e30)
    with pytest.raises(Diverged, match=task.name):
        fit(claw, task, Budget(2, 16), Streams([0], "t"))
