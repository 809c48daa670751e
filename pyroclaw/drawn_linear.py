"""A linear map by Gaussian weights, its activations drawn: local reparameterisation of dense layers in one function.

With weights w ~ N(M, V), the bias as last row of M and V and a 1 for it in x, and noise ε ~ N(0, 1),

    h = x·M + d∘ε,    d = √(x²·V + floor)
    ∂M = xᵀ·∂h,    ∂V = x²ᵀ·D,    ∂x = ∂h·Mᵀ + 2x∘(D·Vᵀ),    D = ∂h∘ε / 2d

Where inputs are many, x² is as large as all else together. So it is made replicate by replicate, in both directions,
and never kept: what was just squared is still in the cache when it is multiplied.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.activations import draw
from pyroclaw.products import joined, map_inputs, pieces, product, write_gradient


def drawn_linear(x: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """A draw of h [R, n, m].

    :param x: inputs [R, n, k].
    :param mean: M [R, k + 1, m], whose last row is the bias.
    :param variance: V, as M.
    :param noise: ε [R, n, m], which is overwritten.
    """
    return _DrawnLinear.apply(x, mean, variance, noise)


class _DrawnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        moments = [
            (map_inputs(x[own], mean[own]), map_inputs(x[own].square(), variance[own])) for own in pieces(x, mean)
        ]
        drawn, spread = (joined(parts) for parts in zip(*moments, strict=True))
        draw(drawn, spread, noise)
        ctx.save_for_backward(x, mean, variance, noise)
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, variance, slope = ctx.saved_tensors
        spread, needed = grad * slope, ctx.needs_input_grad
        to_mean, to_variance = (
            torch.empty_like(one) if by else None for one, by in zip((mean, variance), needed[1:3], strict=True)
        )
        to_x = []
        for own in pieces(x, mean):
            if needed[0]:
                by_mean = product(grad[own], mean[own, :-1].mT)
                by_variance = product(spread[own], variance[own, :-1].mT)
                to_x.append(by_mean.addcmul_(x[own], by_variance, value=2))
            if to_mean is not None:
                write_gradient(to_mean[own], x[own], grad[own])
            if to_variance is not None:
                write_gradient(to_variance[own], x[own].square(), spread[own])
        return joined(to_x) if to_x else None, to_mean, to_variance, None
