"""Adaptation of neurons to a task: the gain 1 + bα of each, equations (4) to (6).

For a task and each unit (input units, and the neurons or filters of every layer) there are three numbers: the
probability p of adapting, the unconstrained adaptation a, and the maximum adaptation s, with

    1 + b = s · sigmoid(a)        (6)    so b lies in (-1, s - 1): from switching a neuron off to amplifying it s-fold
    α ~ N(p, p(1 - p))            (5)    the Gaussian with the mean and variance of Bernoulli(p)
    w^T = (1 + bα) ∘ w            (4)    for the weights w into the neuron, its bias included
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pyroclaw.distributions.gains import Group, grouped_gains
from pyroclaw.distributions.matched_moments import Moments
from pyroclaw.nets import Net


class Adaptation(NamedTuple):
    """p, a and s of one task, each [R, U] over the U units of the net: the input's first, then layer by layer."""

    p: Tensor
    a: Tensor
    s: Tensor

    @staticmethod
    def neutral(s: Tensor, probability: float) -> "Adaptation":
        """The start of a task: every gain is 1, since a is where s · sigmoid(a) = 1 (which takes s > 1)."""
        s = s.clamp(min=1.01)
        return Adaptation(torch.full_like(s, probability), -torch.log(s - 1), s)

    def b(self) -> Tensor:
        return self.s * torch.sigmoid(self.a) - 1  # (6)

    def gains(self, net: Net, adapt_input: bool) -> dict[str, tuple[Moments, ...]]:
        """Mean and variance of the gains of each layer's weights, to broadcast against [R, 1, fan-in + 1, units].

        A weight is scaled by its neuron's gain, and in the first layer by its input unit's too.
        """
        inputs, *columns = grouped_gains(*self, _groups(net, adapt_input))
        gains: dict[str, tuple[Moments, ...]] = {
            layer.name: (own,) for layer, own in zip(net.layers, columns, strict=True)
        }
        if adapt_input:
            gains[net.layers[0].name] += (inputs,)
        return gains

    def mean_scales(self, net: Net, adapt_input: bool) -> dict[str, tuple[Tensor, Tensor]]:
        """The mean gain of each layer's weights as scales of its rows [R, fan-in + 1] and columns [R, units]."""
        (inputs, _), *columns = grouped_gains(*self, _groups(net, adapt_input))
        scales = {
            layer.name: (own.new_ones(len(own), layer.fan_in + 1), own.flatten(1))
            for layer, (own, _) in zip(net.layers, columns, strict=True)
        }
        if adapt_input:
            first = net.layers[0].name
            scales[first] = inputs.flatten(1), scales[first][1]
        return scales


def unit_counts(net: Net, adapt_input: bool) -> list[int]:
    """Units that adapt: of the input, then of each layer."""
    return [net.input_units if adapt_input else 0] + [layer.units for layer in net.layers]


def _groups(net: Net, adapt_input: bool) -> list[Group]:
    """The same units; those of the input scale rows of the first layer's weights, of which the last is the bias."""
    inputs, *layers = unit_counts(net, adapt_input)
    return [Group(inputs, net.taps, bias=adapt_input, rows=True), *map(Group, layers)]
