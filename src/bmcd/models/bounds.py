"""Bounds that hold for finite samples of users: betting on a mean, and settings tested one after the other.

A setting, such as a cut-off or a list rule, is chosen on the same users whose hits it is tested on. Learn then Test
(Angelopoulos, Bates, Candès, Jordan and Lei 2021, arXiv:2110.01052) makes of each setting a hypothesis, "its mean
is below the wanted one", and keeps those that are rejected. Tested in an order that is fixed beforehand, from the
safest setting on and only until the first that is not rejected, all are tested at the full level. The p-values come
from betting (Waudby-Smith and Ramdas 2024, JRSS B 86, 1-27): a capital that cannot be expected to grow if the
hypothesis is true. They need nothing but users who are alike and independent, and values between 0 and 1.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable, Sequence

import numba
import numpy as np

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.utils import Floats

# The largest part of the capital that is bet.
BOLDEST = 0.75
STEPS = 40


def betting_p_value(values: Floats, least: float, confidence: float = 0.95, seed: int = 0) -> float:
    """Return a p-value for "the mean of these values, one of each user, is below `least`"; all are within 0 and 1.

    ``confidence`` is what the bets are made for; the p-value is valid at every level. The users are put into an
    order by the seed, since bets are made one after the other.

    >>> rng = np.random.default_rng(1)
    >>> betting_p_value(rng.random(500), 0.45) < 0.05 < betting_p_value(rng.random(500), 0.5)
    True
    """
    if least <= 0:
        return 0.0
    order = np.random.default_rng([seed, len(values)]).permutation(len(values))
    return float(np.exp(-_log_capital(np.ascontiguousarray(values[order], np.float64), least, 1 - confidence)))


def lower_bound(values: Floats, confidence: float = 0.95, seed: int = 0) -> float:
    """Return what the mean is at least, with this confidence: the largest mean whose p-value is small enough.

    >>> 0.44 < lower_bound(np.random.default_rng(1).random(500)) < 0.5
    True
    """
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if betting_p_value(values, middle, confidence, seed) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def qualified(n: int, p_value: Callable[[int], float], starts: Sequence[int], confidence: float) -> list[int]:
    """Return the settings whose hypotheses are rejected, of ``n`` in order from the safest on.

    Testing begins at each of the starts and goes on until the first that is not rejected. Several starts share the
    level (Bonferroni), so that one may lie where there is nothing to find.

    >>> qualified(5, [0.2, 0.01, 0.02, 0.3, 0.0].__getitem__, [0], 0.95)
    []
    >>> qualified(5, [0.2, 0.01, 0.02, 0.3, 0.0].__getitem__, [0, 1], 0.95)
    [1, 2]
    """
    found: set[int] = set()
    for start in starts:
        for setting in range(start, n):
            if setting in found:
                break  # another start has been here, and went on
            if p_value(setting) > (1 - confidence) / len(starts):
                break
            found.add(setting)
    return sorted(found)


@numba.njit(cache=True, nogil=True)
def _log_capital(values, least, level):
    """Return the logarithm of the largest capital that bets on a mean above ``least`` ever had."""
    n = values.size
    total, squares = 0.5, 0.25
    mean, variance = 0.5, 0.25
    capital, largest = 0.0, 0.0
    for i in range(n):
        bet = min(np.sqrt(2.0 * np.log(1.0 / level) / (n * variance)), BOLDEST / least)
        capital += np.log1p(bet * (values[i] - least))
        largest = max(largest, capital)
        total += values[i]
        mean = total / (i + 2)
        squares += (values[i] - mean) ** 2
        variance = max(squares / (i + 2), 1e-12)
    return largest
