"""Exact sums over the full rankings that agree with a set of clicks (footrule distance).

A user who clicked c of n items has a latent full ranking in which the clicked items take ranks 1..c and the others
c+1..n. Given the consensus rho and the scale alpha, the latent ranking can be summed out exactly, in O(n * width)
operations per user and cluster, where width is the number of items that are typically open at once (`scan.py` has
the recursion). No other distance has such a recursion here.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bmcd.errors import InputError
from bmcd.mallows.distances import alpha_by_cluster, check_ranks
from bmcd.mallows.footrule_scan import MAX_TABLE_ITEMS
from bmcd.mallows.latent import users as kernels
from bmcd.mallows.latent.scan import ClusterTables, SharedTables, cluster_tables, shared_tables
from bmcd.mallows.rank_scale import scale_values
from bmcd.rng import stream_key
from bmcd.utils import check_count, thread_count

# Starting a thread costs as much as computing this many users; a thread then takes as many at a time.
USERS_PER_THREAD = 256


class _Inputs:
    """Checked input: who clicked what, the clusters, and the threads to use."""

    def __init__(
        self, clicks: Any, rho: ArrayLike, alpha: ArrayLike, rank_scale: str | ArrayLike, n_threads: int | None
    ) -> None:
        matrix = click_matrix(clicks)
        self.clicks = kernels.ClickedItems(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))
        self.n_users, self.n_items = matrix.shape
        if self.n_items > MAX_TABLE_ITEMS:
            raise InputError(
                f"the exact sums keep tables of 4 n^2 bytes and are offered up to n = {MAX_TABLE_ITEMS} items, "
                f"but there are {self.n_items}. Keep the most clicked ones."
            )
        self.rho = np.atleast_2d(check_ranks(rho, "rho"))
        if self.rho.ndim != 2 or self.rho.shape[1] != self.n_items:
            raise InputError(
                f"rho has shape {np.shape(rho)}, but the clicks are on {self.n_items} items: "
                "pass one ranking of the items, or one row for each cluster."
            )
        self.n_clusters = self.rho.shape[0]
        self.alpha = alpha_by_cluster(alpha, self.n_clusters)
        self.shared: SharedTables = shared_tables(np.diff(scale_values(self.n_items, rank_scale)))
        self.n_threads = min(thread_count(n_threads), max(1, self.n_users // USERS_PER_THREAD))

    def compute(
        self,
        kernel: Callable[[int, ClusterTables, NDArray[np.int64]], None],
        labels: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """Call ``kernel(c, tables, users)`` for every cluster and all users, or those with label c, in parts.

        The threads live as long as this call: nothing is left behind that a fork or another thread could meet.
        """
        everyone = np.arange(self.n_users)
        with ThreadPoolExecutor(self.n_threads) as pool:  # starts no thread before it is handed work
            for c in range(self.n_clusters):
                users = everyone if labels is None else np.flatnonzero(labels == c)
                parts = [users[i : i + USERS_PER_THREAD] for i in range(0, users.size, USERS_PER_THREAD)]
                work = partial(kernel, c, cluster_tables(self.shared, float(self.alpha[c])))
                for _ in map(work, parts) if self.n_threads == 1 else pool.map(work, parts):
                    pass  # an error in a thread is raised here


def click_matrix(clicks: Any) -> sparse.csr_array:
    """Return the clicks as a matrix, users x items. Anything non-zero is a click."""
    matrix = getattr(clicks, "matrix", clicks)
    if not sparse.issparse(matrix):
        matrix = np.asarray(matrix)
        if matrix.ndim != 2:
            raise InputError(f"clicks must be users x items, but the array has shape {matrix.shape}.")
        if matrix.dtype.kind == "f" and np.isnan(matrix).any():
            user, item = np.argwhere(np.isnan(matrix))[0]
            raise InputError(f"clicks hold NaN at user {user}, item {item}: pass 0 or False for no click.")
        matrix = matrix != 0
    if matrix.shape[1] < 1:
        raise InputError("clicks must have at least one item.")
    csr = sparse.csr_array(matrix)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return csr


def log_likelihood(
    clicks: Any,
    rho: ArrayLike,
    alpha: ArrayLike,
    *,
    rank_scale: str | ArrayLike = "linear",
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Return log P(A_j | rho_c, alpha_c) of every user and cluster, with the latent rankings summed out.

    This is the probability that the c_j best items of a ranking drawn from the Mallows model are just the ones
    the user clicked, given their number c_j. A user who clicked nothing, or everything, has log probability 0.

    Parameters
    ----------
    clicks
        `Clicks`, or a dense or sparse matrix, users x items; non-zero is a click.
    rho
        Consensus ranking (1 is best), or one row for each cluster.
    alpha
        Scale, or one for each cluster.
    rank_scale
        Spacing of the ranks, see `rank_scale.scale_values`.
    n_threads
        Threads to use at most; None for one a core. It changes no digit.

    Returns
    -------
    Array, users x clusters.

    Examples
    --------
    With alpha = 0 every set of two out of four items is as likely as any other:

    >>> bool(np.isclose(np.exp(log_likelihood([[1, 1, 0, 0]], rho=[1, 2, 3, 4], alpha=0))[0, 0], 1 / 6))
    True
    """
    inputs = _Inputs(clicks, rho, alpha, rank_scale, n_threads)
    out = np.empty((inputs.n_clusters, inputs.n_users))

    def fill(c: int, tables: ClusterTables, users: NDArray[np.int64]) -> None:
        part = out[c, users[0] : users[-1] + 1]
        kernels.log_likelihoods(users, inputs.clicks, inputs.rho[c], inputs.shared, tables, part)

    inputs.compute(fill)
    return np.ascontiguousarray(out.T)


def top_probabilities(
    clicks: Any,
    rho: ArrayLike,
    alpha: ArrayLike,
    k: int,
    *,
    rank_scale: str | ArrayLike = "linear",
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Return P(R_ij <= c_j + k | A_j, rho_c, alpha_c): the probability that item i is among the user's next k.

    The probabilities are exact. Clicked items get 0, as they are not "next". The probabilities of a user sum to k
    over the items, or to the number of unclicked items if that is smaller.

    Unclicked items at consensus ranks <= c_j + 1 are exchangeable in the model: all of them are open when rank c_j
    + 1 arrives. Their probabilities are therefore equal, up to rounding.

    Parameters are those of `log_likelihood`, and ``k`` >= 1.

    Returns
    -------
    Array, users x items x clusters: 8 bytes for each. For many users, pass them in parts.

    Examples
    --------
    >>> p = top_probabilities([[1, 0, 0, 0]], rho=[1, 2, 3, 4], alpha=4.0, k=2)
    >>> p.shape, bool(np.isclose(p.sum(), 2))
    ((1, 4, 1), True)
    >>> bool(p[0, 1, 0] > p[0, 2, 0] > p[0, 3, 0])
    True
    """
    inputs = _Inputs(clicks, rho, alpha, rank_scale, n_threads)
    out = np.empty((inputs.n_users, inputs.n_items, inputs.n_clusters))
    next_k = min(check_count("k", k), inputs.n_items)

    def fill(c: int, tables: ClusterTables, users: NDArray[np.int64]) -> None:
        rho_c, part = inputs.rho[c], out[:, :, c]
        kernels.top_probabilities(users, inputs.clicks, rho_c, next_k, inputs.shared, tables, part)

    inputs.compute(fill)
    return out


def sample_latent(
    clicks: Any,
    rho: ArrayLike,
    alpha: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    seed: int = 0,
    rank_scale: str | ArrayLike = "linear",
    n_threads: int | None = None,
) -> NDArray[np.int64]:
    """Draw each user's latent full ranking, exactly, given the clicks and the user's cluster.

    ``labels`` holds each user's cluster, 0, 1, ...; it may be left out when there is one cluster. A user's draw
    depends only on the seed, the cluster, and the user's row number and clicks.

    Returns
    -------
    Array, users x items, of ranks (1 is best). The clicked items of user j take ranks 1..c_j.

    Examples
    --------
    >>> ranks = sample_latent([[0, 1, 0]], rho=[1, 2, 3], alpha=2.0, seed=1)
    >>> int(ranks[0, 1]), sorted(ranks[0].tolist())
    (1, [1, 2, 3])
    """
    inputs = _Inputs(clicks, rho, alpha, rank_scale, n_threads)
    if labels is None:
        if inputs.n_clusters > 1:
            raise InputError(
                f"rho has {inputs.n_clusters} clusters: pass labels, the cluster (0, 1, ...) of each user."
            )
        labels = np.zeros(inputs.n_users, np.int64)
    cluster_of = np.asarray(labels)
    if cluster_of.shape != (inputs.n_users,) or cluster_of.dtype.kind not in "iu":
        raise InputError(
            f"labels must be {inputs.n_users} whole numbers, one for each user, "
            f"but they have shape {cluster_of.shape} and type {cluster_of.dtype}."
        )
    bad = np.flatnonzero((cluster_of < 0) | (cluster_of >= inputs.n_clusters))
    if bad.size:
        raise InputError(
            f"labels go from 0 to {inputs.n_clusters - 1}, but user {bad[0]} has {cluster_of[bad[0]]}."
        )
    key = stream_key(seed)
    out = np.empty((inputs.n_users, inputs.n_items), np.int64)

    def fill(c: int, tables: ClusterTables, users: NDArray[np.int64]) -> None:
        kernels.redraw(users, inputs.clicks, inputs.rho[c], inputs.shared, tables, key, 0, 0, 0, out)

    inputs.compute(fill, cluster_of)
    return out
