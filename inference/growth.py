"""A net that grows: each task adds units to its layers, and nothing that was there before can move.

A unit that task t adds is one more column of weights, from *all* units of the layer below, old and new, and a bias.
Units of earlier tasks get no connection from it. So the whole matrix of a layer is block triangular,

    W_11  W_12  W_13        row block: units below, by the task that added them
     0    W_22  W_23        column block: units of the layer, by the task that added them
     0     0    W_33

and the first t column blocks compute the same numbers whatever is added later. A task keeps its own columns; those
before it are joined, with zeros for a mask, to the old net. The old net runs first, without the new units and without
gradients (:func:`old_units`). Then the net runs on the new columns, where each linear map reads the old units beside
the new ones (:class:`Beside`).

Since old units do not depend on what is trained, :func:`remember` can compute them once for all steps and trials.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyroclaw.convolutions import KERNEL
from pyroclaw.data.part import Part
from pyroclaw.nets import Layer, Net

CHUNK = 256  # examples at a time, where old units are computed beforehand


def new_columns(net: Net, widths: Sequence[int], added: Sequence[int]) -> list[Layer]:
    """The matrices to make where a net's layers have `widths` units and get `added` more.

    >>> from pyroclaw.nets import MLP
    >>> new_columns(MLP(784, (100, 50)), (100, 50), (3, 7))
    [Layer(name='hidden_1', fan_in=784, units=3), Layer(name='hidden_2', fan_in=103, units=7)]
    """
    made = []
    for i, layer in enumerate(net.layers):
        fan_in = layer.fan_in
        if i > 0:
            fan_in = fan_in // net.layers[i - 1].units * (widths[i - 1] + added[i - 1])
        made.append(Layer(layer.name, fan_in, added[i]))
    return made


def features(net: Net, width: int) -> int:
    """What a head sees of a net whose last layer has `width` units; those of old units come first."""
    return net.features // net.layers[-1].units * width


def join(blocks: Sequence[Tensor]) -> Tensor:
    """Column blocks [R, 1, fan-in + 1, units] of one layer, each with more rows than the one before, as one matrix."""
    rows = blocks[-1].shape[2]
    return torch.cat([_pad(block, rows) for block in blocks], dim=3)


def _pad(block: Tensor, rows: int) -> Tensor:
    """Zeros for the units below that came later; the bias stays the last row."""
    weight, bias = block.split([block.shape[2] - 1, 1], dim=2)
    zeros = block.new_zeros(*block.shape[:2], rows - block.shape[2], block.shape[3])
    return torch.cat([weight, zeros, bias], dim=2)


def old_units(net: Net, old: Mapping[str, Tensor], x: Tensor, gains: Sequence[Tensor] = ()) -> list[Tensor]:
    """What the units of each layer of the old net say to x, the last as the features that a head sees.

    :param old: the joined matrix of each layer.
    :param gains: a factor [R, units] for the pre-activations of each layer, or none.
    """
    with _Overheard(gains) as overheard:
        last = net(x, old)
    return [*overheard.inputs[1:], last]


class _Overheard(Messenger):
    """Collects the input of each linear map, and scales its output by the layer's gain."""

    def __init__(self, gains: Sequence[Tensor]) -> None:
        super().__init__()
        self.gains = gains
        self.inputs: list[Tensor] = []

    def _listen(self, msg) -> None:
        if self.gains:
            h, gain = msg["fn"](*msg["args"]), self.gains[len(self.inputs)]
            msg["value"], msg["done"] = h * gain.view(len(gain), 1, -1, *[1] * (h.dim() - 3)), True
        self.inputs.append(msg["args"][0])

    _pyro_affine = _listen
    _pyro_convolution = _listen


class Beside(Messenger):
    """Run a net and its head on their new columns, and each linear map after the first reads the old units too.

    A layer may have no new column: it then passes on one silent unit, which nobody reads.

    :param old: what :func:`old_units` gave.
    """

    def __init__(self, old: Sequence[Tensor]) -> None:
        super().__init__()
        self.old = [None, *old]

    def _widen(self, msg, taps: int) -> None:
        (x, weight), old = msg["args"], self.old.pop(0)
        if weight.shape[3] == 0:
            msg["value"], msg["done"] = x.new_zeros(*x.shape[:2], 1, *x.shape[3:]), True
        elif old is not None:
            read = torch.cat([old, x], dim=2).narrow(2, 0, (weight.shape[2] - 1) // taps)
            msg["value"], msg["done"] = msg["fn"](read, weight), True

    def _pyro_affine(self, msg) -> None:
        self._widen(msg, 1)

    def _pyro_convolution(self, msg) -> None:
        self._widen(msg, KERNEL * KERNEL)


class Remembered(NamedTuple):
    """A part (of one repetition) whose examples are the inputs and the old units' answers to them, as one vector."""

    part: Part
    shapes: list[torch.Size]  # of one example's input and of the old units of each layer

    def unpack(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Inputs and old units of a batch of the part."""
        pieces = x.split([shape.numel() for shape in self.shapes], dim=2)
        first, *old = (piece.unflatten(2, shape) for piece, shape in zip(pieces, self.shapes, strict=True))
        return first, old


def remember(net: Net, old: Mapping[str, Tensor], part: Part, limit: int) -> Remembered | None:
    """The part with the answers of the old units, or None if that would take more than `limit` bytes."""
    (size,) = part.sizes
    packed: Tensor | None = None
    labels: list[Tensor] = []
    for x, y, _ in part.chunks(CHUNK):
        seen = [x, *old_units(net, old, x)]
        if packed is None:
            shapes = [piece.shape[2:] for piece in seen]
            numbers = sum(shape.numel() for shape in shapes)
            if 4 * numbers * size > limit:
                return None
            packed = x.new_empty(size, numbers)
        start = CHUNK * len(labels)
        packed[start : start + CHUNK] = torch.cat([piece.flatten(2) for piece in seen], dim=2)[0]
        labels.append(y[0])
    assert packed is not None  # no part is empty
    places = torch.arange(part.head.shape[1], device=y.device)[None]
    rows = torch.arange(size, device=y.device)[None]
    whole = replace(part, images=packed, classes=torch.cat(labels), rows=rows, head=places)
    return Remembered(replace(whole, flat=True, pixels=None, variants=None), shapes)
