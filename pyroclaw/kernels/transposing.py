"""Matrices that are turned, eight rows and eight columns at a time.

A plain loop reads or writes one number here and the next far away. Eight rows of eight numbers each are read at once
into as many vectors, exchanged between these in three rounds, and written at once: three times as fast in the cache.
"""

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from pyroclaw.kernels.compiling import ZERO, kernel, matrix, pair, summing

SIDE, BYTES = 8, 4  # of a tile, and of a number
# What two vectors, of numbers 0 to 7 and 8 to 15, become in each round: one instruction of a processor each.
_SINGLES = (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)
_COUPLES = (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)
_HALVES = (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)


@intrinsic
def _tile(typing: Any, source: Any, wide: Any, target: Any, high: Any) -> Any:
    """The tile at one address, in rows of `wide` numbers, turned to another, in rows of `high`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, order = ir.VectorType(ir.FloatType(), SIDE), ir.VectorType(ir.IntType(32), SIDE)

        def row(address: Any, length: Any, k: int) -> Any:
            offset = builder.mul(length, length.type(BYTES * k))
            return builder.inttoptr(builder.add(address, offset), vector.as_pointer())

        def mixed(rows: list[Any], k: int, apart: int, orders: tuple[tuple[int, ...], ...]) -> list[Any]:
            return [builder.shuffle_vector(rows[k], rows[k + apart], ir.Constant(order, one)) for one in orders]

        source, wide, target, high = arguments
        rows = [builder.load(row(source, wide, k), align=BYTES) for k in range(SIDE)]
        rows = [one for k in (0, 2, 4, 6) for one in mixed(rows, k, 1, _SINGLES)]
        rows = [one for k in (0, 1, 4, 5) for one in mixed(rows, k, 2, _COUPLES)]
        rows = [one for half in _HALVES for k in range(4) for one in mixed(rows, k, 4, (half,))]
        for k, one in enumerate(rows):
            builder.store(one, row(target, high, k), align=BYTES)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


@njit(inline="always")
def _turned(source, target, rows, columns):
    """The matrix [rows, columns] at one address, to another as [columns, rows]."""
    before, after = matrix(source, rows, columns), matrix(target, columns, rows)
    high, wide = rows // SIDE * SIDE, columns // SIDE * SIDE
    for j in range(0, wide, SIDE):
        for i in range(0, high, SIDE):
            _tile(source + BYTES * (i * columns + j), columns, target + BYTES * (j * rows + i), rows)
    for i in range(high, rows):
        for j in range(columns):
            after[j, i] = before[i, j]
    for j in range(wide, columns):
        for i in range(high):
            after[j, i] = before[i, j]


@kernel
def transpose(source, target, replicates, rows, columns):
    """The matrix [rows, columns] of each replicate as [columns, rows]."""
    for r in range(replicates):
        offset = BYTES * r * rows * columns
        _turned(source + offset, target + offset, rows, columns)


@kernel
def slopes(grad, slope, spread, to_mean, to_spread, replicates, rows, columns):
    """Gradients to what activations are drawn from, the second as it is and both turned: see
    :mod:`pyroclaw.drawn_linear`."""
    size = rows * columns
    first, second = pair(grad, slope, replicates, size)
    both = matrix(spread, replicates, size)
    for r in range(replicates):
        for i in range(size):
            both[r, i] = first[r, i] * second[r, i]
        offset = BYTES * r * size
        _turned(grad + offset, to_mean + offset, rows, columns)
        _turned(spread + offset, to_spread + offset, rows, columns)


@summing
def turn(turned, grad, out, replicates, units, examples, inputs):
    """∂yᵀ·x [units, inputs], turned, and under it the sums of ∂yᵀ [units, examples]: see :mod:`pyroclaw.products`."""
    columns, sums = matrix(grad, replicates, units * examples), matrix(out, replicates, (inputs + 1) * units)
    for r in range(replicates):
        _turned(turned + BYTES * r * units * inputs, out + BYTES * r * (inputs + 1) * units, units, inputs)
        for j in range(units):
            total = ZERO
            for n in range(examples):
                total += columns[r, j * examples + n]
            sums[r, inputs * units + j] = total
