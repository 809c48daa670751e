"""A linear map by Gaussian weights, its activations drawn: local reparameterisation of dense layers in one function.

With weights w ~ N(M, V), the bias as last row of M and V and a 1 for it in x, and noise ε ~ N(0, 1),

    h = x·M + d∘ε,    d = √(x²·V + floor)
    ∂M = xᵀ·∂h,    ∂V = x²ᵀ·D,    ∂x = ∂h·Mᵀ + 2x∘(D·Vᵀ),    D = ∂h∘ε / 2d

x² is never kept, and the noise leaves ∂h/∂v in its place.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.activations import draw
from pyroclaw.fused import addresses, fusable, kernels
from pyroclaw.products import at_once, joined, pieces, product, weight_gradient


def drawn_linear(x: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """A draw of h [R, n, m].

    :param x: inputs [R, n, k].
    :param mean: M [R, k + 1, m], whose last row is the bias.
    :param variance: V, as M.
    :param noise: ε [R, n, m], contiguous, which is overwritten.
    """
    return _DrawnLinear.apply(x, mean, variance, noise)


class _DrawnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        moments = pieces(x, mean), pieces(x, variance, squared=True)
        each = zip(*moments, noise.split(at_once(x, mean)), strict=True)
        drawn = joined([_drawn(*own) for own in each])
        ctx.save_for_backward(x, mean, variance, noise)
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, variance, slope = ctx.saved_tensors
        spread, *columns = _slopes(grad.contiguous(), slope)
        needed, to_x = ctx.needs_input_grad, None
        if needed[0]:
            to_x = product(grad, mean[:, :-1].mT)
            to_x.addcmul_(x, product(spread, variance[:, :-1].mT), value=2)
        to_mean = weight_gradient(x, columns[0]) if needed[1] else None
        to_variance = weight_gradient(x, columns[1], squared=True) if needed[2] else None
        return to_x, to_mean, to_variance, None


def _drawn(mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """While they are in the cache."""
    draw(mean, variance, noise)
    return mean


def _slopes(grad: Tensor, slope: Tensor) -> tuple[Tensor, ...]:
    """D, and the transposes of ∂h and of D."""
    if not fusable(grad, slope):
        spread = grad * slope
        return spread, grad.mT, spread.mT
    spread, turned = torch.empty_like(grad), [grad.new_empty(grad.mT.shape) for _ in range(2)]
    kernels.slopes(*addresses(grad, slope, spread, *turned), *grad.shape)
    return spread, *turned
