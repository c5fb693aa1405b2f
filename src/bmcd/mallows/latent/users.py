"""Loops over users for one cluster, and the arrays in which the kernels work on one user.

Memory beyond the result is one `Workspace` a call: 4 n^2 bytes for the completions, which the likelihood does not
need.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.mallows.latent.likelihood import log_likelihood_user
from bmcd.mallows.latent.redraw import sample_user
from bmcd.mallows.latent.top import top_probabilities_user
from bmcd.rng import STREAM_SIZE, open_stream


class Workspace(NamedTuple):
    """Scratch arrays of a kernel. Messages and rows hold cell m at index m + 1, so that cell -1 exists."""

    clicked: NDArray[np.int64]  # consensus positions of the clicked items
    message: NDArray[np.float64]  # of the step before
    next_message: NDArray[np.float64]
    rows: NDArray[np.float64]  # [t, m + 1]: weight of all completions after step t
    row_scales: NDArray[np.float64]  # logarithm of the factor taken out of each row
    windows: NDArray[np.int64]  # [:, t]: first and last cell that matter after step t
    forward: NDArray[np.float64]  # [t - c, m + 1]: messages after steps c, ..., c + k
    forward_scales: NDArray[np.float64]
    probability: NDArray[np.float64]  # a result for each consensus position
    ranks: NDArray[np.int64]  # a result for each consensus position
    waiting: NDArray[np.int64]  # [block and side, i]: items and ranks that are still open


@numba.njit(cache=True, nogil=True)
def make_workspace(shared, n_rows, n_forward):
    """Return a workspace with ``n_rows`` rows of completions and ``n_forward`` forward messages: 4 n bytes each.

    The likelihood needs none of either, a draw needs n + 1 rows, the top-k probabilities need k + 1 forward
    messages besides.
    """
    n, width = shared.gaps.size, shared.twice.size + 1
    return Workspace(
        np.empty(n, np.int64),
        np.zeros(width + 3),
        np.zeros(width + 3),
        np.empty((n_rows, width)),
        np.empty(n_rows),
        np.empty((2, n_rows), np.int64),
        np.empty((n_forward, width)),
        np.empty(n_forward),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty((4, n), np.int64),
    )


class ClickedItems(NamedTuple):
    """The clicked items of user j: user_items[user_start[j] : user_start[j + 1]].

    The kernels take any tuple that has these two fields, such as `bmcd.inference.mixture.Data`.
    """

    user_start: NDArray[np.int64]
    user_items: NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def clicked_positions(user, clicks, rho, buffer):
    """Return the consensus positions of a user's clicked items, ascending. Insertion is fastest for short lists."""
    first, last = clicks.user_start[user], clicks.user_start[user + 1]
    positions = buffer[: last - first]
    for i in range(positions.size):
        position = rho[clicks.user_items[first + i]]
        j = i
        while j > 0 and positions[j - 1] > position:
            positions[j] = positions[j - 1]
            j -= 1
        positions[j] = position
    return positions


@numba.njit(cache=True, nogil=True)
def log_likelihoods(users, clicks, rho, shared, cluster, out):
    """Set out[i] = log P(clicks of users[i] | rho, alpha), with the latent ranking summed out."""
    work = make_workspace(shared, 0, 0)
    x, y = work.message, work.next_message
    for i in range(users.size):
        clicked = clicked_positions(users[i], clicks, rho, work.clicked)
        out[i] = log_likelihood_user(clicked, shared, cluster, x, y, work.windows)


@numba.njit(cache=True, nogil=True)
def top_probabilities(users, clicks, rho, k, shared, cluster, out):
    """Set out[user, item] = P(rank <= clicks + k | clicks, rho, alpha) for ``users``, 0 for clicked items."""
    work = make_workspace(shared, rho.size + 1, k + 1)
    for user in users:
        top_probabilities_user(clicked_positions(user, clicks, rho, work.clicked), k, shared, cluster, work)
        for item in range(rho.size):
            out[user, item] = work.probability[rho[item] - 1]


@numba.njit(cache=True, nogil=True)
def redraw(users, clicks, rho, shared, cluster, key, chain, sweep, purpose, ranks):
    """Draw ranks[user] for ``users``, all of this cluster, from its exact law given clicks, rho and alpha."""
    work, stream = make_workspace(shared, rho.size + 1, 0), np.empty(STREAM_SIZE, np.uint64)
    for user in users:
        open_stream(stream, key, chain, sweep, user, purpose)
        sample_user(clicked_positions(user, clicks, rho, work.clicked), shared, cluster, work, stream)
        for item in range(rho.size):
            ranks[user, item] = work.ranks[rho[item] - 1]
