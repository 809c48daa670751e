"""Convolutions 3×3 by one matrix of weights per replicate, and the gradient of those of few channels as a product.

With the nine taps of every channel as rows of a matrix P, a column for each position of each image and a last row of
ones for the bias, the filters' gradient is

    ∂W = P·∂y        [9C + 1, out] = [9C + 1, positions] × [positions, out],

in the layout of W itself. In the first layer of a net P is far smaller than ∂y, and the product takes a fifth to a
third of what oneDNN's gradient of a convolution does. With many channels P is nine times as large as the inputs, and
the gradient is left to torch.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight

from pyroclaw.precision import lower
from pyroclaw.products import product

KERNEL = 3
FEW = 16  # channels up to which the product is faster


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """x [R, B, C, H, W] with filters weight [R, 9C + 1, out], the last row of which is the bias: [R, B, out, H, W].

    >>> convolve(torch.ones(2, 5, 3, 8, 8), torch.ones(2, 28, 7)).shape
    torch.Size([2, 5, 7, 8, 8])
    """
    if lower() is None and _few(x):
        return _FewChannels.apply(x, weight)
    return _joined(maps_of(x, weight)).to(x.dtype)


def maps_of(x: Tensor, weight: Tensor) -> list[Tensor]:
    """The same of each replicate, in the precision that is asked for, in which torch finds the gradients too."""
    if dtype := lower():
        return _maps(x.to(dtype), weight.to(dtype))
    return list(_FewChannels.apply(x, weight)) if _few(x) else _maps(x, weight)


def weight_gradient(x: Tensor, slope: Tensor) -> Tensor:
    """∂W [R, 9C + 1, out] from inputs and ∂y [R, B, out, H, W]."""
    return torch.stack([_by_product(*own) if _few(x) else _by_torch(*own) for own in zip(x, slope, strict=True)])


def columns(images: Tensor) -> Tensor:
    """P [9C + 1, B·H·W] of images [B, C, H, W], its rows in the order of a weight's.

    >>> columns(torch.ones(1, 1, 2, 2)).sum(0)
    tensor([5., 5., 5., 5.])
    """
    batch, channels, height, width = images.shape
    taps = F.pad(images, [KERNEL // 2] * 4).unfold(2, KERNEL, 1).unfold(3, KERNEL, 1)
    found = images.new_ones(KERNEL**2 * channels + 1, batch, height, width)
    found[:-1].unflatten(0, (channels, KERNEL, KERNEL)).copy_(taps.permute(1, 4, 5, 0, 2, 3))
    return found.flatten(1)


def _maps(x: Tensor, weight: Tensor) -> list[Tensor]:
    """Channels come last in memory, where a CPU convolves and pools fastest; so replicates are taken one by one, since
    the groups of one grouped convolution would have to be brought together first."""
    filters, bias = weight.mT.split([weight.shape[1] - 1, 1], dim=2)
    x = x.movedim(2, -1).contiguous().movedim(-1, 2)
    return [
        F.conv2d(own, _filters(by), by_bias, padding=KERNEL // 2)
        for own, by, by_bias in zip(x, filters, bias.squeeze(2), strict=True)
    ]


def _joined(maps: list[Tensor]) -> Tensor:
    if len(maps) == 1:
        return maps[0].unsqueeze(0)
    return torch.stack([h.movedim(1, -1) for h in maps]).movedim(-1, 2)


def _filters(rows: Tensor) -> Tensor:
    """[out, C, 3, 3]; of one channel images lie the same way either way, and torch looks at the filters."""
    return rows.unflatten(1, (-1, KERNEL, KERNEL)).contiguous(memory_format=torch.channels_last)


def _few(x: Tensor) -> bool:
    return x.shape[2] <= FEW and x.device.type == "cpu"


def _by_product(images: Tensor, slope: Tensor) -> Tensor:
    return product(columns(images).unsqueeze(0), slope.movedim(1, -1).flatten(0, -2).unsqueeze(0)).squeeze(0)


def _by_torch(images: Tensor, slope: Tensor) -> Tensor:
    shape = slope.shape[1], images.shape[1], KERNEL, KERNEL
    filters = conv2d_weight(images, shape, slope, padding=KERNEL // 2)
    return torch.cat([filters.flatten(1), slope.sum((0, 2, 3)).unsqueeze(1)], dim=1).mT


class _FewChannels(torch.autograd.Function):
    generate_vmap_rule = True  # a convolution is vmapped as any other operation

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return _joined(_maps(x, weight))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            by = [_filters(own[:-1].mT) for own in weight]
            pairs = zip(by, grad, strict=True)
            to_x = torch.stack([conv2d_input(x.shape[1:], *pair, padding=KERNEL // 2) for pair in pairs])
        if ctx.needs_input_grad[1]:
            to_weight = weight_gradient(x, grad)
        return to_x, to_weight
