"""KL divergences of Gaussian weights, value by value, and their gradients.

The gradients are weighted by one number for each replicate, which is what a sum over weights sends back. Polynomials
have the degrees of float32, known here: a loop of unknown length would not be unrolled.
"""

from pyroclaw.kernels.compiling import HALF, ONE, ZERO, F, kernel, log, matrix, pair, summing

SHRINK = F(0.05)  # t/10 = 0.05 M²/V


@kernel
def log_scale_value(mean, variance, value, replicates, size, weight, floors, series):
    """The KL to the log-scale prior: see :mod:`pyroclaw.distributions.log_scale_kl`."""
    mean, variance = pair(mean, variance, replicates, size)
    value = matrix(value, replicates, size)
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
            value[r, i] = weight * (total - HALF * log(z) + HALF * (ONE - v / held))


@kernel
def log_scale_slopes(mean, variance, to_mean, to_variance, replicates, size, weights, floors, series):
    """Its gradients."""
    mean, variance = pair(mean, variance, replicates, size)
    to_mean, to_variance = pair(to_mean, to_variance, replicates, size)
    weights, floor, ratio = matrix(weights, replicates, 1), floors[0], floors[1]
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
def gaussian_value(mean, variance, prior, precision, log_variance, value, replicates, size, beta, lam, floor):
    """The tempered KL between Gaussians: see :mod:`pyroclaw.distributions.gaussian_kl`."""
    mean, variance = pair(mean, variance, replicates, size)
    prior, precision = pair(prior, precision, replicates, size)
    log_variance, value = pair(log_variance, value, replicates, size)
    half, lam, floor = F(beta) * HALF, F(lam), F(floor)
    for r in range(replicates):
        for i in range(size):
            v, distance = variance[r, i], mean[r, i] - prior[r, i]
            v = floor if v < floor else v
            spread = (v + lam * distance * distance) * precision[r, i]
            value[r, i] = half * (spread + log_variance[r, i] - log(v) - ONE)


@kernel
def gaussian_slopes(mean, variance, prior, precision, to_mean, to_variance, replicates, size, weights, lam, floor):
    """Its gradients."""
    mean, variance = pair(mean, variance, replicates, size)
    prior, precision = pair(prior, precision, replicates, size)
    to_mean, to_variance = pair(to_mean, to_variance, replicates, size)
    weights, lam, floor = matrix(weights, replicates, 1), F(lam), F(floor)
    for r in range(replicates):
        for i in range(size):
            v, distance = variance[r, i], mean[r, i] - prior[r, i]
            v = floor if v < floor else v
            to_mean[r, i] = weights[r, 0] * lam * distance * precision[r, i]
            to_variance[r, i] = weights[r, 0] * HALF * (precision[r, i] - ONE / v)


@summing
def half_spread(variance, a, g, value, replicates, rows, columns, floor):
    """Of the KL to a Kronecker Gaussian: see :mod:`pyroclaw.distributions.kronecker`."""
    size, floor = rows * columns, F(floor)
    variance, value = matrix(variance, replicates, size), matrix(value, replicates, 1)
    a, g = matrix(a, replicates, rows), matrix(g, replicates, columns)
    for r in range(replicates):
        total = 0.0  # a float64, as there are many rows
        for i in range(rows):
            part = ZERO
            for j in range(columns):
                v = variance[r, i * columns + j]
                v = floor if v < floor else v
                part += v * a[r, i] * g[r, j] - log(v)
            total += float(part)
        value[r, 0] = F(0.5 * total)


@kernel
def half_spread_slope(variance, a, g, weights, to_variance, replicates, rows, columns, floor):
    """Its gradient."""
    size, floor = rows * columns, F(floor)
    variance, to_variance = pair(variance, to_variance, replicates, size)
    a, g, weights = matrix(a, replicates, rows), matrix(g, replicates, columns), matrix(weights, replicates, 1)
    for r in range(replicates):
        weight = HALF * weights[r, 0]
        for i in range(rows):
            for j in range(columns):
                v = variance[r, i * columns + j]
                v = floor if v < floor else v
                to_variance[r, i * columns + j] = weight * (a[r, i] * g[r, j] - ONE / v)
