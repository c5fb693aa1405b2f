"""log Z, E[d] and exact draws of the footrule Mallows model, by one scan over the ranks, for every n.

Scan t = 1, ..., n. At step t the item whose consensus rank is t arrives, and so does rank t. Let m be the
number of items still without a rank, which equals the number of ranks still without an item. From m, one
step goes to m + 1 in 1 way (both stay open), stays at m in 2m + 1 ways (they take each other, or one of
them closes one of m open partners), or goes to m - 1 in m * m ways (both close an open partner). Then every
open item and every open rank ages by gap_t = g(t + 1) - g(t), which costs exp(-2 beta m gap_t),
beta = alpha / n. Z_n(alpha) is the weight of all paths from 0 to 0.

The kernels carry the message times m!, so that the moves up and down both weigh m or m + 1. The scan for log Z runs
from both ends and meets in the middle. One common scale for all cells would not do for large n: at alpha = 0 the
message is a binomial law, and the cells that matter later lie up to 10^(-n / 60) below the largest, so that at n =
20,000 they vanish. Each cell therefore has its own scale, renewed every few steps.

Cost: n^2 / 4 cells of seven flops for log Z.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.errors import InputError

# Cells below this are set to zero before they become denormal, hence slow.
FLUSH = 1e-290
# Steps between two renewals of the cells' scales, which come sooner when a cell outgrows its scale (where the
# gaps shrink fast, cells come to life again). One step grows a cell by 8n exp(MAX_SCALE_STEP) at the most.
RENEW_EVERY = 16
RENEW_ABOVE = 1e100
MAX_SCALE_STEP = 200.0
# Above this a table with one scale per row loses the cells that matter (see above).
MAX_TABLE_ITEMS = 10_000


@numba.njit(cache=True)
def _decay(gap, beta, size):
    """Return exp(-2 beta gap m), m = 0, ..., size - 1: the cost of ageing with m open items and ranks."""
    out = np.empty(size)
    for m in range(size):
        out[m] = math.exp(-2.0 * beta * gap * m)
    return out


@numba.njit(cache=True)
def _renew_scales(weight, walked, log_scale, used):
    """Move each cell's size from its weight into its scale; cells 1, ..., used hold something.

    The scale of a cell may lie exp(MAX_SCALE_STEP) below that of the cell before at the most, so that their
    ratio stays in range; a cell that is smaller than that keeps a weight under 1, down to zero.
    """
    for i in range(1, used + 1):
        if weight[i] > 0.0:
            log_scale[i] += math.log(weight[i])
            walked[i] /= weight[i]
            weight[i] = 1.0
            if i > 1 and log_scale[i] < log_scale[i - 1] - MAX_SCALE_STEP:
                least = log_scale[i - 1] - MAX_SCALE_STEP
                weight[i] = math.exp(log_scale[i] - least)
                walked[i] *= weight[i]
                log_scale[i] = least
        else:
            log_scale[i] = log_scale[i - 1]
            walked[i] = 0.0
    log_scale[used + 1 :] = log_scale[used]


@numba.njit(cache=True)
def _half_scan(gaps, beta, with_distance):
    """Scan the first ``gaps.size`` steps, ageing by gaps[t - 1] after step t.

    Returns, for cells m = 0, 1, ..., the weight of all ways to get there, the logarithm of its scale, and the
    weight times the distance walked so far: true weight times m! = weight * exp(log_scale). Inside, cell m stands
    at index m + 1, so that the neighbours of the first and of the last cell exist and are zero.
    """
    steps = gaps.size
    weight, following = np.zeros(steps + 3), np.zeros(steps + 3)
    walked, walked_following = np.zeros(steps + 3), np.zeros(steps + 3)
    log_scale = np.zeros(steps + 3)
    below = np.zeros(steps + 3)  # ways from cell m - 1, in units of cell m
    above = np.zeros(steps + 3)  # ways from cell m + 1, in units of cell m
    weight[1] = 1.0
    previous_gap = -1.0
    decay = np.ones(steps + 1)
    since, largest = RENEW_EVERY - 1, 1.0
    for t in range(1, steps + 1):
        gap = gaps[t - 1]
        if gap != previous_gap:
            decay = _decay(gap, beta, steps + 1)
            previous_gap = gap
        since += 1
        if since == RENEW_EVERY or largest > RENEW_ABOVE:
            since = 0
            _renew_scales(weight, walked, log_scale, t)
            for m in range(min(t + RENEW_EVERY, steps + 1)):
                i = m + 1
                below[i] = m * math.exp(log_scale[i - 1] - log_scale[i]) if m > 0 else 0.0
                above[i] = (m + 1) * math.exp(log_scale[i + 1] - log_scale[i])
        largest = 0.0
        for m in range(t + 1):
            i = m + 1
            value = decay[m] * ((2 * m + 1) * weight[i] + below[i] * weight[i - 1] + above[i] * weight[i + 1])
            following[i] = value if value > FLUSH else 0.0
            largest = max(largest, value)
        if with_distance:
            for m in range(t + 1):
                i = m + 1
                ways = (2 * m + 1) * walked[i] + below[i] * walked[i - 1] + above[i] * walked[i + 1]
                value = decay[m] * ways + 2.0 * m * gap * following[i]
                walked_following[i] = value if value > FLUSH else 0.0
            walked, walked_following = walked_following, walked
        weight, following = following, weight
    cells = slice(1, steps + 2)
    return weight[cells], log_scale[cells], walked[cells]


@numba.njit(cache=True)
def scan_both_halves(gaps, beta, with_distance):
    """Return log Z and, if asked for, E[d]: scan both halves and join them.

    The m open items of the left half take the m open ranks of the right half in m! ways, and the other way
    round: (m!)^2, which is what the two messages carry.
    """
    n = gaps.size + 1
    middle = n // 2
    right_gaps = np.zeros(n - middle)  # the gap at the join is paid by the left half
    right_gaps[: n - 1 - middle] = gaps[middle:][::-1]
    left, left_scale, left_walked = _half_scan(gaps[:middle], beta, with_distance)
    right, right_scale, right_walked = _half_scan(right_gaps, beta, with_distance)
    log_weight = np.full(left.size, -math.inf)
    for m in range(left.size):
        if left[m] > 0.0 and right[m] > 0.0:
            log_weight[m] = left_scale[m] + right_scale[m] + math.log(left[m]) + math.log(right[m])
    largest = log_weight.max()
    weight, walked = 0.0, 0.0
    for m in range(left.size):
        if log_weight[m] > -math.inf:
            share = math.exp(log_weight[m] - largest)
            weight += share
            walked += share * (left_walked[m] / left[m] + right_walked[m] / right[m])
    return largest + math.log(weight), walked / weight


def log_partition_scan(gaps: NDArray[np.float64], beta: float) -> float:
    """Return log Z of the footrule for ranks ``gaps`` apart, with beta = alpha / n. Exact for every n."""
    return float(scan_both_halves(gaps, float(beta), False)[0])


def expected_distance_scan(gaps: NDArray[np.float64], beta: float) -> float:
    """Return E[d] of the footrule: the same recursion carries the distance walked so far."""
    return float(scan_both_halves(gaps, float(beta), True)[1])


@numba.njit(cache=True)
def backward_messages(gaps, beta, largest_cell=1.0):
    """Return a table of the weights of all completions, and the logarithm of the factor taken out of each row.

    Row t, cell m holds the weight of every completion after step t with m items and m ranks open, divided by m!,
    ageing after step t included: true weight = table * exp(log_scale). The table has n + 1 rows, and the largest
    cell of each is ``largest_cell``: the larger it is, the smaller are the cells that a row can hold beside it.
    """
    n = gaps.size + 1
    size = n // 2 + 2
    table = np.zeros((n + 1, size))
    log_scale = np.zeros(n + 1)
    table[n, 0] = largest_cell
    log_scale[n] = -math.log(largest_cell)
    previous_gap = -1.0
    decay = np.ones(size)
    for t in range(n - 1, -1, -1):
        after = table[t + 1]
        row = table[t]
        gap = gaps[t - 1] if t > 0 else 0.0
        if gap != previous_gap:
            decay = _decay(gap, beta, size)
            previous_gap = gap
        high = min(t, n - t)
        largest = 0.0
        for m in range(high + 1):
            value = (2 * m + 1) * after[m] + (m + 1) * after[m + 1]
            if m > 0:
                value += m * after[m - 1]
            value *= decay[m]
            row[m] = value
            largest = max(largest, value)
        factor = largest / largest_cell
        for m in range(high + 1):
            row[m] = row[m] / factor if row[m] > FLUSH * factor else 0.0
        log_scale[t] = log_scale[t + 1] + math.log(factor)
    return table, log_scale


@numba.njit(cache=True)
def _sample(table, size, rng):
    """Walk the scan forwards at random, with the weight of what can follow. Returns draws, one a row."""
    n = table.shape[0] - 1
    out = np.empty((size, n), dtype=np.int64)
    open_items = np.empty(n, dtype=np.int64)
    open_ranks = np.empty(n, dtype=np.int64)
    for draw in range(size):
        m = 0
        for t in range(1, n + 1):
            row = table[t]
            # Message and table carry m!, hence m and m + 1 where the number of ways says m * m and 1.
            both_open = (m + 1) * row[m + 1] if m + 1 < row.size else 0.0
            one_closes = m * row[m]
            both_close = m * row[m - 1] if m > 0 else 0.0
            u = rng.random() * (both_open + row[m] + 2.0 * one_closes + both_close)
            if u < both_open:
                open_items[m] = t
                open_ranks[m] = t
                m += 1
                continue
            u -= both_open
            if u < row[m] or m == 0:
                out[draw, t - 1] = t
                continue
            u -= row[m]
            item_closes = u < one_closes or u >= 2.0 * one_closes
            rank_closes = u >= one_closes
            if item_closes:
                pick = int(rng.random() * m)
                out[draw, t - 1] = open_ranks[pick]
                open_ranks[pick] = open_ranks[m - 1]
            if rank_closes:
                pick = int(rng.random() * m)
                out[draw, open_items[pick] - 1] = t
                open_items[pick] = open_items[m - 1]
            if item_closes and rank_closes:
                m -= 1
            elif item_closes:
                open_ranks[m - 1] = t
            else:
                open_items[m - 1] = t
    return out


def sample_scan(gaps: NDArray[np.float64], beta: float, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return exact independent draws: row s, column t - 1 is the rank of the item whose consensus rank is t.

    Memory: the table of messages, 4 n^2 bytes, once for all draws.
    """
    n = gaps.size + 1
    if n > MAX_TABLE_ITEMS:
        raise InputError(
            f"exact footrule draws keep a table of 4 n^2 bytes and are offered up to n = {MAX_TABLE_ITEMS}, "
            f"but there are {n} items."
        )
    table, _ = backward_messages(gaps, float(beta))
    draws: NDArray[np.int64] = _sample(table, int(size), rng)
    return draws
