"""Top-k probabilities of all of a user's items in one forward-backward scan. See `scan.py` for the recursion.

Let K = c + k. An item at position p <= K misses the top if it is still open after step K: tag it when it arrives,
and carry backwards the weight of never closing it before K. An item at p > K hits the top if it takes a rank that
was open after step K: tag that rank, and carry it forwards. In both cases the item that opens, or that takes the
tagged rank, enters like a lone rank.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba

from bmcd.mallows.latent import scan


@numba.njit(cache=True, fastmath=scan.REORDER)
def top_probabilities_user(clicked, k, shared, cluster, work):
    """Fill work.probability, by position, with P(rank <= c + k | clicks, rho, alpha); 0 for the clicked items."""
    n, c, probability = shared.gaps.size, clicked.size, work.probability
    top = min(c + k, n)
    probability[:] = 1.0
    for i in range(c):
        probability[clicked[i] - 1] = 0.0
    if top == n:
        return
    excess, high = _scan_to_top(clicked, top, shared, cluster, work)
    last = scan.second_block_rows(clicked, top, shared, cluster, work.rows, work.row_scales)
    log_total = _log_total(clicked, top, last, excess, shared, cluster, work)
    _items_up_to_top(clicked, top, last, excess, high, log_total, shared, cluster, work)
    _items_after_top(clicked, top, last, excess, high, log_total, shared, cluster, work)
    for t in range(n):
        probability[t] = min(max(probability[t], 0.0), 1.0)


@numba.njit(cache=True, fastmath=scan.REORDER)
def _scan_to_top(clicked, top, shared, cluster, work):
    """Fill work.forward with the messages after steps c, ..., top. Returns excess and last cell after step top."""
    n, c = shared.gaps.size, clicked.size
    root, off, twice, decay_row, decay = shared.root, shared.off, shared.twice, shared.decay_row, cluster.decay
    forward, scales = work.forward, work.forward_scales
    forward[0] = 0.0
    forward[0, 1] = 1.0
    scales[0] = 0.0
    next_click, high = scan.count_up_to(clicked, c), 0
    excess = c - next_click
    for t in range(c + 1, top + 1):
        source, target = forward[t - 1 - c], forward[t - c]
        if next_click < c and clicked[next_click] == t:
            high = max(min(high + 1, n - t - excess + 1), 0)
            scan.lone_falls(source, target, root, decay[decay_row[t]], excess, 0, high)
            next_click += 1
            excess -= 1
        else:
            high = max(min(high + 1, n - t - excess), 0)
            scan.pair(source, target, off[excess + 1], decay[decay_row[t]], twice, excess, 0, high)
        high, taken = scan.close_row(target, high)
        scales[t - c] = scales[t - 1 - c] + taken
    return excess, high


@numba.njit(cache=True, fastmath=scan.REORDER)
def _log_total(clicked, top, last, excess, shared, cluster, work):
    """Return the log weight of all rankings: forward to top - 1, then step top, which must not age twice."""
    row, row_scale = scan.completions(top, last, cluster, work.rows, work.row_scales)
    target = work.next_message
    no_ageing = cluster.decay[shared.decay_row[shared.gaps.size]]
    reach = top - 1 - clicked.size
    high = min(reach, shared.gaps.size // 2)  # more cannot close any more
    next_click = clicked.size - excess
    if next_click > 0 and clicked[next_click - 1] == top:
        scan.lone_grows(row, target, shared.root, no_ageing, excess + 1, 0, high)
    else:
        scan.pair(row, target, shared.off[excess + 1], no_ageing, shared.twice, excess, 0, high)
    total = 0.0
    for m in range(high + 1):
        total += work.forward[reach, m + 1] * target[m + 1]
    return math.log(total) + work.forward_scales[reach] + row_scale


@numba.njit(cache=True, fastmath=scan.REORDER)
def _items_up_to_top(clicked, top, last, excess, high, log_total, shared, cluster, work):
    """Backwards with a tagged open item. The others are one fewer, so that their excess is one smaller."""
    c, probability, forward, forward_scales = clicked.size, work.probability, work.forward, work.forward_scales
    root, off, twice, decay_row, decay = shared.root, shared.off, shared.twice, shared.decay_row, cluster.decay
    x, y = work.message, work.next_message
    row, scale = scan.completions(top, last, cluster, work.rows, work.row_scales)
    next_click, high = c - excess, min(high, row.size - 4)
    for m in range(high + 1):
        x[m + 1] = root[m + excess] * row[m + 1]
    x[0] = 0.0
    x[high + 2 : high + 4] = 0.0
    for t in range(top, c, -1):
        reach = t - 1 - c
        if next_click > 0 and clicked[next_click - 1] == t:
            next_click -= 1
            excess += 1
            high = min(high + 1, reach)
            scan.lone_grows(x, y, root, decay[decay_row[t - 1]], excess - 1, 0, high)
        else:
            missed = _lone_dot(forward[reach], x, root, excess, 0, min(high, reach))
            probability[t - 1] = 1.0 - missed * math.exp(forward_scales[reach] + scale - log_total)
            high = min(high + 1, reach)
            scan.pair(x, y, off[excess], decay[decay_row[t - 1]], twice, excess - 1, 0, high)
        x, y = y, x
        high, taken = scan.close_row(x, high)
        scale += taken
    if excess > 0:  # unclicked items at positions <= c are all open at step c, and alike
        missed = x[1] / root[excess] * math.exp(scale - log_total)
        for t in range(c):
            if probability[t] > 0.0:
                probability[t] = 1.0 - missed


@numba.njit(cache=True, fastmath=scan.REORDER)
def _items_after_top(clicked, top, last, excess, high_top, log_total, shared, cluster, work):
    """Forwards with a tagged rank, open since step top. The others are one fewer, so the excess is one larger."""
    n, c, probability = shared.gaps.size, clicked.size, work.probability
    rows, row_scales, finish, finish_scale = work.rows, work.row_scales, cluster.finish, cluster.finish_scale
    root, off, twice, decay_row, decay = shared.root, shared.off, shared.twice, shared.decay_row, cluster.decay
    x, y = work.message, work.next_message
    low, high = 0, max(high_top - 1, 0)
    for m in range(high + 1):
        x[m + 1] = root[m + 1] * work.forward[top - c, m + 2] if high_top > 0 else 0.0
    scale = work.forward_scales[top - c]
    next_click = c - excess
    for t in range(top + 1, n + 1):
        row = finish[t] if t >= last else rows[t]
        x[max(low - 1, 0)] = 0.0
        x[low] = 0.0
        x[high + 2 : high + 4] = 0.0
        if next_click < c and clicked[next_click] == t:
            high = max(min(high + 1, n - t - excess), 0)
            scan.lone_falls(x, y, root, decay[decay_row[t], 1:], excess + 1, low, high)
            next_click += 1
            excess -= 1
        else:
            hit = _lone_dot(x, row, root, excess + 1, low, high)
            row_scale = finish_scale[t] if t >= last else row_scales[t]
            probability[t - 1] = hit * math.exp(scale + row_scale - log_total)
            low = max(low - 1, 0)
            high = max(min(high + 1, n - t - excess - 1), low)
            scan.pair(x, y, off[excess + 2], decay[decay_row[t], 1:], twice, excess + 1, low, high)
        x, y = y, x
        if (t - top) % scan.CHUNK == 0:
            low, high, largest = scan.fit_window(x, row[1:], low, high)
            if largest == 0.0:
                probability[t:] = 0.0
                return
            if not (1.0 / scan.ROOM < largest < scan.ROOM):
                scale += math.log(largest)
                for i in range(low + 1, high + 2):
                    x[i] /= largest


@numba.njit(cache=True, fastmath=scan.REORDER)
def _lone_dot(left, right, root, excess, low, high):
    """Return the sum over cells of left * (lone rank, transposed, applied to right), without ageing."""
    a = left[low + 1 : high + 2]
    b = right[low + 1 : high + 3]
    p = root[low + 1 : high + 2]
    q = root[low + excess : high + excess + 1]
    total = 0.0
    for j in range(high - low + 1):
        total += a[j] * (p[j] * b[j + 1] + q[j] * b[j])
    return total
