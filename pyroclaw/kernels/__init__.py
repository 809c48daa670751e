"""Loops over weights and activations, compiled by numba: each passes once over memory where torch would ten times.

They know float32 on a CPU only, and nothing of gradients; :mod:`pyroclaw.fused` says when they can be used, and the
modules that use them hold the mathematics. Arguments are addresses of contiguous tensors and numbers of their
dimensions, since views for NumPy would take longer to make than some of the loops run.

Every replicate is a loop of its own, so that a number does not depend on how many there are: a compiled loop ends with
a few elements that are taken one by one and may be rounded otherwise. NaN and infinity are not assumed away: what is
not finite must stay so, to be seen by :mod:`pyroclaw.inference.guard`.
"""

from pyroclaw.kernels.adapted import gain_slopes, gains, moment_slopes, moments
from pyroclaw.kernels.arrays import draw, exponential, pixels
from pyroclaw.kernels.divergences import (
    gaussian_slopes,
    gaussian_value,
    half_spread,
    half_spread_slope,
    log_scale_slopes,
    log_scale_value,
)
from pyroclaw.kernels.noise import normal
from pyroclaw.kernels.pooling import pool, pool_drawn, unpool
from pyroclaw.kernels.transposing import slopes, transpose, turn

__all__ = [
    "draw",
    "exponential",
    "gain_slopes",
    "gains",
    "gaussian_slopes",
    "gaussian_value",
    "half_spread",
    "half_spread_slope",
    "log_scale_slopes",
    "log_scale_value",
    "moment_slopes",
    "moments",
    "normal",
    "pixels",
    "pool",
    "pool_drawn",
    "slopes",
    "transpose",
    "turn",
    "unpool",
]
