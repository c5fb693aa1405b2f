"""Parallel loops over users: each user is computed alone, so the number of threads changes nothing.

Users are taken in blocks that share one set of buffers, so memory beyond the result is that of one block
per thread: about 4 n^2 bytes for the completions.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba
import numpy as np

from bmcd.mallows.latent.likelihood import log_likelihood_user
from bmcd.mallows.latent.redraw import sample_user
from bmcd.mallows.latent.top import top_probabilities_user
from bmcd.system.streams import STREAM_SIZE, open_stream

BLOCK = 32


@numba.njit(cache=True)
def sorted_positions(indices, rho, buffer):
    """Consensus positions of a user's clicked items, ascending. Short lists: insertion is fastest."""
    for i in range(indices.size):
        position = rho[indices[i]]
        j = i
        while j > 0 and buffer[j - 1] > position:
            buffer[j] = buffer[j - 1]
            j -= 1
        buffer[j] = position
    return buffer[: indices.size]


@numba.njit(cache=True, parallel=True)
def log_likelihoods(indptr, indices, rho, shared, cluster, out):
    """out[user] = log P(clicks of the user | rho, alpha)."""
    n_users, n = indptr.size - 1, rho.size
    for block in numba.prange((n_users + BLOCK - 1) // BLOCK):
        x, y = np.zeros(cluster.finish.shape[1] + 3), np.zeros(cluster.finish.shape[1] + 3)
        buffer = np.empty(n, np.int64)
        for user in range(block * BLOCK, min((block + 1) * BLOCK, n_users)):
            clicked = sorted_positions(indices[indptr[user] : indptr[user + 1]], rho, buffer)
            out[user] = log_likelihood_user(clicked, n, shared, cluster, x, y)


@numba.njit(cache=True, parallel=True)
def top_probabilities(indptr, indices, rho, k, shared, cluster, out):
    """out[user, item] = P(rank <= clicks + k | clicks, rho, alpha), 0 for clicked items."""
    n_users, n = indptr.size - 1, rho.size
    width = cluster.finish.shape[1]
    for block in numba.prange((n_users + BLOCK - 1) // BLOCK):
        x, y = np.zeros(width + 3), np.zeros(width + 3)
        rows, scales = np.empty((n + 1, width)), np.empty(n + 1)
        forward, forward_scales = np.empty((min(k, n) + 1, width)), np.empty(min(k, n) + 1)
        buffer, by_position = np.empty(n, np.int64), np.empty(n)
        for user in range(block * BLOCK, min((block + 1) * BLOCK, n_users)):
            clicked = sorted_positions(indices[indptr[user] : indptr[user + 1]], rho, buffer)
            top_probabilities_user(
                clicked, n, k, shared, cluster, rows, scales, forward, forward_scales, x, y, by_position
            )
            for item in range(n):
                out[user, item] = by_position[rho[item] - 1]


@numba.njit(cache=True, parallel=True)
def sample_rankings(indptr, indices, users, rho, shared, cluster, key, out):
    """out[user] = a draw of the latent ranking of each of ``users``, all of whom belong to this cluster."""
    n = rho.size
    width = cluster.finish.shape[1]
    for block in numba.prange((users.size + BLOCK - 1) // BLOCK):
        rows, scales = np.empty((n + 1, width)), np.empty(n + 1)
        partners, by_position = np.empty((4, n), np.int64), np.empty(n, np.int64)
        buffer, stream = np.empty(n, np.int64), np.empty(STREAM_SIZE, np.uint64)
        for i in range(block * BLOCK, min((block + 1) * BLOCK, users.size)):
            user = users[i]
            clicked = sorted_positions(indices[indptr[user] : indptr[user + 1]], rho, buffer)
            open_stream(stream, key, 0, 0, user, 0)
            sample_user(clicked, n, shared, cluster, rows, scales, partners, by_position, stream)
            for item in range(n):
                out[user, item] = by_position[rho[item] - 1]
