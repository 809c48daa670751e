r"""What follows a convolution in a block of a net: max-pooling of windows of two by two, and ReLU, in one function.

Maps that leave a convolution are the largest thing in a step, and of each window one number matters. A compiled loop
passes over the maps once, keeps that number and where it was, and brings the gradient back to its place:

.. math:: y = \max(0, h_k), \quad k = \arg\max_{window} h, \qquad \partial h_k = \partial y \; [h_k > 0].

Where weights are w ~ N(M, V), activations are drawn (:mod:`pyroclaw.handlers`), and the same loop draws them:

.. math:: h = \mu + d ∘ ε,\quad \mu = x \ast M,\quad d = \sqrt{v + floor},\quad v = x^2 \ast V, \qquad
    \partial v_k = \partial y \; ε_k / 2 d_k \; [h_k > 0].

Noise is dealt out as it is to whole maps, but a few images at a time, so that it is used while it is in the cache. Maps
stay in what convolutions multiply in (:mod:`pyroclaw.precision`).
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.activations import VARIANCE_FLOOR, reparameterised
from pyroclaw.convolutions import convolve, maps_of
from pyroclaw.fused import addresses, fusable, kernels
from pyroclaw.normal_numbers import GROUP, fill_normal
from pyroclaw.streams import Streams

CACHED = 2**18  # numbers of noise that are drawn at once: a megabyte
KINDS = {torch.float32: np.float32, torch.bfloat16: np.uint16}  # what a kernel reads them as


def pooled(maps: Tensor) -> Tensor:
    """Maps [R, B, C, H, W] pooled, and through ReLU: [R, B, C, H/2, W/2].

    >>> pooled(torch.ones(2, 5, 3, 8, 6)).shape
    torch.Size([2, 5, 3, 4, 3])
    """
    if not fusable(maps):
        return F.relu(F.max_pool2d(maps.flatten(0, 1), 2)).unflatten(0, maps.shape[:2])  # the two commute
    return _together([_Pooled.apply(own) for own in maps])


def block(x: Tensor, weight: Tensor) -> Tensor:
    """Images x [R, B, C, H, W] by filters weight [R, 9C + 1, out], pooled: [R, B, out, H/2, W/2]."""
    if not fusable(x, weight):
        return pooled(convolve(x, weight))
    return _together([_Pooled.apply(own) for own in maps_of(x, weight)])


def drawn_block(x: Tensor, mean: Tensor, variance: Tensor, streams: Streams) -> Tensor:
    """The same by weights of this mean and variance, activations being drawn."""
    if not fusable(x, mean, variance):
        return pooled(reparameterised(convolve(x, mean), convolve(x.square(), variance), streams))
    each = zip(maps_of(x, mean), maps_of(x.square(), variance), streams.generators, strict=True)
    return _together([_PooledDraw.apply(*own) for own in each])


def _together(parts: list[Tensor]) -> Tensor:
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts)


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor) -> Tensor:
        maps = _last(maps)
        out, places = _smaller(maps, torch.float32), _smaller(maps, torch.uint8)
        kernels.pool(*addresses(maps), KINDS[maps.dtype], *addresses(out, places), *maps.shape)
        ctx.save_for_backward(places)
        ctx.maps = maps.shape, maps.dtype
        return out.movedim(-1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _unpooled(_last(grad), *ctx.saved_tensors, *ctx.maps)


class _PooledDraw(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, generator: Generator) -> Tensor:
        mean, variance = _last(mean), _last(variance)
        out, slopes, places = (_smaller(mean, kind) for kind in (torch.float32, torch.float32, torch.uint8))
        image = mean[0].numel()
        count = max(1, CACHED // image) if image % GROUP == 0 else len(mean)
        noise = out.new_empty(min(count, len(mean)) * image)
        for some in zip(*(one.split(count) for one in (mean, variance, out, places, slopes)), strict=True):
            noise = noise[: some[0].numel()]
            fill_normal(noise, generator)
            first, second, *rest = addresses(*some)
            kind, shape = KINDS[mean.dtype], some[0].shape
            kernels.pool_drawn(first, second, kind, *addresses(noise), *rest, *shape, VARIANCE_FLOOR)
        ctx.save_for_backward(places, slopes)
        ctx.maps = mean.shape, mean.dtype
        return out.movedim(-1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        places, slopes = ctx.saved_tensors
        grad = _last(grad)
        return _unpooled(grad, places, *ctx.maps), _unpooled(grad * slopes, places, *ctx.maps), None


def _last(maps: Tensor) -> Tensor:
    """[B, C, H, W] as [B, H, W, C], as it lies in memory where it comes from a convolution."""
    return maps.movedim(1, -1).contiguous()


def _smaller(maps: Tensor, dtype: torch.dtype) -> Tensor:
    images, height, width, channels = maps.shape
    return torch.empty(images, height // 2, width // 2, channels, dtype=dtype)


def _unpooled(grad: Tensor, places: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    even = shape[1] % 2 == shape[2] % 2 == 0  # otherwise there is a row or a column that no window has
    maps = torch.empty(shape, dtype=dtype) if even else torch.zeros(shape, dtype=dtype)
    kernels.unpool(*addresses(grad, places), KINDS[dtype], *addresses(maps), *shape)
    return maps.movedim(-1, 1)
