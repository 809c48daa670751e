"""RCL as a whole: children, rewards, and old tasks that cannot change."""

from functools import partial

import pytest
import torch

from pyroclaw.data.own import from_arrays
from pyroclaw.errors import InputError
from pyroclaw.inference.evaluate import accuracy
from pyroclaw.inference.method import Budget, Training
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.inference.svi import Interrupted
from pyroclaw.models.rcl import Rcl, Settings
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams

FIXTURES = ["toy", "toy_pictures"]


def learner(bench, seed=0, heads=None, **settings):
    settings = {"trials": 2, "choices": 4} | settings
    net = make_net(bench.net, bench.input_shape)
    return Rcl(net, heads or bench.heads, Streams([seed], "init"), Settings(**settings))


def learn(bench, seed=0, epochs=2.0, heads=None, **settings):
    rcl = learner(bench, seed, heads, **settings)
    return rcl, list(learn_tasks(rcl, bench.tasks([seed]), Budget(epochs, bench.batch_size), [seed]))


def train(rcl, bench, index, seed=0, epochs=2.0, **training):
    """Learn one task of the benchmark."""
    task = bench.tasks([seed])[index]
    streams = partial(_streams, seed, index)
    return task, rcl.learn(index, task, Training(Budget(epochs, bench.batch_size), streams, **training))


def _streams(seed, index, purpose):
    return Streams([seed], purpose, index)


def propose(rcl, *proposals):
    """Let the controller propose these, one after the other."""
    left = list(proposals)
    rcl.controller.propose = lambda streams: left.pop(0)


def pictures(bench):
    return torch.randn(1, 7, *bench.input_shape)


@pytest.fixture(scope="module")
def unequal_toys():
    """Three tasks for an MLP, heads of 2, 3 and 2."""
    generator = torch.Generator().manual_seed(0)
    tasks = []
    for classes in (2, 3, 2):
        labels = torch.arange(classes).repeat_interleave(30)
        x = 3 * torch.randn(classes, 6, generator=generator)[labels] + torch.randn(len(labels), 6, generator=generator)
        tasks.append((x.numpy(), labels.numpy()))
    return tasks


@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.parametrize("heads", ["multi", "single"])
def test_old_tasks_are_answered_bit_for_bit_as_before(fixture, heads, adapt, request):
    bench = request.getfixturevalue(fixture)
    rcl, x = learner(bench, heads=heads, adapt=adapt), pictures(bench)
    train(rcl, bench, 0)
    before, weights = rcl.logits(0, x), {name: v.clone() for name, v in rcl.parameters().items()}
    propose(rcl, [3] * len(rcl.net.layers), [1] * len(rcl.net.layers))
    train(rcl, bench, 1)
    assert torch.equal(rcl.logits(0, x), before)
    assert all(torch.equal(rcl.parameters()[name], v) for name, v in weights.items())
    second = rcl.logits(1, x)
    propose(rcl, [2] * len(rcl.net.layers), [0] * len(rcl.net.layers))
    task = bench.tasks([0])[0]
    rcl.learn(2, task, Training(Budget(2, 16), partial(_streams, 0, 2)))
    assert torch.equal(rcl.logits(0, x), before) and torch.equal(rcl.logits(1, x), second)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_parameters_grow_by_exactly_what_was_added(fixture, request):
    bench = request.getfixturevalue(fixture)
    rcl = learner(bench, trials=1)
    train(rcl, bench, 0)
    count = sum(v.numel() for v in rcl.parameters().values())
    added = [3, 2]
    propose(rcl, added)
    train(rcl, bench, 1)
    first, second = rcl.net.layers
    taps = second.fan_in // first.units
    features = rcl.net.features // second.units * (second.units + added[1])
    classes = bench.tasks([0])[1].classes
    new = (first.fan_in + 1) * 3 + (taps * (first.units + 3) + 1) * 2 + (features + 1) * classes
    assert sum(v.numel() for v in rcl.parameters().values()) == count + new
    assert rcl.summary()["units"] == {first.name: first.units + 3, second.name: second.units + 2}


def test_adapting_keeps_two_numbers_of_each_old_unit(toy):
    counts = []
    for adapt in (False, True):
        rcl = learner(toy, trials=1, adapt=adapt)
        propose(rcl, [1, 1])
        for index in range(2):
            train(rcl, toy, index)
        counts.append(sum(v.numel() for v in rcl.parameters().values()))
    assert counts[1] - counts[0] == 2 * (10 + 8)
    p, a, s = rcl.children[1].adaptation
    assert p.min() >= 0 and p.max() <= 1 and s.min() == s.max() == 2.0
    gains = torch.cat(list(rcl.gains(1)), dim=1)
    assert gains.min() > 0 and gains.max() < 2 and not torch.allclose(gains, torch.ones_like(gains))
    x = torch.randn(1, 5, 12)
    before = rcl.logits(1, x)
    a += 1  # the gains are used
    assert not torch.allclose(rcl.logits(1, x), before)


@pytest.mark.parametrize("adapt", [False, True])
def test_the_reward_is_validation_accuracy_minus_the_cost_of_units(toy, adapt):
    rcl = learner(toy, trials=1, penalty=0.01, adapt=adapt)
    train(rcl, toy, 0)
    propose(rcl, [3, 2])
    task, _ = train(rcl, toy, 1)
    (reward,) = rcl.summary()["rewards"]
    assert reward == pytest.approx(accuracy(rcl, 1, task.validation).item() - 0.05)


def test_the_best_child_is_kept_and_the_others_leave_no_trace(toy):
    """Whatever the worse children were, the net is the one that the best trial alone would have left."""
    kept = []
    for others in ([0, 1], [2, 3]):
        rcl = learner(toy, trials=3, penalty=0.5)  # so that the smallest child is the best
        train(rcl, toy, 0)
        propose(rcl, [1, others[1]], [0, 0], [1, others[0]])
        train(rcl, toy, 1)
        rewards = rcl.summary()["rewards"]
        assert len(rewards) == 3 and rewards[1] == max(rewards)
        assert rcl.children[1].added == (0, 0) and len(rcl.children) == 2
        kept.append(rcl)
    one, other = (rcl.parameters() for rcl in kept)
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    rewards = [rcl.controller.baseline() for rcl in kept]
    assert not torch.equal(*rewards)  # only the controller has learned of them


def test_the_controller_learns_after_each_trial_and_goes_on_with_the_next_task(toy):
    rcl = learner(toy, trials=3)
    train(rcl, toy, 0)
    seen = []
    update = rcl.controller.update
    rcl.controller.update = lambda actions, reward: (seen.append((actions, reward)), update(actions, reward))
    before = rcl.controller.log_probabilities()
    train(rcl, toy, 1)
    assert [reward for _, reward in seen] == rcl.summary()["rewards"]
    assert not torch.equal(rcl.controller.log_probabilities(), before)
    kept = rcl.controller
    rcl.learn(2, toy.tasks([0])[0], Training(Budget(1, 16), partial(_streams, 0, 2)))
    assert rcl.controller is kept and len(seen) == 6


@pytest.mark.parametrize("fixture", FIXTURES)
def test_remembering_old_units_changes_time_not_results(fixture, request):
    bench = request.getfixturevalue(fixture)
    with_memory, without = learn(bench)[0], learn(bench, remember_gib=0.0)[0]
    x = pictures(bench)
    torch.testing.assert_close(with_memory.logits(1, x), without.logits(1, x), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("adapt", [False, True])
def test_it_learns_both_tasks_and_remembers(toy, adapt):
    _, notes = learn(toy, epochs=40, adapt=adapt)
    assert notes[1].test.min() > 0.9
    assert torch.equal(notes[1].test[0], notes[0].test[0])


def test_heads_of_unequal_size_and_children_without_a_new_unit(toy, unequal_toys):
    bench = from_arrays("unequal", unequal_toys, net=toy.net, epochs=2, batch_size=16)
    rcl = learner(bench, trials=1, lr=1e-2)
    propose(rcl, [0, 0], [0, 2])
    notes = list(learn_tasks(rcl, bench.tasks([0]), Budget(20, 16), [0]))
    assert [rcl.logits(t, torch.randn(1, 4, 6)).shape for t in range(3)] == [(1, 4, 2), (1, 4, 3), (1, 4, 2)]
    assert notes[-1].test.min() > 0.8
    assert [note.summary["units_added"] for note in notes] == [0, 0, 2]


def test_the_same_seed_gives_the_same_run(toy):
    one, other = learn(toy, adapt=True), learn(toy, adapt=True)
    assert one[1][-1].summary == other[1][-1].summary
    for name, value in one[0].parameters().items():
        assert torch.equal(value, other[0].parameters()[name])
    assert not torch.equal(learn(toy, 1)[0].logits(0, torch.ones(1, 1, 12)), one[0].logits(0, torch.ones(1, 1, 12)))


def test_what_it_stores_is_its_parameters_and_the_controller(toy):
    rcl, notes = learn(toy)
    assert notes[-1].parameters == sum(v.numel() for v in rcl.parameters().values())
    controller = sum(v.nbytes for v in rcl.controller.tensors().values())
    assert notes[-1].stored_bytes == 4 * notes[-1].parameters + controller


@pytest.mark.parametrize(("trials", "word"), [(2, "reduced from the paper's 50"), (51, "raised from the paper's 50")])
def test_results_say_that_trials_are_not_the_papers(toy, trials, word):
    rcl = learner(toy, trials=trials)
    train(rcl, toy, 0)
    assert rcl.summary()["trials"] == trials and word in rcl.summary()["note"]
    assert Settings().trials == 50
    rcl = learner(toy, trials=50)
    train(rcl, toy, 0)
    assert "note" not in rcl.summary()


def test_steps_are_counted_through_all_trials_and_stopping_is_noticed(toy):
    rcl, steps = learner(toy, trials=3), []
    train(rcl, toy, 0)
    task, trace = train(rcl, toy, 1, on_step=lambda step, elbo: steps.append(step))
    each = Budget(2, 16).steps(task)
    assert steps == list(range(3 * each)) and rcl.effort(1) * each == len(steps) and len(trace) == each
    assert rcl.effort(0) == 1
    with pytest.raises(Interrupted):
        rcl.learn(2, task, Training(Budget(2, 16), partial(_streams, 0, 2), stop=lambda: True))


def test_several_repetitions_at_once_and_no_trials_are_refused(toy):
    net = make_net(toy.net, toy.input_shape)
    with pytest.raises(InputError, match="one by one"):
        Rcl(net, toy.heads, Streams([0, 1], "init"), Settings())
    with pytest.raises(InputError, match="trials=0"):
        learner(toy, trials=0)
    with pytest.raises(InputError, match="choices=0"):
        learner(toy, choices=0)
