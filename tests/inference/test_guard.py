"""A step that is no number is not taken, and the site is named."""

import pytest
import torch

from pyroclaw.inference.checkpoint import Checkpoints
from pyroclaw.inference.guard import Diverged, Guard
from pyroclaw.inference.method import Budget, TaskInfo, Training
from pyroclaw.inference.position import Keeper, keeping, leaves
from pyroclaw.inference.svi import fit
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def method(name, bench, **settings):
    entry = METHODS[name]
    return entry.make(
        make_net(bench.net, bench.input_shape), bench.heads, Streams([0], "init"), entry.settings(**settings)
    )


CPU = torch.device("cpu")


def test_the_summand_that_is_not_finite_is_named():
    guard, terms = Guard(None, "a", CPU), {"label": torch.zeros(2, 3), "hidden_1": torch.zeros(2, 1)}
    assert guard.watch(6, torch.zeros(2), terms, []) == 0
    terms["hidden_1"] = torch.tensor([[0.0], [-torch.inf]])
    with pytest.raises(Diverged, match=r"task 'a' is -inf in step 8, by site 'hidden_1'; the state before"):
        guard.watch(7, torch.tensor([0.0, torch.inf]), terms, [])


def test_the_gradient_that_is_not_finite_is_named(toy):
    pair = method("vcl", toy)
    trained = [*pair.weights.mean.values(), *pair.weights.log_variance.values()]
    guard = Guard(pair, "a", CPU)
    assert guard.watch(0, torch.zeros(1), {}, trained) == 0  # none has a gradient
    for parameter in trained:
        parameter.grad = torch.full_like(parameter, 1e30)
    assert guard.watch(1, torch.zeros(1), {}, trained) == 0
    pair.weights.log_variance["hidden_2"].grad[0, 0, 1, 2] = torch.nan
    with pytest.raises(Diverged, match=r"gradient of 'weights.log_variance.hidden_2' is not finite in step 3"):
        guard.watch(2, torch.zeros(1), {}, trained)


@pytest.fixture
def lazy(monkeypatch):
    """A CPU that is looked at as seldom as another device."""
    made = Guard.__init__

    def seldom(self, *args):
        made(self, *args)
        self.every = 100

    monkeypatch.setattr(Guard, "__init__", seldom)


@pytest.mark.parametrize("name", ["claw", "frcl"])  # both project parameters after a step
def test_nothing_moves_until_a_bad_step_is_noticed(toy, lazy, monkeypatch, name):
    """Neither parameters nor Adam's memory, in the bad step and in good ones after it; and the bad one is named."""
    task, bad = toy.tasks([0])[0], 3
    pair = method(name, toy)
    pair.begin_task(TaskInfo(0, task.name, task.classes, task.train.sizes), Streams([0], "begin", 0))
    (hook,) = [one for path, one in leaves(pair).items() if path == "weights.mean.hidden_1"]
    adam, states = torch.optim.Adam.step, []

    def step(self, *args):
        pair_and_adam = [*leaves(pair).values(), *(value for one in self.state.values() for value in one.values())]
        states.append([one.clone() for one in pair_and_adam if isinstance(one, torch.Tensor)])
        return adam(self, *args)

    def poisoned(self, number, losses, terms, trained):
        if number == bad:
            hook.grad[0, 0, 0, 0] = torch.nan
        return watch(self, number, losses, terms, trained)

    watch = Guard.watch
    monkeypatch.setattr(Guard, "watch", poisoned)
    monkeypatch.setattr(torch.optim.Adam, "step", step)
    with pytest.raises(Diverged, match=r"gradient of 'weights.mean.hidden_1' is not finite in step 4 of"):
        fit(pair, task, Budget(2, 16), Streams([0], "t"))
    assert len(states) == Budget(2, 16).steps(task) > bad + 2  # it was noticed at the end
    assert not all(torch.equal(one, other) for one, other in zip(states[bad - 1], states[bad], strict=True))
    for later in states[bad + 1 :]:
        assert all(torch.equal(one, other) for one, other in zip(states[bad], later, strict=True))


def test_the_device_is_looked_at_every_so_many_steps(toy, lazy, monkeypatch):
    task, looks, look = toy.tasks([0])[0], [], Guard.look
    pair = method("finetune", toy)
    pair.begin_task(TaskInfo(0, task.name, task.classes, task.train.sizes), Streams([0], "begin", 0))
    monkeypatch.setattr(Guard, "look", lambda self: (looks.append(self.watched[-1].step + 1), look(self)))
    fit(pair, task, Budget(60, 16), Streams([0], "t"))
    steps = Budget(60, 16).steps(task)
    assert looks == [*range(100, steps, 100), steps] and len(looks) > 2


def test_no_checkpoint_is_made_of_a_step_that_was_not_taken(toy, lazy, tmp_path):
    """A position is written after every step, and the run stops before the first bad one would be."""
    task, pair = toy.tasks([0])[0], method("vcl", toy, lr=1e15)
    pair.begin_task(TaskInfo(0, task.name, task.classes, task.train.sizes), Streams([0], "begin", 0))
    keeper = Keeper(Checkpoints(tmp_path, {}), every=0.0)
    with keeping(keeper), pytest.raises(Diverged):
        fit(pair, task, Budget(5, 16), Streams([0], "t"))
    saved = keeper.checkpoints.load()
    assert all(torch.isfinite(tensor).all() for tensor in saved.tensors.values() if tensor.is_floating_point())


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
