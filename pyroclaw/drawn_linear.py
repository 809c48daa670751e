"""A linear map by Gaussian weights, its activations drawn: local reparameterisation of dense layers in one function.

With weights w ~ N(M, V), the bias as last row of M and V and a 1 for it in x, and noise ε ~ N(0, 1),

    h = x·M + d∘ε,    d = √(x²·V + floor)
    ∂M = xᵀ·∂h,    ∂V = x²ᵀ·D,    ∂x = ∂h·Mᵀ + 2x∘(D·Vᵀ),    D = ∂h∘ε / 2d

x² is never kept, and the noise leaves ∂h/∂v in its place.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.activations import draw
from pyroclaw.fused import addresses, fusable, kernels
from pyroclaw.products import at_once, mapped, product, stacked, write_weight_gradient


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
        drawn = stacked([_drawn(*own) for own in _pieces(x, mean, variance, noise)])
        ctx.save_for_backward(x, mean, variance, noise)
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, slope = ctx.saved_tensors
        needed = zip(inputs, ctx.needs_input_grad, strict=False)
        found = [one.new_empty(one.shape) if asked else None for one, asked in needed]
        for own in _pieces(*inputs, slope, grad.contiguous(), *found):
            _write_gradients(*own)
        return *found, None


def _pieces(x: Tensor, weight: Tensor, *others: Tensor | None) -> Iterable[tuple[Any, ...]]:
    """Replicates that are multiplied at once, so that what was just computed is still in the cache for what follows."""
    tensors, size = (x, weight, *others), at_once(x, weight)
    if size >= len(x):
        return [tensors]
    return zip(*(repeat(None) if one is None else one.split(size) for one in tensors), strict=False)


def _drawn(x: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    drawn = mapped(x, mean)
    draw(drawn, mapped(x, variance, squared=True), noise)
    return drawn


def _write_gradients(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    slope: Tensor,
    grad: Tensor,
    to_x: Tensor | None,
    to_mean: Tensor | None,
    to_variance: Tensor | None,
) -> None:
    """To the last three, as far as they are asked for."""
    spread, mean_columns, spread_columns = _slopes(grad, slope)
    if to_x is not None:
        by_variance = product(spread, variance[:, :-1].mT)
        torch.addcmul(product(grad, mean[:, :-1].mT), x, by_variance, value=2, out=to_x)
    if to_mean is not None:
        write_weight_gradient(x, mean_columns, to_mean)
    if to_variance is not None:
        write_weight_gradient(x, spread_columns, to_variance, squared=True)


def _slopes(grad: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """D, and the transposes of ∂h and of D."""
    if not fusable(grad, slope):
        spread = grad * slope
        return spread, grad.mT, spread.mT
    spread, turned = torch.empty_like(grad), [grad.new_empty(grad.mT.shape) for _ in range(2)]
    kernels.slopes(*addresses(grad, slope, spread, *turned), *grad.shape)
    return spread, *turned
