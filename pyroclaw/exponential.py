"""e^x of log-variances, with the gradient ∂y · e^x.

There is one for each weight in every step. By a compiled loop (:mod:`pyroclaw.fused`) it takes a fifth of the time of
torch's; it errs by 3e-7 of a number at most, and numbers below 1e-38 are 0.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.fused import addresses, fusable, kernels, replicates_and_size


def exponential(x: Tensor) -> Tensor:
    """
    >>> exponential(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """
    return _Exponential.apply(x) if fusable(x) else x.exp()


class _Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        result = torch.empty_like(x)
        kernels.exponential(*addresses(x, result), *replicates_and_size(x))
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return grad * result
