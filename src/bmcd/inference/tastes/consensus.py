"""Moves of a taste's consensus and scale, given how often each item was visited under it.

The posterior is proportional to exp(sum over items of visits log q(rank of the item)). Two moves:

* items that nobody visited under this taste are shuffled among their ranks: an exact draw, since all orders are
alike. Most items of a taste are of this kind; * swaps of a visited item with the item some ranks above or below.
The gap between the two is spread evenly over its logarithm, so that near and far exchanges get their share. From
the new consensus the same item and the same gap, in the other direction, lead back with the same probability, so
the proposal is symmetric. It costs O(1), and nothing is spent on exchanging two items that nobody visited.

The scale alpha moves on the grid of `rank_laws.py`: Gibbs within a window of neighbouring points, laid at random
over the present one. Each of the windows that hold it is equally likely, and the same window was as likely from
whatever point of it is drawn next, so drawing within the window in proportion to the posterior leaves the
posterior unchanged. A window is far wider than the posterior of a taste with visits, and only laws in its reach
need be computed. Without visits the posterior is the prior, and no law is needed.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.variates import draw_from_logs
from bmcd.mallows.latent.scan import REORDER
from bmcd.rng import uniform, uniform_below

# How many gaps are on the list, all equally likely.
GAPS = 256


@numba.njit(cache=True, nogil=True)
def list_of_gaps(n):
    """GAPS gaps between 1 and n - 1, evenly spread over their logarithms; a swap takes one of them."""
    out = np.empty(GAPS, np.int64)
    for i in range(GAPS):
        out[i] = max(min(int(math.exp((i + 0.5) / GAPS * math.log(n))), n - 1), 1)
    return out


@numba.njit(cache=True, nogil=True)
def draw_swap(stream, gaps, n_visited):
    """Which visited item moves, and by how many ranks, up (negative) or down. One random number does for all."""
    x = uniform(stream) * n_visited
    which = int(x)
    y = (x - which) * (2 * gaps.size)
    gap = gaps[int(y) // 2]
    return which, gap if int(y) % 2 == 0 else -gap


@numba.njit(cache=True, nogil=True)
def swap_change(counts, log_law, item_at, r, s):
    """Change of the log posterior if the items at these ranks (from 0) are exchanged."""
    return (counts[item_at[r]] - counts[item_at[s]]) * (log_law[s] - log_law[r])


@numba.njit(cache=True, nogil=True)
def swap_pass(stream, counts, log_law, item_at, visited, gaps, n_proposals):
    """Metropolis swaps; one that would leave the ranks changes nothing. Returns how many were taken."""
    n = item_at.size
    rank_of = np.empty(n, np.int64)
    for r in range(n):
        rank_of[item_at[r]] = r
    taken = 0
    for _ in range(n_proposals):
        which, shift = draw_swap(stream, gaps, visited.size)
        item = visited[which]
        r = rank_of[item]
        s = r + shift
        if s < 0 or s >= n:
            continue
        change = swap_change(counts, log_law, item_at, r, s)
        if change >= 0.0 or uniform(stream) < math.exp(change):
            other = item_at[s]
            item_at[r], item_at[s] = other, item
            rank_of[other], rank_of[item] = r, s
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
def update_consensus(stream, counts, log_law, item_at, gaps, swaps):
    """Shuffle, then propose ``swaps`` swaps for each visited item. Returns how many were proposed and taken."""
    shuffle_unvisited(stream, counts, item_at, np.empty(item_at.size, np.int64))
    visited = np.flatnonzero(counts)
    n_proposals = swaps * visited.size if item_at.size > 1 else 0
    return n_proposals, swap_pass(stream, counts, log_law, item_at, visited, gaps, n_proposals)


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def log_posterior(counts_at, log_law, log_prior):
    """Log posterior of one alpha, up to a constant; counts_at[r] are the visits of the item at rank r + 1."""
    total = 0.0
    for r in range(counts_at.size):
        total += counts_at[r] * log_law[r]
    return total + log_prior


@numba.njit(cache=True, nogil=True)
def draw_window(stream, index, window, size):
    """The first point of a window that holds ``index``, and the one after its last; cut off at the grid's ends."""
    first = index - uniform_below(stream, window)
    return max(first, 0), min(first + window, size)


@numba.njit(cache=True, nogil=True)
def update_scale(stream, index, counts_at, log_law, log_prior, window):
    """The next point of the grid. All laws closer to ``index`` than ``window`` must have been made."""
    last = counts_at.size
    while last > 0 and counts_at[last - 1] == 0.0:
        last -= 1
    if last == 0:
        return draw_from_logs(stream, log_prior)
    first, end = draw_window(stream, index, window, log_prior.size)
    log_weights = np.empty(end - first)
    for g in range(first, end):
        log_weights[g - first] = log_posterior(counts_at[:last], log_law[g], log_prior[g])
    return first + draw_from_logs(stream, log_weights)
