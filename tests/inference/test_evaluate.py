"""What a learner answers: with mean weights, and averaged over samples of its posterior."""

import math

import torch

from pyroclaw.handlers import affine
from pyroclaw.inference.evaluate import accuracy, entropy, probabilities
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.inference.svi import Budget
from pyroclaw.models.claw import Claw, Settings
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams


def learned(bench, seeds=(0, 1), **settings):
    claw = Claw(make_net(bench.net, bench.input_shape), bench.heads, Streams(seeds, "init"), Settings(**settings))
    list(learn_tasks(claw, bench.tasks(seeds), Budget(5, 16), seeds))
    return claw


def test_mean_weights_need_no_noise_and_give_probabilities(toy):
    claw, x = learned(toy), torch.randn(2, 7, 12)
    p = probabilities(claw, 0, x)
    torch.testing.assert_close(p, claw.logits(0, x).softmax(-1))
    torch.testing.assert_close(p.sum(-1), torch.ones(2, 7))


def test_monte_carlo_prediction_is_that_of_sampled_weights(toy):
    """Noise on activations against noise on weights: the same predictive distribution, within 5 standard errors."""
    claw, x, draws = learned(toy, initial_log_variance=-2.0), torch.randn(2, 4, 12), 2000
    local = probabilities(claw, 1, x, samples=draws, noise=Streams([0, 1], "predict"))
    answers = []
    for _ in range(draws):
        weights = {name: q.sample() for name, q in claw.posterior(1).items()}
        answers.append(affine(claw.net(x, weights), weights["head_2"]).softmax(-1))
    answers = torch.stack(answers)
    error = (2 * answers.var(0) / draws).sqrt() + 1e-6
    assert ((answers.mean(0) - local).abs() < 5 * error).all()
    assert (local - probabilities(claw, 1, x)).abs().max() > 10 * error.max()  # noise is large enough to matter


def test_entropy_is_in_nats_and_largest_for_even_odds():
    p = torch.tensor([[[0.5, 0.5], [1.0, 0.0], [0.9, 0.1]]])
    expected = torch.tensor([[math.log(2), 0.0, -0.9 * math.log(0.9) - 0.1 * math.log(0.1)]])
    torch.testing.assert_close(entropy(p), expected)


class Parity:
    """Answers whether the first input is odd."""

    def logits(self, task, x, noise=None):
        odd = x[..., 0] % 2
        return torch.stack([1 - odd, odd], dim=-1)


class Numbers:
    """Examples 0, 1, 2, … with the label 1 for odd ones below ten; replicates of unequal size."""

    sizes = (10, 20)

    def chunks(self, size):
        for start in range(0, 20, size):
            number = torch.arange(start, min(start + size, 20)).expand(2, -1)
            yield number[..., None].float(), (number % 2) * (number < 10), number < torch.tensor(self.sizes)[:, None]


def test_accuracy_counts_each_replicates_own_examples():
    torch.testing.assert_close(accuracy(Parity(), 0, Numbers()), torch.tensor([1.0, 0.75]))
