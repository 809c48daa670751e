"""A column of layers with lateral adapters from another, frozen one (Rusu et al. 2016; Schwarz et al. 2018, eq. 1).

Layer i of the active column sees, besides its own input, what layer i of the knowledge base (KB) is given:

    h_i = σ(W_i h_{i-1} + α_i ⊙ U_i σ(V_i h^KB_{i-1} + c_i) + b_i)

from the second layer on: the first sees the same picture in both columns, and nothing can be added to it. The head is
the last layer, without σ. Under convolutions U and V are 1×1 convolutions: one map of channels for every pixel.

A net need not know of this. Its linear maps are effectful operations, so one handler notes their inputs in the
knowledge base, and another adds what the adapters make of them to the maps of the column.
"""

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyroclaw.handlers import affine
from pyroclaw.inference.mean_field import Points
from pyroclaw.nets import Layer, Net
from pyroclaw.streams import Streams

INITIAL_ALPHA = 0.1  # α starts uniform between 0 and this: a lateral begins as a small correction


class Inputs(Messenger):
    """Notes what each linear map is applied to, in the order of the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Tensor] = []

    def _note(self, msg) -> None:
        self.inputs.append(msg["args"][0])

    _pyro_affine = _note
    _pyro_convolution = _note


class Laterals(Messenger):
    """Adds a tensor to each linear map's pre-activations, in the order of the layers; None adds nothing."""

    def __init__(self, laterals: Sequence[Tensor | None]) -> None:
        super().__init__()
        self.pending = iter(laterals)

    def _add(self, msg) -> None:
        lateral = next(self.pending)
        if lateral is not None:
            msg["value"] = msg["value"] + lateral

    _pyro_post_affine = _add
    _pyro_post_convolution = _add


def add_adapter(weights: Points, layer: Layer, width: int, streams: Streams) -> None:
    """V with its bias c, U and α for a layer, as new weights.

    :param width: units (or channels) of the knowledge base's features; the adapter's hidden layer is as wide.
    """
    weights.add(Layer(f"{layer.name}.V", width, width), streams)
    into = streams.normal(len(streams), 1, width, layer.units) * math.sqrt(2 / width)
    uniform = torch.special.ndtr(streams.normal(len(streams), 1, 1, layer.units))
    weights.mean |= {f"{layer.name}.U": into, f"{layer.name}.alpha": INITIAL_ALPHA * uniform}


def lateral(features: Tensor, weights: Mapping[str, Tensor], layer: str) -> Tensor:
    """α ⊙ U σ(V h + c) for features h [R, B, units] or, at each pixel, [R, B, channels, H, W]."""
    last = features.movedim(2, -1)
    hidden = F.relu(affine(last.flatten(1, -2), weights[f"{layer}.V"]))
    out = torch.bmm(hidden, weights[f"{layer}.U"].squeeze(1)) * weights[f"{layer}.alpha"].squeeze(1)
    return out.unflatten(1, last.shape[1:-1]).movedim(-1, 2)


def adapted_logits(
    net: Net, head: str, x: Tensor, weights: Mapping[str, Tensor], knowledge: Mapping[str, Tensor]
) -> Tensor:
    """Logits of the column with `weights`, adapters included, beside the knowledge base, which gets no gradient."""
    with torch.no_grad(), Inputs() as base:
        features = net(x, knowledge)
    layers = [*(layer.name for layer in net.layers), head]
    later = zip([*base.inputs, features][1:], layers[1:], strict=True)
    with Laterals([None, *(lateral(known, weights, name) for known, name in later)]):
        return affine(net(x, weights), weights[head])
