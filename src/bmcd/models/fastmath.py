"""exp and log1p without branches and without calls, so that loops over them run on several numbers at a time.

Those of the C library take one number after the other: of the five nanoseconds of an exp one is left here.
Errors against the C library are below 2e-14, relative; `tests/models/test_elementary.py` measures them.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

# Products and sums may be joined to one operation; sums must not be reordered, which would undo MAGIC.
JOIN = {"contract"}
# Beyond this exp(-x) is as good as 0, and 2 ** n is still a normal number.
FARTHEST = 700.0
# Added to a number, it leaves the nearest whole number in its last bits.
MAGIC = 1.5 * 2.0**52
# log 2 in two parts: a whole number times the first is exact.
LOG2_HIGH, LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11 = (1.0 / math.factorial(n) for n in range(2, 12))
D3, D5, D7, D9, D11, D13, D15, D17 = (2.0 / n for n in range(3, 18, 2))
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # those of sqrt(1/2)


@numba.njit(cache=True, nogil=True, fastmath=JOIN)
def exp_of_minus(x):
    """Return exp(-x) for x >= 0: 2 ** n times the series of exp at what is left, which is below log(2) / 2."""
    x = min(x, FARTHEST)
    shifted = MAGIC - x * 1.4426950408889634
    n = shifted - MAGIC
    r = (-x - n * LOG2_HIGH) - n * LOG2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (C2 + r * C3)
    middle = (C4 + r * C5) + r2 * (C6 + r * C7)
    high = (C8 + r * C9) + r2 * (C10 + r * C11)
    power = np.float64(low + r4 * (middle + r4 * high)).view(np.int64)
    return np.int64(power + (np.float64(shifted).view(np.int64) << 52)).view(np.float64)


@numba.njit(cache=True, nogil=True, fastmath=JOIN, error_model="numpy")
def log1p_of(x):
    """Return log(1 + x) for x >= 0: log(2) n, plus the series of log(m) with m between sqrt(1/2) and sqrt(2)."""
    whole = 1.0 + x
    bits = np.float64(whole).view(np.int64)
    # One step up for every power of two that sqrt(1/2) is passed.
    n = (bits - ROOT_HALF_BITS) >> 52
    m = np.int64(bits - (n << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    s4 = s2 * s2
    low = (2.0 + s2 * D3) + s4 * (D5 + s2 * D7)
    high = (D9 + s2 * D11) + s4 * (D13 + s2 * D15)
    lost = (x - (whole - 1.0)) / whole  # what 1 + x has rounded away
    return n * 0.6931471805599453 + (s * (low + s4 * s4 * (high + s4 * s4 * D17)) + lost)
