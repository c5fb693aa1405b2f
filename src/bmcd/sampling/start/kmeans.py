"""K-means on clicks: where a warm start takes its labels from, and the curve of the paper's elbow."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.errors import InputError
from bmcd.sampling.start.click_orders import binary_matrix, click_counts

__all__ = ["check_n_clusters", "kmeans_distances", "kmeans_inertia"]

# K-means is cheap beside what follows, and one run often merges two clusters and splits a third: on 17 simulated
# clusters (N = 7872, n = 200) in 3 of 3 chains, the best of ten runs in 1 of 3.
KMEANS_RUNS = 20
# With more users than this, centres are found from batches of them.
MANY_USERS = 20_000


def check_n_clusters(n_clusters: int, n_users: int, name: str) -> int:
    """A whole number from 1 to ``n_users``, or an error that calls it ``name``."""
    n = operator.index(n_clusters)
    if not 1 <= n <= n_users:
        raise InputError(
            f"{name} is {n}, but there are {n_users} users: choose from 1 to {n_users}, or a cluster is empty."
        )
    return n


def _rows_for_kmeans(matrix: sparse.csr_array[Any]) -> NDArray[np.float32]:
    """Rows of unit length, item i weighed by 1 / sqrt(its clicks). A user without clicks stays at zero."""
    weights = 1.0 / np.sqrt(np.maximum(click_counts(matrix), 1.0))
    rows = (matrix.toarray() * weights).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def kmeans_distances(
    matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator
) -> NDArray[np.floating[Any]]:
    """Distances of all users from the centres, users x clusters. Centres are found from a random half of the users.

    Or from 10 users for each cluster, if that is more.
    """
    n_users = matrix.shape[0]
    if n_clusters == 1:
        return np.zeros((n_users, 1))
    rows = _rows_for_kmeans(matrix)
    part = rng.permutation(n_users)[: max(n_users // 2, 10 * n_clusters)]
    return _run_kmeans(rows[np.sort(part)], n_clusters, rng, others=rows, n_init=KMEANS_RUNS)[1]


def _run_kmeans(
    rows: NDArray[np.float32],
    n_clusters: int,
    rng: np.random.Generator,
    others: NDArray[np.float32],
    n_init: int = 1,
) -> tuple[float, NDArray[Any]]:
    """K-means on ``rows``: the within-cluster sum of squares, and the distances of ``others`` from the centres."""
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    kind = MiniBatchKMeans if len(rows) > MANY_USERS else KMeans
    settings = {"batch_size": 4096} if kind is MiniBatchKMeans else {}
    model = kind(n_clusters, n_init=n_init, random_state=int(rng.integers(2**31)), **settings)
    # Threads would add up centres in whatever order they finish, and the rounding can move users.
    with threadpool_limits(1), warnings.catch_warnings():
        # Fewer different rows than clusters: some stay empty, and the caller fills them.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows)
        return float(model.inertia_), np.asarray(model.transform(others))


def kmeans_inertia(clicks: Any, candidates: Iterable[int], seed: int = 0) -> dict[int, float]:
    """Within-cluster sum of squares of k-means on the binary click matrix, for each number of clusters.

    The paper chooses the number of clusters by the elbow of this curve ("MCMC set up and initialization", and the
    figure in its supplement), and prefers a slightly larger number. Each is the best of three runs.

    >>> clicks = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
    >>> {c: round(value, 6) for c, value in kmeans_inertia(clicks, [1, 2]).items()}
    {1: 4.0, 2: 0.0}
    """
    matrix = binary_matrix(clicks)
    wanted = [check_n_clusters(c, matrix.shape[0], "a candidate number of clusters") for c in candidates]
    rows = matrix.toarray().astype(np.float32)
    return {
        c: _run_kmeans(rows, c, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(c,))), rows[:1], 3)[0]
        for c in wanted
    }
