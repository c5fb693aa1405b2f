"""Move a cluster's consensus rho_c given the latent rankings: by swaps on a cost matrix, and by joint relabelling.

Both moves propose to exchange the items at two consensus ranks. The gap between the ranks is log-uniform on 1..n-1,
so that near and far exchanges both get their share. The pair of ranks is the same before and after the exchange, so
the proposal is symmetric.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.rng import uniform, uniform_below


@numba.njit(cache=True, nogil=True)
def invert(rho, item_at):
    """Set item_at[r - 1] to the item with consensus rank r."""
    for item in range(rho.size):
        item_at[rho[item] - 1] = item


@numba.njit(cache=True, nogil=True)
def draw_rank_pair(stream, n):
    """Draw two ranks (from 0), low < high, with a log-uniform gap."""
    gap = min(int(math.exp(uniform(stream) * math.log(n))), n - 1)
    low = uniform_below(stream, n - gap)
    return low, low + gap


@numba.njit(cache=True, nogil=True)
def cost_matrix(ranks, members, scale):
    """Return cost[item, r] = sum over members of |g(rank of the item) - g(r + 1)|: O(members * n + n^2)."""
    n = scale.size
    cost = np.zeros((n, n))
    for i in range(members.size):
        row = ranks[members[i]]
        for item in range(n):
            cost[item, row[item] - 1] += 1.0
    below = np.empty(n)
    for item in range(n):
        counts = cost[item]
        total_below, number = 0.0, 0.0  # sum of g, and how many, at ranks < r
        total = (counts * scale).sum()
        for r in range(n):
            below[r] = scale[r] * number - total_below + (total - total_below) - scale[r] * (members.size - number)
            total_below += counts[r] * scale[r]
            number += counts[r]
        cost[item] = below
    return cost


@numba.njit(cache=True, nogil=True)
def swap_change(cost, rho, a, b):
    """Return how the cluster's total distance changes if items a and b exchange their consensus ranks."""
    ra, rb = rho[a] - 1, rho[b] - 1
    return cost[a, rb] + cost[b, ra] - cost[a, ra] - cost[b, rb]


@numba.njit(cache=True, nogil=True)
def swap_pass(stream, cost, rho, beta, n_proposals):
    """Do Metropolis swaps of two consensus ranks, each O(1) for any number of users. Returns how many it took."""
    n = rho.size
    if n < 2:
        return 0
    item_at = np.empty(n, np.int64)
    invert(rho, item_at)
    n_accepted = 0
    for _ in range(n_proposals):
        low, high = draw_rank_pair(stream, n)
        a, b = item_at[low], item_at[high]
        change = swap_change(cost, rho, a, b)
        if change <= 0.0 or uniform(stream) < math.exp(-beta * change):
            rho[a], rho[b] = rho[b], rho[a]
            item_at[low], item_at[high] = b, a
            n_accepted += 1
    return n_accepted


class ItemUsers(NamedTuple):
    """Who clicked item i: item_users[item_start[i] : item_start[i + 1]], as in `bmcd.inference.mixture.Data`."""

    item_start: NDArray[np.int64]
    item_users: NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def members_by_item(data, members):
    """Return who of the members clicked each item, in their order."""
    start = np.zeros(data.scale.size + 1, np.int64)
    for user in members:
        for i in range(data.user_start[user], data.user_start[user + 1]):
            start[data.user_items[i] + 1] += 1
    for item in range(data.scale.size):
        start[item + 1] += start[item]
    users, place = np.empty(start[-1], np.int64), start.copy()
    for user in members:
        for i in range(data.user_start[user], data.user_start[user + 1]):
            item = data.user_items[i]
            users[place[item]] = user
            place[item] += 1
    return ItemUsers(start, users)


@numba.njit(cache=True, nogil=True)
def mark_exactly_one(data, a, b, mark):
    """Mark users who clicked exactly one of items a and b; called again, it clears the marks."""
    for item in (a, b):
        for i in range(data.item_start[item], data.item_start[item + 1]):
            mark[data.item_users[i]] = not mark[data.item_users[i]]


@numba.njit(cache=True, nogil=True)
def relabel_change(data, ranks, labels, cluster, rho, scale, a, b, mark):
    """Return how the cluster's total distance changes if a and b exchange places in rho and in R_j of some members.

    Those are the members who clicked both or neither, and their distance stays the same. So only members who
    clicked exactly one of the two count.
    """
    change = 0.0
    ga, gb = scale[rho[a] - 1], scale[rho[b] - 1]
    for item in (a, b):
        for i in range(data.item_start[item], data.item_start[item + 1]):
            user = data.item_users[i]
            if labels[user] == cluster and mark[user]:
                ra, rb = scale[ranks[user, a] - 1], scale[ranks[user, b] - 1]
                change += abs(ra - gb) + abs(rb - ga) - abs(ra - ga) - abs(rb - gb)
    return change


@numba.njit(cache=True, nogil=True)
def relabel_pass(stream, data, ranks, labels, members, cluster, rho, beta, n_proposals, mark):
    """Do Metropolis steps of joint relabelling; return how many proposals were accepted.

    They move the consensus of rarely clicked items as if their latent ranks were summed out. ``mark`` is a scratch
    array of users, all False before and after.
    """
    n = rho.size
    if n < 2:
        return 0
    item_at = np.empty(n, np.int64)
    invert(rho, item_at)
    clickers = members_by_item(data, members)
    n_accepted = 0
    for _ in range(n_proposals):
        low, high = draw_rank_pair(stream, n)
        a, b = item_at[low], item_at[high]
        mark_exactly_one(clickers, a, b, mark)
        change = relabel_change(clickers, ranks, labels, cluster, rho, data.scale, a, b, mark)
        if change <= 0.0 or uniform(stream) < math.exp(-beta * change):
            rho[a], rho[b] = rho[b], rho[a]
            item_at[low], item_at[high] = b, a
            for user in members:
                if not mark[user]:
                    ranks[user, a], ranks[user, b] = ranks[user, b], ranks[user, a]
            n_accepted += 1
        mark_exactly_one(clickers, a, b, mark)
    return n_accepted


@numba.njit(cache=True, nogil=True)
def shuffle(stream, rho):
    """Draw a uniformly random ranking: the consensus of an empty cluster comes from the prior."""
    n = rho.size
    rho[:] = np.arange(1, n + 1)
    for item in range(n - 1, 0, -1):
        other = uniform_below(stream, item + 1)
        rho[item], rho[other] = rho[other], rho[item]
