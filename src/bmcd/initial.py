"""Where a chain starts: labels, consensuses, scales and latent rankings that agree with the clicks.

The starting point decides real data. Clusters that start alike fall into each other, and labels are sticky, so
the default is a warm start: k-means on the clicks, then a few rounds of EM in which the exact likelihood, with the
latent rankings summed out, judges. The paper's own starts (its section "MCMC set up and initialization" and
Algorithm 1 of its supplement) are here as well.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from bmcd.kernels.state import ChainState
from bmcd.mallows.distances import check_distance
from bmcd.mallows.latent import click_matrix, log_likelihood
from bmcd.mallows.rank_scale import scale_values
from bmcd.priors import Priors

__all__ = ["STARTS", "fit_alpha", "inherit_order", "initial_state", "kmeans_inertia", "order_by"]

STARTS = ("kmeans", "popularity", "random")

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Starting value of the paper; also taken where the clicks of a cluster say nothing about alpha.
PAPER_ALPHA = 3.0
# alpha is fitted between these. At alpha = 2 n a swap of neighbours weighs exp(-4): more is as good as certain.
LEAST_ALPHA, MOST_ALPHA_PER_ITEM = 0.05, 2.0
ALPHA_STEP = 0.1
# Rounds of EM after k-means; see `initial_state`.
EM_ROUNDS = 3
# In a round of EM, alpha is fitted to users with at least this probability of the cluster, and to a random part of
# them if they are many: 300 give it to a few per cent, and the next round, or the first sweep, moves it anyway.
LEAST_WEIGHT = 0.05
ENOUGH_USERS = 300
# K-means is cheap beside what follows, and one run often merges two clusters and splits a third: on 17 simulated
# clusters (N = 7872, n = 200) in 3 of 3 chains, the best of ten runs in 1 of 3.
KMEANS_RUNS = 20
# With more users than this, centres are found from batches of them.
MANY_USERS = 20_000


class _Mixture(NamedTuple):
    rho: Integers  # [cluster, item]
    alpha: Floats  # [cluster]
    tau: Floats  # [cluster]


def initial_state(
    clicks: Any,
    n_clusters: int,
    start: str = "kmeans",
    *,
    em_rounds: int = EM_ROUNDS,
    seed: int = 0,
    chain: int = 0,
    rank_scale: str | ArrayLike = "linear",
    distance: str = "footrule",
) -> ChainState:
    """Start one chain. No cluster is empty, and every latent ranking agrees with the clicks.

    ``"random"`` is the random branch of the paper's Algorithm 1: labels uniform, alpha_c log-uniform on [1, 10],
    rho_c uniform over all rankings, latent ranks uniform among those that agree with the clicks. tau is drawn
    from the default prior.

    ``"popularity"`` is the start of the paper's section "MCMC set up and initialization": rho^0 by click counts;
    each latent ranking inherits the order of rho^0 among the clicked and among the unclicked items; labels and tau
    random; rho_c by the click counts of the cluster's users; alpha_c = 3. Ties are broken at random.

    ``"kmeans"`` takes labels from k-means, as the paper's discussion suggests, then

    * rho_c by the cluster's click counts, to which one average user's clicks are added, so that items without
      clicks in the cluster follow the overall order;
    * alpha_c by maximising the exact likelihood of the cluster's users (`fit_alpha`);
    * tau_c = (users in c + 1) / (users + clusters);
    * latent rankings that inherit the order of the user's rho_c.

    K-means sees the rows of the click matrix with item i weighed by 1 / sqrt(its clicks), scaled to length 1: a
    click on a rare item says more about taste, and the number of clicks nothing. On the bundled data this gives
    starts of much higher likelihood than the plain binary rows.

    Then ``em_rounds`` rounds of EM: each user's probabilities of belonging to each cluster, from the exact
    likelihood; rho_c by click counts weighed with them; alpha_c and tau_c likewise. A round that does not raise
    the log-likelihood of the mixture is undone and ends it. At the end each user joins the likeliest cluster.

    Chains start apart: for the k-means start each takes its centres from its own random half of the users (or
    10 for each cluster, if that is more) and its own k-means++ seeds, and then assigns everybody. With one cluster
    only the breaking of ties differs; ``"random"`` starts further apart.

    Parameters
    ----------
    clicks
        `Clicks`, or a dense or sparse matrix, users x items; non-zero is a click.
    n_clusters
        From 1 to the number of users.
    start
        One of `STARTS`.
    em_rounds
        Rounds of EM after k-means; 0 for none. The other starts have none.
    seed, chain
        The state is a function of both; the number of threads does not matter.
    rank_scale
        Spacing of the ranks, see `bmcd.mallows.rank_scale`.
    distance
        Distance of the model. For others than the footrule, the fit is that of the footrule.

    Examples
    --------
    >>> clicks = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> state = initial_state(clicks, n_clusters=2, seed=1)
    >>> bool(state.labels[0] == state.labels[1] != state.labels[2] == state.labels[3])
    True
    >>> sorted(state.ranks[0, :2].tolist())
    [1, 2]
    """
    check_distance(distance, rank_scale)
    starts: dict[str, Callable[..., ChainState]] = {"kmeans": _kmeans, "popularity": _popularity, "random": _random}
    if start not in starts:
        raise ValueError(f"start is {start!r}: choose one of {', '.join(STARTS)}.")
    if (rounds := operator.index(em_rounds)) < 0:
        raise ValueError(f"em_rounds must be 0 or more, but it is {rounds}.")
    matrix = _binary(clicks)
    scale_values(matrix.shape[1], rank_scale)  # refuses a bad scale, whatever the start
    n_clusters = _check_clusters(n_clusters, matrix.shape[0], "n_clusters")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain,)))
    return starts[start](matrix, n_clusters, rng, rounds, rank_scale)


def _binary(clicks: Any) -> sparse.csr_array[Any]:
    """Users x items, True where there is a click, in memory of its own."""
    matrix = click_matrix(clicks)
    ones = np.ones(matrix.nnz, np.bool_)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)


def _check_clusters(n_clusters: int, n_users: int, name: str) -> int:
    n = operator.index(n_clusters)
    if not 1 <= n <= n_users:
        raise ValueError(
            f"{name} is {n}, but there are {n_users} users: choose from 1 to {n_users}, or a cluster is empty."
        )
    return n


def _random(
    matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator, _rounds: int, _scale: object
) -> ChainState:
    n_users, n_items = matrix.shape
    rho = rng.permuted(np.tile(np.arange(1, n_items + 1), (n_clusters, 1)), axis=1)
    alpha = np.exp(rng.uniform(np.log(1.0), np.log(10.0), n_clusters))
    # Clicked items come first, in random order.
    order = np.argsort(rng.random((n_users, n_items)) - matrix.toarray(), axis=1)
    ranks = np.empty((n_users, n_items), np.int64)
    np.put_along_axis(ranks, order, np.arange(1, n_items + 1)[None], axis=1)
    return _state(
        _Mixture(rho, alpha, _random_tau(n_clusters, rng)), _random_labels(matrix, n_clusters, rng), ranks
    )


def _popularity(
    matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator, _rounds: int, _scale: object
) -> ChainState:
    overall = order_by(_counts(matrix), rng)[0]
    labels = _random_labels(matrix, n_clusters, rng)
    rho = order_by(_counts(matrix, _memberships(labels, n_clusters)), rng)
    mixture = _Mixture(rho, np.full(n_clusters, PAPER_ALPHA), _random_tau(n_clusters, rng))
    return _state(mixture, labels, inherit_order(matrix.toarray(), overall))


def _kmeans(
    matrix: sparse.csr_array[Any],
    n_clusters: int,
    rng: np.random.Generator,
    em_rounds: int,
    rank_scale: str | ArrayLike,
) -> ChainState:
    labels = _kmeans_labels(matrix, n_clusters, rng)
    mixture = _fit(matrix, _memberships(labels, n_clusters), rng, rank_scale)
    if em_rounds and n_clusters > 1:
        mixture, labels = _em(matrix, mixture, em_rounds, rng, rank_scale)
    clicked, ranks = matrix.toarray(), np.empty(matrix.shape, np.int64)
    for c in range(n_clusters):
        ranks[labels == c] = inherit_order(clicked[labels == c], mixture.rho[c])
    return _state(mixture._replace(tau=_tau(np.bincount(labels, minlength=n_clusters))), labels, ranks)


def _state(mixture: _Mixture, labels: Integers, ranks: Integers) -> ChainState:
    step = np.full(mixture.alpha.size, ALPHA_STEP)
    return ChainState(mixture.alpha, mixture.tau, mixture.rho, labels, ranks, step)


def _random_labels(matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator) -> Integers:
    """Uniform labels, except that the first users of a random order go one to each cluster."""
    n_users = matrix.shape[0]
    labels = rng.integers(n_clusters, size=n_users)
    labels[rng.permutation(n_users)[:n_clusters]] = np.arange(n_clusters)
    return labels


def _random_tau(n_clusters: int, rng: np.random.Generator) -> Floats:
    return rng.dirichlet(np.full(n_clusters, Priors().concentration))


def _tau(users: NDArray[Any]) -> Floats:
    """Shares of the clusters, given how many users each has."""
    tau: Floats = (users + 1.0) / (users + 1.0).sum()
    return tau


def _memberships(labels: Integers, n_clusters: int) -> Floats:
    """Users x clusters, 1 where the user belongs to the cluster."""
    weights = np.zeros((labels.size, n_clusters))
    weights[np.arange(labels.size), labels] = 1.0
    return weights


def _counts(matrix: sparse.csr_array[Any], weights: Floats | None = None) -> Floats:
    """Clicks on each item, one row for each cluster; without weights, one row for everybody."""
    weights = np.ones((matrix.shape[0], 1)) if weights is None else weights
    counts: Floats = np.asarray((matrix.astype(np.float64).T @ weights).T)
    return counts


def order_by(scores: ArrayLike, rng: np.random.Generator) -> Integers:
    """Rank the items of each row from the highest score (rank 1) down; ties in random order.

    >>> order_by([5, 9, 7], np.random.default_rng(0)).tolist()
    [[3, 1, 2]]
    """
    rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    order = np.lexsort((rng.random(rows.shape), -rows), axis=1)
    ranks = np.empty(rows.shape, np.int64)
    np.put_along_axis(ranks, order, np.arange(1, rows.shape[1] + 1)[None], axis=1)
    return ranks


def inherit_order(clicked: NDArray[Any], rho: ArrayLike) -> Integers:
    """Latent rankings that put the clicked items first and keep the order of rho within both blocks.

    The paper's example: items A to E, rho = 1..5, and a user who clicked A, C and E.

    >>> inherit_order(np.array([[1, 0, 1, 0, 1]]), [1, 2, 3, 4, 5]).tolist()
    [[1, 4, 2, 5, 3]]
    """
    order = np.argsort(np.asarray(rho))
    by_position = np.asarray(clicked)[:, order] != 0
    clicks_so_far = np.cumsum(by_position, axis=1, dtype=np.int64)
    others_so_far = np.arange(1, order.size + 1) - clicks_so_far
    ranks = np.empty(by_position.shape, np.int64)
    ranks[:, order] = np.where(by_position, clicks_so_far, clicks_so_far[:, -1:] + others_so_far)
    return ranks


def fit_alpha(
    clicks: Any,
    rho: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    rank_scale: str | ArrayLike = "linear",
    around: float | None = None,
) -> float:
    """Scale alpha that maximises the exact footrule likelihood of the clicks, given the consensus rho.

    Latent rankings are summed out (`bmcd.mallows.log_likelihood`). alpha is sought between 0.05 and 2 n, or, with
    ``around``, within a factor 1.5 of that value and less exactly. Where nobody's clicks say anything (nothing
    or everything clicked), it is the paper's starting value 3. ``weights`` are one number for each user.

    >>> clicks = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0]])
    >>> fit_alpha(clicks, rho=[1, 2, 3, 4, 5]) > fit_alpha(clicks, rho=[3, 1, 5, 4, 2])
    True
    """
    matrix = _binary(clicks)
    n_items = matrix.shape[1]
    w = np.ones(matrix.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    n_clicked = np.diff(matrix.indptr)
    telling = np.flatnonzero((n_clicked > 0) & (n_clicked < n_items) & (w > 0))
    if telling.size == 0:
        return PAPER_ALPHA
    matrix, w = matrix[telling], w[telling]

    def loss(log_alpha: float) -> float:
        values = log_likelihood(matrix, rho, float(np.exp(log_alpha)), rank_scale=rank_scale)[:, 0]
        return -float((w * values).sum())

    low, high, tolerance = np.log(LEAST_ALPHA), np.log(MOST_ALPHA_PER_ITEM * n_items), 1e-3
    if around is not None:
        low, high, tolerance = max(low, np.log(around / 1.5)), min(high, np.log(around * 1.5)), 0.03
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": tolerance})
    return float(np.exp(found.x))


def _fit(
    matrix: sparse.csr_array[Any],
    weights: Floats,
    rng: np.random.Generator,
    rank_scale: str | ArrayLike,
    alpha: Floats | None = None,
) -> _Mixture:
    """Mixture fitted to users who belong to clusters with these weights; ``alpha`` is where to look for it."""
    average_user = _counts(matrix) / matrix.shape[0]
    rho = order_by(_counts(matrix, weights) + average_user, rng)
    fitted = np.empty(len(rho))
    for c in range(len(rho)):
        users = np.flatnonzero(weights[:, c] >= LEAST_WEIGHT)
        around = None if alpha is None else float(alpha[c])
        if around is not None and users.size > ENOUGH_USERS:
            users = np.sort(rng.permutation(users)[:ENOUGH_USERS])
        fitted[c] = fit_alpha(
            matrix[users], rho[c], weights=weights[users, c], rank_scale=rank_scale, around=around
        )
    return _Mixture(rho, fitted, _tau(weights.sum(axis=0)))


def _em(
    matrix: sparse.csr_array[Any],
    mixture: _Mixture,
    rounds: int,
    rng: np.random.Generator,
    rank_scale: str | ArrayLike,
) -> tuple[_Mixture, Integers]:
    """Rounds of EM while they raise the log-likelihood, and the likeliest label of every user after them.

    Consensuses by weighed click counts are not the exact maximum, so a round can fail; then it is undone.
    """
    log_p = _log_joint(matrix, mixture, rank_scale)
    total = float(logsumexp(log_p, axis=1).sum())
    for _ in range(rounds):
        weights = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        proposed = _fit(matrix, weights, rng, rank_scale, mixture.alpha)
        proposed_log_p = _log_joint(matrix, proposed, rank_scale)
        proposed_total = float(logsumexp(proposed_log_p, axis=1).sum())
        if proposed_total <= total:
            break
        mixture, log_p, total = proposed, proposed_log_p, proposed_total
    return mixture, _fill_empty(log_p.argmax(axis=1), log_p)


def _log_joint(matrix: sparse.csr_array[Any], mixture: _Mixture, rank_scale: str | ArrayLike) -> Floats:
    """log tau_c + log P(A_j | rho_c, alpha_c), users x clusters."""
    return log_likelihood(matrix, mixture.rho, mixture.alpha, rank_scale=rank_scale) + np.log(mixture.tau)


def _fill_empty(labels: NDArray[Any], closeness: NDArray[Any]) -> Integers:
    """Give each empty cluster the user who loses least by it, from a cluster with more than one."""
    labels = labels.astype(np.int64)
    users, counts = np.arange(labels.size), np.bincount(labels, minlength=closeness.shape[1])
    for c in np.flatnonzero(counts == 0):
        gain = closeness[:, c] - closeness[users, labels]
        user = np.where(counts[labels] > 1, gain, -np.inf).argmax()
        counts[labels[user]] -= 1
        counts[c] += 1
        labels[user] = c
    return labels


def _rows_for_kmeans(matrix: sparse.csr_array[Any]) -> NDArray[np.float32]:
    """Rows of unit length, item i weighed by 1 / sqrt(its clicks). A user without clicks stays at zero."""
    weights = 1.0 / np.sqrt(np.maximum(_counts(matrix), 1.0))
    rows = (matrix.toarray() * weights).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def _kmeans_labels(matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator) -> Integers:
    n_users = matrix.shape[0]
    if n_clusters == 1:
        return np.zeros(n_users, np.int64)
    rows = _rows_for_kmeans(matrix)
    part = rng.permutation(n_users)[: max(n_users // 2, 10 * n_clusters)]
    distances = _cluster(rows[np.sort(part)], n_clusters, rng, others=rows, n_init=KMEANS_RUNS)[1]
    return _fill_empty(distances.argmin(axis=1), -distances)


def _cluster(
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
    matrix = _binary(clicks)
    wanted = [_check_clusters(c, matrix.shape[0], "a candidate number of clusters") for c in candidates]
    rows = matrix.toarray().astype(np.float32)
    return {
        c: _cluster(rows, c, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(c,))), rows[:1], 3)[0]
        for c in wanted
    }
