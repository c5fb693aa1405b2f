"""Draw a user's latent ranking from its exact law. See `scan.py` for the recursion."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba

from bmcd.mallows.latent import scan
from bmcd.rng import uniform, uniform_below


@numba.njit(cache=True)
def _first_block_rows(clicked, shared, cluster, rows):
    """Fill rows[t], t = 0, ..., c, with the weights of all completions of block 1, up to a factor per row."""
    c = clicked.size
    root, off, decay_row, decay = shared.root, shared.off, shared.decay_row, cluster.decay
    next_click = scan.count_up_to(clicked, c) - 1
    excess = c - next_click - 1
    rows[c, 0:4] = 0.0
    rows[c, 1] = 1.0
    high = 0
    for t in range(c - 1, -1, -1):
        high = min(high + 1, t, c - t)
        if next_click >= 0 and clicked[next_click] == t + 1:
            next_click -= 1
            scan.pair(rows[t + 1], rows[t], off[excess + 1], decay[decay_row[t]], excess, 0, high)
        else:
            scan.lone_falls(rows[t + 1], rows[t], root, decay[decay_row[t]], excess, 0, high)
            excess -= 1
        high, _ = scan.close_row(rows[t], high)


@numba.njit(cache=True)
def _second_block_rows(clicked, shared, cluster, rows, scales):
    """Fill rows[t], t >= c, as `scan.second_block_rows` does, for all states: that takes no scan before it."""
    n, c = shared.gaps.size, clicked.size
    root, off, decay_row, decay = shared.root, shared.off, shared.decay_row, cluster.decay
    finish, finish_scale = cluster.finish, cluster.finish_scale
    last = max(clicked[c - 1], c) if c > 0 else c
    next_click = c - 1
    excess = 0
    high = min(n - last, n // 2)
    for t in range(last - 1, c - 1, -1):
        source = finish[t + 1] if t + 1 >= last else rows[t + 1]
        scale = finish_scale[t + 1] if t + 1 >= last else scales[t + 1]
        if next_click >= 0 and clicked[next_click] == t + 1:
            next_click -= 1
            excess += 1
            high = max(min(high + 1, t - c, n - t - excess), 0)
            scan.lone_grows(source, rows[t], root, decay[decay_row[t]], excess, 0, high)
        else:
            high = max(min(high + 1, t - c, n - t - excess), 0)
            scan.pair(source, rows[t], off[excess + 1], decay[decay_row[t]], excess, 0, high)
        high, taken = scan.close_row(rows[t], high)
        scales[t] = scale + taken
    return last


@numba.njit(cache=True)
def _take(partners, count, stream):
    """Remove a uniformly chosen one of the open partners and return it."""
    pick = uniform_below(stream, count)
    chosen = partners[pick]
    partners[pick] = partners[count - 1]
    return chosen


@numba.njit(cache=True)
def _draw_pair(t, m, items, n_items, ranks, n_ranks, row, root, out, stream):
    """Let item t and rank t, of one block, open or close. Returns how many items and ranks are open."""
    up = root[n_items + 1] * root[n_ranks + 1] * row[m + 2]
    same = row[m + 1]
    down = root[n_items] * root[n_ranks] * row[m]
    u = uniform(stream) * (up + same * (1 + n_items + n_ranks) + down) - up
    if u < 0.0:
        items[n_items] = t
        ranks[n_ranks] = t
        return n_items + 1, n_ranks + 1
    if u < same or n_items + n_ranks == 0:
        out[t - 1] = t
        return n_items, n_ranks
    u -= same
    if u < same * n_ranks:
        out[t - 1] = _take(ranks, n_ranks, stream)
        ranks[n_ranks - 1] = t
        return n_items, n_ranks
    u -= same * n_ranks
    if u < same * n_items or n_ranks == 0:
        out[_take(items, n_items, stream) - 1] = t
        items[n_items - 1] = t
        return n_items, n_ranks
    out[t - 1] = _take(ranks, n_ranks, stream)
    out[_take(items, n_items, stream) - 1] = t
    return n_items - 1, n_ranks - 1


@numba.njit(cache=True)
def _draw_lone(t, opens, closes, items, n_items, ranks, n_ranks, out, stream):
    """Let the lone rank t stay open, or take an open item. Returns how many items and ranks are open."""
    if uniform(stream) * (opens + closes) < opens:
        ranks[n_ranks] = t
        return n_items, n_ranks + 1
    out[_take(items, n_items, stream) - 1] = t
    return n_items - 1, n_ranks


@numba.njit(cache=True)
def sample_user(clicked, shared, cluster, work, stream):
    """Fill work.ranks with a draw of the latent ranking: entry p - 1 is the rank of the item at position p."""
    n, c, root, out = shared.gaps.size, clicked.size, shared.root, work.ranks
    items, ranks = work.waiting[0], work.waiting[1]  # of the clicked block
    other_items, other_ranks = work.waiting[2], work.waiting[3]
    n_items, n_ranks, n_other_items, n_other_ranks = 0, 0, 0, 0
    rows, finish = work.rows, cluster.finish
    _first_block_rows(clicked, shared, cluster, rows)
    next_click = 0
    for t in range(1, c + 1):
        row, m = rows[t], n_items
        if clicked[next_click] == t:
            next_click += 1
            n_items, n_ranks = _draw_pair(t, m, items, n_items, ranks, n_ranks, row, root, out, stream)
        else:
            other_items[n_other_items] = t
            n_other_items += 1
            opens, closes = root[n_ranks + 1] * row[m + 1], root[n_items] * row[m]
            n_items, n_ranks = _draw_lone(t, opens, closes, items, n_items, ranks, n_ranks, out, stream)
    last = _second_block_rows(clicked, shared, cluster, rows, work.row_scales)
    for t in range(c + 1, n + 1):
        row, m = finish[t] if t >= last else rows[t], n_other_ranks
        if next_click < c and clicked[next_click] == t:
            next_click += 1
            out[t - 1] = _take(ranks, n_ranks, stream)
            n_ranks -= 1
            opens, closes = root[m + 1] * row[m + 2], root[n_other_items] * row[m + 1]
            n_other_items, n_other_ranks = _draw_lone(
                t, opens, closes, other_items, n_other_items, other_ranks, n_other_ranks, out, stream
            )
        else:
            n_other_items, n_other_ranks = _draw_pair(
                t, m, other_items, n_other_items, other_ranks, n_other_ranks, row, root, out, stream
            )
