"""The draws of Pseudo-Mallows: a ranking item by item, in a V-shaped order, each among the ranks that are left."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.bmcd.consensus import cost_matrix, invert, shuffle
from bmcd.inference.bmcd.labels import group_by_label, update_labels
from bmcd.inference.bmcd.sampler import update_tau
from bmcd.mallows.latent.scan import cluster_tables
from bmcd.rng import STREAM_SIZE, open_stream, uniform, uniform_below

# Which random stream a draw uses; those of the package's moves are smaller.
CONSENSUS, RANKINGS = 200, 201
# A weight of exp(-600) is as good as none, and a sum of such weights is still not 0.
FARTHEST = 600.0
# Of more than FEW ranks left, one is sought by so many tries before all weights are added up.
FEW, TRIES = 8, 6


@numba.njit(cache=True, nogil=True)
def v_order(stream, size, order):
    """Set order[:size] to the places 0, ..., size - 1 from the middle outwards.

    Of two places that are equally far from the middle a fair coin says which comes first.
    """
    low, high, at = (size - 1) // 2, size // 2, 0
    if size % 2 == 1:
        order[0] = low
        low, high, at = low - 1, high + 1, 1
    while low >= 0:
        first = uniform(stream) < 0.5
        order[at] = low if first else high
        order[at + 1] = high if first else low
        low, high, at = low - 1, high + 1, at + 2


@numba.njit(cache=True, nogil=True)
def random_order(stream, size, order):
    """Set order[:size] to the places 0, ..., size - 1 in an order of which all are as probable as any other."""
    for i in range(size):
        order[i] = i
    for i in range(size - 1, 0, -1):
        j = uniform_below(stream, i + 1)
        order[i], order[j] = order[j], order[i]


@numba.njit(cache=True, nogil=True)
def draw_consensus(stream, cost, by_mean_rank, beta, rho):
    """Draw rho (ranks from 1), item by item: P(r) is proportional to exp(-beta cost[item, r]) over those left.

    ``by_mean_rank`` are the items by the mean of their ranks in the rankings that the cost is of; they have their
    turns in the V-shaped order of it. Ranks of the cost are from 0.
    """
    n = rho.size
    order, left, weight = np.empty(n, np.int64), np.arange(n), np.empty(n)
    v_order(stream, n, order)
    for turn in range(n):
        item, n_left = by_mean_rank[order[turn]], n - turn
        least = math.inf
        for i in range(n_left):
            least = min(least, cost[item, left[i]])
        total = 0.0
        for i in range(n_left):
            weight[i] = math.exp(-beta * (cost[item, left[i]] - least))
            total += weight[i]
        u, place = uniform(stream) * total, 0
        while place < n_left - 1 and u >= weight[place]:
            u -= weight[place]
            place += 1
        rho[item] = left[place] + 1
        for i in range(place, n_left - 1):
            left[i] = left[i + 1]


@numba.njit(cache=True, nogil=True)
def draw_block(stream, items, size, first, rho, power, v_shaped, ranks, order, left):
    """Draw the ranks of items[:size], sorted by rho, among first, ..., first + size - 1 (from 0), into ``ranks``.

    P(r) is proportional to power[|r - rho|] = exp(-beta |r - rho|) over the ranks left, item by item, in a V-shaped
    order of the block or in any order.
    """
    if v_shaped:
        v_order(stream, size, order)
    else:
        random_order(stream, size, order)
    for i in range(size):
        left[i] = first + i
    for turn in range(size):
        item, n_left = items[order[turn]], size - turn
        place = draw_place(stream, left, n_left, rho[item] - 1, power)
        ranks[item] = left[place] + 1
        left[place] = left[n_left - 1]


@numba.njit(cache=True, nogil=True)
def draw_place(stream, left, n_left, centre, power):
    """Draw a place of left[:n_left] with probability in proportion to power[|left - centre|], the largest being 1.

    Rejection takes a few tries where many ranks are left and alpha is small. If they fail, or for few ranks, the
    weights are added up; both have the same law, so that it does not matter which was used.
    """
    if n_left > FEW:
        for _ in range(TRIES):
            place = uniform_below(stream, n_left)
            if uniform(stream) < power[abs(left[place] - centre)]:
                return place
    total = 0.0
    for i in range(n_left):
        total += power[abs(left[i] - centre)]
    u, place = uniform(stream) * total, 0
    while place < n_left - 1:
        u -= power[abs(left[place] - centre)]
        if u < 0.0:
            break
        place += 1
    return place


@numba.njit(cache=True, nogil=True)
def draw_rankings(members, data, rho, beta, v_shaped, key, chain, sweep, ranks):
    """Draw ranks[user] of the members: the clicked items over the first ranks, the others over the rest."""
    n = rho.size
    stream = np.empty(STREAM_SIZE, np.uint64)
    item_at, order, left = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    invert(rho, item_at)
    power = np.exp(-np.minimum(beta * np.arange(n), FARTHEST))
    is_clicked, clicked, others = np.zeros(n, np.bool_), np.empty(n, np.int64), np.empty(n, np.int64)
    for user in members:
        mine = data.user_items[data.user_start[user] : data.user_start[user + 1]]
        is_clicked[mine] = True
        n_clicked, n_others = 0, 0
        for item in item_at:
            if is_clicked[item]:
                clicked[n_clicked] = item
                n_clicked += 1
            else:
                others[n_others] = item
                n_others += 1
        is_clicked[mine] = False
        open_stream(stream, key, chain, sweep, user, RANKINGS)
        row = ranks[user]
        draw_block(stream, clicked, n_clicked, 0, rho, power, v_shaped, row, order, left)
        draw_block(stream, others, n_others, n_clicked, rho, power, v_shaped, row, order, left)


@numba.njit(cache=True, nogil=True)
def pseudo_sweep(state, data, shared, concentration, v_shaped, key, chain, sweep):
    """Do one sweep with alpha fixed: change ``state`` in place, return what `SweepInfo` holds.

    Labels move by the exact likelihood of the clicks and tau by Gibbs, as in the exact sampler. Then, cluster by
    cluster, the users' rankings are drawn given rho, and rho given the rankings, both by Pseudo-Mallows.
    """
    n_clusters, n = state.rho.shape
    stream = np.empty(STREAM_SIZE, np.uint64)
    tables = [cluster_tables(shared, alpha) for alpha in state.alpha]
    if n_clusters > 1:
        update_labels(state, data, shared, tables, key, chain, sweep)
    users, start = group_by_label(state.labels, n_clusters)
    counts = np.diff(start)
    update_tau(state.tau, counts, concentration, key, chain, sweep)
    within, log_joint = 0.0, (concentration - 1.0) * np.log(state.tau).sum()
    for c in range(n_clusters):
        members, rho, beta = users[start[c] : start[c + 1]], state.rho[c], state.alpha[c] / n
        open_stream(stream, key, chain, sweep, c, CONSENSUS)
        if members.size == 0:
            shuffle(stream, rho)
            continue
        draw_rankings(members, data, rho, beta, v_shaped, key, chain, sweep, state.ranks)
        cost = cost_matrix(state.ranks, members, data.scale)
        rank_sums = np.zeros(n)
        for user in members:
            rank_sums += state.ranks[user]
        draw_consensus(stream, cost, np.argsort(rank_sums, kind="mergesort"), beta, rho)
        distance = 0.0
        for item in range(n):
            distance += cost[item, rho[item] - 1]
        within += distance
        log_joint += members.size * (math.log(state.tau[c]) - tables[c].log_z) - beta * distance
    return log_joint, within, counts
