"""When the compiled loops of :mod:`pyroclaw.kernels` can do the work of several torch operations.

They know plain float32 tensors on a CPU. For all others, and where numba is not installed, the same mathematics is
written in torch next to each use of a kernel; values agree within float tolerance.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

kernels: Any
try:
    from pyroclaw import kernels
except ImportError:  # there is not a numba for every Python
    kernels = None

_PLAIN = (Tensor, torch.nn.Parameter)  # others, such as fake ones, may have no memory


def fusable(*tensors: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Whether kernels can read them, once they are contiguous.

    :param dtype: that they have to have.

    >>> fusable(torch.ones(3), torch.ones(3, dtype=torch.float64))
    False
    """
    if kernels is None or torch._C._are_functorch_transforms_active():  # whose tensors look plain, but are not
        return False
    return all(type(one) in _PLAIN and one.dtype == dtype and one.device.type == "cpu" for one in tensors)


def addresses(*tensors: Tensor | None) -> tuple[int, ...]:
    """Of the first number of each contiguous tensor; 0 for none."""
    return tuple(0 if one is None else one.data_ptr() for one in tensors)


def replicates_and_size(tensor: Tensor) -> tuple[int, int]:
    """The first dimension, and the product of all others.

    >>> replicates_and_size(torch.ones(3, 1, 4, 2)), replicates_and_size(torch.ones(()))
    ((3, 8), (1, 1))
    """
    replicates = tensor.shape[0] if tensor.dim() else 1
    return replicates, tensor.numel() // max(replicates, 1)


def weighted(
    grad: Tensor, weight: float, write: Callable[..., None], needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Slopes of elementwise functions, times a weight and the gradient `grad` to their values.

    :param write: (factors [replicates], a tensor for each slope): write the slopes, times the factor of each replicate.
    :param needed: which of the slopes are.
    """
    factors, one_by_one = _common_factors(grad), False
    if factors is None:
        factors, one_by_one = grad.new_ones(replicates_and_size(grad)[0]), True
    slopes = [grad.new_empty(grad.shape) for _ in needed]
    write((weight * factors).contiguous(), *slopes)
    return tuple(
        (slope.mul_(grad) if one_by_one else slope) if by else None for slope, by in zip(slopes, needed, strict=True)
    )


def _common_factors(grad: Tensor) -> Tensor | None:
    """The numbers [replicates] that a sum over all other dimensions sends back, if `grad` comes of one.

    >>> _common_factors(torch.ones(3, 1, 1).expand(3, 4, 2))
    tensor([1., 1., 1.])
    >>> _common_factors(torch.ones(3, 4, 2))
    """
    spread = (step and length > 1 for step, length in zip(grad.stride()[1:], grad.shape[1:], strict=True))
    if not grad.dim() or not grad.numel() or any(spread):
        return None
    first: tuple[slice | int, ...] = (slice(None), *[0] * (grad.dim() - 1))
    return grad[first]
