"""REINFORCE against the exact gradient where all sequences can be listed, and a controller that learns."""

from itertools import product

import pytest
import torch

from pyroclaw.inference.controller import Controller
from pyroclaw.streams import Streams

LAYERS, CHOICES = 2, 3
SEQUENCES = list(product(range(CHOICES), repeat=LAYERS))


def controller(layers=LAYERS, choices=CHOICES, **settings):
    made = Controller(layers, choices, Streams([0], "controller"), **{"units": 6} | settings)
    with torch.no_grad():  # far from uniform, so that sequences differ in probability and layers depend on each other
        for parameter in made.policy:
            parameter.mul_(20)
    return made


def reward(actions):
    return 0.3 * actions[0] - 0.7 * actions[1] + 0.9 * (actions[0] == actions[1])


def probability(made, actions):
    """π(a), from the probabilities layer by layer."""
    return torch.stack([made.log_probabilities()[i, a] for i, a in enumerate(actions)]).sum().exp()


def gradient(made, scalar):
    return torch.cat([g.flatten() for g in torch.autograd.grad(scalar, made.policy)])


def exact(made):
    """∇ Σ_a π(a) R(a), by differentiating the probabilities."""
    return gradient(made, sum(probability(made, a) * reward(a) for a in SEQUENCES))


def estimator(made, actions):
    return -gradient(made, made.surrogate(actions, reward(actions)))


def test_probabilities_sum_to_one_over_all_sequences():
    made = controller()
    torch.testing.assert_close(made.log_probabilities().exp().sum(1), torch.ones(LAYERS))
    total = sum(probability(made, a) for a in SEQUENCES)
    torch.testing.assert_close(total, torch.tensor(1.0))
    assert made.log_probabilities().exp().max() > 0.4  # not uniform: the test below is one of more than symmetry


@pytest.mark.parametrize("baseline", [0.0, 0.8, -3.0])
def test_the_mean_of_the_estimator_is_the_exact_gradient_whatever_the_baseline(baseline):
    made = controller()
    with torch.no_grad():
        made.value.weight.zero_()
        made.value.bias.fill_(baseline)
    mean = sum(probability(made, a).detach() * estimator(made, a) for a in SEQUENCES)
    truth = exact(made)
    assert truth.abs().max() > 0.01
    torch.testing.assert_close(mean, truth, atol=1e-5, rtol=1e-4)


def test_the_estimator_on_the_controllers_own_proposals_is_unbiased():
    """Monte Carlo within four standard errors, in the direction of the exact gradient."""
    made, streams, n = controller(), Streams([0], "propose"), 1000
    truth = exact(made)
    along = {a: estimator(made, a) @ truth / truth.norm() for a in SEQUENCES}
    samples = torch.stack([along[tuple(made.propose(streams))] for _ in range(n)])
    assert (samples.mean() - truth.norm()).abs() < 4 * samples.std() / n**0.5
    assert samples.std() > 0


def test_the_right_baseline_lowers_the_variance():
    made = controller()
    weights = torch.stack([probability(made, a).detach() for a in SEQUENCES])
    spread = []
    for baseline in (sum(w * reward(a) for w, a in zip(weights, SEQUENCES, strict=True)), 5.0):
        with torch.no_grad():
            made.value.weight.zero_()
            made.value.bias.fill_(float(baseline))
        gradients = torch.stack([estimator(made, a) for a in SEQUENCES])
        mean = (weights[:, None] * gradients).sum(0)
        spread.append((weights[:, None] * (gradients - mean).square()).sum())
    assert spread[0] < 0.5 * spread[1]


def test_proposals_follow_the_policy():
    made, streams = controller(), Streams([1], "propose")
    drawn = torch.tensor([made.propose(streams) for _ in range(1000)])
    for layer, expected in enumerate(made.log_probabilities().exp()):
        shares = torch.bincount(drawn[:, layer], minlength=CHOICES) / len(drawn)
        assert ((shares - expected).abs() < 4 * (expected * (1 - expected) / len(drawn)).sqrt() + 1e-6).all()


def test_it_learns_the_best_sequence_and_its_value():
    made, streams = Controller(2, 5, Streams([0], "controller"), lr=2e-2), Streams([0], "propose")
    for _ in range(200):
        actions = made.propose(streams)
        made.update(actions, float(actions[0] == 3) + float(actions[1] == 1) - 0.01 * sum(actions))
    assert made.log_probabilities().argmax(1).tolist() == [3, 1]
    assert made.log_probabilities().exp().max(1).values.min() > 0.9
    assert abs(made.baseline().item() - 1.96) < 0.1


def test_an_update_weighs_the_reward_by_the_baseline_from_before_it():
    made = controller()
    baseline, expected = made.baseline().item(), estimator(made, (0, 1))
    made.update([0, 1], reward((0, 1)))
    torch.testing.assert_close(torch.cat([p.grad.flatten() for p in made.policy]), -expected)
    assert abs(made.baseline().item() - reward((0, 1))) < abs(baseline - reward((0, 1)))


def test_it_is_fixed_by_its_streams_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    one, other = controller(), controller()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.log_probabilities(), other.log_probabilities())
    assert one.propose(Streams([5], "p")) == other.propose(Streams([5], "p"))


def test_what_it_keeps_is_weights_state_and_both_optimisers_moments():
    made = controller()
    weights = sum(p.numel() for p in [*made.policy, *made.value.parameters()])
    assert sum(v.numel() for v in made.tensors().values()) == weights + CHOICES
    made.update([0, 0], 1.0)
    assert sum(v.numel() for v in made.tensors().values()) == 3 * weights + CHOICES
