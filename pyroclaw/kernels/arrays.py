"""Numbers of another kind, and what activations and variances are made by."""

import numpy as np
from numba import carray

from pyroclaw.kernels.compiling import HALF, F, exp, kernel, matrix, pair, pointer

PIXEL = F(1 / 255)


@kernel
def draw(mean, variance, noise, replicates, size, floor):
    """Of activations: see :mod:`pyroclaw.activations`. The draw is left in `mean`, its slope in `noise`."""
    mean, variance = pair(mean, variance, replicates, size)
    noise, floor = matrix(noise, replicates, size), F(floor)
    for r in range(replicates):
        for i in range(size):
            deviation, epsilon = np.sqrt(variance[r, i] + floor), noise[r, i]
            mean[r, i] += deviation * epsilon
            noise[r, i] = HALF * epsilon / deviation


@kernel
def exponential(x, out, replicates, size):
    """e^x."""
    x, out = pair(x, out, replicates, size)
    for r in range(replicates):
        for i in range(size):
            out[r, i] = exp(x[r, i])


@kernel
def pixels(images, out, size):
    """Bytes as float32 in [0, 1]."""
    images, out = carray(pointer(images, np.uint8), size), carray(pointer(out, F), size)
    for i in range(size):
        out[i] = F(images[i]) * PIXEL
