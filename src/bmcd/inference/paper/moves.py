"""The proposals of the paper's Algorithm 2, as pure functions of their random choices.

A move is split in two: the sweep draws the choices from a stream, and the functions here turn choices into a
proposal and the logarithm of q(back) / q(forth). So a test can go through all choices, add up the probability of
each proposal, and check detailed balance to the last digit. No sampling test would find a wrong ratio.

Rankings are moved through their *order*: order[t] is the item whose rank is t + 1. Positions in an order count from
0.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba

# Robbins and Monro's target for a random walk in one dimension.
TARGET_ACCEPTANCE = 0.44


# ------------------------------------------------------------------------------------------ leap-and-shift


@numba.njit(cache=True, nogil=True)
def leap_targets(origin, low, high, leap):
    """Return how many positions in low, ..., high are within ``leap`` of ``origin``, itself left out."""
    return min(high, origin + leap) - max(low, origin - leap)


@numba.njit(cache=True, nogil=True)
def leap_target(origin, choice, low, high, leap):
    """Return target number ``choice`` (from 0) of those that `leap_targets` counts, in ascending order."""
    target = max(low, origin - leap) + choice
    return target + 1 if target >= origin else target


@numba.njit(cache=True, nogil=True)
def leap_log_ratio(origin, target, low, high, leap):
    """Return log q(back) / q(forth): zero for neighbours, otherwise not zero near the ends of the range.

    Where the two positions are neighbours, a leap of either of the two items gives the same ranking, so both ways
    count (Vitelli et al. 2018, section 3.1).
    """
    if abs(target - origin) == 1:
        return 0.0
    return math.log(leap_targets(origin, low, high, leap) / leap_targets(target, low, high, leap))


@numba.njit(cache=True, nogil=True)
def leap_and_shift(orders, ranks, j, origin, target):
    """Move the item at position ``origin`` to ``target``; those in between shift by one. Changes row j of both."""
    item = orders[j, origin]
    step = 1 if target > origin else -1
    for t in range(origin, target, step):
        orders[j, t] = orders[j, t + step]
        ranks[j, orders[j, t]] = t + 1
    orders[j, target] = item
    ranks[j, item] = target + 1


# ---------------------------------------------------------------------------------------------------- swap


@numba.njit(cache=True, nogil=True)
def block_of(origin, n_clicked, n_items):
    """Return the first and last position of the block (clicked or not) that holds position ``origin``."""
    return (0, n_clicked - 1) if origin < n_clicked else (n_clicked, n_items - 1)


@numba.njit(cache=True, nogil=True)
def swap_partner(origin, choice, low):
    """Return position number ``choice`` (from 0) of a block that begins at ``low``, ``origin`` left out.

    An item is picked among all n, then a partner among the others of its block. The ordered pair (i, k) then has
    the probability 1 / (n (b - 1)), with b the size of the block they share, which is symmetric, as the paper
    states. An item alone in its block has no partner, and then nothing is proposed.
    """
    partner = low + choice
    return partner + 1 if partner >= origin else partner


@numba.njit(cache=True, nogil=True)
def swap(orders, ranks, j, a, b):
    """Exchange the items at positions ``a`` and ``b``. Changes row j of both arrays."""
    first, second = orders[j, a], orders[j, b]
    orders[j, a], orders[j, b] = second, first
    ranks[j, first], ranks[j, second] = b + 1, a + 1


# --------------------------------------------------------------------------------------------------- alpha


@numba.njit(cache=True, nogil=True)
def alpha_log_ratio(alpha, proposed, n_users, within, log_z, log_z_proposed, n_items, rate):
    """Return the log acceptance ratio for alpha_c given the rankings of its users.

    Likelihood Z(alpha)^-N_c exp(-alpha / n within), prior Exponential(rate), and the Jacobian proposed / alpha
    of a random walk in log alpha. Without users only prior and Jacobian are left.
    """
    return (
        (alpha - proposed) * (within / n_items + rate)
        + n_users * (log_z - log_z_proposed)
        + math.log(proposed)
        - math.log(alpha)
    )


@numba.njit(cache=True, nogil=True)
def tuned_step(step, log_ratio, n_tuned):
    """Return the proposal scale after one more warm-up proposal (Robbins and Monro 1951), within wide bounds."""
    gain = (1.0 + n_tuned) ** -0.6
    return min(max(step * math.exp(gain * (math.exp(min(log_ratio, 0.0)) - TARGET_ACCEPTANCE)), 1e-4), 1e2)
