"""The next k clicks as a race: items arrive at rates, and the first k to arrive are the next clicks.

Item i arrives at the rate r_i, one click outside the model at the rate r_0 (which may come again and again). With

    pi_i = 1 - exp(-r_i t),   t such that sum_i m_i pi_i + r_0 t = k,

pi_i is the probability that item i is among the next k, and r_0 t the expected number of next clicks outside the
model. m_i is the number of items that share a rate: items that no member touches are counted in cells. The error of
this short cut against the exact integral is measured in `bmcd.inference.arrivals`.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.arrivals import exp_of_minus
from bmcd.mallows.latent.scan import REORDER

# When the expected number of clicks is this near to k, relative, a last step by the derivative leaves its square;
# where there is next to no derivative (all but hopeless items are certain), the search goes on until it is nearer.
NEAR, NEARER, LAST_STEP = 1e-9, 1e-13, 1e-6
MOST_STEPS = 100
# exp(-this) is the largest time that is looked at: more clicks are asked for than there are items.
FAR = 600.0


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def arrivals(rates, mult, n, t, stays):
    """Write exp(-r t) of the first n rates; return the expected number of arrivals and its derivative in log t."""
    expected, slope = 0.0, 0.0
    for i in range(n):
        u = rates[i] * t
        stay = exp_of_minus(u)
        stays[i] = stay
        expected += mult[i] * (1.0 - stay)
        slope += mult[i] * u * stay
    return expected, slope


@numba.njit(cache=True, nogil=True)
def time_of_next_k(rates, mult, n, outside, k, start, stays):
    """Return t, and write exp(-r t) of every item; inf if even all items are fewer than k and nothing is outside.

    ``start`` is where to begin (positive), or 0 for a safe beginning.
    """
    total, capacity = 0.0, 0.0
    for i in range(n):
        total += mult[i] * rates[i]
        capacity += mult[i]
    if outside <= 0.0 and k >= capacity * (1.0 - 1e-12):
        stays[:n] = 0.0
        return math.inf
    total += outside
    low, high = math.log(k / total) - 1e-9, math.inf  # 1 - exp(-u) <= u: the root is not below
    if outside > 0.0:
        high = math.log(k / outside) + 1e-9
    x = math.log(start) if start > 0.0 else low
    x = min(max(x, low), min(high, low + FAR))
    for _ in range(MOST_STEPS):
        t = math.exp(x)
        expected, slope = arrivals(rates, mult, n, t, stays)
        expected += outside * t
        slope += outside * t
        gap = k - expected
        step = gap / max(slope, 1e-300)
        if abs(gap) <= NEARER * k:
            break
        if abs(gap) <= NEAR * k and abs(step) <= LAST_STEP:
            for i in range(n):
                stays[i] -= stays[i] * min(rates[i] * t, FAR) * step
            x += step
            break
        if gap > 0.0:
            low = x
        else:
            high = x
        # Clipped Newton steps in log t; where they leave the bracket, halve it.
        following = x + min(max(step, -3.0), 3.0)
        if following <= low or following >= high:
            following = 0.5 * (low + high) if high < math.inf else low + 3.0
        if following == x or (high < math.inf and high - low < 1e-14 * max(1.0, abs(high))):
            break
        x = following
    return math.exp(x)


@numba.njit(cache=True, nogil=True)
def rates_of(scores, n, mult, outside_score, rates):
    """Write exp(score - the largest) of n scores; return the same of the outside option and the largest."""
    largest = outside_score
    for i in range(n):
        if mult[i] > 0.0:
            largest = max(largest, scores[i])
    for i in range(n):
        rates[i] = exp_of_minus(max(largest - scores[i], 0.0)) if mult[i] > 0.0 else 0.0
    return (exp_of_minus(largest - outside_score) if outside_score > -math.inf else 0.0), largest


def next_k(scores, mult, outside_score, k):
    """Return the probability of each item to be among the next k, and the expected number of clicks outside.

    The arrays are those of one user: log rates, and how many items have each. ``outside_score`` is the log rate of
    the outside option, or -inf.

    >>> probability, outside = next_k(np.zeros(4), np.ones(4), 0.0, 1)
    >>> probability.round(3).tolist(), round(outside, 3)
    ([0.196, 0.196, 0.196, 0.196], 0.218)
    """
    n = len(scores)
    rates, stays = np.empty(n), np.empty(n)
    outside, _ = rates_of(np.asarray(scores, np.float64), n, np.asarray(mult, np.float64), outside_score, rates)
    t = time_of_next_k(rates, np.asarray(mult, np.float64), n, outside, float(k), 0.0, stays)
    return 1.0 - stays, (outside * t if outside > 0.0 else 0.0)
