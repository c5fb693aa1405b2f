"""Top-k probabilities of all of a user's items in one forward-backward pass. See `scan.py` for the scheme."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba

from bmcd.mallows.latent.scan import (
    CHUNK,
    REORDER,
    ROOM,
    close_row,
    completion_row,
    completion_scale,
    count_up_to,
    fit_window,
    lone_falls,
    lone_grows,
    pair,
    second_block_rows,
)


@numba.njit(cache=True, fastmath=REORDER)
def _lone_dot(left, right, root, excess, low, high):
    """Sum over cells of left * (lone rank, transposed, applied to right), without ageing."""
    a = left[low + 1 : high + 2]
    b = right[low + 1 : high + 3]
    p = root[low + 1 : high + 2]
    q = root[low + excess : high + excess + 1]
    total = 0.0
    for j in range(high - low + 1):
        total += a[j] * (p[j] * b[j + 1] + q[j] * b[j])
    return total


@numba.njit(cache=True, fastmath=REORDER)
def top_probabilities_user(clicked, n, k, shared, cluster, rows, scales, forward, forward_scales, x, y, out):
    """P(rank <= c + k | clicks, rho, alpha) of every unclicked item, by position; 0 for the clicked ones.

    Let K = c + k. An item at position p <= K misses the top if it is still open after step K: tag it when it
    arrives and carry backwards the weight of never closing it before K. An item at p > K hits the top if it
    takes a rank that was open after step K: tag that rank and carry it forwards. In both cases an item that
    opens, or takes the tagged rank, enters like a lone rank.
    """
    c = clicked.size
    top = min(c + k, n)
    out[:] = 1.0
    for i in range(c):
        out[clicked[i] - 1] = 0.0
    if top == n or c == n:
        return
    root, twice = shared.root, shared.twice
    clicks_done = count_up_to(clicked, c)
    excess_c = c - clicks_done
    excess = excess_c

    # Forward messages after steps c, ..., top.
    forward[0] = 0.0
    forward[0, 1] = 1.0
    forward_scales[0] = 0.0
    high = 0
    next_click = clicks_done
    for t in range(c + 1, top + 1):
        source, target = forward[t - 1 - c], forward[t - c]
        decay = cluster.decay[shared.decay_row[t]]
        if next_click < c and clicked[next_click] == t:
            high = max(min(high + 1, n - t - excess + 1), 0)
            lone_falls(source, target, root, decay, excess, 0, high)
            next_click += 1
            excess -= 1
        else:
            high = max(min(high + 1, n - t - excess), 0)
            pair(source, target, shared.off[excess + 1], decay, twice, excess, 0, high)
        high, taken = close_row(target, high)
        forward_scales[t - c] = forward_scales[t - 1 - c] + taken
    high_top = high
    excess_top = excess

    last = second_block_rows(clicked, n, top, shared, cluster, rows, scales)
    row = completion_row(top, last, cluster, rows)
    row_scale = completion_scale(top, last, cluster, scales)

    # The weight of everything: forward to top - 1, the step to top without ageing twice.
    no_ageing = cluster.decay[shared.decay_row[n]]
    reach = top - 1 - c
    cells = min(reach, n // 2)  # more cannot close any more
    if next_click > 0 and clicked[next_click - 1] == top:
        lone_grows(row, y, root, no_ageing, excess_top + 1, 0, cells)
    else:
        pair(row, y, shared.off[excess_top + 1], no_ageing, twice, excess_top, 0, cells)
    total = 0.0
    for m in range(cells + 1):
        total += forward[reach, m + 1] * y[m + 1]
    log_total = math.log(total) + forward_scales[reach] + row_scale

    # Backwards with a tagged open item: the others are one fewer, so the excess is one smaller.
    scale = row_scale
    high = min(high_top, row.size - 4)
    for m in range(high + 1):
        x[m + 1] = root[m + excess] * row[m + 1]
    x[0] = 0.0
    x[high + 2 : high + 4] = 0.0
    for t in range(top, c, -1):
        decay = cluster.decay[shared.decay_row[t - 1]]
        reach = t - 1 - c
        if next_click > 0 and clicked[next_click - 1] == t:
            next_click -= 1
            excess += 1
            high = min(high + 1, reach)
            lone_grows(x, y, root, decay, excess - 1, 0, high)
        else:
            missed = _lone_dot(forward[reach], x, root, excess, 0, min(high, reach))
            out[t - 1] = 1.0 - missed * math.exp(forward_scales[reach] + scale - log_total)
            high = min(high + 1, reach)
            pair(x, y, shared.off[excess], decay, twice, excess - 1, 0, high)
        x, y = y, x
        high, taken = close_row(x, high)
        scale += taken
    if excess_c > 0:
        miss = x[1] / root[excess_c] * math.exp(scale - log_total)
        next_click = 0
        for t in range(1, c + 1):
            if next_click < c and clicked[next_click] == t:
                next_click += 1
            else:
                out[t - 1] = 1.0 - miss

    # Forwards with a tagged old rank: the others are one fewer, so the excess is one larger.
    low, high = 0, max(high_top - 1, 0)
    for m in range(high + 1):
        x[m + 1] = root[m + 1] * forward[top - c, m + 2] if high_top > 0 else 0.0
    scale = forward_scales[top - c]
    excess = excess_top
    next_click = c - excess
    for t in range(top + 1, n + 1):
        row = completion_row(t, last, cluster, rows)
        decay = cluster.decay[shared.decay_row[t]][1:]
        x[max(low - 1, 0)] = 0.0
        x[low] = 0.0
        x[high + 2 : high + 4] = 0.0
        if next_click < c and clicked[next_click] == t:
            high = max(min(high + 1, n - t - excess), 0)
            lone_falls(x, y, root, decay, excess + 1, low, high)
            next_click += 1
            excess -= 1
        else:
            hit = _lone_dot(x, row, root, excess + 1, low, high)
            out[t - 1] = hit * math.exp(scale + completion_scale(t, last, cluster, scales) - log_total)
            low = max(low - 1, 0)
            high = max(min(high + 1, n - t - excess - 1), low)
            pair(x, y, shared.off[excess + 2], decay, twice, excess + 1, low, high)
        x, y = y, x
        if (t - top) % CHUNK == 0:
            low, high, largest = fit_window(x, row[1:], low, high)
            if largest == 0.0:
                out[t:][out[t:] > 0.0] = 0.0
                break
            if not (1.0 / ROOM < largest < ROOM):
                scale += math.log(largest)
                for i in range(low + 1, high + 2):
                    x[i] /= largest
    for t in range(n):
        out[t] = min(max(out[t], 0.0), 1.0)
