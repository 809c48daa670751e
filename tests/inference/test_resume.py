"""A run that was stopped anywhere ends with the same bits as one that was not, whichever the method."""

import random

import pytest
import torch

from pyroclaw.inference.method import Budget
from pyroclaw.inference.position import Keeper, leaves
from pyroclaw.inference.resume import Resumable
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models import METHODS
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams

FEWER = {"rcl": {"trials": 2, "choices": 3}, "vcl_coreset": {"points": 5}, "claw_coreset": {"points": 5}}
BUDGET, SEEDS = Budget(4.0, 16), [3]


class Killed(BaseException):
    pass


def made(name, bench):
    entry = METHODS[name]
    net = make_net(bench.net, bench.input_shape)
    return entry.make(net, bench.heads, Streams(SEEDS, "init"), entry.settings(**FEWER.get(name, {})))


def run(name, bench, folder, every=0.0, die=None):
    """Go on with a run from its checkpoints; `die` after so many steps of this process."""
    tasks, left = bench.tasks(SEEDS), [die]

    def step(*_):
        if die is not None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

    resumable = Resumable(folder, {"run": name}, tasks, every)
    method, done = resumable.load(made(name, bench)) or (made(name, bench), [])
    rest = learn_tasks(method, tasks, BUDGET, SEEDS, on_step=step, samples=2, resumable=resumable, done=done)
    return method, [*done, *rest]


def bits(method, notes):
    """All numbers of a method, and of the notes all but the seconds."""
    found = {f"method.{path}": leaf for path, leaf in leaves(method).items() if isinstance(leaf, torch.Tensor)}
    for note in notes:
        found |= {f"{note.index}.{path}": leaf for path, leaf in leaves(vars(note)).items() if path != "seconds"}
    return found


def same(one, other):
    assert one.keys() == other.keys() and len(one) > 20
    for path, value in one.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other[path]) and value.stride() == other[path].stride(), path
        else:
            assert value == other[path], path


@pytest.mark.parametrize("name", METHODS)
def test_a_run_that_was_stopped_often_ends_with_the_same_bits(toy, name, tmp_path):
    expected = bits(*run(name, toy, tmp_path / "unstopped", every=1e9))
    rng, stops = random.Random(name), 0
    while True:
        try:
            found = run(name, toy, tmp_path / "stopped", die=rng.randrange(1, 9))
            break
        except Killed:
            stops += 1
            if stops == 8:  # the search of learn-to-grow, say, is longer than any of these lives
                found = run(name, toy, tmp_path / "stopped")
                break
    same(bits(*found), expected)
    assert stops >= 2


def test_a_position_is_not_begun_anew(toy, tmp_path):
    """What was learned before the stop is not learned again."""
    seen = []
    with pytest.raises(Killed):
        run("claw", toy, tmp_path, die=3)
    tasks = toy.tasks(SEEDS)
    resumable = Resumable(tmp_path, {"run": "claw"}, tasks, 0.0)
    list(
        learn_tasks(made("claw", toy), tasks[:1], BUDGET, SEEDS, on_step=lambda *a: seen.append(a), resumable=resumable)
    )
    assert seen[0][1] == 3 and len(seen) == BUDGET.steps(tasks[0]) - 3


def test_a_position_from_before_there_were_means_is_gone_on_from(toy, tmp_path, monkeypatch):
    expected = bits(*run("ewc", toy, tmp_path / "unstopped", every=1e9))
    with pytest.raises(Killed):
        run("ewc", toy, tmp_path / "stopped", die=3)
    begin = Keeper.begin

    def without(*args):
        return {key: value for key, value in (begin(*args) or {}).items() if key != "average"} or None

    monkeypatch.setattr(Keeper, "begin", without)
    same(bits(*run("ewc", toy, tmp_path / "stopped", every=1e9)), expected)


def test_data_are_not_stored_with_a_run(toy, tmp_path):
    """Joint training keeps all data, of which a run has its own."""
    run("joint", toy, tmp_path)
    stored = sum(path.stat().st_size for path in tmp_path.rglob("tasks/*.safetensors"))
    assert 0 < stored < toy.images.numel() * 4


def test_positions_are_gone_when_a_task_is_learned(toy, tmp_path):
    run("claw", toy, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tasks"]
    Resumable(tmp_path, {"run": "claw"}, []).clear()
    assert not tmp_path.exists()
