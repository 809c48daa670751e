"""Nets as functions of sampled weights: the trunk that tasks share, without its heads.

A net owns no parameters. It names its layers with their shapes, and maps (images, weights) to features. The head of a
task is one more :func:`~pyroclaw.handlers.affine` on those features, so heads may differ in size.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import torch.nn.functional as F
from torch import Tensor

from pyroclaw.convolutions import KERNEL
from pyroclaw.data.benchmark import NetPreset
from pyroclaw.handlers import affine, block


class Layer(NamedTuple):
    """A matrix of weights [fan_in + 1, units], bias included; one column per neuron (or filter)."""

    name: str
    fan_in: int
    units: int


class Net(Protocol):
    layers: Sequence[Layer]
    features: int  # what a head sees
    input_units: int  # units of the input that adaptation can scale: pixels of an MLP, channels of a CNN
    taps: int  # rows of the first layer's weight per input unit

    def __call__(self, x: Tensor, weights: Mapping[str, Tensor]) -> Tensor: ...


class MLP:
    """ReLU layers of the given widths on flat inputs [R, B, inputs].

    >>> [layer.units for layer in MLP(784, (100, 100)).layers]
    [100, 100]
    """

    taps = 1

    def __init__(self, inputs: int, hidden: Sequence[int]) -> None:
        widths = [inputs, *hidden]
        self.layers: Sequence[Layer] = [Layer(f"hidden_{i + 1}", widths[i], widths[i + 1]) for i in range(len(hidden))]
        self.input_units, self.features = inputs, widths[-1]

    def __call__(self, x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        for layer in self.layers:
            x = F.relu(affine(x, weights[layer.name]))
        return x


class CNN:
    """Blocks of 3×3 convolution, ReLU and 2×2 max-pooling on images [R, B, C, H, W] (the paper: 4 blocks, 64 filters).

    >>> CNN((3, 32, 32), 64, 4).features
    256
    """

    taps = KERNEL * KERNEL

    def __init__(self, shape: Sequence[int], filters: int, blocks: int) -> None:
        channels, height, width = shape
        fans = [channels] + [filters] * (blocks - 1)
        self.layers: Sequence[Layer] = [Layer(f"conv_{i + 1}", fan * self.taps, filters) for i, fan in enumerate(fans)]
        self.input_units, self.features = channels, filters * (height >> blocks) * (width >> blocks)

    def __call__(self, x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        for layer in self.layers:
            x = block(x, weights[layer.name])
        return x.flatten(2)


def make_net(preset: NetPreset, input_shape: Sequence[int]) -> Net:
    """The net of a benchmark, for inputs of its shape."""
    if preset.kind == "mlp":
        return MLP(math.prod(input_shape), preset.hidden)
    return CNN(input_shape, preset.filters, preset.blocks)
