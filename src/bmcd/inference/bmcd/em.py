"""A mixture fitted to clicks without sampling: rankings by click counts, alpha by the exact likelihood, EM."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from bmcd.inference.bmcd.kmeans import click_counts
from bmcd.mallows.latent.exact import click_matrix, log_likelihood
from bmcd.utils import Floats, Integers


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


# Starting value of the paper; also taken where the clicks of a cluster carry no information about alpha.
FIRST_ALPHA = 3.0
# alpha is fitted between these. At alpha = 2 n a swap of neighbours weighs exp(-4): more is as good as certain.
LEAST_ALPHA, MOST_ALPHA_PER_ITEM = 0.05, 2.0
# In a round of EM, alpha is fitted to users with at least this probability of the cluster, and to a random part of
# them if they are many: 300 give it to a few per cent, and the next round, or the first sweep, moves it anyway.
LEAST_WEIGHT = 0.05
ENOUGH_USERS = 300


class Mixture(NamedTuple):
    """Consensuses, scales and shares of the clusters."""

    rho: Integers  # [cluster, item]
    alpha: Floats  # [cluster]
    tau: Floats  # [cluster]


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
    ``around``, within a factor 1.5 of that value and less exactly. Where no clicks carry information (nothing
    or everything clicked), it is the paper's starting value 3. ``weights`` are one number for each user.

    >>> clicks = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0]])
    >>> fit_alpha(clicks, rho=[1, 2, 3, 4, 5]) > fit_alpha(clicks, rho=[3, 1, 5, 4, 2])
    True
    """
    matrix = click_matrix(clicks)
    n_items = matrix.shape[1]
    w = np.ones(matrix.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    n_clicked = np.diff(matrix.indptr)
    telling = np.flatnonzero((n_clicked > 0) & (n_clicked < n_items) & (w > 0))
    if telling.size == 0:
        return FIRST_ALPHA
    matrix, w = matrix[telling], w[telling]

    def loss(log_alpha: float) -> float:
        values = log_likelihood(matrix, rho, float(np.exp(log_alpha)), rank_scale=rank_scale)[:, 0]
        return -float((w * values).sum())

    low, high, tolerance = np.log(LEAST_ALPHA), np.log(MOST_ALPHA_PER_ITEM * n_items), 1e-3
    if around is not None:
        low, high, tolerance = max(low, np.log(around / 1.5)), min(high, np.log(around * 1.5)), 0.03
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": tolerance})
    return float(np.exp(found.x))


def fit_mixture(
    matrix: sparse.csr_array[Any],
    weights: Floats,
    rng: np.random.Generator,
    rank_scale: str | ArrayLike,
    alpha: Floats | None = None,
) -> Mixture:
    """Mixture fitted to users who belong to clusters with these weights; ``alpha`` is where to look for it."""
    average_user = click_counts(matrix) / matrix.shape[0]
    rho = order_by(click_counts(matrix, weights) + average_user, rng)
    fitted = np.empty(len(rho))
    for c in range(len(rho)):
        users = np.flatnonzero(weights[:, c] >= LEAST_WEIGHT)
        around = None if alpha is None else float(alpha[c])
        if around is not None and users.size > ENOUGH_USERS:
            users = np.sort(rng.permutation(users)[:ENOUGH_USERS])
        fitted[c] = fit_alpha(
            matrix[users], rho[c], weights=weights[users, c], rank_scale=rank_scale, around=around
        )
    return Mixture(rho, fitted, shares(weights.sum(axis=0)))


def run_em(
    matrix: sparse.csr_array[Any],
    mixture: Mixture,
    rounds: int,
    rng: np.random.Generator,
    rank_scale: str | ArrayLike,
) -> tuple[Mixture, Floats]:
    """Rounds of EM while they raise the log-likelihood, and the `log_joint` after them.

    Consensuses by weighed click counts are not the exact maximum, so a round can fail; then it is undone.
    """
    log_p = log_joint(matrix, mixture, rank_scale)
    total = float(logsumexp(log_p, axis=1).sum())
    for _ in range(rounds):
        weights = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        proposed = fit_mixture(matrix, weights, rng, rank_scale, mixture.alpha)
        proposed_log_p = log_joint(matrix, proposed, rank_scale)
        proposed_total = float(logsumexp(proposed_log_p, axis=1).sum())
        if proposed_total <= total:
            break
        mixture, log_p, total = proposed, proposed_log_p, proposed_total
    return mixture, log_p


def log_joint(matrix: sparse.csr_array[Any], mixture: Mixture, rank_scale: str | ArrayLike) -> Floats:
    """log tau_c + log P(A_j | rho_c, alpha_c), users x clusters."""
    return log_likelihood(matrix, mixture.rho, mixture.alpha, rank_scale=rank_scale) + np.log(mixture.tau)


def shares(users: NDArray[Any]) -> Floats:
    """Shares of the clusters, given how many users each has."""
    tau: Floats = (users + 1.0) / (users + 1.0).sum()
    return tau
