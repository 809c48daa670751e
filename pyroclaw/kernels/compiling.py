"""How loops are compiled, and what they are made of: numbers at an address, logarithms and powers.

numba compiles a logarithm as a call for each number, where a loop of a polynomial runs on sixteen at once; so both
functions are written out here, by the series of the Cephes library.

numba's cache on disk notices when the file of a kernel changes, but not when this one does: delete the `__pycache__`
next to it then.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

F = np.float32  # a plain constant would be a float64, and make all that it touches one too
ZERO, HALF, ONE, TWO = F(0), F(0.5), F(1), F(2)
_LOG_2_HIGH, _LOG_2_LOW = F(0.693359375), F(-2.12194440e-4)
_LOG_2_INVERSE, _LARGEST, _SMALLEST = F(1.44269504088896341), F(127), F(-87.3)
_LOG = 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1
_LOG_SERIES = tuple(map(F, (*_LOG, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)))
_EXP = 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
_EXP_SERIES = tuple(map(F, _EXP))


def kernel(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop, compiled when it is first called, and kept on disk if there is a place for it."""
    return _compiled(loop, {"contract", "nsz"})


def summing(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel whose sums may be taken in any order."""
    return _compiled(loop, {"contract", "nsz", "reassoc"})


def _compiled(loop: Callable[..., Any], liberties: set[str]) -> Callable[..., Any]:
    try:
        return njit(cache=True, fastmath=liberties, error_model="numpy")(loop)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written to
        return njit(fastmath=liberties, error_model="numpy")(loop)


@intrinsic
def pointer(typing: Any, address: Any, kind: Any) -> Any:
    """The address as one of numbers of a kind."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind.dtype)(types.int64, kind), generate


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
def matrix(address, rows, columns):
    """The numbers at an address, row by row."""
    return carray(pointer(address, F), (rows, columns))


@njit(inline="always")
def pair(first, second, rows, columns):
    """Two matrices of one shape."""
    return matrix(first, rows, columns), matrix(second, rows, columns)


@njit(inline="always")
def log(x):
    """Of a positive number; NaN and infinity have some finite number in its place."""
    exponent, mantissa = _exponent_and_mantissa(x)
    y = mantissa - ONE
    series = _LOG_SERIES[0]
    for c in _LOG_SERIES[1:]:
        series = series * y + c
    return y + (y * y * (series * y - HALF) + exponent * _LOG_2_LOW) + exponent * _LOG_2_HIGH


@njit(inline="always")
def exp(x):
    """0 where the result would lose digits."""
    exponent = np.floor(x * _LOG_2_INVERSE + HALF)
    exponent = exponent if exponent < _LARGEST else _LARGEST  # of NaN too, which is no whole number
    y = x - exponent * _LOG_2_HIGH - exponent * _LOG_2_LOW
    series = _EXP_SERIES[0]
    for c in _EXP_SERIES[1:]:
        series = series * y + c
    power = (series * (y * y) + y + ONE) * _power_of_2(exponent)
    return ZERO if x < _SMALLEST else power
