"""What the models of a blend say of people: three kinds of models, one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.blending.features import Scores
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError

Floats = NDArray[np.float64]


def part_scores(name: str, model: Any, people: Clicks, *, known: bool, n_threads: int | None = None) -> Scores:
    """Return what a fitted model says of the next click of these people, from their clicks alone.

    A model with probabilities gives its law of the next click, one of bmcd's rivals its scores. Any other that
    keeps the contract of `bmcd.testing.check_recommender` is asked to recommend everything, if the people are
    ``known`` to it.
    """
    if hasattr(model, "law_of_next_click"):
        law, mcse = model.law_of_next_click(people, n_threads=n_threads)
        return Scores(law, np.nan_to_num(mcse) / np.maximum(law, 1e-12))
    if hasattr(model, "scores_for"):
        return Scores(model.scores_for(people))
    if not known:
        raise InputError(
            f"{name} can recommend only to users it was fitted to, so this blend cannot serve other people: give "
            f"the class {type(model).__name__} a method scores_for(clicks)."
        )
    return Scores(_scores_by_recommending(name, model, people))


def gives_law(model: Any) -> bool:
    """Return whether a model gives a law of the next click, not only scores."""
    return hasattr(model, "law_of_next_click")


def _scores_by_recommending(name: str, model: Any, people: Clicks) -> Floats:
    """Return the scores in a list of everything; an item that is not in it has the lowest of all."""
    import narwhals as nw

    frame = nw.from_native(model.recommend(people.n_items, users=people.users.tolist()), eager_only=True)
    value = next((column for column in ("probability", "score") if column in frame.columns), None)
    if value is None:
        raise InputError(f"{name} recommends without a score: its frame has {', '.join(frame.columns)}.")
    scores = np.full((people.n_users, people.n_items), np.nan)
    rows, columns = people.rows_of(frame["user"].to_list()), people.columns_of(frame["item"].to_list())
    scores[rows, columns] = frame[value].to_numpy()
    return np.where(np.isnan(scores), np.nanmin(scores) if len(frame) else 0.0, scores)
