"""The diagonal of the Fisher information matrix, from the gradients of single examples.

    F_i = N · E_x E_{y ~ p(y | x, θ)} [ (∂ log p(y | x, θ) / ∂θ_i)² ]

with x from the task's N training examples and the label y drawn from the model, not taken from the data. The square is
that of one example's gradient: the square of a batch's mean gradient is a different, much smaller number.

A linear map h = a·w gives example n the gradient a_n δ_nᵀ, where δ_n is that of its pre-activations h_n. Shifts of all
examples' pre-activations are arguments of one `torch.func.grad`, whose entries are then the δ_n, each example's own. So

    Σ_n (a_n δ_nᵀ)² = (A²)ᵀ Δ²        one product of matrices, and no gradient of a single example is ever stored.

In a convolution an example's gradient sums over positions before it is squared: it is formed from patches and thrown
away at once.
"""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pyroclaw.convolutions import KERNEL
from pyroclaw.data.part import Part
from pyroclaw.errors import InputError
from pyroclaw.streams import Streams

CHUNK = 256  # examples of each replicate at a time

Weights = Mapping[str, Tensor]
Forward = Callable[[Tensor, Weights], Tensor]


def fisher(forward: Forward, weights: Weights, train: Part, streams: Streams, examples: int = 0) -> dict[str, Tensor]:
    """F of every weight, in the shape of the weights.

    :param forward: logits [R, B, classes] of inputs [R, B, ...] with weights [R, 1, fan-in + 1, units], each of which
        enters one :func:`~pyroclaw.handlers.affine` or :func:`~pyroclaw.handlers.convolution`.
    :param streams: which examples are taken, and their labels.
    :param examples: how many examples the expectation is taken over, at most; 0 for all.
    """
    weights = {name: weight.detach() for name, weight in weights.items()}
    positions, counts = some_examples(train, streams, examples)
    sums = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    columns = torch.arange(positions.shape[1], device=streams.device)
    for chunk in columns.split(CHUNK):
        x, _ = train.batch(positions[:, chunk])
        for name, square in _squares(forward, weights, x, chunk < counts[:, None], streams).items():
            sums[name] += square.unsqueeze(1)
    scale = (torch.tensor(train.sizes, device=counts.device) / counts).view(-1, 1, 1, 1)
    return {name: total * scale for name, total in sums.items()}


def some_examples(train: Part, streams: Streams, examples: int) -> tuple[Tensor, Tensor]:
    """Positions [R, n] of at most that many random examples (0: all) of each replicate, and how many each has [R]."""
    if examples < 0:
        raise InputError(f"fisher_examples is {examples}, but must be 0 (for all) or above")
    taken = [streams.permutation(r, size)[: examples or size] for r, size in enumerate(train.sizes)]
    return pad_sequence(taken, batch_first=True), torch.tensor([len(own) for own in taken], device=streams.device)


def _squares(forward: Forward, weights: Weights, x: Tensor, valid: Tensor, streams: Streams) -> dict[str, Tensor]:
    """Σ over the valid examples of the squared gradient of each weight [R, fan-in + 1, units]."""
    names = {id(weight): name for name, weight in weights.items()}
    with Taps(names, {}) as taps:
        labels = draw(forward(x, weights), streams)
    inputs = taps.inputs

    def loss(shifts: dict[str, Tensor]) -> Tensor:
        with Taps(names, shifts):
            errors = F.cross_entropy(forward(x, weights).transpose(1, 2), labels, reduction="none")
        return (errors * valid).sum()

    shifts = {name: torch.zeros(shape, device=x.device) for name, shape in taps.shapes.items()}
    slopes = torch.func.grad(loss)(shifts)
    return {name: _squared(inputs[name], slopes[name]) for name in weights}


def _squared(a: Tensor, slope: Tensor) -> Tensor:
    """Σ_n (a_n δ_nᵀ)², the bias's input being 1."""
    if slope.dim() == 3:  # affine
        return F.pad(a, (0, 1), value=1.0).square().transpose(1, 2) @ slope.square()
    patches = F.unfold(a.flatten(0, 1), KERNEL, padding=KERNEL // 2)  # [R·B, fan-in, positions]
    patches = F.pad(patches, (0, 0, 0, 1), value=1.0)
    gradients = patches @ slope.flatten(0, 1).flatten(2).transpose(1, 2)
    return gradients.square_().unflatten(0, slope.shape[:2]).sum(1)


class Taps(Messenger):
    """Notes what enters and leaves the linear map of each named weight, and shifts what leaves it."""

    def __init__(self, names: Mapping[int, str], shifts: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.names, self.shifts = names, shifts
        self.inputs: dict[str, Tensor] = {}
        self.shapes: dict[str, torch.Size] = {}

    def _tap(self, msg) -> None:
        x, weight = msg["args"]
        name = self.names[id(weight)]
        self.inputs[name], self.shapes[name] = x, msg["value"].shape
        if name in self.shifts:
            msg["value"] = msg["value"] + self.shifts[name]

    _pyro_post_affine = _tap
    _pyro_post_convolution = _tap


def draw(logits: Tensor, streams: Streams) -> Tensor:
    """A label for each example from the model's own distribution, by each replicate's own stream."""
    rows = zip(logits.softmax(-1), streams.generators, strict=True)
    return torch.stack([torch.multinomial(p, 1, generator=generator).squeeze(1) for p, generator in rows])
