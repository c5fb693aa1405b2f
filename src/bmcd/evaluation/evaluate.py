"""evaluate: recommendations against what the users did next."""

from __future__ import annotations

import math
import operator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from bmcd.clicks.table import Clicks
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation import metrics
from bmcd.evaluation.calibration import Calibration, bin_edges, log_losses, squared_errors
from bmcd.evaluation.lists import clicked, read_k, read_lists, read_truth
from bmcd.evaluation.metrics import PerUser
from bmcd.evaluation.result import Evaluation, ItemCounts

if TYPE_CHECKING:
    from bmcd.simulation import Simulation

# The paper calls 40 of its 200 items popular.
POPULAR_SHARE = 0.2


def evaluate(
    recommendations: Any,
    train: Clicks,
    test: Clicks | Simulation,
    *,
    k: int | None = None,
    n_popular: int | None = None,
    bin_width: float = 0.01,
) -> Evaluation:
    """Measure recommendations: accuracy, diversity and, where they have probabilities, calibration.

    Parameters
    ----------
    recommendations
        A pandas, polars or Arrow table with the columns `user`, `item` (ids as in `train`), `rank` (1 for a user's
        first) and, where the method has them, `probability`; other columns are not looked at.
    train
        The clicks the recommendations were made from. Recommending what is clicked here is an error.
    test
        Held-out clicks, with users and items of `train` and no click that is in `train`: a recommendation is a hit
        when it is among them. Or the `Simulation` whose clicks are `train`: a hit is an item whose true rank is at
        most n_clicked + k.
    k
        How many recommendations were asked for; the length of the longest list unless given. Lists may be shorter.
    n_popular
        How many of the most clicked items of `train` are popular; the others are rare. A fifth of the items unless
        given, as in the paper's case study (40 of 200); the paper's simulations have 20 of 50.
    bin_width
        Width of the bins of probability; the paper's is 0.01.

    Users with recommendations but no test clicks count: all they got are misses. Users with test clicks but without
    recommendations count in precision, recall, NDCG and MRR, with 0, and nowhere else.

    Examples
    --------
    >>> import pandas as pd
    >>> train = Clicks.from_matrix([[1, 1, 0, 0], [1, 0, 1, 0]], users=["ann", "bob"], items=list("abcd"))
    >>> test = Clicks.from_matrix([[0, 0, 1, 0], [0, 1, 0, 0]], users=["ann", "bob"], items=list("abcd"))
    >>> recommendations = pd.DataFrame(
    ...     {"user": ["ann", "bob", "bob"], "item": ["c", "d", "b"], "rank": [1, 1, 2]}
    ... ).assign(probability=[0.6, 0.5, 0.4])
    >>> evaluate(recommendations, train, test, n_popular=2)
    Evaluation(2 hits in 3 recommendations to 2 users, k=2)
      accuracy                     0.6667
      coverage                     0.7500
      correct_coverage             0.5000
      intra_list_similarity        0.0000
      novelty                      2.0000
      rare_share                   0.6667
      users_with_rare_share        1.0000
      precision                    0.5000
      recall                       1.0000
      ndcg                         0.8155
      mrr                          0.7500
      brier                        0.2567
      log_score                    0.7068
      expected_calibration_error   0.5000
      (2 rare recommendations, to 2 users; rare: not among the 2 most clicked of 4 items)
    """
    if not isinstance(train, Clicks):
        raise InputTypeError(f"train must be Clicks, not {type(train).__name__}.")
    bin_edges(bin_width)  # refuses a bad width also where there are no probabilities
    n_users, n_items = train.n_users, train.n_items
    popular = _read_n_popular(n_popular, n_items)
    lists = read_lists(recommendations, train)
    k = read_k(k, lists, train, must_be_sure=not isinstance(test, Clicks))
    truth = read_truth(test, train, k)
    hit = clicked(truth, lists.user, lists.item)
    n_relevant = np.diff(truth.indptr).astype(np.int64)
    has_list = metrics.list_lengths(lists, n_users) > 0
    evaluated = has_list | (n_relevant > 0)

    clicks = np.bincount(train.matrix.indices, minlength=n_items)
    order = metrics.popularity_order(clicks)
    is_rare = np.ones(n_items, dtype=np.bool_)
    is_rare[order[:popular]] = False
    rare = is_rare[lists.item]

    measures = {
        "accuracy": metrics.accuracy(lists, hit, n_users),
        "intra_list_similarity": metrics.intra_list_similarity(lists, train.matrix),
        "novelty": metrics.novelty(lists, clicks, n_users),
        "rare_share": metrics.per_row(rare, lists, n_users),
        "users_with_rare_share": metrics.users_with(lists, rare, n_users),
        "precision": metrics.precision(lists, hit, k, evaluated),
        "recall": metrics.recall(lists, hit, n_relevant),
        "ndcg": metrics.ndcg(lists, hit, n_relevant, k),
        "mrr": metrics.mrr(lists, hit, evaluated),
    }
    values = {name: measure.value for name, measure in measures.items()}
    calibration = None
    if lists.probability is not None:
        calibration = Calibration.of(lists.probability, hit, bin_width)
        measures["brier"] = metrics.per_row(squared_errors(lists.probability, hit), lists, n_users)
        measures["log_score"] = metrics.per_row(log_losses(lists.probability, hit), lists, n_users)

    ascending = order[::-1]
    return Evaluation(
        k=k,
        n_users=int(evaluated.sum()),
        n_users_with_list=int(has_list.sum()),
        n_items=n_items,
        n_recommendations=len(hit),
        n_hits=int(hit.sum()),
        n_unclicked=int((clicks[lists.item] == 0).sum()),
        coverage=metrics.coverage(lists.item, n_items),
        correct_coverage=metrics.correct_coverage(lists.item, hit, n_items),
        n_rare=int(rare.sum()),
        n_users_with_rare=int(measures["users_with_rare_share"].numerator.sum()),
        **values,
        calibration=calibration,
        items=ItemCounts(
            item=train.items[ascending],
            clicks=clicks[ascending],
            recommended=np.bincount(lists.item, minlength=n_items)[ascending],
            hits=np.bincount(lists.item[hit], minlength=n_items)[ascending],
            n_popular=popular,
        ),
        users=train.users[evaluated],
        n_relevant=n_relevant[evaluated],
        per_user=MappingProxyType(
            {
                name: PerUser(measure.numerator[evaluated], measure.denominator[evaluated])
                for name, measure in measures.items()
            }
        ),
    )


def _read_n_popular(n_popular: int | None, n_items: int) -> int:
    if n_popular is None:
        return math.ceil(POPULAR_SHARE * n_items)
    n_popular = operator.index(n_popular)
    if not 1 <= n_popular <= n_items:
        raise InputError(f"n_popular must be 1 to {n_items}, the number of items, but it is {n_popular}.")
    return n_popular
