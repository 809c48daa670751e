"""First-order differentiable architecture search (DARTS; Liu, Simonyan & Yang, ICLR 2019) over the layers of a net.

Each layer can be filled in several ways, its choices c. While the search lasts it computes them all,

    h = Σ_c softmax(α)_c · (x·W_c)  =  x·W        with W = Σ_c softmax(α)_c W_c,

for every choice is a linear map, and the nonlinearity comes after. Two steps alternate, each on its own half of the
task's training data:

    architecture    Adam on α,   validation half:   cross-entropy + penalty · Σ_layers Σ_c softmax(α)_c s_c / S
    weights         SGD on w,    training half:     cross-entropy

where s_c is the number of parameters that a choice would add, and S the most that all layers together can add. The
first step takes the weights as they are, not as what training would make of them for another α: that is first order.
Unlike in DARTS, the rate of SGD is not annealed, and neither w nor α decays: a search is a few hundred steps here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyroclaw.data.part import Part
from pyroclaw.errors import InputError
from pyroclaw.inference.memory import release_memory
from pyroclaw.inference.svi import Diverged, Interrupted, order
from pyroclaw.streams import Streams

BETAS = (0.5, 0.999)  # of Adam
CLIP = 5.0  # largest norm of the weights' gradient, as in DARTS


@dataclass(frozen=True)
class SearchSettings:
    """How the two steps are made."""

    lr_weights: float = 0.025  # of SGD
    momentum: float = 0.9  # of SGD
    lr_architecture: float = 0.01  # of Adam
    size_penalty: float = 0.01  # nats that a whole new net must gain


class Space(NamedTuple):
    """What is searched: a net, and for each of its layers the choices with their sizes."""

    forward: Callable[[Tensor, Mapping[str, Tensor]], Tensor]  # logits [R, B, classes] from x and a matrix a layer
    matrices: Callable[[], Mapping[str, Sequence[Tensor]]]  # the W_c of each layer, as the weights are now
    sizes: Mapping[str, Tensor]  # s_c, on the device
    weights: Sequence[Tensor]  # what the choices train

    def cross_entropy(self, alphas: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Of the net with mixed layers, per example."""
        mixed = {name: mixture(alphas[name], matrices) for name, matrices in self.matrices().items()}
        return F.cross_entropy(self.forward(x, mixed).flatten(0, 1), y.flatten())

    def size(self, alphas: Mapping[str, Tensor]) -> Tensor:
        """Σ_layers Σ_c softmax(α)_c s_c / S: the expected growth, as a share of the largest one."""
        expected = [alphas[name].softmax(0) @ sizes.to(alphas[name]) for name, sizes in self.sizes.items()]
        return torch.stack(expected).sum() / torch.stack([sizes.max() for sizes in self.sizes.values()]).sum()


def mixture(alpha: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Σ_c softmax(α)_c W_c.

    >>> mixture(torch.zeros(2), [torch.ones(1, 1, 2, 1), torch.zeros(1, 1, 2, 1)]).flatten().tolist()
    [0.5, 0.5]
    """
    return torch.tensordot(alpha.softmax(0), torch.stack(tuple(matrices)), dims=1)


def search(
    space: Space,
    train: Part,
    steps: int,
    batch_size: int,
    settings: SearchSettings,
    streams: Streams,
    on_step: Callable[[int, Tensor], None] = lambda step, objective: None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Tensor], Tensor]:
    """The α of each layer after `steps` steps, every other one of α, and the trace [steps] of what they maximised.

    :param streams: batch order; the rows of a part are in random order already, so a cut gives random halves.
    """
    alphas = {name: torch.zeros(len(s), device=streams.device, requires_grad=True) for name, s in space.sizes.items()}
    architecture = torch.optim.Adam(alphas.values(), lr=settings.lr_architecture, betas=BETAS)
    weights = torch.optim.SGD(space.weights, lr=settings.lr_weights, momentum=settings.momentum)
    batches = _halves(train, steps, batch_size, streams)
    for weight in space.weights:
        weight.requires_grad_(True)
    trace = []
    for step in range(steps):
        x, y = train.batch(batches[step % 2][:, step // 2 * batch_size : (step // 2 + 1) * batch_size])
        loss = space.cross_entropy(alphas, x, y)
        if step % 2 == 0:
            loss = loss + settings.size_penalty * space.size(alphas)
            architecture.zero_grad()
            loss.backward(inputs=list(alphas.values()))
            architecture.step()
        else:
            weights.zero_grad()
            loss.backward(inputs=list(space.weights))
            torch.nn.utils.clip_grad_norm_(space.weights, CLIP)
            weights.step()
        trace.append(-loss.detach())
        on_step(step, trace[-1])
        release_memory(step + 1)
        if stop():
            raise Interrupted
    for weight in space.weights:
        weight.requires_grad_(False)
    if not torch.isfinite(trace[-1]):
        raise Diverged(f"the objective of the search is {trace[-1].item()} after {steps} steps")
    return {name: alpha.detach() for name, alpha in alphas.items()}, torch.stack(trace)


def _halves(train: Part, steps: int, batch_size: int, streams: Streams) -> tuple[Tensor, Tensor]:
    """Positions of the batches for α and for the weights; all variants of an image are in one half."""
    half = [size // train.fold // 2 * train.fold for size in train.sizes]
    if min(half) == 0:
        raise InputError("a task with one training image cannot be halved for the architecture search: give it two")
    length = (steps + 1) // 2 * batch_size
    rest = [size - own for size, own in zip(train.sizes, half, strict=True)]
    begin = torch.tensor(half, device=streams.device)[:, None]
    return begin + order(rest, length, streams), order(half, length, streams)
