"""K-means on clicks: where a warm start takes its labels from, and the curve of the paper's elbow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from bmcd.mallows.latent.exact import click_matrix
from bmcd.utils import Floats


def click_counts(matrix: sparse.csr_array[Any], weights: Floats | None = None) -> Floats:
    """Clicks on each item, one row for each cluster; without weights, one row for all users."""
    weights = np.ones((matrix.shape[0], 1)) if weights is None else weights
    counts: Floats = np.asarray((matrix.astype(np.float64).T @ weights).T)
    return counts


# K-means is cheap beside what follows, and one run often merges two clusters and splits a third: on 17 simulated
# clusters (N = 7872, n = 200) in 3 of 3 chains, the best of ten runs in 1 of 3.
KMEANS_RUNS = 20
# With more users than this, centres are found from a random sample of them.
MANY_USERS = 20_000
# Lloyd's algorithm ends when the centres move less than this share of an item's variance, or after MOST_ROUNDS.
LEAST_MOVE, MOST_ROUNDS = 1e-4, 300

Rows = NDArray[np.float32]


def _rows_for_kmeans(matrix: sparse.csr_array[Any]) -> Rows:
    """Rows of unit length, item i weighed by 1 / sqrt(its clicks). A user without clicks stays at zero."""
    weights = 1.0 / np.sqrt(np.maximum(click_counts(matrix), 1.0))
    rows = (matrix.toarray() * weights).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def kmeans_distances(matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator) -> Rows:
    """Distances of all users from the centres, users x clusters. Centres are found from a random half of the users.

    Or from 10 users for each cluster, if that is more.
    """
    n_users = matrix.shape[0]
    if n_clusters == 1:
        return np.zeros((n_users, 1), np.float32)
    rows = _rows_for_kmeans(matrix)
    part = rng.permutation(n_users)[: max(n_users // 2, 10 * n_clusters)]
    return _run_kmeans(rows[np.sort(part)], n_clusters, rng, others=rows, n_init=KMEANS_RUNS)[1]


def _run_kmeans(
    rows: Rows, n_clusters: int, rng: np.random.Generator, others: Rows, n_init: int = 1
) -> tuple[float, Rows]:
    """K-means on ``rows``: the within-cluster sum of squares, and the distances of ``others`` from the centres.

    The best of ``n_init`` runs of Lloyd's algorithm, each from centres that are spread out.
    """
    few = len(rows) <= MANY_USERS
    sample = rows if few else rows[np.sort(rng.choice(len(rows), MANY_USERS, replace=False))]
    # Threads would add up in whatever order they finish, and the rounding can move users.
    with threadpool_limits(1, "blas"):
        runs = [_lloyd(sample, _spread_centres(sample, n_clusters, rng)) for _ in range(n_init)]
        centres = min(runs, key=lambda centres: _squared_distances(sample, centres).min(axis=1).sum())
        nearest = centres[_squared_distances(rows, centres).argmin(axis=1)]
        inertia = float(np.square(rows - nearest).sum(dtype=np.float64))
        return inertia, np.sqrt(_squared_distances(others, centres))


def _squared_distances(rows: Rows, centres: Rows) -> Rows:
    """Return the squared distances of rows from centres, rows x centres."""
    squares = np.square(rows).sum(axis=1)[:, None] - 2.0 * rows @ centres.T + np.square(centres).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0), np.float32)


def _spread_centres(rows: Rows, n_clusters: int, rng: np.random.Generator) -> Rows:
    """Choose rows as first centres by greedy k-means++: each is the best of a few, drawn by squared distance."""
    n_tries = 2 + int(np.log(n_clusters))
    chosen = [int(rng.integers(len(rows)))]
    nearest = _squared_distances(rows, rows[chosen])[:, 0]
    for _ in range(1, n_clusters):
        total = np.cumsum(nearest, dtype=np.float64)
        tries = np.searchsorted(total, rng.random(n_tries) * total[-1], side="right").clip(max=len(rows) - 1)
        left = np.minimum(_squared_distances(rows, rows[tries]), nearest[:, None])
        best = int(left.sum(axis=0).argmin())
        chosen.append(int(tries[best]))
        nearest = left[:, best]
    return rows[chosen]


def _lloyd(rows: Rows, centres: Rows) -> Rows:
    """Return the centres where Lloyd's algorithm ends; a centre without rows moves to the farthest row."""
    still, n = LEAST_MOVE * rows.var(axis=0).mean(), len(rows)
    for _ in range(MOST_ROUNDS):
        distances = _squared_distances(rows, centres)
        labels = distances.argmin(axis=1)
        sizes = np.bincount(labels, minlength=len(centres))
        members = sparse.csr_array((np.ones(n, rows.dtype), (labels, np.arange(n))), shape=(len(centres), n))
        moved: Rows = np.asarray(members @ rows / np.maximum(sizes, 1)[:, None], np.float32)
        empty = np.flatnonzero(sizes == 0)
        if len(empty):
            moved[empty] = rows[np.argsort(-distances.min(axis=1), kind="stable")[: len(empty)]]
        shift = np.square(moved - centres).sum()
        centres = moved
        if shift <= still:
            break
    return centres


def kmeans_inertia(clicks: Any, candidates: Iterable[int], seed: int = 0) -> dict[int, float]:
    """Within-cluster sum of squares of k-means on the binary click matrix, for each number of clusters.

    The paper chooses the number of clusters by the elbow of this curve ("MCMC set up and initialization", and the
    figure in its supplement), and prefers a slightly larger number. Each is the best of three runs.

    >>> clicks = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
    >>> {c: round(value, 6) for c, value in kmeans_inertia(clicks, [1, 2]).items()}
    {1: 4.0, 2: 0.0}
    """
    matrix = click_matrix(clicks)
    rows = matrix.toarray().astype(np.bool_).astype(np.float32)
    return {
        c: _run_kmeans(rows, c, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(c,))), rows[:1], 3)[0]
        for c in candidates
    }
