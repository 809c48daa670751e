"""P&C: each of its terms against the formula, what moves in which phase, and what is kept."""

from functools import partial

import pytest
import torch

from pyroclaw.handlers import LocalReparameterisation
from pyroclaw.inference.elbo import AnalyticELBO
from pyroclaw.inference.fisher import fisher
from pyroclaw.inference.method import Budget, TaskInfo, Training
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.models.pnc import ActiveColumn, Distilled, Pnc, Settings, unit_norm
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def learner(bench, seeds, heads=None, **settings):
    net = make_net(bench.net, bench.input_shape)
    return Pnc(net, heads or bench.heads, Streams(seeds, "init"), Settings(**settings))


def learn(bench, seeds, epochs=2.0, heads=None, tasks=None, **settings):
    """Learn all tasks: the learner and what was noted after each."""
    pnc = learner(bench, seeds, heads, **settings)
    return pnc, list(learn_tasks(pnc, tasks or bench.tasks(seeds), Budget(epochs, bench.batch_size), seeds))


def about_to_compress(pnc, task, index, seeds):
    """The learner at the first step of its second phase, with a column that nobody trained."""
    info = TaskInfo(index, task.name, task.classes, task.train.sizes)
    pnc.frozen = {name: mean.clone() for name, mean in pnc.weights.mean.items()}
    pnc.active = ActiveColumn(pnc.net, pnc.frozen, Streams(seeds, "column"), pnc.settings)
    pnc.active.begin_task(info, Streams(seeds, "head"))
    pnc.begin_task(info, Streams(seeds, "begin"))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_distillation_and_its_gradient_are_those_of_the_softened_kl(temperature):
    """KL(p ‖ q) = Σ p log(p / q), whose gradient in the student's logits is (q - p) / T; no factor T²."""
    teacher, student = torch.randn(2, 5, 3), torch.randn(2, 5, 3).requires_grad_(True)
    p, q = ((logits / temperature).exp() for logits in (teacher, student.detach()))
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    log_prob = Distilled(student, temperature).log_prob(teacher)
    torch.testing.assert_close(log_prob, -(p * (p / q).log()).sum(-1))
    log_prob.sum().backward()
    torch.testing.assert_close(student.grad, (p - q) / temperature)


def test_the_objective_of_compress_is_equation_2(toy):
    """Mean KL over the batch plus ½ λ γ Σ F* (θ - θ*)², its gradient too, for two replicates at once."""
    seeds, lam, gamma = [0, 1], 7.0, 0.9
    pnc, _ = learn(toy, seeds, lam=lam, gamma=gamma)
    task = toy.tasks(seeds)[1]
    about_to_compress(pnc, task, 1, seeds)
    for weight in pnc.weights.mean.values():
        weight += 0.1 * torch.randn_like(weight)
        weight.requires_grad_(True)
    x, y = task.train.batch(torch.arange(16).expand(2, -1))
    with LocalReparameterisation(None):
        loss = AnalyticELBO().differentiable_loss(pnc.model, pnc.guide, x, y)
    weights = dict(pnc.weights.mean)
    gradients = torch.autograd.grad(loss, [weights[name] for name in pnc.sites(1)])
    teacher = pnc.active.logits(1, x)
    p, q = (teacher / 2).softmax(-1), (pnc.forward(x, weights, 1) / 2).softmax(-1)
    by_hand = (p * (p.log() - q.log())).sum(-1).mean(1).sum()
    for name in ("hidden_1", "hidden_2"):
        by_hand = by_hand + 0.5 * lam * gamma * (pnc.importance[name] * (weights[name] - pnc.frozen[name]) ** 2).sum()
    torch.testing.assert_close(loss, by_hand)
    expected = torch.autograd.grad(by_hand, [weights[name] for name in pnc.sites(1)])
    for own, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-6)


def test_the_normalised_fisher_has_norm_1_whatever_its_scale():
    information = {"a": torch.rand(2, 1, 3, 4), "b": torch.rand(2, 1, 5, 2) * torch.tensor([1.0, 1e6]).view(2, 1, 1, 1)}
    normalised = unit_norm(information)
    every = torch.cat([own.flatten(1) for own in normalised.values()], 1)
    torch.testing.assert_close(every.square().sum(1), torch.ones(2))
    torch.testing.assert_close(
        normalised["a"][0] / normalised["a"][0].max(), information["a"][0] / information["a"][0].max()
    )
    nothing = unit_norm({"a": torch.zeros(1, 1, 2, 2)})["a"]
    assert torch.equal(nothing, torch.zeros(1, 1, 2, 2))


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_importance_is_the_discounted_sum_of_the_tasks_normalised_fishers(toy, heads):
    """F*_t = Σ_k γ^(t-k) F_k / ‖F_k‖, with each F_k found anew from the weights that task k ended with."""
    seeds, gamma = [0, 1], 0.7
    tasks = [*toy.tasks(seeds), toy.tasks(seeds)[0]]
    pnc, each = learner(toy, seeds, heads, gamma=gamma), []
    for index, task in enumerate(tasks):
        training = Training(Budget(2, 16), lambda purpose, index=index: Streams(seeds, purpose, index))
        pnc.learn(index, task, training)
        forward = partial(lambda x, w, task: pnc.forward(x, w, task), task=index)
        weights = {name: pnc.weights.mean[name].clone() for name in pnc.sites(index)}
        information = fisher(forward, weights, task.train, training.streams("end"), 5000)
        shared = ["hidden_1", "hidden_2"] + (["head"] if heads == "single" else [])
        total = sum(information[name].square().sum((1, 2, 3), keepdim=True) for name in shared)
        each.append({name: information[name] / total.sqrt() for name in shared})
    assert set(pnc.importance) == set(shared)
    for name in shared:
        explicit = sum(gamma ** (2 - k) * own[name] for k, own in enumerate(each))
        torch.testing.assert_close(pnc.importance[name], explicit, rtol=1e-4, atol=1e-7)


def test_the_anchor_moves_to_the_weights_of_the_last_task(toy):
    pnc, _ = learn(toy, [0])
    weights = {name: mean.clone() for name, mean in pnc.weights.mean.items()}
    task = toy.tasks([0])[0]
    about_to_compress(pnc, task, 2, [0])
    (size,) = task.train.sizes
    for name in ("hidden_1", "hidden_2"):
        assert torch.equal(pnc.priors[name].mean, weights[name])
        torch.testing.assert_close(pnc.priors[name].precision, size * 15 * 0.99 * pnc.importance[name])
    assert not hasattr(pnc.priors["head_3"], "precision")


def test_the_knowledge_base_rests_in_progress_and_the_teacher_in_compress(toy):
    """The teacher is the column together with the knowledge base that it learned beside."""
    pnc, seen, answers = learner(toy, [0]), [], []
    task, budget, x = toy.tasks([0])[0], Budget(2, 16), torch.randn(1, 5, 12)
    steps, start = budget.steps(task), {name: mean.clone() for name, mean in pnc.weights.mean.items()}

    def on_step(step, objective):
        assert step == len(seen)
        seen.append({name: mean.detach().clone() for name, mean in pnc.weights.mean.items()})
        answers.append(pnc.active.logits(0, x))

    trace = pnc.learn(0, task, Training(budget, partial(Streams, [0]), on_step))
    assert len(seen) == len(trace) == pnc.effort(0) * steps
    for name, mean in start.items():
        assert torch.equal(seen[steps - 1][name], mean) and not torch.equal(seen[steps][name], mean)
    assert torch.equal(answers[-1], answers[steps - 1]) and not torch.equal(answers[0], answers[steps - 1])
    assert not hasattr(pnc, "active") and not hasattr(pnc, "frozen")


def test_every_task_gets_a_new_column(toy, monkeypatch):
    made = []
    monkeypatch.setattr(ActiveColumn, "end_task", lambda self, *_: made.append(self))
    learn(toy, [0])
    assert len(made) == 2 and made[0] is not made[1]
    assert set(made[1].weights.mean) == {
        *("hidden_1", "hidden_2", "hidden_2.V", "hidden_2.U", "hidden_2.alpha"),
        *("head", "head.V", "head.U", "head.alpha"),
    }
    assert not torch.allclose(made[0].weights.mean["hidden_1"], made[1].weights.mean["hidden_1"])


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_what_is_stored_does_not_grow_but_for_heads(toy, heads):
    _, notes = learn(toy, [0, 1], epochs=1, heads=heads)
    trunk, head = (12 + 1) * 10 + (10 + 1) * 8, (8 + 1) * 2
    grown = 0 if heads == "single" else head
    assert [note.parameters for note in notes] == [trunk + head, trunk + head + grown]
    importance = trunk + (head if heads == "single" else 0)
    assert [note.stored_bytes for note in notes] == [4 * (note.parameters + importance) for note in notes]
    assert notes[0].summary["active_column_parameters"] == trunk + head + (11 * 10 + 10 * 8 + 8) + (9 * 8 + 8 * 2 + 2)


@pytest.mark.parametrize("fixture, heads", [("toy", "multi"), ("toy", "single"), ("toy_pictures", "multi")])
def test_a_replicate_follows_the_same_trajectory_alone_and_in_a_plate(fixture, heads, request):
    bench = request.getfixturevalue(fixture)
    together, notes = learn(bench, [3, 4, 5], heads=heads)
    alone, note = learn(bench, [4], heads=heads)
    for name, mean in alone.weights.mean.items():
        torch.testing.assert_close(together.weights.mean[name][1:2], mean, rtol=1e-3, atol=1e-4)
    for name, importance in alone.importance.items():
        torch.testing.assert_close(together.importance[name][1:2], importance, rtol=1e-2, atol=1e-4)
    torch.testing.assert_close(notes[-1].validation[:, 1:2], note[-1].validation, atol=0.03, rtol=0)


def test_the_same_seeds_give_the_same_bits(toy_pictures):
    one, other = (learn(toy_pictures, [0, 1], epochs=1)[0].parameters() for _ in range(2))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_stronger_penalty_keeps_important_weights_closer(toy):
    moved = []
    for lam in (0.0, 15.0, 1e4):
        pnc = learner(toy, [0], lam=lam)
        notes = learn_tasks(pnc, toy.tasks([0]), Budget(5, 16), [0])
        next(notes)
        before, importance = pnc.weights.mean["hidden_1"].clone(), pnc.importance["hidden_1"]
        next(notes)
        moved.append((importance * (pnc.weights.mean["hidden_1"] - before).square()).sum())
    assert moved[0] > 1.1 * moved[1] > 1.1 * 1.1 * moved[2]


def test_it_learns_both_tasks_and_remembers(toy):
    _, notes = learn(toy, [0, 1], epochs=15, lr=0.01)
    assert notes[0].test.shape == (1, 2) and notes[1].test.shape == (2, 2)
    assert notes[1].test.min() > 0.9
    assert notes[1].summary["active_column_validation"] > 0.9


def test_it_learns_pictures_with_heads_of_unequal_size(toy_pictures):
    pnc, notes = learn(toy_pictures, [0, 1], epochs=20, lr=0.01)
    assert notes[1].test.min() > 0.9
    assert pnc.logits(0, torch.randn(2, 4, 1, 8, 8)).shape == (2, 4, 2)
    assert pnc.logits(1, torch.randn(2, 4, 1, 8, 8)).shape == (2, 4, 3)
