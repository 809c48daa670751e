from functools import reduce

import torch

from pyroclaw.distributions import product_moments
from pyroclaw.inference.adaptation import Adaptation, unit_counts
from pyroclaw.nets import CNN, MLP


def random_adaptation(net, replicates=2, adapt_input=True):
    units = sum(unit_counts(net, adapt_input))
    return Adaptation(torch.rand(replicates, units), torch.randn(replicates, units), 1 + torch.rand(replicates, units))


def whole_gains(adaptation, net):
    """Mean and variance of each weight's gain, all its factors together."""
    factors = adaptation.gains(net, adapt_input=True)
    return {name: reduce(product_moments, own) for name, own in factors.items()}


def test_a_neutral_start_leaves_every_weight_as_it_is():
    net = MLP(6, (5, 4))
    adaptation = Adaptation.neutral(1.5 + torch.rand(2, 15), 0.3)
    for mean, variance in whole_gains(adaptation, net).values():
        torch.testing.assert_close(mean, torch.ones_like(mean))
        torch.testing.assert_close(variance, torch.zeros_like(variance), atol=1e-12, rtol=0)


def test_gain_lies_between_nothing_and_the_maximum():
    extremes = Adaptation(torch.ones(1, 2), torch.tensor([[-40.0, 40.0]]), torch.full((1, 2), 3.0))
    torch.testing.assert_close(1 + extremes.b() * extremes.p, torch.tensor([[0.0, 3.0]]))


def test_a_first_layer_weight_is_scaled_by_its_input_unit_and_its_neuron():
    for net in (MLP(3, (4,)), CNN((3, 8, 8), 4, 1)):
        adaptation = random_adaptation(net)
        gain = 1 + adaptation.b() * adaptation.p
        mean, _ = whole_gains(adaptation, net)[net.layers[0].name]
        for r in range(2):
            for row in range(net.layers[0].fan_in):
                torch.testing.assert_close(mean[r, 0, row], gain[r, row // net.taps] * gain[r, 3:7])
            torch.testing.assert_close(mean[r, 0, -1], gain[r, 3:7])  # the bias has no input


def test_gain_moments_are_those_of_the_products_of_sampled_gains():
    net, draws = MLP(2, (3,)), 200_000
    adaptation = random_adaptation(net, 1)
    noise = (adaptation.p * (1 - adaptation.p)).sqrt()
    sampled = 1 + adaptation.b() * (adaptation.p + noise * torch.randn(draws, 5))
    products = sampled[:, :2, None] * sampled[:, None, 2:]
    mean, variance = (m[0, 0, :-1] for m in whole_gains(adaptation, net)["hidden_1"])
    assert ((products.mean(0) - mean).abs() < 5 * (variance / draws).sqrt() + 1e-6).all()
    spread = ((products - mean) ** 2).var(0)
    assert ((products.var(0) - variance).abs() < 5 * (spread / draws).sqrt() + 1e-6).all()


def test_without_input_adaptation_only_neurons_count():
    net = MLP(6, (5, 4))
    assert unit_counts(net, False) == [0, 5, 4]
    gains = random_adaptation(net, adapt_input=False).gains(net, adapt_input=False)
    ((mean, _),) = gains["hidden_1"]
    assert mean.shape == (2, 1, 1, 5)
