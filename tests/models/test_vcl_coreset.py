"""The coreset: set aside before training, used for prediction only."""

import pytest
import torch

from pyroclaw.inference.method import Budget
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models.vcl import Vcl
from pyroclaw.models.vcl_coreset import Settings, VclCoreset
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def learn(bench, heads="multi", seeds=(0, 1), epochs=5, make=VclCoreset, **settings):
    settings = Settings(**({"points": 12} | settings))
    method = make(make_net(bench.net, bench.input_shape), heads, Streams(seeds, "init"), settings)
    return method, list(learn_tasks(method, bench.tasks(seeds), Budget(epochs, 16), seeds))


class Unrefined(VclCoreset):
    """Sets coresets aside, and never looks at them."""

    end_task = Vcl.end_task


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_the_propagated_posterior_never_sees_the_coreset(toy, heads):
    refined, _ = learn(toy, heads)
    unrefined, _ = learn(toy, heads, make=Unrefined)
    for name, mean in unrefined.weights.mean.items():
        assert torch.equal(mean, refined.weights.mean[name])
        assert torch.equal(unrefined.weights.log_variance[name], refined.weights.log_variance[name])
    x = torch.randn(2, 4, 12)
    assert not torch.equal(refined.logits(0, x), unrefined.logits(0, x))


def test_points_of_the_coreset_are_not_trained_on(toy):
    method, _ = learn(toy)
    task = toy.tasks([0, 1])[0]
    left = method.training_data(task, Streams([0, 1], "data", 0))
    kept = method.coresets[-1]
    assert left.train.sizes == tuple(size - 12 for size in task.train.sizes)
    assert left.nominal_size == task.nominal_size - 12
    for r in range(2):
        pictures = [part.batch(torch.arange(min(part.sizes)).expand(2, -1))[0][r] for part in (kept, left.train)]
        assert torch.cdist(*pictures).min() > 0
        assert len(pictures[0]) == 12


def test_each_task_is_answered_by_the_copy_refined_on_its_own_coreset(toy):
    method, _ = learn(toy)
    assert len(method.refined) == 2 and method.refined[0] is not method.refined[1]
    for t, twin in enumerate(method.refined):
        x, y = method.coresets[t].batch(torch.arange(12).expand(2, -1))
        own = torch.nn.functional.cross_entropy(method.logits(t, x).flatten(0, 1), y.flatten())
        method.refined, kept = (), method.refined
        plain = torch.nn.functional.cross_entropy(method.logits(t, x).flatten(0, 1), y.flatten())
        method.refined = kept
        assert own < plain  # it has learned these points better than the posterior knows them
        assert twin.weights.mean["hidden_1"] is not method.weights.mean["hidden_1"]


def test_with_one_head_all_coresets_refine_one_copy(toy):
    method, _ = learn(toy, heads="single")
    assert method.refined[0] is method.refined[1]
    assert int(method.refined[0].sizes[0]) == 24


@pytest.mark.parametrize("selection", ["k-center", "random"])
def test_a_replicate_alone_keeps_the_same_points_and_answers_the_same(toy, selection):
    together, _ = learn(toy, seeds=(3, 4), selection=selection)
    alone, _ = learn(toy, seeds=(4,), selection=selection)
    for ours, theirs in zip(together.coresets, alone.coresets, strict=True):
        positions = torch.arange(12)
        torch.testing.assert_close(ours.batch(positions.expand(2, -1))[0][1:], theirs.batch(positions[None])[0])
    x = torch.randn(1, 6, 12)
    torch.testing.assert_close(together.logits(0, x.expand(2, -1, -1))[1:], alone.logits(0, x), rtol=1e-3, atol=1e-3)


def test_the_coreset_is_what_a_task_adds_to_storage(toy_pictures):
    method, (first, second) = learn(toy_pictures)
    pictures = method.coresets[1].images
    assert len(pictures) == 2 * 12
    labels = 12 * 8
    numbers = 4 * (second.parameters - first.parameters)
    assert second.stored_bytes - first.stored_bytes == numbers + labels + pictures.nbytes // 2
    assert second.summary == {"coreset_points": 12}


def test_at_most_half_of_a_task_is_kept(toy_pictures):
    method, notes = learn(toy_pictures, points=1000, epochs=1)
    sizes = toy_pictures.tasks([0, 1])[0].train.sizes
    assert notes[0].summary["coreset_points"] == min(sizes) // 2 == method.coresets[0].sizes[0]


def test_it_learns_both_tasks(toy):
    _, notes = learn(toy, epochs=80)
    assert notes[1].test.mean() > 0.9
