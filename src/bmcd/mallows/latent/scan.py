"""The recursion behind the exact sums over the rankings that agree with a user's clicks (footrule).

Clicked items take ranks 1..c, the others ranks c+1..n. Given rho and alpha these two blocks are independent. Scan t
= 1, ..., n as in `footrule_scan.py`: at step t the item at consensus position t arrives, and so does rank t, which
now may belong to different blocks. In each block the items are ahead of the ranks, or behind them, by a known
number e (the excess), so that one counter m describes the state:

* block 1 (clicked), t <= c: m open items, m + e open ranks, where e = unclicked positions so far;
* block 2 (unclicked), t > c: m open ranks, m + e open items, where e = clicked positions still to come.

At t = c both blocks have the same e. After step c, block 1 has only open ranks left, and each clicked item that
arrives takes one of them; before step c, block 2 has only open items. So block 1 needs a scan up to c, block 2 a
scan from c on, and both need only three kinds of step. A message carries the factor sqrt(items! ranks!) of its open
items and ranks, which makes the first kind symmetric, and forward and backward steps the same:

* pair: item and rank arrive.         m -> m with 1 + 2m + e, m -> m +- 1 with sqrt of the product
* lone rank, excess e falls to e - 1: m -> m with sqrt(m + e), m -> m + 1 with sqrt(m + 1)
* lone rank, excess e - 1 grows to e: m -> m with sqrt(m + e), m -> m - 1 with sqrt(m)   (the transpose)

After step t everything that is open ages, which costs exp(-beta gap_t (2m + e)). The part with m is `decay`; the
part with e does not depend on the state and is added up in closed form.

A tagged open item or rank leaves a chain of the same kind, with e smaller or larger by one, because the others do
not see it. This gives the top-k probabilities of all items in one pass (`top.py`).

Messages and rows hold cell m at index m + 1, so that cell -1 exists and is zero.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.mallows.footrule_scan import FLUSH, backward_messages

# Sums may be reordered so that they vectorise. That does not depend on the number of threads. It is for functions
# that do nothing but a sum: how a compiler reorders a longer one depends on where it is called from, and then
# kernels compiled just now and those read from disk differ in their last bits.
REORDER = {"reassoc", "contract", "nsz"}
# All else may join a product and a sum to one operation.
JOIN = {"contract"}
# Steps taken over one fixed window of states before the window is fitted again.
CHUNK = 8
# States are dropped when message times reference completion is this far below the total; see `fit_window`.
TRIM = 1e-25
# Messages are rescaled when they leave [1 / ROOM, ROOM].
ROOM = 1e60


class SharedTables(NamedTuple):
    """Tables that depend only on n and the rank scale."""

    root: NDArray[np.float64]  # sqrt(i)
    twice: NDArray[np.float64]  # 2 m
    off: NDArray[np.float64]  # [e + 1, m]: sqrt(m (m + e)), e = -1, 0, ...
    log_factorial: NDArray[np.float64]
    gaps: NDArray[np.float64]  # gaps[t - 1] after step t; 0 after step n
    age: NDArray[np.float64]  # the sum of the gaps after steps 1, ..., t
    gap_values: NDArray[np.float64]  # the different gaps; the first is 0
    decay_row: NDArray[np.int64]  # which of them belongs to step t; 0 stands for no ageing, as after steps 0 and n


class ClusterTables(NamedTuple):
    """Tables that depend on alpha as well."""

    beta: float
    decay: NDArray[np.float64]  # [row, m]: exp(-2 beta gap m)
    finish: NDArray[np.float64]  # [t, m + 1]: weight of all completions after step t when no click is left
    finish_scale: NDArray[np.float64]  # logarithm of each row's factor
    log_z: float


def shared_tables(gaps: NDArray[np.float64]) -> SharedTables:
    """Return the tables for n = gaps.size + 1 items.

    Excess and state are at most n / 2, since both sides of a block must close.
    """
    n = gaps.size + 1
    width = n // 2 + CHUNK + 4
    m = np.arange(width, dtype=np.float64)
    excess = np.arange(-1, n // 2 + 3, dtype=np.float64)
    i = np.arange(n + width + 4, dtype=np.float64)
    off = np.sqrt(m * np.maximum(m + excess[:, None], 0.0))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(i[1:]))])
    all_gaps = np.append(gaps, 0.0)
    values, row = np.unique(all_gaps, return_inverse=True)
    decay_row = np.append(0, row.astype(np.int64))
    age = np.concatenate([[0.0], np.cumsum(all_gaps)])
    return SharedTables(np.sqrt(i), 2.0 * m, off, log_factorial, all_gaps, age, values, decay_row)


@numba.njit(cache=True)
def cluster_tables(shared, alpha):
    """Return the tables for one alpha: O(n^2) to make, to be used for many users."""
    n = shared.gaps.size
    width = shared.twice.size
    beta = alpha / n
    decay = np.empty((shared.gap_values.size, width))
    for row in range(shared.gap_values.size):
        for m in range(width):
            decay[row, m] = math.exp(-beta * shared.gap_values[row] * shared.twice[m])
    table, scale = backward_messages(shared.gaps[: n - 1], beta)
    finish = np.zeros((n + 1, width + 1))
    finish[:, 1 : table.shape[1] + 1] = table
    return ClusterTables(beta, decay, finish, scale, math.log(table[0, 0]) + scale[0])


@numba.njit(cache=True, fastmath=JOIN)
def pair(source, target, off, decay, excess, low, high):
    """Do the step `pair` for cells low..high of the target.

    The loop starts at zero so that it vectorises, and computes 2 m, since it is bound by what it has to load.
    """
    s = source[low : high + 3]
    o = target[low + 1 : high + 2]
    u = off[low : high + 2]
    d = decay[low : high + 1]
    k = 1.0 + excess + 2.0 * low
    for j in range(high - low + 1):
        o[j] = d[j] * ((k + 2.0 * j) * s[j + 1] + u[j] * s[j] + u[j + 1] * s[j + 2])


@numba.njit(cache=True, fastmath=JOIN)
def lone_falls(source, target, root, decay, excess, low, high):
    """Do the step `lone rank` with ``excess`` before it and excess - 1 after it."""
    s = source[low : high + 2]
    o = target[low + 1 : high + 2]
    d = decay[low : high + 1]
    p = root[low : high + 1]
    q = root[low + excess : high + excess + 1]
    for j in range(high - low + 1):
        o[j] = d[j] * (p[j] * s[j] + q[j] * s[j + 1])


@numba.njit(cache=True, fastmath=JOIN)
def lone_grows(source, target, root, decay, excess, low, high):
    """Do the transposed step: excess - 1 before it, ``excess`` after it."""
    s = source[low + 1 : high + 3]
    o = target[low + 1 : high + 2]
    d = decay[low : high + 1]
    p = root[low + 1 : high + 2]
    q = root[low + excess : high + excess + 1]
    for j in range(high - low + 1):
        o[j] = d[j] * (p[j] * s[j + 1] + q[j] * s[j])


@numba.njit(cache=True, fastmath=JOIN)
def several_pairs(x, y, off, shared, cluster, excess, t, steps, low, high):
    """Do steps t + 1, ..., t + steps, all `pair`, over one window. Ends in x if steps is even, else in y.

    The window is cut out once for all steps: cutting costs as much as a step of 20 cells.
    """
    source, target = x[low : high + 3], y[low : high + 3]
    u, k = off[low : high + 2], 1.0 + excess + 2.0 * low
    for step in range(steps):
        d = cluster.decay[shared.decay_row[t + step + 1], low : high + 1]
        for j in range(d.size):
            target[j + 1] = d[j] * ((k + 2.0 * j) * source[j + 1] + u[j] * source[j] + u[j + 1] * source[j + 2])
        source, target = target, source


@numba.njit(cache=True, fastmath=REORDER)
def fit_window(x, finish, excess, low, high):
    """Return the window of cells whose weight times what can follow is not negligible, and their sum.

    The message alone is not enough, since its mass runs to states that can no longer close (``high`` must leave
    those out). What can follow is taken from the same scan without clicks, which has as many open items as ranks.
    With m open ranks and m + excess open items that is like m open pairs where beta is large, like m + excess / 2
    where beta is small. The window covers both and all between.
    """
    first, last = _weighty(x[low + 1 : high + 2], finish[low + 1 : high + 2])
    shift = min(excess // 2, finish.size - high - 2)
    if shift > 0:
        other_first, other_last = _weighty(x[low + 1 : high + 2], finish[low + 1 + shift : high + 2 + shift])
        first, last = min(first, other_first), max(last, other_last)
    total = 0.0
    cells = x[low + first + 1 : low + last + 2]
    for j in range(cells.size):
        total += cells[j]
    return low + first, low + last, total


@numba.njit(cache=True, fastmath=REORDER)
def _weighty(weights, follow):
    """Return the first and the last cell whose weight times what follows is above TRIM of the total."""
    total = 0.0
    for j in range(weights.size):
        total += weights[j] * follow[j]
    cut = TRIM * total
    first, last = 0, weights.size - 1
    while first < last and weights[first] * follow[first] <= cut:
        first += 1
    while first < last and weights[last] * follow[last] <= cut:
        last -= 1
    return first, last


@numba.njit(cache=True, fastmath=REORDER)
def close_row(row, high):
    """Drop cells about to become denormal, and rescale. Returns the last cell and the log of the factor."""
    total = 0.0
    cells = row[1 : high + 2]
    for j in range(cells.size):
        total += cells[j]
    while high > 0 and row[high + 1] < FLUSH * total:
        high -= 1
    row[0] = 0.0
    row[high + 2 :] = 0.0
    if 1.0 / ROOM < total < ROOM or total == 0.0:
        return high, 0.0
    scale = 1.0 / total
    for m in range(high + 1):
        row[m + 1] *= scale
    return high, math.log(total)


@numba.njit(cache=True)
def count_up_to(clicked, t):
    """Return how many clicked positions are at most t."""
    count = 0
    while count < clicked.size and clicked[count] <= t:
        count += 1
    return count


@numba.njit(cache=True)
def second_block_rows(clicked, start, shared, cluster, windows, x, y, rows, scales):
    """Fill rows[t], t >= start, with the weights of all completions of block 2 after step t, with its ageing.

    Only the cells of ``windows`` matter (see `likelihood.note_windows`). The others hold nothing of use, but the
    two next to a window, and all of rows[start], are zero. After the last click these weights are the same for
    everybody. They are not copied.
    Returns the step from which on that holds; `completions` looks up the right ones.
    """
    c = clicked.size
    last = max(clicked[c - 1], start) if c > 0 else start
    if last == start:
        return last
    next_click, excess = c - 1, 0
    scale, t = cluster.finish_scale[last], last - 1
    before_low, before_high = windows[0, t], windows[1, t]
    x[before_low : before_high + 3] = cluster.finish[last, before_low : before_high + 3]
    while t >= start:
        low, high = windows[0, t], windows[1, t]
        x[low:before_low] = 0.0
        x[before_high + 3 : high + 3] = 0.0
        bottom = t
        if next_click >= 0 and clicked[next_click] == t + 1:
            next_click -= 1
            excess += 1
            lone_grows(x, y, shared.root, cluster.decay[shared.decay_row[t]], excess, low, high)
            rows[t, low + 1 : high + 2] = y[low + 1 : high + 2]
            x, y = y, x
        else:
            end = max(clicked[next_click], start) if next_click >= 0 else start
            bottom = same_window_until(windows, t, -1, max(end, t + 1 - CHUNK))
            _pairs_back(x, y, rows, shared.off[excess + 1], shared, cluster, excess, t, bottom, low, high)
            if (t - bottom) % 2 == 0:
                x, y = y, x
        x[low] = 0.0
        x[high + 2] = 0.0
        for i in range(bottom, t + 1):
            rows[i, low] = 0.0
            rows[i, high + 2] = 0.0
            scales[i] = scale
        scale += rescale(x[low + 1 : high + 2])
        before_low, before_high = low, high
        t = bottom - 1
    rows[start, : windows[0, start] + 1] = 0.0
    rows[start, windows[1, start] + 2 :] = 0.0
    return last


@numba.njit(cache=True)
def same_window_until(windows, t, step, end):
    """Return the last of t, t + step, ..., end up to which the window is that of t."""
    low, high = windows[0, t], windows[1, t]
    while t != end and windows[0, t + step] == low and windows[1, t + step] == high:
        t += step
    return t


@numba.njit(cache=True, fastmath=JOIN)
def _pairs_back(x, y, rows, off, shared, cluster, excess, t, bottom, low, high):
    """Do steps t, t - 1, ..., bottom, all `pair`, over one window, from x into y and back; copy each to its row.

    A step that read the row before it would wait for it to be written to memory.
    """
    source, target = x[low : high + 3], y[low : high + 3]
    target[0] = 0.0
    target[target.size - 1] = 0.0
    u, k = off[low : high + 2], 1.0 + excess + 2.0 * low
    for i in range(t, bottom - 1, -1):
        row = rows[i, low + 1 : high + 2]
        d = cluster.decay[shared.decay_row[i], low : high + 1]
        for j in range(d.size):
            value = d[j] * ((k + 2.0 * j) * source[j + 1] + u[j] * source[j] + u[j + 1] * source[j + 2])
            target[j + 1] = value
            row[j] = value
        source, target = target, source


@numba.njit(cache=True, fastmath=REORDER)
def rescale(cells):
    """Bring the sum of the cells back to 1 if it is far from it. Returns the log of the factor taken out."""
    total = 0.0
    for j in range(cells.size):
        total += cells[j]
    if 1.0 / ROOM < total < ROOM or total == 0.0:
        return 0.0
    scale = 1.0 / total
    for j in range(cells.size):
        cells[j] *= scale
    return math.log(total)


@numba.njit(cache=True)
def completions(t, last, cluster, rows, scales):
    """Return the weights of all completions after step t, and the logarithm of the factor taken out of them."""
    return (cluster.finish[t], cluster.finish_scale[t]) if t >= last else (rows[t], scales[t])
