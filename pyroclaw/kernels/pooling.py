"""Blocks of a convolutional net behind the convolution: see :mod:`pyroclaw.blocks`.

Maps [images, height, width, channels] are float32, or bfloat16, whose 16 bits are the first half of a float32's. All
else is float32, but for the place from which a number was taken: 0 to 3 in its window, or NOWHERE.
"""

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic, overload

from pyroclaw.kernels.compiling import HALF, ZERO, F, kernel, pointer

B = np.uint8
NOWHERE = B(4)  # where ReLU gives 0


@intrinsic
def _from_half(typing, half):
    def generate(context, builder, signature, arguments):
        word, real = context.get_value_type(types.int32), context.get_value_type(types.float32)
        return builder.bitcast(builder.shl(builder.zext(arguments[0], word), word(16)), real)

    return types.float32(types.uint16), generate


@intrinsic
def _to_half(typing, x):
    """To the nearest, and of two equally near to the even one; NaN stays NaN."""

    def generate(context, builder, signature, arguments):
        word, half = context.get_value_type(types.int32), context.get_value_type(types.uint16)
        bits = builder.bitcast(arguments[0], word)
        odd = builder.and_(builder.lshr(bits, word(16)), word(1))
        rounded = builder.lshr(builder.add(bits, builder.add(odd, word(0x7FFF))), word(16))
        is_nan = builder.fcmp_unordered("uno", arguments[0], arguments[0])
        return builder.trunc(builder.select(is_nan, word(0x7FC0), rounded), half)

    return types.uint16(types.float32), generate


def _wide(x):
    """As float32."""


def _narrow(x, kind):
    """As a number of that kind."""


def _bytes(kind):
    """That a number of that kind takes."""


@overload(_wide, inline="always")
def _widen(x):
    return (lambda x: _from_half(x)) if x == types.uint16 else (lambda x: x)


@overload(_narrow, inline="always")
def _narrowed(x, kind):
    return (lambda x, kind: _to_half(x)) if kind.dtype == types.uint16 else (lambda x, kind: x)


@overload(_bytes, inline="always")
def _wide_or_half(kind):
    return (lambda kind: 2) if kind.dtype == types.uint16 else (lambda kind: 4)


@njit(inline="always")
def _from(address, kind, first, count):
    """Numbers from the first on. A loop over part of an array would ask whether it begins below 0."""
    return carray(pointer(address + _bytes(kind) * first, kind), count)


@njit(inline="always")
def _above(own, best):
    """As torch's pooling has it: of equals the first one, and NaN before all."""
    return (own > best) | (own != own)


@njit(inline="always")
def _corner(window, high, wide, height, width):
    """Position, in maps, of the first of four in a window, by its number."""
    line, x = window // wide, window % wide
    return ((line // high) * height + line % high * 2) * width + 2 * x


@kernel
def pool(maps, kind, out, places, images, height, width, channels):
    """The largest of each window of two by two, or 0 if that is more, and where it was."""
    high, wide = height // 2, width // 2
    for window in range(images * high * wide):
        corner, at = _corner(window, high, wide, height, width), window * channels
        largest, chosen = _from(out, F, at, channels), carray(pointer(places + at, B), channels)
        for i in range(channels):
            largest[i], chosen[i] = ZERO, NOWHERE
        for k in range(4):
            numbers, place = _from(maps, kind, (corner + (k & 1) + (k >> 1) * width) * channels, channels), B(k)
            for i in range(channels):
                own, best = _wide(numbers[i]), largest[i]
                take = _above(own, best)
                largest[i], chosen[i] = own if take else best, place if take else chosen[i]


@kernel
def pool_drawn(means, variances, kind, noise, out, places, slopes, images, height, width, channels, floor):
    """The same of activations that are drawn, and the slope ε / 2√(v + floor) of the one that was taken."""
    high, wide, floor = height // 2, width // 2, F(floor)
    for window in range(images * high * wide):
        corner, at = _corner(window, high, wide, height, width), window * channels
        largest, chosen = _from(out, F, at, channels), carray(pointer(places + at, B), channels)
        slope = _from(slopes, F, at, channels)
        for i in range(channels):
            largest[i], chosen[i], slope[i] = ZERO, NOWHERE, ZERO
        for k in range(4):
            begin, place = (corner + (k & 1) + (k >> 1) * width) * channels, B(k)
            mean, variance = _from(means, kind, begin, channels), _from(variances, kind, begin, channels)
            epsilon = _from(noise, F, begin, channels)
            for i in range(channels):
                deviation = np.sqrt(_wide(variance[i]) + floor)
                own, best = _wide(mean[i]) + deviation * epsilon[i], largest[i]
                take, by_it = _above(own, best), HALF * epsilon[i] / deviation
                largest[i], chosen[i] = own if take else best, place if take else chosen[i]
                slope[i] = by_it if take else slope[i]


@kernel
def unpool(grad, places, kind, maps, images, height, width, channels):
    """Gradients, put where the numbers were taken from, and 0 elsewhere in the windows."""
    high, wide = height // 2, width // 2
    for window in range(images * high * wide):
        corner, at = _corner(window, high, wide, height, width), window * channels
        own, chosen = _from(grad, F, at, channels), carray(pointer(places + at, B), channels)
        for k in range(4):
            numbers, place = _from(maps, kind, (corner + (k & 1) + (k >> 1) * width) * channels, channels), B(k)
            for i in range(channels):
                numbers[i] = _narrow(own[i] if chosen[i] == place else ZERO, kind)
