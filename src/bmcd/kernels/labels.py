"""The label move: z_j with R_j summed out, so that no user sticks to the cluster that R_j has adapted to."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba
import numpy as np

from bmcd.kernels.purposes import LABELS
from bmcd.kernels.variates import draw_from_logs
from bmcd.mallows.scan_likelihood import log_likelihood_user
from bmcd.mallows.scan_users import sorted_positions
from bmcd.streams import STREAM_SIZE, open_stream


@numba.njit(cache=True, nogil=True)
def likelihoods(users, data, rho, shared, cluster, out):
    """out[i] = log P(clicks of users[i] | rho, alpha of this cluster), latent ranking summed out."""
    n = rho.size
    x, y = np.zeros(cluster.finish.shape[1] + 3), np.zeros(cluster.finish.shape[1] + 3)
    buffer = np.empty(n, np.int64)
    for i in range(users.size):
        items = data.user_items[data.user_start[users[i]] : data.user_start[users[i] + 1]]
        clicked = sorted_positions(items, rho, buffer)
        out[i] = log_likelihood_user(clicked, n, shared, cluster, x, y)


@numba.njit(cache=True, nogil=True)
def update_labels(state, data, shared, tables, key, chain, sweep):
    """Gibbs: P(z_j = c | everything but R_j) is proportional to tau_c P(A_j | rho_c, alpha_c).

    Returns log P(A_j | rho_c, alpha_c), clusters x users.
    """
    n_users, n_clusters = state.labels.size, state.alpha.size
    everyone = np.arange(n_users)
    log_p = np.empty((n_clusters, n_users))
    for c in range(n_clusters):
        likelihoods(everyone, data, state.rho[c], shared, tables[c], log_p[c])
    log_tau = np.log(state.tau)
    stream = np.empty(STREAM_SIZE, np.uint64)
    weights = np.empty(n_clusters)
    for user in range(n_users):
        for c in range(n_clusters):
            weights[c] = log_tau[c] + log_p[c, user]
        open_stream(stream, key, chain, sweep, user, LABELS)
        state.labels[user] = draw_from_logs(stream, weights)
    return log_p


@numba.njit(cache=True, nogil=True)
def group_by_label(labels, n_clusters):
    """Users sorted by cluster, and where each cluster begins: members of c are users[start[c] : start[c + 1]]."""
    start = np.zeros(n_clusters + 1, np.int64)
    for user in range(labels.size):
        start[labels[user] + 1] += 1
    for c in range(n_clusters):
        start[c + 1] += start[c]
    users, place = np.empty(labels.size, np.int64), start.copy()
    for user in range(labels.size):
        users[place[labels[user]]] = user
        place[labels[user]] += 1
    return users, start
