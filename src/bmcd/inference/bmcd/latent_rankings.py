"""Move the latent rankings by hit-and-run. (The exact redraw is in `bmcd.mallows.latent.users`.)"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.rng_streams import HIT_AND_RUN, ROUND_STRIDE
from bmcd.inference.variates import exponential
from bmcd.rng import STREAM_SIZE, open_stream, uniform_below


@numba.njit(cache=True, nogil=True)
def _last_rank_within(scale, evenly, value, low, high):
    """Return the last rank r (from 0) in low..high with g(r) <= value; low is known to qualify.

    ``evenly``: ranks are one apart, so that there is nothing to search. (To take 1 off is exact.)
    """
    if evenly:
        return int(min(value - scale[0], float(high)))
    while low < high:
        middle = (low + high + 1) // 2
        if scale[middle] <= value:
            low = middle
        else:
            high = middle - 1
    return low


@numba.njit(cache=True, nogil=True)
def _first_rank_within(scale, evenly, value, low, high):
    """Return the first rank r (from 0) in low..high with g(r) >= value; high is known to qualify."""
    if evenly:
        return math.ceil(max(value - scale[0], float(low)))
    while low < high:
        middle = (low + high) // 2
        if scale[middle] >= value:
            high = middle
        else:
            low = middle + 1
    return low


@numba.njit(cache=True, nogil=True)
def hit_and_run_block(stream, items, first, ranks, rho, scale, evenly, double_beta, upwards, start, order, pool):
    """Redraw the ranks of ``items``, which hold ranks first, ..., first + items.size - 1 (from 0).

    Within a block sum (g(R_i) - g(rho_i)) is constant, so the weight is the product of exp(-2 beta g(max(R_i,
    rho_i))). Draw a level below each factor. Item i may then go up to the last rank with g <= g(max(R_i, rho_i)) +
    Exponential / (2 beta), and the block is uniform over the assignments that respect these caps: from the last
    rank downwards, choose uniformly among the unassigned items whose cap allows it. ``upwards=False`` is the mirror
    image, with floors.
    """
    size = items.size
    if size < 2 or double_beta <= 0.0:
        # No weight at all: every assignment is as good as any other.
        for i in range(size - 1, 0, -1):
            j = uniform_below(stream, i + 1)
            a, b = items[i], items[j]
            ranks[a], ranks[b] = ranks[b], ranks[a]
        return
    last = first + size - 1
    # Bucket the items by their limit (counting sort): start[k] is where those with limit first + k begin.
    for k in range(size + 1):
        start[k] = 0
    for i in range(size):
        item = items[i]
        r, p = ranks[item] - 1, rho[item] - 1
        slack = exponential(stream) / double_beta
        if upwards:
            anchor = min(max(r, p), last)
            k = last - _last_rank_within(scale, evenly, scale[anchor] + slack, max(anchor, first), last)
        else:
            anchor = max(min(r, p), first)
            k = _first_rank_within(scale, evenly, scale[anchor] - slack, first, min(anchor, last)) - first
        pool[i] = k
        start[k + 1] += 1
    for k in range(size):
        start[k + 1] += start[k]
    for i in range(size):
        order[start[pool[i]]] = items[i]
        start[pool[i]] += 1
    # start[k] now is where bucket k ends.
    waiting, taken = 0, 0
    for k in range(size):
        while taken < start[k]:
            pool[waiting] = order[taken]
            waiting += 1
            taken += 1
        pick = uniform_below(stream, waiting)
        item = pool[pick]
        waiting -= 1
        pool[pick] = pool[waiting]
        ranks[item] = (last - k if upwards else first + k) + 1


@numba.njit(cache=True, nogil=True)
def hit_and_run(members, data, rho, beta, upwards, key, chain, sweep, round_, ranks):
    """Move R_j of every member of a cluster by hit-and-run: O(n) each, clicked and unclicked block apart."""
    n = rho.size
    evenly = (data.scale == np.arange(1, n + 1)).all()  # g(r) = r
    stream = np.empty(STREAM_SIZE, np.uint64)
    is_clicked = np.zeros(n, np.bool_)
    unclicked, start = np.empty(n, np.int64), np.empty(n + 1, np.int64)
    order, pool = np.empty(n, np.int64), np.empty(n, np.int64)
    for user in members:
        clicked = data.user_items[data.user_start[user] : data.user_start[user + 1]]
        is_clicked[clicked] = True
        size = 0
        for item in range(n):
            if not is_clicked[item]:
                unclicked[size] = item
                size += 1
        is_clicked[clicked] = False
        open_stream(stream, key, chain, sweep, user, HIT_AND_RUN + ROUND_STRIDE * round_)
        row = ranks[user]
        hit_and_run_block(stream, clicked, 0, row, rho, data.scale, evenly, 2.0 * beta, upwards, start, order, pool)
        hit_and_run_block(
            stream, unclicked[:size], clicked.size, row, rho, data.scale, evenly, 2.0 * beta, upwards,
            start, order, pool,
        )  # fmt: skip
