"""Products of matrices, and linear maps made of them, by the faster of the two libraries that torch has on a CPU.

torch multiplies float32 matrices by MKL. On a processor that Intel did not make, MKL takes about twice as long as
oneDNN, which torch uses for convolutions and which knows plain products too. Both add up in float32, in another order.
A call of oneDNN takes longer to begin, so small products stay with MKL; so does everything where there is no oneDNN.
Other devices have libraries of their own. Replicates are taken one by one: a replicate's bits are those it has alone.

    y = x·W + b,        ∂W = xᵀ·∂y,    ∂b = Σ_n ∂y_n,    ∂x = ∂y·Wᵀ
"""

from typing import Any

import torch
from torch import Tensor

ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
SMALL = 1_000_000  # multiplications of a product that MKL has finished before oneDNN has begun in earnest


def product(a: Tensor, b: Tensor) -> Tensor:
    """a [R, n, k] times b [R, k, m]: [R, n, m].

    >>> product(torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape
    torch.Size([2, 3, 5])
    """
    if not _by_onednn(a, b):
        return torch.bmm(a, b)
    found = [ONEDNN(x, y.mT, None, "none", [], "") for x, y in zip(a, b, strict=True)]
    return found[0].unsqueeze(0) if len(found) == 1 else torch.stack(found)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x [R, n, k] times weight [R, k + 1, m], whose last row is the bias: [R, n, m].

    >>> linear(torch.ones(1, 2, 3), torch.ones(1, 4, 1))
    tensor([[[4.],
             [4.]]])
    """
    if _by_onednn(x, weight):
        return _Linear.apply(x, weight)
    weight, bias = weight.split([x.shape[-1], 1], dim=1)  # the gradient of split is one copy, of slices six
    return torch.baddbmm(bias, x, weight)


class _Linear(torch.autograd.Function):
    """torch does not know the gradients of oneDNN's product."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return product(x, weight[:, :-1]).add_(weight[:, -1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x = product(grad, weight[:, :-1].mT) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return to_x, None
        # oneDNN is faster at ∂yᵀ·x, by more than it takes to turn the result
        return to_x, torch.cat([product(grad.mT, x).mT, grad.sum(1, keepdim=True)], dim=1)


def _by_onednn(a: Tensor, b: Tensor) -> bool:
    large = a.shape[1] * a.shape[2] * b.shape[2] >= SMALL
    return large and ONEDNN is not None and a.device.type == "cpu" and a.dtype == b.dtype == torch.float32
