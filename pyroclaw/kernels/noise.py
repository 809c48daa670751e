"""Standard normal numbers of the Mersenne Twister: see :mod:`pyroclaw.normal_numbers`."""

import numpy as np
from numba import carray, njit

from pyroclaw.kernels.compiling import HALF, ONE, TWO, F, kernel, log, pointer

U = np.uint32
WORDS, AHEAD = 624, 397  # of the generator's state, and how far apart those are that are mixed
LEFT, NEXT, FIRST, END = 2, 4, 6, 6 + 2 * WORDS  # where torch keeps it: every second 32 bits are 0
_TOP, _REST, _TWIST = U(0x80000000), U(0x7FFFFFFF), U(0x9908B0DF)
_B, _C, _DIGITS, _UNIT = U(0x9D2C5680), U(0xEFC60000), U((1 << 24) - 1), F(2.0**-24)
_THREE, _FOUR, _QUARTER = F(3), F(4), F(np.pi / 2)
_SINE = tuple(map(F, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)))  # both by the Cephes library
_COSINE = tuple(map(F, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)))


@njit(inline="always")
def _mixed(first, second):
    y = (first & _TOP) | (second & _REST)
    return (y >> U(1)) ^ (_TWIST * (second & U(1)))


@kernel
def _renew(words):
    """Two loops, since the second reads what the first has written."""
    for i in range(WORDS - AHEAD):
        words[i] = words[i + AHEAD] ^ _mixed(words[i], words[i + 1])
    for i in range(WORDS - AHEAD, WORDS - 1):
        words[i] = words[i + AHEAD - WORDS] ^ _mixed(words[i], words[i + 1])
    words[WORDS - 1] = words[AHEAD - 1] ^ _mixed(words[WORDS - 1], words[0])


@kernel
def _uniform(words, out):
    """Words, tempered, as numbers in [0, 1)."""
    for i in range(len(out)):
        y = words[i]
        y = U(y ^ (y >> U(11)))  # numba would go on with 64 bits
        y = U(y ^ ((y << U(7)) & _B))
        y = U(y ^ ((y << U(15)) & _C))
        y = U(y ^ (y >> U(18)))
        out[i] = F(np.int32(y & _DIGITS)) * _UNIT


@kernel
def _crossed(first, second):
    """Pairs of uniform numbers u, v as √(-2 log(1 - u)) times cosine and sine of 2πv."""
    for i in range(len(first)):
        radius, turns = np.sqrt(-TWO * log(ONE - first[i])), _FOUR * second[i]
        quarter = np.floor(turns + HALF)  # from 0 to 4
        angle = (turns - quarter) * _QUARTER
        square = angle * angle
        sine = ((_SINE[0] * square + _SINE[1]) * square + _SINE[2]) * square * angle + angle
        cosine = ((_COSINE[0] * square + _COSINE[1]) * square + _COSINE[2]) * square * square - HALF * square + ONE
        odd = (quarter == ONE) | (quarter == _THREE)
        along, across = (sine if odd else cosine), (cosine if odd else sine)
        first[i] = -radius * along if (quarter == ONE) | (quarter == TWO) else radius * along
        second[i] = -radius * across if (quarter == TWO) | (quarter == _THREE) else radius * across


@kernel
def normal(state, out, size):
    """As many as `size`, which 16 divides; `state` is torch's, and left as torch would leave it."""
    state, out = carray(pointer(state, U), END), carray(pointer(out, F), size)
    pairs = out.reshape(size // 16, 2, 8)  # whose numbers are eight apart
    words, first, second = np.empty(WORDS, U), np.empty((size // 16, 8), F), np.empty((size // 16, 8), F)
    for i in range(WORDS):  # a loop, since numba takes seconds to compile a slice of every second word
        words[i] = state[FIRST + 2 * i]
    left, at, done = np.int64(state[LEFT]) - 1, np.int64(state[NEXT]), 0
    while done < size:
        if not left:
            _renew(words)
            left, at = np.int64(WORDS), np.int64(0)
        count = min(left, size - done)
        _uniform(words[at : at + count], out[done : done + count])
        left, at, done = left - count, at + count, done + count
    for i in range(WORDS):
        state[FIRST + 2 * i] = words[i]
    state[LEFT], state[NEXT] = left + 1, at
    for group in range(len(pairs)):
        for i in range(8):
            first[group, i], second[group, i] = pairs[group, 0, i], pairs[group, 1, i]
    _crossed(first.ravel(), second.ravel())
    for group in range(len(pairs)):
        for i in range(8):
            pairs[group, 0, i], pairs[group, 1, i] = first[group, i], second[group, i]
