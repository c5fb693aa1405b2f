"""Counter-based random streams for compiled code: one stream per (seed, chain, sweep, user, purpose).

A generator shared by threads would make results depend on their number. Here each user's numbers are a pure
function of a key and a counter, by Philox-4x64-10 (Salmon et al. 2011, *Parallel random numbers: as easy as 1, 2,
3*). The tests compare every bit with ``numpy.random.Philox``, which is the slow twin.

A stream is an array of 11 unsigned integers that the caller owns:

======  ==============================================================
0, 1    key
2..5    counter: block number, user, sweep, chain + 2^32 purpose
6..9    the four numbers of the current block
10      how many of them have been used
======  ==============================================================
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)

STREAM_SIZE = 11

_MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
_WEYL_0 = np.uint64(0x9E3779B97F4A7C15)
_WEYL_1 = np.uint64(0xBB67AE8584CAA73B)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_ELEVEN = np.uint64(11)


def stream_key(seed: int) -> NDArray[np.uint64]:
    """Return two well-mixed integers from a seed. Neighbouring seeds give unrelated streams.

    >>> bool((stream_key(0) != stream_key(1)).all())
    True
    """
    return np.random.SeedSequence(seed).generate_state(2, np.uint64).astype(np.uint64)


@numba.njit(cache=True)
def _multiply_high(a, b):
    """Return the upper 64 bits of the 128-bit product."""
    a_low, a_high = a & _LOW_HALF, a >> _HALF
    b_low, b_high = b & _LOW_HALF, b >> _HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    carry = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _HALF) + (carry >> _HALF)


@numba.njit(cache=True)
def open_stream(stream, key, chain, sweep, user, purpose):
    """Set ``stream`` to its beginning. Every move has its own purpose (0, 1, ...), so that moves share nothing."""
    stream[0] = key[0]
    stream[1] = key[1]
    stream[2] = np.uint64(0)
    stream[3] = np.uint64(user)
    stream[4] = np.uint64(sweep)
    stream[5] = np.uint64(chain) + (np.uint64(purpose) << _HALF)
    stream[10] = np.uint64(4)


@numba.njit(cache=True)
def next_block(stream):
    """Compute the next four numbers of the stream, into places 6 to 9."""
    stream[2] += _ONE
    k0, k1 = stream[0], stream[1]
    c0, c1, c2, c3 = stream[2], stream[3], stream[4], stream[5]
    for _ in range(10):
        high_0, low_0 = _multiply_high(_MULTIPLIER_0, c0), _MULTIPLIER_0 * c0
        high_1, low_1 = _multiply_high(_MULTIPLIER_1, c2), _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0 += _WEYL_0
        k1 += _WEYL_1
    stream[6], stream[7], stream[8], stream[9] = c0, c1, c2, c3
    stream[10] = np.uint64(0)


@numba.njit(cache=True)
def in_blocks(size):
    """Return ``size`` rounded up to whole blocks."""
    return (size + 3) // 4 * 4


@numba.njit(cache=True)
def next_blocks(stream, out):
    """Fill ``out``, four numbers a block, with the blocks that come next, as 64 bits each.

    What is left of the current block is dropped. No block waits for another, so that the processor works on several
    at a time: half the time of single numbers.
    """
    block, user, sweep, chain = stream[2], stream[3], stream[4], stream[5]
    for i in range(0, out.size, 4):
        block += _ONE
        k0, k1 = stream[0], stream[1]
        c0, c1, c2, c3 = block, user, sweep, chain
        for _ in range(10):
            high_0, low_0 = _multiply_high(_MULTIPLIER_0, c0), _MULTIPLIER_0 * c0
            high_1, low_1 = _multiply_high(_MULTIPLIER_1, c2), _MULTIPLIER_1 * c2
            c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
            k0 += _WEYL_0
            k1 += _WEYL_1
        out[i], out[i + 1], out[i + 2], out[i + 3] = c0, c1, c2, c3
    stream[2] = block
    stream[10] = np.uint64(4)


@numba.njit(cache=True)
def uniform(stream):
    """Return the next number of the stream, uniform on [0, 1)."""
    if stream[10] == np.uint64(4):
        next_block(stream)
    bits = stream[np.uint64(6) + stream[10]]
    stream[10] += _ONE
    return unit_interval(bits)


@numba.njit(cache=True)
def unit_interval(bits):
    """Return 64 random bits as a number in [0, 1): the first 53 of them."""
    return np.float64(bits >> _ELEVEN) * (1.0 / 9007199254740992.0)


@numba.njit(cache=True)
def four_uniforms(stream):
    """Return the first four numbers of a stream just opened, as four calls of `uniform` give them, in one call."""
    next_block(stream)
    return unit_interval(stream[6]), unit_interval(stream[7]), unit_interval(stream[8]), unit_interval(stream[9])


@numba.njit(cache=True)
def uniform_below(stream, n):
    """Return a uniform integer in 0, ..., n - 1."""
    return integer_below(uniform(stream), n)


@numba.njit(cache=True)
def integer_below(u, n):
    """Return an integer in 0, ..., n - 1 from a uniform number (n far below 2^53: rounding does not show)."""
    return min(int(u * n), n - 1)
