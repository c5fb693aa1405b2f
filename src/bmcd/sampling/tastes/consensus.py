"""Moves of a taste's consensus, given how often each item was visited under it.

The posterior is proportional to exp(sum over items of visits log q(rank of the item)). Two moves:

* items that nobody visited under this taste are shuffled among their ranks: an exact draw, since all orders are
  alike. Most items of a taste are of this kind;
* swaps of the items at two ranks. The gap between the ranks is spread evenly over its logarithm, so that near and
  far exchanges get their share; the pair of ranks is the same before and after, so the proposal is symmetric.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.system.streams import uniform, uniform_below

# How many equally likely gaps are on the list; n is far below its square, so that the list has no holes that
# matter.
GAPS = 256


@numba.njit(cache=True, nogil=True)
def list_of_gaps(n):
    """GAPS gaps between 1 and n - 1, evenly spread over their logarithms; a swap takes one of them."""
    out = np.empty(GAPS, np.int64)
    for i in range(GAPS):
        out[i] = max(min(int(math.exp((i + 0.5) / GAPS * math.log(n))), n - 1), 1)
    return out


@numba.njit(cache=True, nogil=True)
def draw_rank_pair(stream, gaps, n):
    """Two ranks (from 0), low < high: a gap of the list, and a place for it. One random number does for both."""
    x = uniform(stream) * gaps.size
    gap = gaps[int(x)]
    low = min(int((x - int(x)) * (n - gap)), n - gap - 1)
    return low, low + gap


@numba.njit(cache=True, nogil=True)
def swap_change(counts, log_law, item_at, low, high):
    """Change of the log posterior if the items at these ranks are exchanged."""
    return (counts[item_at[low]] - counts[item_at[high]]) * (log_law[high] - log_law[low])


@numba.njit(cache=True, nogil=True)
def swap_pass(stream, counts, log_law, item_at, gaps, n_proposals):
    """Metropolis swaps, O(1) each. Returns how many were taken."""
    n = item_at.size
    taken = 0
    for _ in range(n_proposals):
        low, high = draw_rank_pair(stream, gaps, n)
        change = swap_change(counts, log_law, item_at, low, high)
        if change >= 0.0 or uniform(stream) < math.exp(change):
            item_at[low], item_at[high] = item_at[high], item_at[low]
            taken += 1
    return taken


@numba.njit(cache=True, nogil=True)
def shuffle_unvisited(stream, counts, item_at, ranks):
    """Shuffle items that nobody visited under this taste among their ranks. ``ranks`` is room for n numbers."""
    size = 0
    for r in range(item_at.size):
        if counts[item_at[r]] == 0.0:
            ranks[size] = r
            size += 1
    for i in range(size - 1, 0, -1):
        j = uniform_below(stream, i + 1)
        item_at[ranks[i]], item_at[ranks[j]] = item_at[ranks[j]], item_at[ranks[i]]


@numba.njit(cache=True, nogil=True)
def update_consensus(stream, counts, log_law, item_at, gaps, n_proposals):
    """Shuffle, then swap. Returns how many swaps were taken."""
    if item_at.size < 2:
        return 0
    shuffle_unvisited(stream, counts, item_at, np.empty(item_at.size, np.int64))
    return swap_pass(stream, counts, log_law, item_at, gaps, n_proposals)
