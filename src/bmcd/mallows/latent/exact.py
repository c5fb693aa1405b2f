"""Exact sums over the full rankings compatible with a set of clicks (footrule distance).

A user who clicked c of n items has a latent full ranking in which the clicked items take ranks 1..c and the
others c+1..n. Given the consensus rho and the scale alpha, the latent ranking can be summed out exactly, in
O(n * width) operations per user and cluster, where width is the number of items that are typically open at
once (see `scan.py` for the recursion). No other distance has such a recursion here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bmcd.errors import InputError
from bmcd.mallows.distances import check_ranks
from bmcd.mallows.footrule_scan import MAX_TABLE_ITEMS
from bmcd.mallows.latent import users as scan_users
from bmcd.mallows.latent.scan import Cluster, Shared, cluster_tables, shared_tables
from bmcd.mallows.rank_scale import scale_gaps
from bmcd.system.streams import stream_key

# Starting threads costs more than computing this many users.
USERS_PER_THREAD = 256


@contextmanager
def _threads_for(n_users: int) -> Iterator[None]:
    """As many threads as are worth starting; the number changes no result."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, max(1, n_users // USERS_PER_THREAD)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


class _Problem:
    """Checked input: who clicked what, and the tables of each cluster."""

    def __init__(self, clicks: Any, rho: ArrayLike, alpha: ArrayLike, rank_scale: str | ArrayLike) -> None:
        matrix = click_matrix(clicks)
        self.indptr = matrix.indptr.astype(np.int64)
        self.indices = matrix.indices.astype(np.int64)
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
        self.alpha = _check_alpha(alpha, self.n_clusters)
        self.shared: Shared = shared_tables(scale_gaps(self.n_items, rank_scale))

    def cluster(self, c: int) -> Cluster:
        tables: Cluster = cluster_tables(self.shared, float(self.alpha[c]))
        return tables


def click_matrix(clicks: Any) -> sparse.csr_array:
    """Rows are users, columns items; anything non-zero is a click."""
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


def _check_alpha(alpha: ArrayLike, n_clusters: int) -> NDArray[np.float64]:
    values = np.asarray(alpha, dtype=np.float64)
    if values.ndim > 1 or (values.ndim == 1 and values.size not in (1, n_clusters)):
        raise InputError(
            f"alpha has shape {values.shape}, but rho has {n_clusters} clusters: pass one number, or one for each."
        )
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        raise InputError(f"alpha must be finite and at least 0, but it is {values.tolist()}.")
    return np.broadcast_to(values, (n_clusters,)).copy()


def log_likelihood(
    clicks: Any, rho: ArrayLike, alpha: ArrayLike, *, rank_scale: str | ArrayLike = "linear"
) -> NDArray[np.float64]:
    """log P(A_j | rho_c, alpha_c) of every user and cluster, with the latent rankings summed out.

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

    Returns
    -------
    Array, users x clusters.

    Examples
    --------
    With alpha = 0 every set of two out of four items is as likely as any other:

    >>> bool(np.isclose(np.exp(log_likelihood([[1, 1, 0, 0]], rho=[1, 2, 3, 4], alpha=0))[0, 0], 1 / 6))
    True
    """
    problem = _Problem(clicks, rho, alpha, rank_scale)
    out = np.empty((problem.n_clusters, problem.n_users))
    with _threads_for(problem.n_users):
        for c in range(problem.n_clusters):
            scan_users.log_likelihoods(
                problem.indptr, problem.indices, problem.rho[c], problem.shared, problem.cluster(c), out[c]
            )
    return np.ascontiguousarray(out.T)


def top_probabilities(
    clicks: Any, rho: ArrayLike, alpha: ArrayLike, k: int, *, rank_scale: str | ArrayLike = "linear"
) -> NDArray[np.float64]:
    """P(R_ij <= c_j + k | A_j, rho_c, alpha_c): is item i among the user's next k?

    Exact, for all items of a user in one forward-backward pass. Clicked items get 0: they are not "next". The
    probabilities of a user sum to k over the items (to the number of unclicked items, if that is smaller).

    Unclicked items at consensus ranks <= c_j + 1 are all at hand when rank c_j + 1 arrives; they are
    exchangeable in the model, and their probabilities are tied (up to rounding).

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
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, but it is {k!r}.")
    problem = _Problem(clicks, rho, alpha, rank_scale)
    out = np.empty((problem.n_users, problem.n_items, problem.n_clusters))
    with _threads_for(problem.n_users):
        for c in range(problem.n_clusters):
            scan_users.top_probabilities(
                problem.indptr,
                problem.indices,
                problem.rho[c],
                min(int(k), problem.n_items),
                problem.shared,
                problem.cluster(c),
                out[:, :, c],
            )
    return out


def sample_latent(
    clicks: Any,
    rho: ArrayLike,
    alpha: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    seed: int = 0,
    rank_scale: str | ArrayLike = "linear",
) -> NDArray[np.int64]:
    """Draw each user's latent full ranking, exactly, given the clicks and the user's cluster.

    ``labels`` holds each user's cluster, 0, 1, ...; it may be left out when there is one cluster. A user's
    draw depends on the seed, the user's row number and clicks, and nothing else.

    Returns
    -------
    Array, users x items, of ranks (1 is best). The clicked items of user j take ranks 1..c_j.

    Examples
    --------
    >>> ranks = sample_latent([[0, 1, 0]], rho=[1, 2, 3], alpha=2.0, seed=1)
    >>> int(ranks[0, 1]), sorted(ranks[0].tolist())
    (1, [1, 2, 3])
    """
    problem = _Problem(clicks, rho, alpha, rank_scale)
    if labels is None:
        if problem.n_clusters > 1:
            raise InputError(
                f"rho has {problem.n_clusters} clusters: pass labels, the cluster (0, 1, ...) of each user."
            )
        labels = np.zeros(problem.n_users, np.int64)
    cluster_of = np.asarray(labels)
    if cluster_of.shape != (problem.n_users,) or cluster_of.dtype.kind not in "iu":
        raise InputError(
            f"labels must be {problem.n_users} whole numbers, one for each user, "
            f"but they have shape {cluster_of.shape} and type {cluster_of.dtype}."
        )
    bad = np.flatnonzero((cluster_of < 0) | (cluster_of >= problem.n_clusters))
    if bad.size:
        raise InputError(
            f"labels go from 0 to {problem.n_clusters - 1}, but user {bad[0]} has {cluster_of[bad[0]]}."
        )
    key = stream_key(seed)
    out = np.empty((problem.n_users, problem.n_items), np.int64)
    with _threads_for(problem.n_users):
        for c in range(problem.n_clusters):
            users = np.flatnonzero(cluster_of == c)
            if users.size:
                scan_users.sample_rankings(
                    problem.indptr,
                    problem.indices,
                    users,
                    problem.rho[c],
                    problem.shared,
                    problem.cluster(c),
                    key,
                    out,
                )
    return out
