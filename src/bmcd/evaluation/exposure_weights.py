"""What it is worth to show an item to a user: a model's probabilities, any rival's scores, or a matrix of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.frames import column_names, columns
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation.lists import read_lists
from bmcd.models.base import ProbabilityModel
from bmcd.models.list_rules import merged
from bmcd.models.top_k import best_items
from bmcd.utils import Floats, shown

Bools = NDArray[np.bool_]
Value = Literal["probability", "score"]
# Larger arrays of users x items are refused: several of them are needed.
MOST_PAIRS = 2**28
# Of more pairs than this, the best items of each user are candidates, unless it is said otherwise.
ALL_PAIRS, CANDIDATES = 2_000_000, 100
# How often more users are looked for who may be shown items with floors.
ROUNDS = 8


class Weights(NamedTuple):
    """The items that may be shown to each user, in the plain order, and what each is worth."""

    clicks: Clicks
    value: Value
    """What the scores are, which is also the name of their column."""
    items: NDArray[np.int64]
    """[user, place]: columns of the clicks, best first, -1 where there are fewer; the first k are what `recommend`
    gives. Clicked items are not there."""
    score: Floats
    """[user, place]: what is summed, probability or score; 0 where there is no item."""
    more_columns: dict[str, Floats]
    """Other columns of the recommendations, such as the Monte Carlo standard error."""
    candidates: int | None = None
    """The number of items of each user, where these are not all."""


def read_weights(
    model: Any,
    k: int,
    clicks: Clicks | None,
    value: Value | None,
    options: dict[str, Any],
    candidates: int | Literal["auto"] | None = "auto",
    lacking: Callable[[Clicks, NDArray[np.int64]], Bools] | None = None,
) -> Weights:
    """Return the weights of a fitted recommender, or of a matrix with the clicks it was made from.

    With ``candidates`` they are those of that many items of each user, and of as many of the items that are
    ``lacking`` in them to reach floors, asked for again until enough users have them.
    """
    is_number = isinstance(candidates, int) and not isinstance(candidates, bool) and candidates >= k
    if not is_number and candidates not in ("auto", None):
        raise InputError(f"candidates must be a number of items, at least k, 'auto' or None, not {candidates!r}.")
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
        own = model.clicks_with_users()
        if clicks is not None and clicks is not own and clicks != own:
            raise InputError("these are not the clicks the model was fitted to; leave clicks= out.")
        if (size := _size(candidates, own)) is not None:
            return _of_best(model, k, own, options, size, lacking)
        return _of_model(model, k, own, options)
    fitted_to = clicks if clicks is not None else getattr(model, "clicks_", None)
    if not isinstance(fitted_to, Clicks):
        raise InputTypeError(f"pass clicks=, the Clicks that the {type(model).__name__} was fitted to.")
    if hasattr(model, "probabilities"):
        return _of_matrix(model.probabilities(k, **options), fitted_to, "probability")
    return _of_rival(model, k, fitted_to, options)


def _size(candidates: int | Literal["auto"] | None, clicks: Clicks) -> int | None:
    """Return how many candidates each user has, None for all items."""
    if candidates == "auto":
        return None if clicks.n_users * clicks.n_items <= ALL_PAIRS else CANDIDATES
    return None if candidates is None or candidates >= clicks.n_items else candidates


def _of_best(
    model: ProbabilityModel, k: int, clicks: Clicks, options: dict[str, Any], size: int,
    lacking: Callable[[Clicks, NDArray[np.int64]], Bools] | None,
) -> Weights:  # fmt: skip
    """Return the weights of the best items of each user, and of the best of those that lack users."""
    lists = model.lists(max(size, k), horizon=k, **options)
    for _ in range(ROUNDS if lacking is not None else 0):
        assert lacking is not None
        if not (wanted := lacking(clicks, lists.items)).any():
            break
        more = model.lists(max(size, k), None, wanted, horizon=k, **options)
        lists = merged(lists, more, "probability")
    others = {name: of for name, of in lists.values.items() if name != "probability"}
    return Weights(clicks, "probability", lists.items, lists.values["probability"], others, size)


def _of_model(model: ProbabilityModel, k: int, clicks: Clicks, options: dict[str, Any]) -> Weights:
    if (size := clicks.n_users * clicks.n_items) > MOST_PAIRS:
        shape = f"all {clicks.n_users:,} users for all {clicks.n_items:,} items"
        raise InputError(
            f"rerank with candidates=None needs the probabilities of {shape}, which take "
            f"{size * 8 / 2**30:.1f} GiB several times. Leave candidates out, which takes the best 100 items "
            "of each user."
        )
    blocks = [predictions for _, predictions in model.prediction_blocks(k, **options)]
    probability, mcse, tie_breaker = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    return _weights(clicks, "probability", probability, tie_breaker, {"mcse": mcse})


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

    def placed(of: Floats) -> Floats:
        return np.where(order >= 0, np.take_along_axis(of, np.maximum(order, 0), axis=1), 0.0)

    return Weights(
        clicks, value, order, placed(score), {name: placed(of) for name, of in (more_columns or {}).items()}
    )


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
    order = np.full(clicks.matrix.shape, -1, np.int64)
    order[lists.user, lists.rank - 1] = lists.item
    in_order = np.zeros(clicks.matrix.shape)
    in_order[lists.user, lists.rank - 1] = score[lists.user, lists.item]
    if value == "probability":
        first = read_lists(model.recommend(k=k, **options), clicks)
        if first.probability is None or np.abs(first.probability - score[first.user, first.item]).max() > 1e-6:
            raise InputError(
                f"the probabilities of {type(model).__name__} depend on k, so recommend cannot give those of all "
                "items. Give it a method probabilities(k), users x items, or pass that matrix and clicks."
            )
    return Weights(clicks, value, order, in_order, {})


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
