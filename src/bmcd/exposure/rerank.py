"""rerank: the best recommendations within floors and caps on how often items are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.table import Clicks
from bmcd.exposure.flow import Problem, best_flow, graph_solvers
from bmcd.exposure.limits import Limit, Limits, read_limits
from bmcd.exposure.result import Reranking, Shown
from bmcd.exposure.shortfall import explain_shortfall
from bmcd.exposure.weights import Value, Weights, read_weights
from bmcd.prediction.top_k import Lists, check_k, order_of_ids, recommendation_frame

Bools = NDArray[np.bool_]


def rerank(
    model: Any,
    k: int = 10,
    *,
    max_exposure: Limit | None = None,
    min_exposure: Limit | None = None,
    min_coverage: int | float | None = None,
    clicks: Clicks | None = None,
    value: Value | None = None,
    **options: Any,
) -> Reranking:
    """Recommend k items to each user so that items are shown neither too seldom nor too often, at the least price.

    Among all recommendations that keep the limits, those with the greatest sum of probabilities, which is the
    expected number of hits. `price` in the result is what the limits cost. Each user gets k items, or as many as
    are unclicked; limits that do not allow it are an `ExposureError`, with the items to blame and what is lacking.

    Parameters
    ----------
    model
        A fitted `BMCD`; or any fitted recommender, asked for the scores of all items by ``recommend(k=n_items)``
        (or by ``probabilities(k)``, if it has that); or a users x items matrix of scores, with ``clicks``.
    k
        Recommendations for each user. For BMCD also the k of the probabilities.
    max_exposure, min_exposure
        To how many users an item may, and must, be shown. A whole number counts users; a float from 0.0 to 1.0 is a
        share of all users (so 1 is one user and 1.0 is all of them). It holds for every item, or a dict gives it
        for some: ``{"A13": 50, "A16": 0.1}``; the others then have no limit.
    min_coverage
        How many different items must be shown: a whole number, or a share of all items. Which ones is chosen so
        that the price is least.
    clicks
        With a matrix, or a recommender without ``clicks_``: what it was fitted to.
    value
        With a matrix: "probability" if it has probabilities, by default "score".
    options
        Those of the model's ``recommend`` (for BMCD max_draws, n_threads, progress).

    Equal scores go to the plain list where they can; the order of users and items changes nothing.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.Clicks.from_matrix([[1, 0, 0], [1, 0, 0]], users=["ann", "bob"], items=["a", "b", "c"])
    >>> probability = [[0, 0.9, 0.1], [0, 0.6, 0.4]]
    >>> found = bmcd.rerank(probability, k=1, min_exposure={"c": 1}, clicks=clicks, value="probability")
    >>> found.recommendations[["user", "item"]].to_numpy().tolist()
    [['ann', 'b'], ['bob', 'c']]
    >>> found
    Reranking(2 recommendations to 2 users, k=1)
                             before       after
      expected hits            1.50        1.30
      items shown                 1           2
      coverage               0.3333      0.6667
      least shown                 0           0
      most shown                  2           1
      Gini of exposure       0.6667      0.3333
      price: 0.20 expected hits (13.33%), 0.2 for each item gained
      (1 recommendations changed, of 1 users)
    """
    graph_solvers()  # a missing package is said before anything is worked out
    k = check_k(k)
    weights = read_weights(model, k, clicks, value, options)
    return rerank_weights(weights, k, read_limits(min_exposure, max_exposure, min_coverage, weights.clicks))


def rerank_weights(weights: Weights, k: int, limits: Limits) -> Reranking:
    """The same, with everything read."""
    plain = weights.place < k
    chosen, error = plain, 0.0
    # Where the plain lists keep the limits they are the answer, to the last tie.
    if not limits.kept_by(plain.sum(axis=0)):
        chosen, error = _solve(weights, k, limits, plain)
    before, after = (Shown(float(weights.score[mask].sum()), mask.sum(axis=0)) for mask in (plain, chosen))
    changed = chosen & ~plain
    return Reranking(
        recommendations=_frame(weights, k, chosen),
        k=k,
        value=weights.value,
        before=before,
        after=after,
        limits=limits,
        n_changed=int(changed.sum()),
        n_users_changed=int(changed.any(axis=1).sum()),
        largest_error=error,
        clicks=weights.clicks,
    )


def make_problem(weights: Weights, k: int, limits: Limits) -> tuple[Problem, tuple[Any, ...]]:
    """The problem with users and items sorted by id, so that their order does not decide ties; and how to sort."""
    users, items = (np.argsort(order_of_ids(ids)) for ids in (weights.clicks.users, weights.clicks.items))
    by_id = np.ix_(users, items)
    available = weights.available[by_id]
    demand = np.minimum(available.sum(axis=1), k)
    return Problem(available, demand, limits._replace(low=limits.low[items], high=limits.high[items])), by_id


def _solve(weights: Weights, k: int, limits: Limits, plain: Bools) -> tuple[Bools, float]:
    problem, by_id = make_problem(weights, k, limits)
    found = best_flow(problem, weights.score[by_id], plain[by_id])
    if found is None:
        raise explain_shortfall(problem, weights.clicks.items[by_id[1].ravel()], k)
    chosen = np.zeros_like(plain)
    chosen[by_id] = found.chosen
    return chosen, found.largest_error


def _frame(weights: Weights, k: int, chosen: Bools) -> Any:
    n_items = weights.clicks.n_items
    place = np.where(chosen, weights.place, n_items)
    order = np.argsort(place, axis=1, kind="stable")[:, :k]
    there = np.take_along_axis(chosen, order, axis=1)
    columns = {weights.value: weights.score, **weights.others}
    values = {name: np.take_along_axis(of, order, axis=1) for name, of in columns.items()}
    return recommendation_frame(weights.clicks.users, Lists(np.where(there, order, -1), values), weights.clicks)
