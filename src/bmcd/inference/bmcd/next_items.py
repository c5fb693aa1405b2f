"""What draws of (rho, alpha, tau) give for clicks, with labels and latent rankings summed out.

Likelihoods and labels of all users, replicated clicks, and the probabilities of the next items.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.inference.bmcd.labels import clicks_at, power_of, score_table
from bmcd.inference.rng_streams import REPLICATE
from bmcd.mallows.latent.likelihood import log_likelihood_user
from bmcd.mallows.latent.redraw import sample_user
from bmcd.mallows.latent.scan import ClusterTables, SharedTables, cluster_tables
from bmcd.mallows.latent.top import top_probabilities_user, top_probabilities_within
from bmcd.mallows.latent.users import clicked_positions, log_likelihoods, make_workspace
from bmcd.rng import STREAM_SIZE, open_stream, uniform


@numba.njit(cache=True, nogil=True)
def marginals_of_draw(data, rho, alpha, tau, shared, log_p, weight):
    """Set log_p[j] = log P(A_j | rho, alpha, tau), weight[j, c] = P(z_j = c | A_j, rho, alpha, tau) of every user.

    Labels and latent rankings are summed out.
    """
    n_users, n_clusters = log_p.size, tau.size
    users, values = np.arange(n_users), np.empty((n_clusters, n_users))
    for c in range(n_clusters):
        log_likelihoods(users, data, rho[c], shared, cluster_tables(shared, alpha[c]), values[c])
        values[c] += math.log(tau[c]) if tau[c] > 0.0 else -math.inf
    for user in range(n_users):
        largest, total = values[:, user].max(), 0.0
        for c in range(n_clusters):
            weight[user, c] = math.exp(values[c, user] - largest)
            total += weight[user, c]
        for c in range(n_clusters):
            weight[user, c] /= total
        log_p[user] = largest + math.log(total)


@numba.njit(cache=True, nogil=True)
def replicated_counts(n_clicked, rho, alpha, shared, weight, key, chain, draw, counts):
    """Add to counts[item] the clicks of one replicate of all users: as many of each as there were.

    A user's label is drawn from ``weight`` and the ranking from the cluster's Mallows model; its first
    n_clicked[user] items are clicked.
    """
    n_users, n_clusters = weight.shape
    n = rho.shape[1]
    labels = np.empty(n_users, np.int64)
    stream = np.empty(STREAM_SIZE, np.uint64)
    for user in range(n_users):
        open_stream(stream, key, chain, draw, user, REPLICATE)
        u, label = uniform(stream), 0
        while label < n_clusters - 1 and u >= weight[user, label]:
            u -= weight[user, label]
            label += 1
        labels[user] = label
    work, nothing = make_workspace(shared, n + 1, 0), np.empty(0, np.int64)
    for c in range(n_clusters):
        cluster = cluster_tables(shared, alpha[c])
        for user in range(n_users):
            if labels[user] == c and n_clicked[user] > 0:
                open_stream(stream, key, chain, draw, user, REPLICATE + 1)
                sample_user(nothing, shared, cluster, work, stream)
                for item in range(n):
                    if work.ranks[rho[c, item] - 1] <= n_clicked[user]:
                        counts[item] += 1


# The clusters that are left out of a draw together hold at most this share of the user. That changes no probability
# by more than this (on eshop, 17 clusters, by at most 0.0003, and by 0.00002 on average of those above 0.01, where
# the Monte Carlo error is 0.008 on average), and saves a quarter of the scans.
LEFT_OUT = 1e-3
# A cluster is left out unseen if it would be even if its log-likelihood exceeded what is about its most (see
# `log_scores`) by this more than that of any cluster looked at does. It exceeded it by up to 1.8 for users who fit
# a cluster and for users who fit none, with 8 to 150 items and alpha from 0.02 to 200. So it is of users with few
# clicks:
MARGIN = 3.0
# of those with more than this share of the items, for whom scores may be off by 50, every cluster is looked at.
SCORED = 0.25
# A scan stops where the items to come are among the next k with less than this in all.
REST = 1e-6


class StackedTables(NamedTuple):
    """The `ClusterTables` of several clusters, stacked: their axes come last, those of draw and cluster first."""

    beta: NDArray[np.float64]
    decay: NDArray[np.float64]
    finish: NDArray[np.float64]
    finish_scale: NDArray[np.float64]
    log_z: NDArray[np.float64]


class ScoreTables(NamedTuple):
    """What `labels.score_table` returns, for several powers and draws. No powers: every cluster is looked at."""

    log_odds: NDArray[np.float32]  # [power, draw, item, cluster]
    base: NDArray[np.float64]  # [power, draw, cluster]


def score_tables(n_powers: int, n_draws: int, n_items: int, n_clusters: int) -> ScoreTables:
    """Return room for the scores, to be filled by `fill_scores`."""
    return ScoreTables(
        np.empty((n_powers, n_draws, n_items, n_clusters), np.float32), np.empty((n_powers, n_draws, n_clusters))
    )


@numba.njit(cache=True, nogil=True)
def fill_scores(powers, rho, alpha, kept, shared, s, scores):
    """Fill in the scores of draw s for ``powers``."""
    n_clusters, n = rho.shape[1:]
    work = make_workspace(shared, n + 1, n + 1)
    tables, by_position = tables_of_draw(shared, alpha, kept, s), np.empty(n)
    for c in range(n_clusters):
        cluster = cluster_of(tables, c)
        for power in powers:
            scores.base[power, s, c] = score_table(power, shared, cluster, work, by_position)
            for item in range(n):
                scores.log_odds[power, s, item, c] = by_position[rho[s, c, item] - 1]


@numba.njit(cache=True, nogil=True)
def _fill(shared, alpha, beta, decay, finish, finish_scale, log_z):
    for c in range(alpha.size):
        beta[c], decay[c], finish[c], finish_scale[c], log_z[c] = cluster_tables(shared, alpha[c])


def keep_tables(shared: SharedTables, alpha: NDArray[np.float64], n_kept: int) -> StackedTables:
    """Return the tables of the first ``n_kept`` draws of alpha[draw, cluster]: O(n^2) each in time and in memory.

    NumPy allocates them, because it asks for large pages: scattered reads in hundreds of megabytes are faster then.
    """
    shape = (n_kept, alpha.shape[1])
    n, width = shared.gaps.size, shared.twice.size
    kept = StackedTables(
        np.empty(shape),
        np.empty((*shape, shared.gap_values.size, width)),
        np.empty((*shape, n + 1, width + 1)),
        np.empty((*shape, n + 1)),
        np.empty(shape),
    )
    for s in range(n_kept):
        _fill(shared, alpha[s], *(table[s] for table in kept))
    return kept


@numba.njit(cache=True, nogil=True)
def tables_of_draw(shared, alpha, kept, s):
    """Return the tables of draw s, out of those kept or made now."""
    if s < kept.beta.shape[0]:
        return StackedTables(kept.beta[s], kept.decay[s], kept.finish[s], kept.finish_scale[s], kept.log_z[s])
    n_clusters, n, width = alpha.shape[1], shared.gaps.size, shared.twice.size
    beta, log_z, finish_scale = np.empty(n_clusters), np.empty(n_clusters), np.empty((n_clusters, n + 1))
    decay = np.empty((n_clusters, shared.gap_values.size, width))
    finish = np.empty((n_clusters, n + 1, width + 1))
    _fill(shared, alpha[s], beta, decay, finish, finish_scale, log_z)
    return StackedTables(beta, decay, finish, finish_scale, log_z)


@numba.njit(cache=True, nogil=True)
def cluster_of(tables, c):
    """Return the tables of one cluster."""
    return ClusterTables(tables.beta[c], tables.decay[c], tables.finish[c], tables.finish_scale[c], tables.log_z[c])


@numba.njit(cache=True, nogil=True)
def is_scored(n_clicked, scores):
    """Return whether the scores are good enough for this number of clicks."""
    return 0 < n_clicked <= SCORED * scores.log_odds.shape[2] and scores.base.shape[0] > 0


@numba.njit(cache=True, nogil=True)
def log_scores(user, data, s, scores, out, upper):
    """Set out[c] to the score of cluster c for the user's clicks in draw s. Returns whether there is one.

    upper[c] is about the most that the log-likelihood can be. The score takes clicks for independent. So it counts
    twice that a sure item was not clicked and that another was in its place: upper[c] is larger by the sum of
    -log(1 - p) - p over all items, which is next to nothing where no item is sure.
    """
    first, last = data.user_start[user], data.user_start[user + 1]
    out[:] = 0.0
    upper[:] = 0.0
    if not is_scored(last - first, scores):
        return False
    power = power_of(last - first)
    expected = clicks_at(power, scores.log_odds.shape[2])
    for i in range(first, last):
        added = scores.log_odds[power, s, data.user_items[i]]
        for c in range(out.size):
            out[c] += added[c]
    for c in range(out.size):
        out[c] += scores.base[power, s, c]
        upper[c] = out[c] - scores.base[power, s, c] - expected
    return True


@numba.njit(cache=True, nogil=True)
def add_draw(
    user, s, data, rho, tau, tables, shared, scores, k, left_out, room, work, probability, mean_rank, weight
):
    """Add one draw's predictions for one user; set weight[c] = P(z = c | clicks), the latent ranking summed out.

    With k = 0 nothing but ``weight`` is set.
    Clusters are taken in the order of tau_c exp(score). Those that are sure to hold, with what was left out before,
    at most ``left_out`` of the user are left out; once that is so of all further ones, the rest are left unseen.
    ``room`` is room to work in.
    """
    log_prior, score, upper, tail, order = room[0][0], room[0][1], room[0][2], room[0][3], room[1]
    sums = room[2]
    n_clusters, n = rho.shape
    scored = log_scores(user, data, s, scores, score, upper)
    for c in range(n_clusters):
        log_prior[c] = math.log(tau[c]) if tau[c] > 0.0 else -math.inf
        weight[c] = 0.0
    _descending(log_prior + score, order)
    most = (log_prior + upper).max()
    tail[n_clusters - 1] = 0.0
    for i in range(n_clusters - 1, 0, -1):  # tail[i]: about the most that all after the i-th can weigh
        tail[i - 1] = tail[i] + math.exp(log_prior[order[i]] + upper[order[i]] - most)
    if k > 0:
        sums[:] = 0.0
    unit, total, dropped, gap = 0.0, 0.0, 0.0, 0.0
    for i in range(n_clusters):
        c = order[i]
        if log_prior[c] == -math.inf:
            break
        cluster, ranks = cluster_of(tables, c), rho[c]
        clicked = clicked_positions(user, data, ranks, work.clicked)
        log_p = log_likelihood_user(clicked, shared, cluster, work.message, work.next_message, work.windows)
        gap = max(gap, log_p - upper[c])
        log_weight = log_prior[c] + log_p
        if total == 0.0:
            unit = log_weight
        elif log_weight > unit:  # weights are in units of the largest
            shrink = math.exp(unit - log_weight)
            unit, total, dropped = log_weight, total * shrink, dropped * shrink
            weight *= shrink
            sums *= shrink
        w = math.exp(log_weight - unit)
        if dropped + w <= left_out * total:
            dropped += w
        else:
            weight[c] = w
            total += w
            if k > 0:
                top_probabilities_within(clicked, k, shared, cluster, REST, work)
                for item in range(n):
                    sums[0, item] += w * work.probability[ranks[item] - 1]
                    sums[1, item] += w * ranks[item]
        if scored and dropped + tail[i] * math.exp(min(most + gap + MARGIN - unit, 700.0)) <= left_out * total:
            break
    weight /= total
    if k > 0:
        for item in range(n):
            probability[item] += sums[0, item] / total
            mean_rank[item] += sums[1, item] / total


@numba.njit(cache=True, nogil=True)
def _descending(values, order):
    """Set ``order`` to the places of the values, largest first, equal ones in their order."""
    for i in range(values.size):
        j = i
        while j > 0 and values[order[j - 1]] < values[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@numba.njit(cache=True, nogil=True)
def add_predictions(
    users, data, rho, alpha, tau, kept, shared, scores, k, left_out, first, last, probability, mean_rank, weight
):
    """Add up the predictions of the draws first, ..., last - 1 for ``users``.

    probability[i, item] += P(item among the next k of users[i]);
    mean_rank[i, item] += the consensus rank of the item, mean over the clusters to which the user may belong;
    weight[draw, i, c] = P(users[i] belongs to cluster c).
    With k = 0 nothing but ``weight`` is set.
    """
    n_clusters, n = rho.shape[1:]
    work = make_workspace(shared, n + 1, k + 1)
    room = (np.empty((4, n_clusters)), np.empty(n_clusters, np.int64), np.empty((2, n)))
    for s in range(first, last):
        tables = tables_of_draw(shared, alpha, kept, s)
        for i in range(users.size):
            row = i if k > 0 else 0
            add_draw(
                users[i], s, data, rho[s], tau[s], tables, shared, scores, k, left_out, room, work,
                probability[row], mean_rank[row], weight[s, i],
            )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def probability_by_cluster(user, item, data, rho, alpha, shared, k, weight, out):
    """Set out[draw, c] = P(item among the user's next k | the user belongs to c), where ``weight`` is not 0."""
    n_draws, n_clusters, n = rho.shape
    work = make_workspace(shared, n + 1, k + 1)
    for s in range(n_draws):
        for c in range(n_clusters):
            if weight[s, c] > 0.0:
                clicked = clicked_positions(user, data, rho[s, c], work.clicked)
                top_probabilities_user(clicked, k, shared, cluster_tables(shared, alpha[s, c]), work)
                out[s, c] = work.probability[rho[s, c, item] - 1]
