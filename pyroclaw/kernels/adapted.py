"""Moments of adapted weights and of the gains that adapt them, and their gradients."""

from pyroclaw.kernels.compiling import ONE, TWO, ZERO, exp, kernel, matrix, pair, summing


@kernel
def moments(gamma, log_variance, m, v, mu, nu, mean, spread, variance, replicates, rows, columns):
    """Of adapted weights, and σ²: see :mod:`pyroclaw.distributions.matched_moments`; `mu` is 0 where inputs have no
    gains."""
    size, inputs = rows * columns, mu != 0
    gamma, log_variance = pair(gamma, log_variance, replicates, size)
    variance = matrix(variance, replicates, size)
    mean, spread = pair(mean, spread, replicates, size)
    m, v = pair(m, v, replicates, columns)
    mu, nu = pair(mu, nu, replicates, rows)
    for r in range(replicates):
        for k in range(size):
            variance[r, k] = exp(log_variance[r, k])
        for i in range(rows):
            u, n = (mu[r, i], nu[r, i]) if inputs else (ONE, ZERO)
            for j in range(columns):
                k = i * columns + j
                c, g = m[r, j] * m[r, j] + v[r, j], gamma[r, k]
                mean[r, k] = u * m[r, j] * g
                spread[r, k] = g * g * (u * u * v[r, j] + n * c) + variance[r, k] * ((u * u + n) * c)


@summing
def moment_slopes(inputs, grads, slopes, replicates, rows, columns):
    """Their gradients, all in tuples: `slopes` to γ, log σ², m, v, μ and ν from `grads` to M, V, γ and σ²; `inputs` are
    what the slopes are to, but for σ²."""
    size, adapted = rows * columns, inputs[4] != 0
    gamma, variance = pair(inputs[0], inputs[1], replicates, size)
    m, v = pair(inputs[2], inputs[3], replicates, columns)
    mu, nu = pair(inputs[4], inputs[5], replicates, rows)
    to_mean, to_spread = pair(grads[0], grads[1], replicates, size)
    own_gamma, own_variance = pair(grads[2], grads[3], replicates, size)
    to_gamma, to_log_variance = pair(slopes[0], slopes[1], replicates, size)
    to_m, to_v = pair(slopes[2], slopes[3], replicates, columns)
    to_mu, to_nu = pair(slopes[4], slopes[5], replicates, rows)
    for r in range(replicates):
        for j in range(columns):
            to_m[r, j] = to_v[r, j] = ZERO
        for i in range(rows):
            u, n = (mu[r, i], nu[r, i]) if adapted else (ONE, ZERO)
            own = u * u + n
            by_u, by_n = ZERO, ZERO
            for j in range(columns):  # two loops: for one the compiler had too many addresses to compare
                k = i * columns + j
                c, g, h = m[r, j] * m[r, j] + v[r, j], gamma[r, k], to_spread[r, k]
                to_gamma[r, k] = own_gamma[r, k] + to_mean[r, k] * u * m[r, j] + TWO * h * g * (u * u * v[r, j] + n * c)
                to_log_variance[r, k] = (own_variance[r, k] + h * own * c) * variance[r, k]
            for j in range(columns):
                k = i * columns + j
                c, g, h = m[r, j] * m[r, j] + v[r, j], gamma[r, k], to_spread[r, k]
                p, q, t = to_mean[r, k] * g, h * g * g, h * variance[r, k]
                to_m[r, j] += u * p + TWO * m[r, j] * (n * q + own * t)
                to_v[r, j] += own * (q + t)
                by_u += p * m[r, j] + TWO * u * (q * v[r, j] + t * c)
                by_n += (q + t) * c
            if adapted:
                to_mu[r, i], to_nu[r, i] = by_u, by_n


@kernel
def gains(p, b, mean, variance, replicates, units, begin, count, taps, bias):
    """Of units from `begin` on, each `taps` times, and 1 for a bias: see :mod:`pyroclaw.distributions.gains`."""
    size = count * taps + bias
    p, b = pair(p, b, replicates, units)
    mean, variance = pair(mean, variance, replicates, size)
    for r in range(replicates):
        for k in range(count * taps):
            i = begin + k // taps
            mean[r, k] = ONE + b[r, i] * p[r, i]
            variance[r, k] = b[r, i] * b[r, i] * (p[r, i] * (ONE - p[r, i]))
        if bias:
            mean[r, size - 1], variance[r, size - 1] = ONE, ZERO


@kernel
def gain_slopes(p, b, to_mean, to_variance, to_p, to_b, replicates, units, begin, count, taps, bias):
    """Their gradients."""
    size = count * taps + bias
    p, b = pair(p, b, replicates, units)
    to_mean, to_variance = pair(to_mean, to_variance, replicates, size)
    to_p, to_b = pair(to_p, to_b, replicates, units)
    for r in range(replicates):
        for i in range(begin, begin + count):
            by_mean, by_variance = ZERO, ZERO
            for k in range((i - begin) * taps, (i - begin + 1) * taps):
                by_mean += to_mean[r, k]
                by_variance += to_variance[r, k]
            f, q = b[r, i], p[r, i]
            to_p[r, i] = by_mean * f + by_variance * f * f * (ONE - TWO * q)
            to_b[r, i] = by_mean * q + TWO * by_variance * f * (q * (ONE - q))
