"""What it is worth to show an item to a user: a model's probabilities, any rival's scores, or a matrix of them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.frames import column_names, columns
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation.lists import read_lists
from bmcd.models.base import ProbabilityModel
from bmcd.prediction.top_k import best_items
from bmcd.system.text import shown

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Value = Literal["probability", "score"]
# Larger arrays of users x items are refused: several of them are needed.
MOST_PAIRS = 2**28


class Weights(NamedTuple):
    """What each pair of a user and an item is worth, users x items in the order of the clicks."""

    clicks: Clicks
    value: Value
    """What the scores are, which is also the name of their column."""
    score: Floats
    """What is summed: probability or score; 0 where the item may not be shown."""
    available: Bools
    """Whether the item may be shown to the user: it was not clicked."""
    place: NDArray[np.int64]
    """The item's place in the user's plain order, from 0: the first k are what `recommend` gives."""
    more_columns: dict[str, Floats]
    """Other columns of the recommendations, such as the Monte Carlo standard error."""


def read_weights(
    model: Any, k: int, clicks: Clicks | None, value: Value | None, options: dict[str, Any]
) -> Weights:
    """Return the weights of a fitted recommender, or of a matrix with the clicks it was made from."""
    if value not in (None, "probability", "score"):
        raise InputError(f"value must be 'probability' or 'score', but it is {value!r}.")
    if not hasattr(model, "recommend"):
        if isinstance(model, type) or not isinstance(clicks, Clicks) or options:
            raise InputTypeError(
                "rerank takes a fitted recommender, or a users x items matrix of scores together with clicks=, the "
                f"Clicks they were made from (and no other options): not {shown(model)}."
            )
        return _of_matrix(model, clicks, value or "score")
    if value is not None:
        raise InputError("value is only for a matrix: a recommender itself says what it gives.")
    if isinstance(model, ProbabilityModel):
        return _of_model(model, k, clicks, options)
    fitted_to = clicks if clicks is not None else getattr(model, "clicks_", None)
    if not isinstance(fitted_to, Clicks):
        raise InputTypeError(f"pass clicks=, the Clicks that the {type(model).__name__} was fitted to.")
    if hasattr(model, "probabilities"):
        return _of_matrix(model.probabilities(k, **options), fitted_to, "probability")
    return _of_rival(model, k, fitted_to, options)


def _of_model(model: ProbabilityModel, k: int, clicks: Clicks | None, options: dict[str, Any]) -> Weights:
    fitted_to = model.clicks_with_users()
    if (size := fitted_to.n_users * fitted_to.n_items) > MOST_PAIRS:
        shape = f"all {fitted_to.n_users:,} users for all {fitted_to.n_items:,} items"
        raise InputError(
            f"rerank needs the probabilities of {shape}, which take {size * 8 / 2**30:.1f} GiB several times. "
            "Fit the model to fewer users, or to the items most clicked (most_clicked)."
        )
    if clicks is not None and clicks is not fitted_to and clicks != fitted_to:
        raise InputError("these are not the clicks the model was fitted to; leave clicks= out.")
    blocks = [predictions for _, predictions in model.prediction_blocks(k, **options)]
    probability, mcse, tie_breaker = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    return _weights(fitted_to, "probability", probability, tie_breaker, {"mcse": mcse})


def _of_matrix(matrix: Any, clicks: Clicks, value: Value) -> Weights:
    score = np.array(matrix, np.float64)
    if score.shape != clicks.matrix.shape:
        raise InputError(f"the scores are {score.shape}, but the clicks are {clicks.matrix.shape}, users x items.")
    _check_scores(score, ~clicks.matrix.toarray(), clicks, value)
    return _weights(clicks, value, score)


def _weights(
    clicks: Clicks,
    value: Value,
    score: Floats,
    tie_breaker: Floats | None = None,
    more_columns: dict[str, Floats] | None = None,
) -> Weights:
    available = ~np.asarray(clicks.matrix.toarray(), np.bool_)
    score = np.where(available, score, 0.0)
    order = best_items(score, available, clicks.n_items, id_ranks(clicks.items), tie_breaker)
    place = np.full(score.shape, clicks.n_items, np.int64)
    user, rank = np.nonzero(order >= 0)
    place[user, order[user, rank]] = rank
    return Weights(clicks, value, score, available, place, more_columns or {})


def _of_rival(model: Any, k: int, clicks: Clicks, options: dict[str, Any]) -> Weights:
    """Return the weights of all that a rival would recommend, in its own order."""
    frame = model.recommend(k=clicks.n_items, **options)
    value: Value = "probability" if "probability" in column_names(frame) else "score"
    lists = read_lists(frame, clicks)  # checks everything but the scores
    users, items, values = columns(frame, "user", "item", value)
    user, item = clicks.rows_of(users), clicks.columns_of(items)
    score, available = np.zeros(clicks.matrix.shape), np.zeros(clicks.matrix.shape, np.bool_)
    score[user, item], available[user, item] = values, True
    _check_scores(score, available, clicks, value)
    place = np.full(clicks.matrix.shape, clicks.n_items, np.int64)
    place[lists.user, lists.item] = lists.rank - 1
    if value == "probability":
        first = read_lists(model.recommend(k=k, **options), clicks)
        if first.probability is None or np.abs(first.probability - score[first.user, first.item]).max() > 1e-6:
            raise InputError(
                f"the probabilities of {type(model).__name__} depend on k, so recommend cannot give those of all "
                "items. Give it a method probabilities(k), users x items, or pass that matrix and clicks."
            )
    return Weights(clicks, value, score, available, place, {})


def _check_scores(score: Floats, available: Bools, clicks: Clicks, value: Value) -> None:
    good, rule = np.isfinite(score), "finite"
    if value == "probability":
        good, rule = (score >= -1e-9) & (score <= 1 + 1e-9), "between 0 and 1"
    if (bad := np.argwhere(available & ~good)).size:
        user, item = bad[0]
        raise InputError(
            f"the {value} of user {shown(clicks.users[user])} and item {shown(clicks.items[item])} is "
            f"{score[user, item]}, and {len(bad) - 1:,} more are not {rule}."
        )
