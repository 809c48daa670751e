"""What every method must be to the task loop, whichever it is."""

import json

import pytest
import torch

from pyroclaw.inference.method import Budget, Training, copied
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams

FEWER = {"rcl": {"trials": 3, "choices": 4}}  # what keeps the tests short


def learn(name, bench, seeds, heads=None, epochs=2.0):
    entry = METHODS[name]
    net = make_net(bench.net, bench.input_shape)
    method = entry.make(net, heads or bench.heads, Streams(seeds, "init"), entry.settings(**FEWER.get(name, {})))
    return method, list(learn_tasks(method, bench.tasks(seeds), Budget(epochs, bench.batch_size), seeds))


@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if not entry.one_by_one])
def test_a_replicate_answers_the_same_alone_and_in_a_plate(toy, name):
    together, _ = learn(name, toy, [3, 4])
    alone, _ = learn(name, toy, [4])
    x = torch.randn(1, 6, 12)
    for task in range(2):
        ours = together.logits(task, x.expand(2, -1, -1))[1:]
        torch.testing.assert_close(ours, alone.logits(task, x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", METHODS)
def test_pictures_and_heads_of_unequal_size(toy_pictures, name):
    method, notes = learn(name, toy_pictures, [0], epochs=1.0)
    x = torch.randn(1, 4, 1, 8, 8)
    assert [method.logits(task, x).shape[-1] for task in range(2)] == [2, 3]
    assert all(torch.isfinite(note.elbo).all() for note in notes)


@pytest.mark.parametrize("name", METHODS)
def test_one_head_for_all_tasks(toy, name):
    method, notes = learn(name, toy, [0], heads="single")
    x = torch.randn(1, 5, 12)
    assert method.logits(1, x).shape == (1, 5, 2)
    assert notes[1].test.shape == (2, 1)


@pytest.mark.parametrize("name", METHODS)
def test_the_record_of_a_task_is_complete(toy, name):
    method, notes = learn(name, toy, [0])
    for note in notes:
        json.dumps(note.summary, allow_nan=False)
        assert note.parameters > 0 and note.stored_bytes >= 4 * note.parameters
    assert method.name == name and method.effort(0) > 0


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_run(toy, name):
    (one, _), (other, _) = (learn(name, toy, [5], epochs=1.0) for _ in range(2))
    for key, value in one.parameters().items():
        assert torch.equal(value, other.parameters()[key])


@pytest.mark.parametrize("heads", ["multi", "single"])
@pytest.mark.parametrize("name", METHODS)
def test_a_copy_learns_without_the_other_knowing(toy, name, heads):
    """Also where it shares what is settled."""
    method, _ = learn(name, toy, [0], heads=heads, epochs=0.5)
    kept = {**method.parameters(), **method.memory()}
    before, x = {key: one.clone() for key, one in kept.items()}, torch.randn(1, 5, 12)
    answers = [method.logits(task, x) for task in range(2)]
    twin = copied(method)
    twin.learn(2, toy.tasks([0])[0], Training(Budget(0.5, toy.batch_size), lambda purpose: Streams([0], purpose, 2)))
    now = {**method.parameters(), **method.memory()}
    assert now.keys() == before.keys() and all(
        torch.equal(now[key], one) for key, one in before.items() if not one.is_meta
    )
    assert all(torch.equal(method.logits(task, x), one) for task, one in enumerate(answers))
    assert twin.logits(2, x).shape == (1, 5, 2)


def test_copies_of_claw_share_what_old_tasks_keep(toy):
    method, _ = learn("claw", toy, [0], epochs=0.5)
    own, other = method.parameters(), copied(method).parameters()
    shared = {key for key in own if own[key] is other[key]}
    assert shared == {key for key in own if key.startswith("head_") or key[:2] in ("p_", "a_", "s_")}


def test_every_method_is_explained_in_a_line():
    for name, entry in METHODS.items():
        assert 20 < len(entry.about) < 100 and name not in ("list", "all")
