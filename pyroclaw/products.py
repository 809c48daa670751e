"""Products of matrices, and linear maps made of them, by the faster of the two libraries that torch has on a CPU.

torch multiplies float32 matrices by MKL. On a processor that Intel did not make, MKL takes about twice as long as
oneDNN, which torch uses for convolutions and which knows plain products too. Both add up in float32, in another order.
A call of oneDNN takes longer to begin, so small products stay with MKL; so does everything where there is no oneDNN.
Other devices have libraries of their own. By oneDNN replicates are taken one by one.

    y = x·W + b,        ∂W = xᵀ·∂y,    ∂b = Σ_n ∂y_n,    ∂x = ∂y·Wᵀ
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from pyroclaw.fused import addresses, fusable, kernels

ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
SMALL = 100  # with fewer rows or columns,
FEW = 2**22  # or fewer multiplications, MKL may be as fast,
LONG = 10_000  # but not where each entry is a sum of so many
NARROW = 16  # up to so many columns MKL is faster at the transpose


def product(a: Tensor, b: Tensor) -> Tensor:
    """a [R, n, k] times b [R, k, m]: [R, n, m].

    >>> product(torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape
    torch.Size([2, 3, 5])
    """
    if not _by_onednn(a, b):
        return torch.bmm(a, b)
    return joined([_onednn(x, y).unsqueeze(0) for x, y in zip(_dense(a), _dense(b).mT, strict=True)])


def times(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, for any dimensions before those of the matrices; without a gradient.

    >>> times(torch.ones(2, 1, 3, 4), torch.ones(4, 5)).shape
    torch.Size([2, 1, 3, 5])
    """
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (one.expand(*batch, *one.shape[-2:]).reshape(-1, *one.shape[-2:]) for one in (a, b))
    return product(a, b).view(*batch, a.shape[-2], b.shape[-1])


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x [R, n, k] times weight [R, k + 1, m], whose last row is the bias: [R, n, m].

    >>> linear(torch.ones(1, 2, 3), torch.ones(1, 4, 1))
    tensor([[[4.],
             [4.]]])
    """
    return _Linear.apply(x, weight) if _by_onednn(x, weight) else _by_mkl(x, weight)


class _Linear(torch.autograd.Function):
    """torch does not know the gradients of oneDNN's product."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return mapped(x, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x = product(grad, weight[:, :-1].mT) if ctx.needs_input_grad[0] else None
        return to_x, weight_gradient(x, _columns(grad)) if ctx.needs_input_grad[1] else None


def mapped(x: Tensor, weight: Tensor, squared: bool = False) -> Tensor:
    """:func:`linear` of x or of x², without a gradient."""
    return joined(list(pieces(x, weight, squared)))


def pieces(x: Tensor, weight: Tensor, squared: bool = False) -> Iterator[Tensor]:
    """The same, piece by piece: of as many replicates as one call of a library multiplies.

    Where inputs are many, x² is as large as all else together. So by oneDNN it is made replicate by replicate, and
    never kept: what was just squared is still in the cache when it is multiplied.
    """
    if _by_onednn(x, weight):
        for one, *own in zip(_dense(x), _dense(weight[:, :-1]).mT, weight[:, -1], strict=True):
            yield _onednn(one.square() if squared else one, *own).unsqueeze(0)
        return
    x = x.square() if squared else x
    if weight.shape[2] > NARROW or not fusable(x, weight):
        yield _by_mkl(x, weight)
    else:
        yield _transposed(torch.bmm(weight[:, :-1].mT, x.mT)).add_(weight[:, -1:])


def at_once(x: Tensor, weight: Tensor) -> int:
    """Replicates that each of :func:`pieces` has."""
    return 1 if _by_onednn(x, weight) else len(x)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Pieces, one after the other."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def weight_gradient(x: Tensor, columns: Tensor, squared: bool = False) -> Tensor:
    """∂W and ∂b of :func:`mapped` [R, k + 1, m] by `columns`, which are ∂yᵀ, as (∂yᵀ·x)ᵀ: both libraries are faster at
    this than at xᵀ·∂y, by more than it takes a compiled loop to turn the result."""
    out = columns.new_empty(len(x), x.shape[2] + 1, columns.shape[1])
    if not fusable(x, columns):
        out[:, :-1] = product(columns, x.square() if squared else x).mT
        out[:, -1] = columns.sum(2)
        return out
    dimensions = *columns.shape[1:], x.shape[2]
    if not _by_onednn(columns, x):
        turned = torch.bmm(columns, x.square() if squared else x)
        kernels.turn(*addresses(turned, columns, out), len(x), *dimensions)
        return out
    for one, column, own in zip(_dense(x).mT, columns, out, strict=True):
        turned = _onednn(column, one.square() if squared else one)
        kernels.turn(*addresses(turned, column, own), 1, *dimensions)
    return out


def _columns(grad: Tensor) -> Tensor:
    """∂yᵀ."""
    return _transposed(grad.contiguous()) if fusable(grad) else grad.mT


def _by_mkl(x: Tensor, weight: Tensor) -> Tensor:
    weight, bias = weight.split([x.shape[-1], 1], dim=1)  # the gradient of split is one copy, of slices six
    return torch.baddbmm(bias, x, weight)


def _transposed(matrices: Tensor) -> Tensor:
    """Of contiguous matrices that are :func:`~pyroclaw.fused.fusable`."""
    out = matrices.new_empty(len(matrices), *matrices.shape[:0:-1])
    kernels.transpose(*addresses(matrices, out), *matrices.shape)
    return out


def _onednn(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a [n, k] times the transpose of b [m, k]."""
    return ONEDNN(a, b, bias, "none", [], "")  # type: ignore[misc]


def _dense(matrices: Tensor) -> Tensor:
    """By rows or by columns; for other layouts oneDNN has no kernel, and takes hundreds of times as long."""
    one = matrices[0]
    return matrices if one.is_contiguous() or one.mT.is_contiguous() else matrices.contiguous()


def _by_onednn(a: Tensor, b: Tensor) -> bool:
    sizes = *a.shape[1:], b.shape[2]
    large = (min(sizes) >= SMALL and math.prod(sizes) >= FEW) or a.shape[2] >= LONG
    return large and ONEDNN is not None and a.device.type == "cpu" and a.dtype == b.dtype == torch.float32
