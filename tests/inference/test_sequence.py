"""What is measured along the task loop: forward transfer by copies, which leave no trace, and calibration."""

import pytest
import torch

from pyroclaw.inference.evaluate import accuracy
from pyroclaw.inference.method import Budget, Training
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams

FEWER = {"rcl": {"trials": 2, "choices": 3}}
BUDGET, SEEDS = Budget(2.0, 16), [3]


def learner(name, bench):
    entry = METHODS[name]
    net = make_net(bench.net, bench.input_shape)
    return entry.make(net, bench.heads, Streams(SEEDS, "init"), entry.settings(**FEWER.get(name, {})))


@pytest.mark.parametrize("name", METHODS)
def test_forward_transfer_is_that_of_learning_the_last_task_after_so_many_others(toy, name):
    """Against learners that start anew for each number of earlier tasks; and the run itself is as if unobserved."""
    tasks = [*toy.tasks(SEEDS), toy.tasks(SEEDS)[0]]
    observed = learner(name, toy)
    notes = list(learn_tasks(observed, tasks, BUDGET, SEEDS, transfer=True))
    for earlier, note in enumerate(notes):
        fresh = learner(name, toy)
        list(learn_tasks(fresh, tasks[:earlier], BUDGET, SEEDS))
        streams = lambda purpose: Streams(SEEDS, purpose, 2)  # noqa: E731
        fresh.learn(earlier, tasks[2], Training(BUDGET, streams))
        assert torch.equal(note.transfer, accuracy(fresh, earlier, tasks[2].test))
    plain = learner(name, toy)
    assert all(note.transfer is None for note in learn_tasks(plain, tasks, BUDGET, SEEDS))
    for key, value in plain.parameters().items():
        assert torch.equal(value, observed.parameters()[key])


def test_calibration_is_measured_on_every_task_so_far(toy):
    notes = list(learn_tasks(learner("vcl", toy), toy.tasks(SEEDS), BUDGET, SEEDS, samples=3))
    for so_far, note in enumerate(notes, 1):
        assert set(note.calibration) == {"mean weights", "samples"}
        for found in note.calibration.values():
            assert found.shape == (3, so_far, 1) and (found >= 0).all()
    points = learn_tasks(learner("finetune", toy), toy.tasks(SEEDS), BUDGET, SEEDS, samples=3)
    for note in points:  # without uncertainty samples change nothing
        torch.testing.assert_close(note.calibration["samples"], note.calibration["mean weights"])


def test_samples_do_not_shift_the_noise_of_training(toy):
    runs = []
    for samples in (0, 5):
        method = learner("vcl", toy)
        list(learn_tasks(method, toy.tasks(SEEDS), BUDGET, SEEDS, samples=samples))
        runs.append(method.weights.mean)
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
