"""What showing an item to a user is worth: BMCD's probabilities, any rival's scores, or a matrix of them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.frames import column_names, columns, encode
from bmcd.clicks.table import Clicks, positions
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation.lists import read_lists
from bmcd.models.bmcd import BMCD
from bmcd.prediction.answers import Options
from bmcd.prediction.predictor import DRAWS
from bmcd.prediction.top_k import best_items, order_of_ids
from bmcd.system.text import shown

Floats = NDArray[np.float64]
Value = Literal["probability", "score"]


class Weights(NamedTuple):
    """Users x items, in the order of the clicks."""

    clicks: Clicks
    value: Value
    """The name of the column."""
    score: Floats
    """What is summed: probability or score; 0 where the item may not be shown."""
    available: NDArray[np.bool_]
    """Whether the item may be shown to the user: it was not clicked."""
    place: NDArray[np.int64]
    """Where the item stands in the user's own order, from 0: the first k are what `recommend` gives."""
    others: dict[str, Floats]
    """More columns, such as the Monte Carlo standard error."""


def read_weights(
    model: Any, k: int, clicks: Clicks | None, value: Value | None, options: dict[str, Any]
) -> Weights:
    """Ask a fitted recommender, or take a matrix with the clicks it was made from."""
    if value not in (None, "probability", "score"):
        raise InputError(f"value must be 'probability' or 'score', but it is {value!r}.")
    if hasattr(model, "recommend"):
        if value is not None:
            raise InputError("value is only for a matrix: a recommender says itself what it gives.")
        if isinstance(model, BMCD):
            return _of_bmcd(model, k, clicks, **options)
        own = clicks if clicks is not None else getattr(model, "clicks_", None)
        if not isinstance(own, Clicks):
            raise InputTypeError(f"pass clicks=, the Clicks that the {type(model).__name__} was fitted to.")
        if hasattr(model, "probabilities"):
            return _of_matrix(model.probabilities(k, **options), own, "probability")
        return _of_rival(model, k, own, options)
    if isinstance(model, type) or not isinstance(clicks, Clicks) or options:
        raise InputTypeError(
            "rerank takes a fitted recommender, or a users x items matrix of scores together with clicks=, the "
            f"Clicks they were made from (and no other options): not {shown(model)}."
        )
    return _of_matrix(model, clicks, value or "score")


def _of_bmcd(
    model: BMCD,
    k: int,
    clicks: Clicks | None,
    *,
    max_draws: int | None = DRAWS,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Weights:
    own, answers = model._clicks_with_users(), model._ask()
    if clicks is not None and clicks is not own and clicks != own:
        raise InputError("these are not the clicks the model was fitted to; leave clicks= out.")
    found = [
        found
        for _, found in answers.predictions(own, answers.rows(None), k, Options(max_draws, n_threads, progress))
    ]
    probability, mcse, mean_rank = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    available = ~np.asarray(own.matrix.toarray(), np.bool_)
    place = _places(probability, available, own, mean_rank)
    return Weights(own, "probability", np.where(available, probability, 0.0), available, place, {"mcse": mcse})


def _of_matrix(matrix: Any, clicks: Clicks, value: Value) -> Weights:
    score = np.array(matrix, np.float64)
    if score.shape != clicks.matrix.shape:
        raise InputError(f"the scores are {score.shape}, but the clicks are {clicks.matrix.shape}, users x items.")
    available = ~np.asarray(clicks.matrix.toarray(), np.bool_)
    _check(score, available, clicks, value)
    score = np.where(available, score, 0.0)
    return Weights(clicks, value, score, available, _places(score, available, clicks, None), {})


def _of_rival(model: Any, k: int, clicks: Clicks, options: dict[str, Any]) -> Weights:
    """All that a rival would recommend, in its own order."""
    frame = model.recommend(k=clicks.n_items, **options)
    value: Value = "probability" if "probability" in column_names(frame) else "score"
    users, items, values = columns(frame, "user", "item", value)
    lists = read_lists(frame, clicks)  # checks everything but the scores
    hint = "Is clicks= what the model was fitted to?"
    user, item = (
        positions(own, known, what, hint)[codes]
        for (codes, own), known, what in (
            (encode(users, "user"), clicks.users, "user"),
            (encode(items, "item"), clicks.items, "item"),
        )
    )
    score, available = np.zeros(clicks.matrix.shape), np.zeros(clicks.matrix.shape, np.bool_)
    score[user, item], available[user, item] = values, True
    _check(score, available, clicks, value)
    place = np.full(clicks.matrix.shape, clicks.n_items, np.int64)
    place[lists.user, lists.item] = lists.rank - 1
    if value == "probability":
        few = model.recommend(k=k, **options)
        short = read_lists(few, clicks)
        if short.probability is None or np.abs(short.probability - score[short.user, short.item]).max() > 1e-6:
            raise InputError(
                f"the probabilities of {type(model).__name__} depend on k, so those of all items cannot be had "
                "from recommend. Give it a method probabilities(k), users x items, or pass that matrix and clicks."
            )
    return Weights(clicks, value, score, available, place, {})


def _check(score: Floats, available: NDArray[np.bool_], clicks: Clicks, value: Value) -> None:
    good, right = np.isfinite(score), "between 0 and 1" if value == "probability" else "finite"
    if value == "probability":
        good &= (score >= -1e-9) & (score <= 1 + 1e-9)
    if (bad := np.argwhere(available & ~good)).size:
        user, item = bad[0]
        raise InputError(
            f"the {value} of user {shown(clicks.users[user])} and item {shown(clicks.items[item])} is "
            f"{score[user, item]}, and {len(bad) - 1:,} more are not {right}."
        )


def _places(
    score: Floats, available: NDArray[np.bool_], clicks: Clicks, second: Floats | None
) -> NDArray[np.int64]:
    order = best_items(score, available, clicks.n_items, order_of_ids(clicks.items), second)
    place = np.full(score.shape, clicks.n_items, np.int64)
    rows, columns_ = np.nonzero(order >= 0)
    place[rows, order[rows, columns_]] = columns_
    return place
