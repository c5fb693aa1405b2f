"""The weights of a blend, learnt from held-out clicks; and the second stage, a map by ranks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bmcd.blending.likelihood import HeldOut, brier_scores, log_likelihood
from bmcd.system.threads import thread_count

Floats = NDArray[np.float64]

# Weights are expected to lie about this near to where they begin; of a hundred users and more the clicks decide.
NEAR = 1.0
# By how much weights are moved to find the curvature of the likelihood.
STEP = 1e-3
# Ranks at which the groups of the second stage end: the best item, the next two, ...
LAST_RANKS = (1, 3, 6, 10, 20, 40)
# By how much, as a part of it, the second stage must lower the Brier score to be kept. The models it is learnt
# from have seen fewer clicks than those it will be used on, and are less sure of their best items: a small gain is
# theirs.
LEAST_GAIN = 0.01


class Learnt(NamedTuple):
    """Weights, and what is known of their error."""

    weights: Floats
    standard_errors: Floats  # if users were drawn anew


def learn_weights(
    held: HeldOut,
    k: int,
    start: Floats,
    *,
    centre: Floats | None = None,
    positive: NDArray[np.bool_] | None = None,
    errors: bool = True,
    n_threads: int | None = None,
) -> Learnt:
    """Return the weights with the highest likelihood, found from ``start`` on and pulled a little to ``centre``.

    Those that are to be ``positive`` are never below 0. Without a centre it is the start.
    """
    times = np.maximum(held.n_held + k, 1).astype(np.float64)
    gradient = np.zeros((len(held.x), held.x.shape[2]))
    total = max(float(held.weight @ held.n_held), 1e-300)
    centre = start if centre is None else centre
    pull = 1.0 / (NEAR**2 * max(len(np.unique(held.users)), 1))
    fixed = (held.x, held.free, held.starts, held.items, held.weight, k)
    with ThreadPoolExecutor(thread_count(n_threads)) as pool:

        def loss(weights: Floats) -> tuple[float, Floats]:
            parts = pool.map(lambda piece: log_likelihood(*piece, *fixed, weights, times, gradient), held.pieces())
            away = weights - centre
            value = pull / 2 * float(away @ away) - sum(parts) / total
            return value, pull * away - gradient.sum(axis=0) / total

        bounds = None if positive is None else [(0.0 if is_positive else None, None) for is_positive in positive]
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200})
        weights = np.asarray(found.x, np.float64)
        loss(weights)  # leaves the gradient of every row
        error = np.full(len(weights), np.nan)
        if errors:
            by_user = np.zeros((int(held.users.max(initial=0)) + 1, len(weights)))
            np.add.at(by_user, held.users, gradient)
            curvature = np.zeros((len(weights), len(weights)))
            for f, step in enumerate(np.eye(len(weights)) * STEP):
                curvature[f] = (loss(weights + step)[1] - loss(weights - step)[1]) * total / (2 * STEP)
            inverse = np.linalg.pinv((curvature + curvature.T) / 2, hermitian=True)
            error = np.sqrt(np.diag(inverse @ (by_user.T @ by_user) @ inverse))
    return Learnt(weights, error)


def rank_features(score: Floats, free: NDArray[np.bool_]) -> Floats:
    """Return the features of the second stage, [row, item, group]; with weights 1 they add up to the score.

    Along a user's items, best first, the distance from an item to the next belongs to the group of its rank. The
    feature of an item for a group is the sum of the distances of that group from the item down. Weights stretch or
    shrink these distances; none below 0 changes the order.

    >>> rank_features(np.array([[5.0, 1.0, 3.0]]), np.ones((1, 3), bool))[0, :, :2].tolist()
    [[2.0, 2.0], [0.0, 0.0], [0.0, 2.0]]
    """
    n_rows, n_items = score.shape
    ordered = np.where(free, score, -np.inf)
    order = np.argsort(-ordered, axis=1, kind="stable")
    best_first = np.take_along_axis(ordered, order, axis=1)
    lowest = np.where(free, score, np.inf).min(axis=1, keepdims=True)  # of the free items
    best_first = np.where(np.isfinite(best_first), best_first, np.where(np.isfinite(lowest), lowest, 0.0))
    gaps = best_first - np.append(best_first[:, 1:], best_first[:, -1:], axis=1)
    ends = (0, *(rank for rank in LAST_RANKS if rank < n_items), n_items)
    out = np.zeros((n_rows, n_items, len(LAST_RANKS) + 1))
    for group, (first, last) in enumerate(pairwise(ends)):
        inside = np.zeros_like(gaps)
        inside[:, first:last] = gaps[:, first:last]
        below = np.cumsum(inside[:, ::-1], axis=1)[:, ::-1]
        np.put_along_axis(out[:, :, group], order, below, axis=1)
    return out


class RankMap(NamedTuple):
    """The second stage: what the distances between a user's items are multiplied by, by groups of ranks."""

    weights: Floats  # all 1 if it is not kept
    brier_without: float  # on users it has not seen
    brier_with: float


def learn_map(held: HeldOut, k: int, weights: Floats, n_threads: int | None = None) -> RankMap:
    """Learn the second stage, and keep it only if it lowers the Brier score of users whom it has not seen.

    It is learnt on one half of the users and judged on the other, both ways; see `LEAST_GAIN`.
    """
    score = held.x.astype(np.float64) @ weights
    staged = held._replace(x=rank_features(score, held.free).astype(np.float32))
    same = np.ones(staged.x.shape[2])
    options: dict[str, Any] = {"positive": same > 0, "errors": False, "n_threads": n_threads}
    without: list[Floats] = []
    along: list[Floats] = []
    for side in (0, 1):
        seen, unseen = (np.flatnonzero(held.users % 2 == value) for value in (side, 1 - side))
        if len(seen) and len(unseen):
            learnt = learn_weights(staged.of_rows(seen), k, same, **options).weights
            judged = staged.of_rows(unseen)
            for stage, scores in ((same, without), (learnt, along)):
                scores.append(np.empty(len(unseen)))
                brier_scores(*judged[:4], k, stage, scores[-1])
    if not without or np.isnan(np.concatenate(without)).all():
        return RankMap(same, np.nan, np.nan)
    before, after = (float(np.nanmean(np.concatenate(scores))) for scores in (without, along))
    kept = learn_weights(staged, k, same, **options).weights if after < (1 - LEAST_GAIN) * before else same
    return RankMap(kept, before, after)
