"""FRCL as a whole: its objective, its memory of old functions, and its answers against a dense Gaussian process."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pyroclaw.handlers import LocalReparameterisation
from pyroclaw.inference.elbo import AnalyticELBO
from pyroclaw.inference.inducing import JITTER
from pyroclaw.inference.method import Budget, TaskInfo, Training
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models.frcl import Frcl, Settings, draw
from pyroclaw.nets import MLP, make_net
from pyroclaw.streams import Streams

FEATURES = 8 + 1  # of the toy's net


def learner(bench, seeds, heads=None, **settings):
    net = make_net(bench.net, bench.input_shape)
    return Frcl(net, heads or bench.heads, Streams(seeds, "init"), Settings(**settings))


def learn(bench, seeds, epochs=2.0, **settings):
    """Learn all tasks: the learner and what was noted after each."""
    frcl = learner(bench, seeds, **settings)
    return frcl, list(learn_tasks(frcl, bench.tasks(seeds), Budget(epochs, bench.batch_size), seeds))


def begin(frcl, classes, sizes):
    """The next task, without data."""
    index = frcl.task + 1
    info = TaskInfo(index, "next", classes, tuple(sizes))
    frcl.begin_task(info, Streams(range(frcl.replicates), "begin", index))


def terms(frcl, x, y):
    with LocalReparameterisation(Streams(range(frcl.replicates), "unused")):
        return {name: term.sum() for name, term in AnalyticELBO().terms(frcl.model, frcl.guide, x, y).items()}


@pytest.mark.parametrize("points", [5, 20])  # below and above the number of features
def test_the_objective_is_that_of_the_paper(toy, points):
    """Term by term, from the stored numbers, in numpy's double precision."""
    frcl, _ = learn(toy, [0, 1], points=points)
    begin(frcl, 3, [50, 70])
    frcl.functions.root.add_(0.1 * torch.randn_like(frcl.functions.root).tril(-1))
    for weight in frcl.weights.mean.values():  # the net has moved on since
        weight += 0.05 * torch.randn_like(weight)
    frcl.noise = None
    x, y = torch.randn(2, 16, 12), torch.randint(3, (2, 16))
    found = terms(frcl, x, y)
    assert set(found) == {"hidden_1", "hidden_2", "functions_3", "values_1", "values_2", "label"}
    assert found["hidden_1"] == found["hidden_2"] == 0

    mean, root = (v[:, 0].double().numpy() for v in frcl.functions)
    kl = np.zeros(2)
    for r in range(2):
        for m, lower in zip(mean[r], root[r], strict=True):
            s = lower @ lower.T
            kl[r] += 0.5 * (np.trace(s) + m @ m - len(m) - np.linalg.slogdet(s)[1])
    assert found["functions_3"].item() == pytest.approx(-(kl / [50, 70]).sum(), rel=1e-4)

    for k in range(2):
        old, kl = frcl.values[k], np.zeros(2)
        now = frcl.features(frcl.inputs[k]).double().numpy()
        jitter = JITTER * np.eye(points)
        for r in range(2):
            then, prior = old.features[r].double().numpy(), now[r] @ now[r].T + jitter
            for c in range(2):
                m = then @ old.weight_mean[r, c].double().numpy()
                spread = then @ old.weight_root[r, c].double().numpy()
                s = spread @ spread.T + jitter
                quadratic = np.trace(np.linalg.solve(prior, s + np.outer(m, m)))
                kl[r] += 0.5 * (quadratic - points + np.linalg.slogdet(prior)[1] - np.linalg.slogdet(s)[1])
        assert found[f"values_{k + 1}"].item() == pytest.approx(-(kl / [50, 70]).sum(), rel=1e-4)

    logits = frcl.features(x) @ frcl.functions.mean[:, 0].mT
    expected = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / 16
    torch.testing.assert_close(found["label"], -expected)


def test_a_sample_of_the_functions_has_the_marginals_of_the_weights():
    phi, mean = torch.randn(1, 3, 4), torch.randn(1, 2, 4)
    root = torch.randn(1, 2, 4, 4).tril()
    samples, streams = 4000, Streams([0], "draw")
    drawn = draw(phi.repeat(1, samples, 1), mean, root, streams).view(samples, 3, 2)
    expected = phi[0] @ mean[0].T
    covariance = root[0] @ root[0].mT
    variance = torch.einsum("bi,cij,bj->bc", phi[0], covariance, phi[0])
    error = variance.sqrt() / samples**0.5
    assert ((drawn.mean(0) - expected).abs() < 5 * error).all()
    assert ((drawn.var(0) / variance - 1).abs() < 5 * (2 / samples) ** 0.5).all()
    torch.testing.assert_close(draw(phi, mean, root, None)[0], expected)


def test_the_past_moves_the_net_and_nothing_of_its_own(toy):
    frcl, _ = learn(toy, [0], points=20)
    begin(frcl, 2, [50])
    weights = list(frcl.weights.mean.values())
    kept = [tensor for values in frcl.values for tensor in (values.features, values.weight_mean, values.weight_root)]
    for tensor in (*weights, *kept):
        tensor.requires_grad_(True)
    past = terms(frcl, torch.randn(1, 16, 12), torch.randint(2, (1, 16)))
    (past["values_1"] + past["values_2"]).backward()
    assert all(weight.grad is not None and weight.grad.abs().max() > 1e-6 for weight in weights)
    assert all(tensor.grad is None for tensor in kept)


def test_each_past_task_comes_in_turn_and_counts_for_all(toy):
    every, _ = learn(toy, [0])
    some, _ = learn(toy, [0])
    some.settings = Settings(past_tasks=1)
    x, y = torch.randn(1, 16, 12), torch.randint(2, (1, 16))
    for frcl in (every, some):
        begin(frcl, 2, [50])
    every.weights = some.weights
    full, found = terms(every, x, y), []
    for _ in range(2):
        found.append(terms(some, x, y))
        some.constrain()
    assert "values_2" not in found[0] and "values_1" not in found[1]
    for k in range(2):
        torch.testing.assert_close(found[k][f"values_{k + 1}"], 2 * full[f"values_{k + 1}"])


@pytest.mark.parametrize("points", [5, 20])
def test_answers_are_those_of_a_dense_gaussian_process(toy, points):
    """From the stored values of a task through today's features, kernel matrices written out."""
    frcl, _ = learn(toy, [0, 1], points=points)
    x = torch.randn(2, 6, 12)
    many = torch.stack([frcl.logits(0, x, Streams([s, s + 9], "noise")) for s in range(600)])
    for task in range(2):
        answer, old = frcl.logits(task, x), frcl.values[task]
        pictures = frcl.inducing[task].batch(torch.arange(points).expand(2, -1))[0]
        now, new = frcl.features(pictures).double().numpy(), frcl.features(x).double().numpy()
        for r in range(2):
            then = old.features[r].double().numpy()
            projection = np.linalg.solve(now[r] @ now[r].T + JITTER * np.eye(points), now[r] @ new[r].T).T
            for c in range(2):
                mean = projection @ (then @ old.weight_mean[r, c].double().numpy())
                np.testing.assert_allclose(answer[r, :, c].numpy(), mean, rtol=1e-4, atol=1e-4)
                spread = then @ old.weight_root[r, c].double().numpy()
                s = spread @ spread.T + JITTER * np.eye(points)
                variance = np.diag(new[r] @ new[r].T - projection @ now[r] @ new[r].T + projection @ s @ projection.T)
                if task == 0:
                    ratio = many[:, r, :, c].var(0).numpy() / variance
                    assert (np.abs(ratio - 1) < 5 * (2 / 600) ** 0.5).all()


@pytest.mark.parametrize("fixture", ["toy", "toy_pictures"])
def test_a_replicate_follows_the_same_trajectory_alone_and_in_a_plate(fixture, request):
    bench = request.getfixturevalue(fixture)
    together, notes = learn(bench, [3, 4, 5], points=15)
    alone, note = learn(bench, [4], points=15)
    for name, mean in alone.weights.mean.items():
        torch.testing.assert_close(together.weights.mean[name][1:2], mean, rtol=1e-3, atol=1e-3)
    for ours, theirs in zip(together.values, alone.values, strict=True):
        torch.testing.assert_close(ours.weight_mean[1:2], theirs.weight_mean, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(ours.weight_root[1:2], theirs.weight_root, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(notes[-1].validation[:, 1:2], note[-1].validation, atol=0.05, rtol=0)


def test_the_same_seeds_give_the_same_numbers(toy):
    (one, notes), (other, again) = (learn(toy, [3, 4]) for _ in range(2))
    assert torch.equal(notes[-1].elbo, again[-1].elbo)
    x = torch.randn(2, 5, 12)
    assert torch.equal(one.logits(0, x), other.logits(0, x))


@pytest.mark.parametrize("settings", [{"points": 20}, {"points": 5}, {"points": 5, "selection": "random"}])
def test_it_learns_both_tasks_and_remembers(toy, settings):
    _, notes = learn(toy, [0, 1], epochs=15, lr=1e-2, **settings)
    assert notes[1].test.shape == (2, 2) and notes[1].test.min() > 0.9


def test_heads_of_unequal_size_and_pictures(toy_pictures):
    frcl, notes = learn(toy_pictures, [0, 1], points=10)
    x = torch.randn(2, 4, 1, 8, 8)
    assert [frcl.logits(task, x).shape for task in range(2)] == [(2, 4, 2), (2, 4, 3)]
    assert notes[1].summary == {"points": 10}


def test_each_task_has_functions_of_its_own_under_a_single_head_too(toy):
    frcl = learner(toy, [0], heads="single", points=10)
    list(learn_tasks(frcl, toy.tasks([0]), Budget(1, 16), [0]))
    assert set(frcl.weights.mean) == {"hidden_1", "hidden_2"} and len(frcl.values) == 2
    x = torch.randn(1, 5, 12)
    assert not torch.allclose(frcl.logits(0, x), frcl.logits(1, x))


def test_l_stays_a_cholesky_factor():
    frcl = Frcl(MLP(4, (3,)), "multi", Streams([0], "init"), Settings())
    begin(frcl, 2, [50])
    frcl.functions.root.copy_(torch.randn_like(frcl.functions.root))
    frcl.constrain()
    root = frcl.functions.root
    assert torch.equal(root, root.tril()) and root.diagonal(dim1=-2, dim2=-1).min() > 0


def test_what_is_kept_grows_by_the_inducing_pictures_and_the_values_there(toy):
    frcl, notes = learn(toy, [0, 1], points=6)
    triangle = FEATURES * (FEATURES + 1) // 2
    own = 6 * FEATURES + 2 * (FEATURES + triangle)
    net = 13 * 10 + 11 * 8
    assert [note.parameters for note in notes] == [net + own, net + 2 * own]
    pictures = 6 * 12 * 4  # of floats
    assert [note.stored_bytes for note in notes] == [4 * (net + own) + pictures, 4 * (net + 2 * own) + 2 * pictures]
    assert set(frcl.memory()) == {"inducing_1", "inducing_2"}


def test_what_a_task_ended_with_is_kept_as_it_was(toy):
    tasks = toy.tasks([0])
    frcl = learner(toy, [0], points=10)
    training = Training(Budget(2, 16), partial(Streams, [0]))
    frcl.learn(0, tasks[0], training)
    kept = [tensor.clone() for name, tensor in frcl.parameters().items() if name.endswith("_1")]
    frcl.learn(1, tasks[1], training)
    after = [tensor for name, tensor in frcl.parameters().items() if name.endswith("_1")]
    assert len(kept) == 3 and all(torch.equal(a, b) for a, b in zip(kept, after, strict=True))
