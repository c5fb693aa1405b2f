"""What draws of (rho, alpha, tau) say of the clicks they are of: likelihoods, labels, and clicks like them."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.rng_streams import REPLICATE
from bmcd.mallows.latent.redraw import sample_user
from bmcd.mallows.latent.scan import cluster_tables
from bmcd.mallows.latent.users import log_likelihoods, make_workspace
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
