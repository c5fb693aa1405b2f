"""Probabilities of the next items given a draw of (rho, alpha, tau), with labels and latent rankings summed out."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.kernels.labels import likelihoods
from bmcd.mallows.scan import cluster_tables
from bmcd.mallows.scan_top import top_probabilities_user
from bmcd.mallows.scan_users import sorted_positions


@numba.njit(cache=True, nogil=True)
def responsibilities(users, data, rho, tau, tables, shared, out):
    """out[i, c] = P(z = c | clicks of users[i], rho, alpha, tau), the latent ranking summed out."""
    n_clusters = tau.size
    log_p = np.empty((n_clusters, users.size))
    for c in range(n_clusters):
        likelihoods(users, data, rho[c], shared, tables[c], log_p[c])
    for i in range(users.size):
        largest = -math.inf
        for c in range(n_clusters):
            out[i, c] = math.log(tau[c]) + log_p[c, i]
            largest = max(largest, out[i, c])
        total = 0.0
        for c in range(n_clusters):
            out[i, c] = math.exp(out[i, c] - largest)
            total += out[i, c]
        for c in range(n_clusters):
            out[i, c] /= total


@numba.njit(cache=True, nogil=True)
def add_probabilities(users, data, rho, alpha, tau, shared, k, cutoff, out):
    """out[i, item] += P(item among the next k of users[i]) under this draw.

    Clusters to which a user belongs with a probability below ``cutoff`` are left out and the others scaled up,
    which changes a probability by less than the number of clusters times ``cutoff``.
    """
    n_clusters, n = rho.shape
    tables = [cluster_tables(shared, a) for a in alpha]
    weight = np.empty((users.size, n_clusters))
    responsibilities(users, data, rho, tau, tables, shared, weight)
    for i in range(users.size):
        total = 0.0
        for c in range(n_clusters):
            if weight[i, c] < cutoff:
                weight[i, c] = 0.0
            total += weight[i, c]
        for c in range(n_clusters):
            weight[i, c] /= total
    width = tables[0].finish.shape[1]
    x, y = np.zeros(width + 3), np.zeros(width + 3)
    rows, scales = np.empty((n + 1, width)), np.empty(n + 1)
    forward, forward_scales = np.empty((k + 1, width)), np.empty(k + 1)
    buffer, by_position = np.empty(n, np.int64), np.empty(n)
    for c in range(n_clusters):
        for i in range(users.size):
            w = weight[i, c]
            if w > 0.0:
                items = data.user_items[data.user_start[users[i]] : data.user_start[users[i] + 1]]
                clicked = sorted_positions(items, rho[c], buffer)
                top_probabilities_user(
                    clicked, n, k, shared, tables[c], rows, scales, forward, forward_scales, x, y, by_position
                )
                for item in range(n):
                    out[i, item] += w * by_position[rho[c, item] - 1]
