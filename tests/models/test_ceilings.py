"""The floor and the ceilings."""

import pytest
import torch
import torch.nn.functional as F

from pyroclaw.handlers import affine
from pyroclaw.inference.elbo import AnalyticELBO
from pyroclaw.inference.method import Budget, TaskInfo
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models import joint
from pyroclaw.models.finetune import Finetune
from pyroclaw.models.independent import Independent
from pyroclaw.models.joint import Joint
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def learn(make, bench, heads="multi", seeds=(0, 1), epochs=10, tasks=None, first=1):
    settings = joint.Settings(first=first)
    method = make(make_net(bench.net, bench.input_shape), heads, Streams(seeds, "init"), settings)
    return method, list(learn_tasks(method, bench.tasks(seeds)[:tasks], Budget(epochs, 16), seeds))


def test_fine_tuning_is_maximum_likelihood(toy):
    method = Finetune(make_net(toy.net, toy.input_shape), "multi", Streams([0, 1], "init"), joint.Settings())
    task = toy.tasks([0, 1])[0]
    method.begin_task(TaskInfo(0, "one", 2, task.train.sizes), Streams([0, 1], "begin"))
    x, y = task.train.batch(torch.arange(16).expand(2, -1))
    loss = AnalyticELBO().differentiable_loss(method.model, method.guide, x, y)
    torch.testing.assert_close(loss / 2, F.cross_entropy(method.logits(0, x).flatten(0, 1), y.flatten()))


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_an_independent_net_does_not_know_of_later_tasks(toy, heads):
    both, notes = learn(Independent, toy, heads)
    one, _ = learn(Independent, toy, heads, tasks=1)
    x = torch.randn(2, 5, 12)
    assert torch.equal(both.logits(0, x), one.logits(0, x))
    assert torch.equal(notes[0].test[0], notes[1].test[0])
    assert not torch.equal(both.nets[0].mean["hidden_1"], both.nets[1].mean["hidden_1"])
    assert notes[1].parameters == 2 * notes[0].parameters


def test_the_first_task_is_the_same_for_floor_and_ceiling(toy):
    floor, ceiling = (learn(make, toy, tasks=1)[0] for make in (Finetune, Independent))
    x = torch.randn(2, 5, 12)
    assert torch.equal(floor.logits(0, x), ceiling.logits(0, x))


def test_joint_training_scores_each_example_by_the_head_of_its_own_task(toy_pictures):
    """Heads of 2 and 3 classes: labels 0, 1 belong to the first task, 2, 3, 4 to the second."""
    method, _ = learn(Joint, toy_pictures, epochs=2)
    x, y = torch.randn(2, 4, 1, 8, 8), torch.tensor([[0, 1, 2, 4], [3, 2, 1, 0]])
    loss = AnalyticELBO().differentiable_loss(method.model, method.guide, x, y)
    expected = torch.zeros(())
    for r in range(2):
        for image, label in zip(x[r], y[r].tolist(), strict=True):
            task = int(label >= 2)
            every = image.expand(2, 1, *image.shape)
            expected += F.cross_entropy(method.logits(task, every)[r], torch.tensor([label - 2 * task])) / 4
    torch.testing.assert_close(loss, expected)


def test_joint_training_sees_all_tasks_anew_each_time(toy):
    method, notes = learn(Joint, toy)
    assert len(notes[1].elbo) == 2 * len(notes[0].elbo) and method.effort(1) == 2.0
    assert int(method.sizes[0]) == sum(task.train.sizes[0] for task in toy.tasks([0, 1]))
    fresh = learn(Joint, toy, tasks=1)[0].weights.mean["hidden_1"]
    distance = (method.weights.mean["hidden_1"] - fresh).square().mean()
    assert distance > 0.05 * fresh.square().mean()  # not a continuation of what the first task left


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_joint_training_that_waits_ends_as_if_it_had_not(toy, heads):
    usual, notes = learn(Joint, toy, heads)
    method, waited = learn(Joint, toy, heads, first=2)
    assert [len(note.elbo) for note in waited] == [1, len(notes[1].elbo)]
    assert (method.effort(0), method.effort(1)) == (0.0, 2.0)
    assert torch.equal(waited[1].test, notes[1].test)
    for name, weight in usual.weights.mean.items():
        assert torch.equal(method.weights.mean[name], weight)


def test_joint_training_with_one_head_uses_it_for_all(toy):
    method, notes = learn(Joint, toy, heads="single")
    assert set(method.weights.mean) == {"hidden_1", "hidden_2", "head"}
    x = torch.randn(2, 3, 12)
    weights = method.weights.mean
    torch.testing.assert_close(method.logits(1, x), affine(method.net(x, weights), weights["head"]))
    assert notes[1].parameters == notes[0].parameters


def test_joint_training_stores_all_images(toy):
    _, (first, second) = learn(Joint, toy, epochs=1)
    images = toy.tasks([0, 1])[1].train
    numbers = 4 * (second.parameters - first.parameters)
    assert second.stored_bytes - first.stored_bytes == numbers + sum(images.sizes) // 2 * 12 * 4


@pytest.mark.parametrize("make", [Independent, Joint])
def test_ceilings_learn_both_tasks(toy, make):
    _, notes = learn(make, toy, epochs=40)
    assert notes[1].test.min() > 0.9
