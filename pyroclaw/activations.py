"""Activations drawn from their mean and variance, in as few passes over them as it can be.

    h = μ + √(v + floor) · ε,    ε ~ N(0, 1),        ∂h/∂μ = 1,    ∂h/∂v = ε / (2 √(v + floor))

In the first layers of a convolutional net there are far more activations than weights, and this costs as much as
the convolution that gave them if every operation is recorded. Here μ and v are overwritten, piece by piece, and what is
kept for the gradient is ∂h/∂v alone.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.distributions.chunks import chunks
from pyroclaw.fused import addresses, fusable, kernels, replicates_and_size
from pyroclaw.streams import Streams

VARIANCE_FLOOR = 1e-12  # keeps the gradient of sqrt finite where all weights of a neuron are points


def reparameterised(mean: Tensor, variance: Tensor, streams: Streams) -> Tensor:
    """A draw of activations [R, B, units, ...], each replicate's by its own stream.

    The noise is dealt out in the order of memory, in which units come last: [R, B, ..., units].

    :param mean: of linear maps, which do not need it to compute their gradients: it is overwritten.
    :param variance: as `mean`.
    """
    mean, variance = (moment.movedim(2, -1).contiguous() for moment in (mean, variance))
    return _Reparameterised.apply(mean, variance, streams.normal(*mean.shape)).movedim(-1, 2)


def draw(mean: Tensor, variance: Tensor, noise: Tensor) -> None:
    """Write h over μ and ∂h/∂v over ε; all are contiguous, and v may be overwritten too."""
    if fusable(mean, variance, noise):
        kernels.draw(*addresses(mean, variance, noise), *replicates_and_size(mean), VARIANCE_FLOOR)
        return
    for h, v, slope in chunks(mean, variance, noise):
        deviation = v.add_(VARIANCE_FLOOR).sqrt_()
        h.addcmul_(deviation, slope)
        slope.div_(deviation).mul_(0.5)


class _Reparameterised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        drawn = mean.detach()
        draw(drawn, variance, noise)
        ctx.save_for_backward(noise)
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grad, grad * slope, None
