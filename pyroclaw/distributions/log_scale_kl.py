r"""The KL divergence of a Gaussian to the log-scale prior, equations (9) to (12): exact, and by the usual sigmoid fit.

For q = N(M, V) and p(w) = 1/|w| the divergence depends on t = M²/(2V) alone, that is on the noise-to-signal ratio
ρ = V/M² = 1/(2t). w²/V is a non-central χ² of one degree of freedom, a Poisson mixture of central ones, so

.. math::

    KL = -\tfrac12\log(2\pi e) + \tfrac12\log 2 + F(t), \qquad
    F(t) = \tfrac12 \sum_j \mathrm{Poisson}(j; t)\,\psi(\tfrac12 + j), \qquad
    \frac{dF}{dt} = \frac{D(\sqrt t)}{\sqrt t},

with ψ the digamma function and D Dawson's integral; hence dKL/dlog ρ = -√t D(√t). F has neither a closed form nor a
fast series for all t, but F - ½ log(1 + t/10) and (1 + t/10) D(√t)/√t are smooth and bounded functions of
z = 1/(1 + t/10) ∈ [0, 1]: each is one polynomial in z - ½, found once by Chebyshev interpolation. The degree is
chosen by dtype; the interpolation errs by less than 1e-12 in float64 and 2e-6 in float32. By compiled loops
(:mod:`pyroclaw.fused`) value and gradients take one pass over the weights each.

Limits, and how each is held:

- ρ → ∞ (M = 0: γ = 0 with an own scale, or b = -1 with p → 1): the minimum -½ log(πe) + ½ ψ(½) ≈ -2.054, gradient 0.
- ρ → 0 (a point mass: p = 0, p = 1 or b = 0 when γ is tied): +∞, as -½ log ρ. Below ``RATIO_FLOOR`` the tangent at
  the floor is taken, so value and gradient stay finite and the gradient points to a larger ρ. There the slope in log ρ
  is -½ to the last digit, and the tangent adds ½ (1 - ρ/floor).
- V → 0 at any M: V is held at ``VARIANCE_FLOOR``, with the gradient that holds there. This also settles M = V = 0
  (b = -1 and p = 1): ρ = 0/0 becomes ∞, its limit as p → 1, and the KL is at its minimum.
- γ = 0 when γ is tied: γ cancels from ρ, so the KL is computed from the gain alone and sends no gradient to γ.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from scipy.special import dawsn, digamma, gammaln
from torch.autograd.function import once_differentiable

from pyroclaw.distributions.chunks import chunks
from pyroclaw.distributions.gaussian_kl import VARIANCE_FLOOR
from pyroclaw.errors import InputError
from pyroclaw.fused import addresses, fusable, kernels, replicates_and_size, weighted

RATIO_FLOOR = 1e-10
MINIMUM = -0.5 * math.log(math.pi * math.e) + 0.5 * float(digamma(0.5))

SIGMOID_FIT = (0.63167, 1.89540, 1.51456)
"""k1, k2, k3 of :func:`sigmoid_fit_kl`, refitted by ``experiments/fit_log_scale.py``."""
MOLCHANOV_FIT = (0.63576, 1.87320, 1.48695)
"""k1, k2, k3 as published by Molchanov et al. (2017)."""

# Polynomial degrees of the value and of its slope.
_DEGREES = {torch.float32: (12, 14), torch.float64: (34, 36)}
_FLOORS = np.array([VARIANCE_FLOOR, RATIO_FLOOR], dtype=np.float32)


def log_scale_kl(mean: torch.Tensor, variance: torch.Tensor, weight: float = 1.0) -> torch.Tensor:
    """Exact KL(N(mean, variance) ‖ LogScale) times a weight, elementwise; see the module for its limits."""
    if mean.shape != variance.shape:
        mean, variance = torch.broadcast_tensors(mean, variance)
    if mean.dtype != variance.dtype or mean.dtype not in _DEGREES:
        raise InputError(
            f"log_scale_kl has a mean in {mean.dtype} and a variance in {variance.dtype}: "
            "make both float32 or both float64."
        )
    function = _FusedLogScaleKL if fusable(mean, variance) else _LogScaleKL
    return function.apply(mean, variance, weight)


def log_scale_kl_from_ratio(rho: torch.Tensor) -> torch.Tensor:
    """Exact KL as a function of the noise-to-signal ratio ρ = variance/mean², which may be 0 or infinite."""
    # Above 1e30 the KL is its minimum to the last digit, and the arithmetic does not overflow in float32.
    return log_scale_kl(torch.ones_like(rho), rho.clamp_max(1e30))


def sigmoid_fit_kl(
    rho: torch.Tensor, k1: float = SIGMOID_FIT[0], k2: float = SIGMOID_FIT[1], k3: float = SIGMOID_FIT[2]
) -> torch.Tensor:
    r"""The fit of Molchanov et al. (2017, equation 14), with the constant that makes it the exact KL as ρ → ∞.

    .. math:: KL \approx \min KL + k_1\,\sigma(-k_2 - k_3\log\rho) + \tfrac12\log(1 + 1/\rho)
    """
    log_rho = rho.log()
    return MINIMUM + k1 * torch.sigmoid(-k2 - k3 * log_rho) + 0.5 * torch.nn.functional.softplus(-log_rho)


class _LogScaleKL(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: torch.Tensor, variance: torch.Tensor, weight: float) -> torch.Tensor:
        mean, variance = mean.contiguous(), variance.contiguous()
        value, *slopes = (torch.empty_like(mean) for _ in range(3))
        for pieces in chunks(mean, variance, value, *slopes):
            _value_and_slopes(weight, *pieces)
        ctx.save_for_backward(*slopes)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        slopes = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        return *(grad * slope if needed else None for slope, needed in slopes), None


class _FusedLogScaleKL(torch.autograd.Function):
    """Gradients are computed where they are asked for: nothing but the arguments is kept."""

    @staticmethod
    def forward(ctx: Any, mean: torch.Tensor, variance: torch.Tensor, weight: float) -> torch.Tensor:
        mean, variance = mean.contiguous(), variance.contiguous()
        value = torch.empty_like(mean)
        kernels.log_scale_value(
            *addresses(mean, variance, value), *replicates_and_size(mean), weight, _FLOORS, _series()[0]
        )
        ctx.save_for_backward(mean, variance)
        ctx.weight = weight
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        def write(factors: torch.Tensor, *slopes: torch.Tensor) -> None:
            size = replicates_and_size(grad)
            kernels.log_scale_slopes(
                *addresses(*ctx.saved_tensors, *slopes), *size, factors.data_ptr(), _FLOORS, _series()[1]
            )

        return *weighted(grad, ctx.weight, write, ctx.needs_input_grad[:2]), None


def _value_and_slopes(
    weight: float,
    mean: torch.Tensor,
    variance: torch.Tensor,
    value: torch.Tensor,
    mean_slope: torch.Tensor,
    variance_slope: torch.Tensor,
) -> None:
    """Write KL, dKL/dM and dKL/dV into the last three arguments, with no division by M."""
    value_polynomial, slope_polynomial = _polynomials(mean.dtype, mean.device, weight)
    variance = variance.clamp_min(VARIANCE_FLOOR)
    squared = mean.square()
    held = torch.maximum(variance, squared * RATIO_FLOOR)
    total = held.add(squared, alpha=0.05)  # V (1 + t/10)
    z = held / total
    x = torch.sub(z, 0.5, out=squared)
    # dKL/dM = (D/√t) M/V and dKL/dV = -½ (M/V) dKL/dM, where D/√t = slope · z.
    _horner(slope_polynomial, x, out=mean_slope).mul_(mean).div_(total)
    torch.mul(mean_slope, mean, out=variance_slope).div_(held).mul_(-0.5)
    # The tangent adds nothing where the ratio is above its floor.
    _horner(value_polynomial, x, out=value).add_(z.log_(), alpha=-0.5 * weight)
    value.addcmul_(variance_slope, torch.sub(variance, held, out=total))
    mean_slope.mul_(variance).div_(held)


def _horner(coefficients: tuple[torch.Tensor, ...], x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    torch.addcmul(coefficients[1], coefficients[0], x, out=out)
    for coefficient in coefficients[2:]:
        torch.addcmul(coefficient, out, x, out=out)
    return out


@cache
def _polynomials(dtype: torch.dtype, device: torch.device, weight: float) -> tuple[tuple[torch.Tensor, ...], ...]:
    """Coefficients of the value and of the slope, highest power first, as tensors without dimensions."""
    # Powers serve as well as Chebyshev polynomials here: their coefficients stay small, so nothing cancels.
    powers = (
        chebyshev.cheb2poly(series[: d + 1]) for series, d in zip(_chebyshev_series(), _DEGREES[dtype], strict=True)
    )
    return tuple(
        tuple(torch.tensor(weight * c * 2.0**k, dtype=dtype, device=device) for k, c in enumerate(own))[::-1]
        for own in powers
    )


@cache
def _series() -> tuple[np.ndarray, ...]:
    """The coefficients in float32 as arrays, without a weight."""
    polynomials = _polynomials(torch.float32, torch.device("cpu"), 1.0)
    return tuple(np.array([float(c) for c in own], dtype=np.float32) for own in polynomials)


@cache
def _chebyshev_series() -> tuple[np.ndarray, np.ndarray]:
    """In 2z - 1 ∈ [-1, 1]."""

    def t(x: np.ndarray) -> np.ndarray:
        return 10 * (1 - x) / (1 + x)

    def value(x: np.ndarray) -> np.ndarray:
        constant = -0.5 * math.log(2 * math.pi * math.e) + 0.5 * math.log(2)
        return constant + _poisson_digamma(t(x)) - 0.5 * np.log1p(t(x) / 10)

    def slope(x: np.ndarray) -> np.ndarray:
        root = np.sqrt(t(x))
        return (1 + t(x) / 10) * dawsn(root) / root

    return chebyshev.chebinterpolate(value, 64), chebyshev.chebinterpolate(slope, 64)


def _poisson_digamma(t: np.ndarray) -> np.ndarray:
    """F(t): the sum itself up to t = 60, and beyond it ½ log t - ½ Σ_k (2k-1)!!/(k (2t)^k), summed to rounding."""
    small, large = np.minimum(t, 60.0), np.maximum(t, 60.0)
    j = np.arange(300)
    weights = np.exp(j * np.log(small)[:, None] - small[:, None] - gammaln(j + 1))
    k = np.arange(1, 40)
    terms = np.cumprod((2 * k - 1) / (2 * large[:, None]), axis=1) / k
    return np.where(t < 60, weights @ (0.5 * digamma(0.5 + j)), 0.5 * np.log(large) - 0.5 * terms.sum(1))
