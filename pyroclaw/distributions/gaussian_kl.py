r"""The KL divergence between two Gaussians, tempered, in as few passes over the weights as it can be.

.. math::

    \tfrac{\beta}{2}\Big[\frac{v + \lambda\,(m - m_0)^2}{v_0} + \log v_0 - \log v - 1\Big]

β weighs the whole divergence and λ its quadratic part, the pull of the mean towards the prior's; β = λ = 1 is the KL
itself. The prior enters by its precision and its log variance, which can be computed once per task.
"""

from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from pyroclaw.distributions.chunks import chunks
from pyroclaw.fused import addresses, fusable, kernels, replicates_and_size, weighted

VARIANCE_FLOOR = 1e-16
"""Where a variance is taken a logarithm, a root or a reciprocal of, it is held at this floor (a standard deviation of
1e-8, below the rounding of any weight that matters): the square of the gradient there still fits in float32."""


class GaussianPrior(NamedTuple):
    """What the KL needs to know of its second argument."""

    mean: torch.Tensor
    precision: torch.Tensor
    log_variance: torch.Tensor

    @classmethod
    def from_moments(cls, mean: torch.Tensor, variance: torch.Tensor) -> "GaussianPrior":
        """Hold the variance at its floor: a prior that is a point mass pulls hard, but not infinitely so."""
        variance = variance.clamp_min(VARIANCE_FLOOR)
        return cls(mean, variance.reciprocal(), variance.log())


def gaussian_kl(
    mean: torch.Tensor, variance: torch.Tensor, prior: GaussianPrior, beta: float = 1.0, lam: float = 1.0
) -> torch.Tensor:
    """The tempered KL of the module, elementwise, with gradients to all tensors.

    A variance of 0 has an infinite KL. It is held at :data:`VARIANCE_FLOOR`, with the gradient that holds there: the
    value is finite and the gradient is finite and points towards a larger variance.
    """
    tensors = torch.broadcast_tensors(mean, variance, *prior)
    fixed = not any(one.requires_grad for one in prior)
    function = _FusedGaussianKL if fixed and fusable(*tensors) else _GaussianKL
    return function.apply(*tensors, beta, lam)


class _FusedGaussianKL(torch.autograd.Function):
    """To a prior that needs no gradient, by compiled loops; gradients are computed where they are asked for."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        *tensors, beta, lam = arguments
        tensors = [one.contiguous() for one in tensors]
        value = torch.empty_like(tensors[0])
        kernels.gaussian_value(*addresses(*tensors, value), *replicates_and_size(value), beta, lam, VARIANCE_FLOOR)
        ctx.save_for_backward(*tensors[:4])
        ctx.beta, ctx.lam = beta, lam
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        def write(factors: torch.Tensor, *slopes: torch.Tensor) -> None:
            size = replicates_and_size(grad)
            kernels.gaussian_slopes(
                *addresses(*ctx.saved_tensors, *slopes), *size, factors.data_ptr(), ctx.lam, VARIANCE_FLOOR
            )

        return *weighted(grad, ctx.beta, write, ctx.needs_input_grad[:2]), None, None, None, None, None


class _GaussianKL(torch.autograd.Function):
    """Written out because this runs on every weight in every step: the derivatives share the terms of the value, and
    in-place arithmetic on them takes a third less time than recording each operation."""

    @staticmethod
    def forward(
        ctx: Any,
        mean: torch.Tensor,
        variance: torch.Tensor,
        prior_mean: torch.Tensor,
        precision: torch.Tensor,
        log_variance: torch.Tensor,
        beta: float,
        lam: float,
    ) -> torch.Tensor:
        inputs = [tensor.contiguous() for tensor in (mean, variance, prior_mean, precision, log_variance)]
        results = [torch.empty_like(inputs[0]) for _ in range(4 if any(ctx.needs_input_grad[2:5]) else 3)]
        for m, v, m0, precision, log_v0, value, mean_slope, variance_slope, *precision_slope in chunks(
            *inputs, *results
        ):
            held = torch.clamp_min(v, VARIANCE_FLOOR, out=variance_slope)
            distance = torch.sub(m, m0, out=mean_slope)
            spread = torch.addcmul(held, distance, distance, value=lam)
            torch.mul(spread, precision, out=value).add_(log_v0).sub_(held.log()).sub_(1).mul_(beta / 2)
            distance.mul_(precision).mul_(beta * lam)
            held.reciprocal_().neg_().add_(precision).mul_(beta / 2)
            for slope in precision_slope:
                torch.mul(spread, beta / 2, out=slope)
        ctx.save_for_backward(*results[1:])
        ctx.beta = beta
        return results[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        mean_slope, variance_slope, *precision_slope = ctx.saved_tensors
        to_mean = grad * mean_slope
        to_variance = grad * variance_slope if ctx.needs_input_grad[1] else None
        if not precision_slope:
            return to_mean, to_variance, None, None, None, None, None
        return to_mean, to_variance, -to_mean, grad * precision_slope[0], grad * (ctx.beta / 2), None, None
