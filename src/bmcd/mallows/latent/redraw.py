"""Exact draws of a user's latent ranking. See `scan.py` for the scheme."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba

from bmcd.mallows.latent.scan import (
    REORDER,
    close_row,
    completion_row,
    count_up_to,
    lone_falls,
    pair,
    second_block_rows,
)
from bmcd.system.streams import uniform, uniform_below


@numba.njit(cache=True, fastmath=REORDER)
def _first_block_rows(clicked, shared, cluster, rows):
    """Weights of all completions of block 1 after steps 0, ..., c, up to a factor per row."""
    c = clicked.size
    next_click = count_up_to(clicked, c) - 1
    excess = c - next_click - 1
    rows[c, 0:4] = 0.0
    rows[c, 1] = 1.0
    high = 0
    for t in range(c - 1, -1, -1):
        decay = cluster.decay[shared.decay_row[t]]
        high = min(high + 1, t, c - t)
        if next_click >= 0 and clicked[next_click] == t + 1:
            next_click -= 1
            pair(rows[t + 1], rows[t], shared.off[excess + 1], decay, shared.twice, excess, 0, high)
        else:
            lone_falls(rows[t + 1], rows[t], shared.root, decay, excess, 0, high)
            excess -= 1
        high, _ = close_row(rows[t], high)


@numba.njit(cache=True)
def _take(partners, count, stream):
    """Remove a uniformly chosen one of the open partners and return it."""
    pick = uniform_below(stream, count)
    chosen = partners[pick]
    partners[pick] = partners[count - 1]
    return chosen


@numba.njit(cache=True)
def _draw_pair(t, m, items, n_items, ranks, n_ranks, row, root, out, stream):
    """Item t and rank t arrive in the same block: choose by the weight of what can follow."""
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
    """Rank t arrives alone: it stays open, or takes one of the open items."""
    if uniform(stream) * (opens + closes) < opens:
        ranks[n_ranks] = t
        return n_items, n_ranks + 1
    out[_take(items, n_items, stream) - 1] = t
    return n_items - 1, n_ranks


@numba.njit(cache=True)
def sample_user(clicked, n, shared, cluster, rows, scales, partners, out, stream):
    """An exact draw of a user's latent ranking: out[p - 1] is the rank of the item at position p."""
    c = clicked.size
    root = shared.root
    items, ranks = partners[0], partners[1]
    other_items, other_ranks = partners[2], partners[3]
    n_items, n_ranks, n_other_items, n_other_ranks = 0, 0, 0, 0
    _first_block_rows(clicked, shared, cluster, rows)
    next_click = 0
    for t in range(1, c + 1):
        row = rows[t]
        m = n_items
        if clicked[next_click] == t:
            next_click += 1
            n_items, n_ranks = _draw_pair(t, m, items, n_items, ranks, n_ranks, row, root, out, stream)
        else:
            other_items[n_other_items] = t
            n_other_items += 1
            opens = root[n_ranks + 1] * row[m + 1]
            closes = root[n_items] * row[m]
            n_items, n_ranks = _draw_lone(t, opens, closes, items, n_items, ranks, n_ranks, out, stream)
    last = second_block_rows(clicked, n, c, shared, cluster, rows, scales)
    for t in range(c + 1, n + 1):
        row = completion_row(t, last, cluster, rows)
        m = n_other_ranks
        if next_click < c and clicked[next_click] == t:
            next_click += 1
            out[t - 1] = _take(ranks, n_ranks, stream)
            n_ranks -= 1
            opens = root[m + 1] * row[m + 2]
            closes = root[n_other_items] * row[m + 1]
            n_other_items, n_other_ranks = _draw_lone(
                t, opens, closes, other_items, n_other_items, other_ranks, n_other_ranks, out, stream
            )
        else:
            n_other_items, n_other_ranks = _draw_pair(
                t, m, other_items, n_other_items, other_ranks, n_other_ranks, row, root, out, stream
            )
