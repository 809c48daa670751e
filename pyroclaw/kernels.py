"""Loops over weights and activations, compiled by numba: each passes once over memory where torch would ten times.

They know float32 on a CPU only, and nothing of gradients; :mod:`pyroclaw.fused` says when they can be used, and the
modules that use them hold the mathematics. Arguments are addresses of contiguous tensors and numbers of their
dimensions, since views for NumPy would take longer to make than some of the loops run.

Every replicate is a loop of its own, so that a number does not depend on how many there are: a compiled loop ends with
a few elements that are taken one by one and may be rounded otherwise. Arithmetic may be reordered, but NaN and infinity
are not assumed away: what is not finite must stay so, to be seen by :mod:`pyroclaw.inference.guard`.

All kernels are in this one file because numba's cache on disk notices when it changes, but not when another one does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

F = np.float32  # a plain constant would be a float64, and make all that it touches one too
ZERO, HALF, ONE, TWO = F(0), F(0.5), F(1), F(2)
SHRINK, PIXEL = F(0.05), F(1 / 255)
LOG_2_HIGH, LOG_2_LOW = F(0.693359375), F(-2.12194440e-4)
LOG_SERIES = tuple(
    F(c)
    for c in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
LOG_2_INVERSE, LARGEST, SMALLEST = F(1.44269504088896341), F(127), F(-87.3)
EXP_SERIES = tuple(
    F(c)
    for c in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
)


def kernel(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop, compiled when it is first called, and kept on disk if there is a place for it."""
    return _compiled(loop, {"contract", "nsz", "arcp"})


def summing(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel whose sums may be taken in any order."""
    return _compiled(loop, {"contract", "nsz", "arcp", "reassoc"})


def _compiled(loop: Callable[..., Any], liberties: set[str]) -> Callable[..., Any]:
    try:
        return njit(cache=True, fastmath=liberties, error_model="numpy")(loop)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written to
        return njit(fastmath=liberties, error_model="numpy")(loop)


@intrinsic
def _floats(typing: Any, address: Any) -> Any:
    """The address as one of float32 numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), generate


@intrinsic
def _bytes(typing: Any, address: Any) -> Any:
    """The address as one of bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint8)(types.int64), generate


@intrinsic
def _exponent_and_mantissa(typing: Any, x: Any) -> Any:
    """x = 2^e · m of a positive float32, with m in [√½, √2)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, real = context.get_value_type(types.int32), context.get_value_type(types.float32)
        bits = builder.bitcast(arguments[0], word)
        exponent = builder.ashr(builder.sub(bits, word(0x3F3504F3)), word(23))
        mantissa = builder.bitcast(builder.sub(bits, builder.shl(exponent, word(23))), real)
        parts = builder.sitofp(exponent, real), mantissa
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.float32, 2)(types.float32), generate


@intrinsic
def _power_of_2(typing: Any, exponent: Any) -> Any:
    """2^e of a whole number of float32, if it is a normal number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, real = context.get_value_type(types.int32), context.get_value_type(types.float32)
        biased = builder.add(builder.fptosi(arguments[0], word), word(127))
        return builder.bitcast(builder.shl(biased, word(23)), real)

    return types.float32(types.float32), generate


@njit(inline="always")
def _matrix(address, rows, columns):
    return carray(_floats(address), (rows, columns))


@njit(inline="always")
def _log(x):
    """By the series of the Cephes library: as exact as torch's, and in a loop of vectors."""
    exponent, mantissa = _exponent_and_mantissa(x)
    y = mantissa - ONE
    series = LOG_SERIES[0]
    for c in LOG_SERIES[1:]:
        series = series * y + c
    return y + (y * y * (series * y - HALF) + exponent * LOG_2_LOW) + exponent * LOG_2_HIGH


@njit(inline="always")
def _exp(x):
    """As above; 0 where the result would lose digits."""
    exponent = np.floor(x * LOG_2_INVERSE + HALF)
    exponent = exponent if exponent < LARGEST else LARGEST  # of NaN too, which is no whole number
    y = x - exponent * LOG_2_HIGH - exponent * LOG_2_LOW
    series = EXP_SERIES[0]
    for c in EXP_SERIES[1:]:
        series = series * y + c
    power = (series * (y * y) + y + ONE) * _power_of_2(exponent)
    return ZERO if x < SMALLEST else power


@kernel
def log_scale_value(mean, variance, value, replicates, size, weight, floors, series):
    """The KL to the log-scale prior: see :mod:`pyroclaw.distributions.log_scale_kl`."""
    mean, variance = _matrix(mean, replicates, size), _matrix(variance, replicates, size)
    value = _matrix(value, replicates, size)
    floor, ratio, weight = floors[0], floors[1], F(weight)
    for r in range(replicates):
        for i in range(size):
            m, v = mean[r, i], variance[r, i]
            v = floor if v < floor else v
            squared = m * m
            least = squared * ratio
            held = least if v < least else v
            z = held / (held + SHRINK * squared)
            x, total = z - HALF, series[0]
            for k in range(1, 13):
                total = total * x + series[k]
            value[r, i] = weight * (total - HALF * _log(z) + HALF * (ONE - v / held))


@kernel
def log_scale_slopes(mean, variance, to_mean, to_variance, replicates, size, weights, floors, series):
    """Its gradients, weighted by one number for each replicate."""
    mean, variance = _matrix(mean, replicates, size), _matrix(variance, replicates, size)
    to_mean, to_variance = _matrix(to_mean, replicates, size), _matrix(to_variance, replicates, size)
    weights, floor, ratio = _matrix(weights, replicates, 1), floors[0], floors[1]
    for r in range(replicates):
        for i in range(size):
            m, v = mean[r, i], variance[r, i]
            v = floor if v < floor else v
            squared = m * m
            least = squared * ratio
            held = least if v < least else v
            total = held + SHRINK * squared
            x, slope = held / total - HALF, series[0]
            for k in range(1, 15):
                slope = slope * x + series[k]
            slope = weights[r, 0] * slope * m / total
            to_variance[r, i] = -HALF * slope * m / held
            to_mean[r, i] = slope * (v / held)


@kernel
def moments(gamma, variance, m, v, mu, nu, mean, spread, replicates, rows, columns):
    """Of adapted weights: see :mod:`pyroclaw.distributions.matched_moments`; `mu` is 0 where inputs have no gains."""
    size, inputs = rows * columns, mu != 0
    gamma, variance = _matrix(gamma, replicates, size), _matrix(variance, replicates, size)
    mean, spread = _matrix(mean, replicates, size), _matrix(spread, replicates, size)
    m, v = _matrix(m, replicates, columns), _matrix(v, replicates, columns)
    mu, nu = _matrix(mu, replicates, rows), _matrix(nu, replicates, rows)
    for r in range(replicates):
        for i in range(rows):
            u, n = (mu[r, i], nu[r, i]) if inputs else (ONE, ZERO)
            for j in range(columns):
                k = i * columns + j
                c, g = m[r, j] * m[r, j] + v[r, j], gamma[r, k]
                mean[r, k] = u * m[r, j] * g
                spread[r, k] = g * g * (u * u * v[r, j] + n * c) + variance[r, k] * ((u * u + n) * c)


@summing
def moment_slopes(
    gamma,
    variance,
    m,
    v,
    mu,
    nu,
    to_mean,
    to_spread,
    to_gamma,
    to_variance,
    to_m,
    to_v,
    to_mu,
    to_nu,
    replicates,
    rows,
    columns,
):
    """Their gradients."""
    size, inputs = rows * columns, mu != 0
    gamma, variance = _matrix(gamma, replicates, size), _matrix(variance, replicates, size)
    to_mean, to_spread = _matrix(to_mean, replicates, size), _matrix(to_spread, replicates, size)
    to_gamma, to_variance = _matrix(to_gamma, replicates, size), _matrix(to_variance, replicates, size)
    m, v, mu, nu = (
        _matrix(m, replicates, columns),
        _matrix(v, replicates, columns),
        _matrix(mu, replicates, rows),
        _matrix(nu, replicates, rows),
    )
    to_m, to_v, to_mu, to_nu = (
        _matrix(to_m, replicates, columns),
        _matrix(to_v, replicates, columns),
        _matrix(to_mu, replicates, rows),
        _matrix(to_nu, replicates, rows),
    )
    for r in range(replicates):
        for j in range(columns):
            to_m[r, j] = to_v[r, j] = ZERO
        for i in range(rows):
            u, n = (mu[r, i], nu[r, i]) if inputs else (ONE, ZERO)
            own = u * u + n
            by_u, by_n = ZERO, ZERO
            for j in range(
                columns
            ):  # apart from the next loop, or there are too many addresses to see that none overlap
                k = i * columns + j
                c, g, h = m[r, j] * m[r, j] + v[r, j], gamma[r, k], to_spread[r, k]
                to_gamma[r, k] = to_mean[r, k] * u * m[r, j] + TWO * h * g * (u * u * v[r, j] + n * c)
                to_variance[r, k] = h * own * c
            for j in range(columns):
                k = i * columns + j
                c, g, h = m[r, j] * m[r, j] + v[r, j], gamma[r, k], to_spread[r, k]
                p, q, t = to_mean[r, k] * g, h * g * g, h * variance[r, k]
                to_m[r, j] += u * p + TWO * m[r, j] * (n * q + own * t)
                to_v[r, j] += own * (q + t)
                by_u += p * m[r, j] + TWO * u * (q * v[r, j] + t * c)
                by_n += (q + t) * c
            if inputs:
                to_mu[r, i], to_nu[r, i] = by_u, by_n


@kernel
def gains(p, sigmoid, s, mean, variance, replicates, units, begin, count, taps, bias):
    """Of the units from `begin` on, each `taps` times, and 1 without variance for a bias: :mod:`pyroclaw.gains`."""
    size = count * taps + bias
    p, sigmoid, s = _matrix(p, replicates, units), _matrix(sigmoid, replicates, units), _matrix(s, replicates, units)
    mean, variance = _matrix(mean, replicates, size), _matrix(variance, replicates, size)
    for r in range(replicates):
        for k in range(count * taps):
            i = begin + k // taps
            b = s[r, i] * sigmoid[r, i] - ONE
            mean[r, k] = ONE + b * p[r, i]
            variance[r, k] = b * b * (p[r, i] * (ONE - p[r, i]))
        if bias:
            mean[r, size - 1], variance[r, size - 1] = ONE, ZERO


@kernel
def gain_slopes(p, sigmoid, s, to_mean, to_variance, to_p, to_a, to_s, replicates, units, begin, count, taps, bias):
    """Their gradients."""
    size = count * taps + bias
    p, sigmoid, s = _matrix(p, replicates, units), _matrix(sigmoid, replicates, units), _matrix(s, replicates, units)
    to_mean, to_variance = _matrix(to_mean, replicates, size), _matrix(to_variance, replicates, size)
    to_p, to_a, to_s = (
        _matrix(to_p, replicates, units),
        _matrix(to_a, replicates, units),
        _matrix(to_s, replicates, units),
    )
    for r in range(replicates):
        for i in range(begin, begin + count):
            by_mean, by_variance = ZERO, ZERO
            for tap in range((i - begin) * taps, (i - begin + 1) * taps):
                by_mean += to_mean[r, tap]
                by_variance += to_variance[r, tap]
            f, q = sigmoid[r, i], p[r, i]
            b = s[r, i] * f - ONE
            to_b = by_mean * q + TWO * by_variance * b * (q * (ONE - q))
            to_p[r, i] = by_mean * b + by_variance * b * b * (ONE - TWO * q)
            to_a[r, i] = to_b * s[r, i] * f * (ONE - f)
            to_s[r, i] = to_b * f


@kernel
def draw(mean, variance, noise, replicates, size, floor):
    """Of activations: see :mod:`pyroclaw.activations`. The draw is left in `mean`, its slope in `noise`."""
    mean, variance = _matrix(mean, replicates, size), _matrix(variance, replicates, size)
    noise, floor = _matrix(noise, replicates, size), F(floor)
    for r in range(replicates):
        for i in range(size):
            deviation, epsilon = np.sqrt(variance[r, i] + floor), noise[r, i]
            mean[r, i] += deviation * epsilon
            noise[r, i] = HALF * epsilon / deviation


@kernel
def transpose(matrix, out, replicates, rows, columns):
    """The matrix [rows, columns] of each replicate as [columns, rows]."""
    size = rows * columns
    matrix, out = _matrix(matrix, replicates, size), _matrix(out, replicates, size)
    for r in range(replicates):
        for j in range(columns):
            for i in range(rows):
                out[r, j * rows + i] = matrix[r, i * columns + j]


@summing
def turn(turned, grad, out, replicates, units, examples, inputs):
    """∂yᵀ·x [units, inputs], turned, and under it the sums of ∂yᵀ [units, examples]: see :mod:`pyroclaw.products`."""
    turned, grad = _matrix(turned, replicates, units * inputs), _matrix(grad, replicates, units * examples)
    out = _matrix(out, replicates, (inputs + 1) * units)
    for r in range(replicates):
        for i in range(inputs):
            for j in range(units):
                out[r, i * units + j] = turned[r, j * inputs + i]
        for j in range(units):
            total = ZERO
            for n in range(examples):
                total += grad[r, j * examples + n]
            out[r, inputs * units + j] = total


@kernel
def pixels(images, out, size):
    """Bytes as float32 in [0, 1]."""
    images, out = carray(_bytes(images), size), carray(_floats(out), size)
    for i in range(size):
        out[i] = F(images[i]) * PIXEL


@kernel
def exponential(x, out, replicates, size):
    """e^x."""
    x, out = _matrix(x, replicates, size), _matrix(out, replicates, size)
    for r in range(replicates):
        for i in range(size):
            out[r, i] = _exp(x[r, i])


@kernel
def gaussian_value(mean, variance, prior, precision, log_variance, value, replicates, size, beta, lam, floor):
    """The tempered KL between Gaussians: see :mod:`pyroclaw.distributions.gaussian_kl`."""
    mean, variance = _matrix(mean, replicates, size), _matrix(variance, replicates, size)
    prior, precision = _matrix(prior, replicates, size), _matrix(precision, replicates, size)
    log_variance, value = _matrix(log_variance, replicates, size), _matrix(value, replicates, size)
    half, lam, floor = F(beta) * HALF, F(lam), F(floor)
    for r in range(replicates):
        for i in range(size):
            v, distance = variance[r, i], mean[r, i] - prior[r, i]
            v = floor if v < floor else v
            spread = (v + lam * distance * distance) * precision[r, i]
            value[r, i] = half * (spread + log_variance[r, i] - _log(v) - ONE)


@kernel
def gaussian_slopes(
    mean, variance, prior, precision, to_mean, to_variance, replicates, size, weights, lam, floor
):
    """Its gradients, weighted by one number for each replicate."""
    mean, variance = _matrix(mean, replicates, size), _matrix(variance, replicates, size)
    prior, precision = _matrix(prior, replicates, size), _matrix(precision, replicates, size)
    to_mean, to_variance = _matrix(to_mean, replicates, size), _matrix(to_variance, replicates, size)
    weights, lam, floor = _matrix(weights, replicates, 1), F(lam), F(floor)
    for r in range(replicates):
        for i in range(size):
            v, distance = variance[r, i], mean[r, i] - prior[r, i]
            v = floor if v < floor else v
            to_mean[r, i] = weights[r, 0] * lam * distance * precision[r, i]
            to_variance[r, i] = weights[r, 0] * HALF * (precision[r, i] - ONE / v)
