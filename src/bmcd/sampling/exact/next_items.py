"""Probabilities of the next items given draws of (rho, alpha, tau), with labels and latent rankings summed out."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.mallows.latent.scan import ClusterTables, SharedTables, cluster_tables
from bmcd.mallows.latent.top import top_probabilities_user
from bmcd.mallows.latent.users import clicked_positions, log_likelihoods
from bmcd.mallows.latent.workspace import make_workspace

# Clusters to which a user belongs with less than this in a draw are left out of it. That changes no probability by
# more than this times the number of clusters (on eshop with 17 clusters: by 3e-6, where the Monte Carlo error is
# 1e-2) and saves a third of the time.
NEGLIGIBLE = 1e-5


class StackedTables(NamedTuple):
    """The `ClusterTables` of several clusters, stacked: its own axes come last, those of draw and cluster first."""

    beta: NDArray[np.float64]
    decay: NDArray[np.float64]
    finish: NDArray[np.float64]
    finish_scale: NDArray[np.float64]
    log_z: NDArray[np.float64]


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
def responsibilities(users, data, rho, tau, tables, shared, cutoff, log_p, out):
    """Set out[i, c] = P(z = c | clicks of users[i], rho, alpha, tau), the latent ranking summed out.

    Clusters to which a user belongs with a probability below ``cutoff`` are left out and the others scaled up,
    which changes a probability by less than the number of clusters times ``cutoff``.
    """
    n_clusters = tau.size
    for c in range(n_clusters):
        log_likelihoods(users, data, rho[c], shared, cluster_of(tables, c), log_p[c])
    for i in range(users.size):
        largest = -math.inf
        for c in range(n_clusters):
            out[i, c] = math.log(tau[c]) + log_p[c, i] if tau[c] > 0.0 else -math.inf
            largest = max(largest, out[i, c])
        total = 0.0
        for c in range(n_clusters):
            out[i, c] = math.exp(out[i, c] - largest)
            total += out[i, c]
        kept = 0.0
        for c in range(n_clusters):
            out[i, c] = out[i, c] / total if out[i, c] >= cutoff * total else 0.0
            kept += out[i, c]
        for c in range(n_clusters):
            out[i, c] /= kept


@numba.njit(cache=True, nogil=True)
def label_probabilities(users, data, rho, alpha, tau, kept, shared, cutoff, first, last, weight):
    """Set weight[draw, i, c] = P(users[i] belongs to cluster c) as `add_predictions` does, and nothing else."""
    log_p = np.empty((rho.shape[1], users.size))
    for s in range(first, last):
        tables = tables_of_draw(shared, alpha, kept, s)
        responsibilities(users, data, rho[s], tau[s], tables, shared, cutoff, log_p, weight[s])


@numba.njit(cache=True, nogil=True)
def add_predictions(
    users, data, rho, alpha, tau, kept, shared, k, cutoff, first, last, probability, mean_rank, weight
):
    """Add up what the draws first, ..., last - 1 say of ``users``.

    probability[i, item] += P(item among the next k of users[i]);
    mean_rank[i, item] += the consensus rank of the item, mean over the clusters to which the user may belong;
    weight[draw, i, c] = P(users[i] belongs to cluster c).
    """
    n_clusters, n = rho.shape[1:]
    work = make_workspace(shared, n + 1, k + 1)
    log_p = np.empty((n_clusters, users.size))
    for s in range(first, last):
        tables = tables_of_draw(shared, alpha, kept, s)
        responsibilities(users, data, rho[s], tau[s], tables, shared, cutoff, log_p, weight[s])
        for c in range(n_clusters):
            cluster, ranks = cluster_of(tables, c), rho[s, c]
            for i in range(users.size):
                w = weight[s, i, c]
                if w > 0.0:
                    clicked = clicked_positions(users[i], data, ranks, work.clicked)
                    top_probabilities_user(clicked, k, shared, cluster, work)
                    for item in range(n):
                        probability[i, item] += w * work.probability[ranks[item] - 1]
                        mean_rank[i, item] += w * ranks[item]


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
