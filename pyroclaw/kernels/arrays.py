"""Numbers in another order or of another kind, and what activations and variances are made by."""

import numpy as np
from numba import carray

from pyroclaw.kernels.compiling import HALF, ZERO, F, exp, kernel, matrix, pair, pointer, summing

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


@kernel
def transpose(matrix, out, replicates, rows, columns):
    """The matrix [rows, columns] of each replicate as [columns, rows]."""
    size = rows * columns
    matrix, out = pair(matrix, out, replicates, size)
    for r in range(replicates):
        for j in range(columns):
            for i in range(rows):
                out[r, j * rows + i] = matrix[r, i * columns + j]


@summing
def turn(turned, grad, out, replicates, units, examples, inputs):
    """∂yᵀ·x [units, inputs], turned, and under it the sums of ∂yᵀ [units, examples]: see :mod:`pyroclaw.products`."""
    turned, grad = matrix(turned, replicates, units * inputs), matrix(grad, replicates, units * examples)
    out = matrix(out, replicates, (inputs + 1) * units)
    for r in range(replicates):
        for i in range(inputs):
            for j in range(units):
                out[r, i * units + j] = turned[r, j * inputs + i]
        for j in range(units):
            total = ZERO
            for n in range(examples):
                total += grad[r, j * examples + n]
            out[r, inputs * units + j] = total
