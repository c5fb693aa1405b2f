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
from bmcd.mallows.latent.likelihood import note_windows


@numba.njit(cache=True)
def top_probabilities_user(clicked, k, shared, cluster, work):
    """Fill work.probability, by position, with P(rank <= c + k | clicks, rho, alpha); 0 for the clicked items."""
    note_windows(clicked, shared, cluster, work.message, work.next_message, work.windows)
    top_probabilities_within(clicked, k, shared, cluster, 0.0, work)


@numba.njit(cache=True)
def top_probabilities_within(clicked, k, shared, cluster, rest, work):
    """Do the same where work.windows are those of this user in this cluster already.

    The probabilities sum to k. Once those of all further items sum to less than ``rest``, they are left at 0.
    """
    n, c, probability = shared.gaps.size, clicked.size, work.probability
    top = min(c + k, n)
    probability[:] = 1.0
    for i in range(c):
        probability[clicked[i] - 1] = 0.0
    if top == n:
        return
    excess, high = _scan_to_top(clicked, top, shared, cluster, work)
    x, y, windows = work.message, work.next_message, work.windows
    last = scan.second_block_rows(clicked, top, shared, cluster, windows, x, y, work.rows, work.row_scales)
    log_total = _log_total(clicked, top, last, excess, shared, cluster, work)
    _items_up_to_top(clicked, top, last, excess, high, log_total, shared, cluster, work)
    _items_after_top(clicked, top, last, excess, high, log_total, rest, shared, cluster, work)
    for t in range(n):
        probability[t] = min(max(probability[t], 0.0), 1.0)


@numba.njit(cache=True)
def _scan_to_top(clicked, top, shared, cluster, work):
    """Fill work.forward with the messages after steps c, ..., top. Returns excess and last cell after step top."""
    n, c = shared.gaps.size, clicked.size
    root, off, decay_row, decay = shared.root, shared.off, shared.decay_row, cluster.decay
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
            scan.pair(source, target, off[excess + 1], decay[decay_row[t]], excess, 0, high)
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
        scan.pair(row, target, shared.off[excess + 1], no_ageing, excess, 0, high)
    total = 0.0
    for m in range(high + 1):
        total += work.forward[reach, m + 1] * target[m + 1]
    return math.log(total) + work.forward_scales[reach] + row_scale


@numba.njit(cache=True)
def _items_up_to_top(clicked, top, last, excess, high, log_total, shared, cluster, work):
    """Backwards with a tagged open item. The others are one fewer, so that their excess is one smaller."""
    c, probability, forward, forward_scales = clicked.size, work.probability, work.forward, work.forward_scales
    root, off, decay_row, decay = shared.root, shared.off, shared.decay_row, cluster.decay
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
            scan.pair(x, y, off[excess], decay[decay_row[t - 1]], excess - 1, 0, high)
        x, y = y, x
        high, taken = scan.close_row(x, high)
        scale += taken
    if excess > 0:  # unclicked items at positions <= c are all open at step c, and alike
        missed = x[1] / root[excess] * math.exp(scale - log_total)
        for t in range(c):
            if probability[t] > 0.0:
                probability[t] = 1.0 - missed


@numba.njit(cache=True)
def _items_after_top(clicked, top, last, excess, high_top, log_total, rest, shared, cluster, work):
    """Forwards with a tagged rank, open since step top. The others are one fewer, so the excess is one larger."""
    n, c, probability = shared.gaps.size, clicked.size, work.probability
    rows, row_scales, finish, finish_scale = work.rows, work.row_scales, cluster.finish, cluster.finish_scale
    root, off, decay_row, decay, windows = shared.root, shared.off, shared.decay_row, cluster.decay, work.windows
    x, y = work.message, work.next_message
    low, high = 0, max(high_top - 1, 0)
    for m in range(high + 1):
        x[m + 1] = root[m + 1] * work.forward[top - c, m + 2] if high_top > 0 else 0.0
    scale = work.forward_scales[top - c] - log_total
    next_click = c - excess
    left = top - c - probability[:top].sum() if rest > 0.0 else math.inf  # what the items after top sum to
    t = top + 1
    while t <= n:
        if t < last:  # the window of all paths holds those with a tagged rank, which has one open rank fewer
            new_low, new_high = max(windows[0, t] - 1, 0), windows[1, t]
        else:
            new_low, new_high = max(low - scan.CHUNK, 0), max(min(high + scan.CHUNK, n - t), 0)
        x[new_low : low + 1] = 0.0
        x[high + 2 : new_high + 4] = 0.0
        low, high = new_low, new_high
        if next_click < c and clicked[next_click] == t:
            scan.lone_falls(x, y, root, decay[decay_row[t], 1:], excess + 1, low, high)
            x, y = y, x
            next_click += 1
            excess -= 1
            t += 1
            continue
        end = clicked[next_click] - 1 if next_click < c else n
        if t < last:
            end = scan.same_window_until(windows, t, 1, min(end, t + scan.CHUNK - 1))
            left -= _tagged_pairs(
                x, y, off, shared, cluster, excess, t, end, low, high, scale, rows, row_scales, probability
            )
        else:
            end = min(end, t + scan.CHUNK - 1)
            left -= _tagged_pairs(
                x, y, off, shared, cluster, excess, t, end, low, high, scale, finish, finish_scale, probability
            )
        if (end - t) % 2 == 0:
            x, y = y, x
        t = end + 1
        weight = 1.0
        if t > last:
            low, high, weight = scan.fit_window(x, finish[end, 1:], 0, low, max(min(high, n - end - 1), low))
        if weight == 0.0 or left < rest:
            probability[end:] = 0.0
            return
        scale += scan.rescale(x[low + 1 : high + 2])


@numba.njit(cache=True, fastmath=scan.JOIN)
def _tagged_pairs(x, y, off, shared, cluster, excess, first, last, low, high, scale, rows, row_scales, probability):
    """Do steps first, ..., last, all `pair`, over one window, each time with the chance to take the tagged rank.

    Ends in x if they are an even number, else in y. Returns the sum of the probabilities found.
    """
    size = high - low + 1
    source, target = x[low : high + 3], y[low : high + 3]
    target[0] = 0.0
    target[size + 1] = 0.0
    u = off[excess + 2, low : high + 2]
    p, q = shared.root[low + 1 : high + 2], shared.root[low + excess + 1 : high + excess + 2]
    k = 2.0 + excess + 2.0 * low
    found = 0.0
    for t in range(first, last + 1):
        row = rows[t, low + 1 : high + 3]
        d = cluster.decay[shared.decay_row[t], low + 1 : high + 2]
        hit = _sum_of_products(source[1:], p, q, row, size)
        for j in range(size):
            target[j + 1] = d[j] * ((k + 2.0 * j) * source[j + 1] + u[j] * source[j] + u[j + 1] * source[j + 2])
        probability[t - 1] = hit * math.exp(scale + row_scales[t])
        found += probability[t - 1]
        source, target = target, source
    return found


@numba.njit(cache=True)
def _lone_dot(left, right, root, excess, low, high):
    """Return the sum over cells of left * (lone rank, transposed, applied to right), without ageing."""
    p, q = root[low + 1 : high + 2], root[low + excess : high + excess + 1]
    return _sum_of_products(left[low + 1 : high + 2], p, q, right[low + 1 : high + 3], high - low + 1)


@numba.njit(cache=True, fastmath=scan.REORDER)
def _sum_of_products(left, p, q, right, size):
    """Return the sum over j of left[j] (p[j] right[j + 1] + q[j] right[j])."""
    total = 0.0
    for j in range(size):
        total += left[j] * (p[j] * right[j + 1] + q[j] * right[j])
    return total
