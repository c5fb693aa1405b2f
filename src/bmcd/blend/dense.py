"""Members that score densely: any recommenders, asked for the most clicked items only.

A model with probabilities gives log p, p its next-click distribution. Of any other score only its place among all
scores of the model counts: where a share u of them lies below, it is read as e = -log(1 - u), so that with every
unit of e all but the best 37 % are left behind. Squaring scores or adding a number to them changes nothing. The
weight of a unit may differ along the scale, which is cut at `KNOTS`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.errors import BlendError, BmcdError, FitWarning, InputError
from bmcd.models.estimator import clone
from bmcd.utils import Floats

Ints = NDArray[np.int64]

# Mixed into a distribution before its logarithm is taken, in parts of pure chance: nothing is impossible.
CHANCE = 1e-3
# Where the scale of a score is cut; the best 1 - exp(-5), or one in 148, lie beyond the last.
KNOTS = (0.0, 1.0, 2.5, 5.0, np.inf)
# Points by which the places of scores are remembered, and users whose scores say where any score stands.
POINTS, SCALE_USERS = 256, 1_000


class Scale(NamedTuple):
    """Where scores stand among all scores of a model: increasing scores, and e at each."""

    score: Floats
    e: Floats


def make_scale(values: Floats, free: NDArray[np.bool_]) -> Scale:
    """Return the scale of a model out of the scores of some users on the items they have not clicked.

    >>> make_scale(np.array([[1.0, 1.0, 4.0]]), np.ones((1, 3), bool)).e.round(3).tolist()
    [0.336, 1.253]
    """
    ordered = np.sort(np.asarray(values[free], np.float64))
    n = len(ordered)
    if not n:
        return Scale(np.zeros(1), np.zeros(1))
    # Points dense among the best, where few scores lie: equally far apart in e.
    wanted = np.unique(np.ceil(n * -np.expm1(-np.linspace(0, np.log(n + 1), POINTS))).astype(int).clip(1, n) - 1)
    score = np.unique(ordered[wanted])
    first, last = np.searchsorted(ordered, score, "left"), np.searchsorted(ordered, score, "right")
    return Scale(score, -np.log1p(-(first + last) / 2 / n * n / (n + 0.5)))


def averaged(scale: Scale, n: int) -> Scale:
    """Return the scale by the means of ``n`` neighbouring points each: no stored score is that of a single user.

    >>> averaged(Scale(np.arange(5.0), np.arange(5.0)), 2).score.tolist()
    [0.5, 3.0]
    """
    first = np.arange(0, max(len(scale.score) - n + 1, 1), n)  # the last mean takes what is left
    sizes = np.diff(np.append(first, len(scale.score)))
    return Scale(*(np.add.reduceat(values, first) / sizes for values in scale))


def places(values: Floats, scale: Scale) -> Floats:
    """Return e of every score; beyond the best that was seen it grows on as it does among the last."""
    score, e = scale
    out = np.interp(values, score, e)
    if len(score) > 1:
        step = max(score[-1] - score[-min(len(score), 9)], 1e-300)
        out = out + np.minimum(np.maximum(values - score[-1], 0.0) / step, 4.0)
    return np.asarray(out)


class DenseMembers(NamedTuple):
    """Fitted models that give a score to each of some items."""

    models: dict[str, Any]
    scales: tuple[Scale | None, ...]
    """Of each model; None for one with probabilities."""
    items: NDArray[np.int64]
    """The numbers of the items in the log; the models have them as 0, 1, ..."""

    @classmethod
    def none(cls) -> DenseMembers:
        """Return no members."""
        return cls({}, (), np.zeros(0, np.int64))

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Name and member of each feature."""
        found = []
        for name, scale in zip(self.models, self.scales, strict=True):
            found += [(feature, name) for feature in feature_names(scale is None)]
        return tuple(found)

    def features_for(
        self, n_items: int, n: int, people: Clicks | None, n_threads: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the place of each item among those asked for, or -1, and the features, [user, place, feature].

        ``people`` have the clicks of the users on the items of the log.
        """
        if not self.models:
            return np.full(1, -1, np.int64), np.zeros((n, 1, 0), np.float32)
        assert people is not None
        place_of = np.full(n_items, -1, np.int64)
        place_of[self.items] = np.arange(len(self.items))
        asked = on_items(people, self.items)
        parts = []
        for (name, model), scale in zip(self.models.items(), self.scales, strict=True):
            values = scores_of(name, model, asked, n_threads)
            if scale is None:
                floor = CHANCE / max(len(self.items), 1)
                parts.append((np.log(values + floor) - np.log(floor))[:, :, None])
            else:
                e = places(values, scale)
                parts.append(np.stack([np.clip(e, a, b) - a for a, b in pairwise(KNOTS)], axis=-1))
        return place_of, np.concatenate(parts, axis=2).astype(np.float32)


def feature_names(gives_probabilities: bool) -> tuple[str, ...]:
    """Return the names of a model's features, as the table of weights has them."""
    if gives_probabilities:
        return ("log probability",)
    names = []
    for low, high in pairwise(KNOTS):
        top = "" if low == 0 else f"best {np.exp(-low):.2g}"
        names.append(f"score, {top or 'all'}" + ("" if np.isinf(high) else f" to best {np.exp(-high):.2g}"))
    return tuple(names)


def on_items(people: Clicks, items: NDArray[np.int64]) -> Clicks:
    """Return clicks on the items that models are asked for."""
    whole = len(items) == people.n_items and (items == np.arange(len(items))).all()
    return people.keep(people.sequence >= 0) if whole else people.of_items(items)


def people_of(people: Clicks, sequence: NDArray[np.int32], histories: Ints) -> Clicks:
    """Return the users of histories as a log, with all the clicks of each."""
    lengths = histories[:, 2] - histories[:, 0]
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    places = np.arange(starts[-1]) + np.repeat(histories[:, 0] - starts[:-1], lengths)
    own: dict[str, Any] = {"times": None, "session_ids": None, "order": people.order and "rows"}
    items = sequence[places]
    if people.order is None:  # unordered clicks are sorted
        items = items[np.lexsort((items, np.repeat(np.arange(len(lengths)), lengths)))]
    return replace(people, users=np.arange(len(histories)), starts=starts, sequence=items, **own)


def scores_of(name: str, model: Any, people: Clicks, n_threads: int | None = None) -> Floats:
    """Return what a fitted model says of the next click of users, [user, item], from their clicks alone."""
    if hasattr(model, "law_of_next_click"):
        found: Floats = model.law_of_next_click(people, n_threads=n_threads)[0]
        return found
    if hasattr(model, "scores_for"):
        return np.asarray(model.scores_for(people), np.float64)
    if not hasattr(model, "recommend_for"):
        raise InputError(
            f"{name} can recommend only to users it was fitted to, so a blend cannot ask it about moments: give "
            f"the class {type(model).__name__} a method recommend_for(histories, k) or scores_for(clicks)."
        )
    return _scores_by_recommending(name, model, people)


def _scores_by_recommending(name: str, model: Any, people: Clicks) -> Floats:
    """Return the scores in a list of everything; an item that is not in it has the lowest of all."""
    import narwhals as nw

    clicked = [people.items[row[row >= 0]].tolist() for row in np.split(people.sequence, people.starts[1:-1])]
    frame = nw.from_native(model.recommend_for(clicked, people.n_items), eager_only=True)
    value = next((column for column in ("probability", "score") if column in frame.columns), None)
    if value is None:
        raise InputError(f"{name} recommends without a score: its frame has {', '.join(frame.columns)}.")
    scores = np.full((people.n_users, people.n_items), np.nan)
    rows, columns = np.asarray(frame["user"].to_list(), np.int64), people.columns_of(frame["item"].to_list())
    scores[rows, columns] = frame[value].to_numpy()
    return np.where(np.isnan(scores), np.nanmin(scores) if len(frame) else 0.0, scores)


def fitted_to(clicks: Clicks, items: NDArray[np.int64]) -> Clicks:
    """Return the clicks that models are fitted to: on the items they are asked for, of users who have some."""
    inside = on_items(clicks, items)
    return inside.of_users(np.flatnonzero(inside.per_user > 0))


def fit_members(
    models: Mapping[str, Any],
    clicks: Clicks,
    items: NDArray[np.int64],
    *,
    seed: int,
    n_threads: int | None,
    progress: bool | None,
    options: Mapping[str, Mapping[str, Any]],
    part: str = "all",
) -> DenseMembers:
    """Return copies of the models, fitted to the clicks on some items, and the scales of their scores.

    ``options`` are more arguments of each model's `fit`; a checkpoint is a folder, with a file for each ``part``.
    """
    inside = fitted_to(clicks, items)
    fitted: dict[str, Any] = {}
    scales: list[Scale | None] = []
    for name, model in models.items():
        fresh = clone(model)
        accepted = inspect.signature(fresh.fit).parameters
        run: dict[str, Any] = {"seed": seed, "n_threads": n_threads, "progress": progress}
        run = {key: value for key, value in run.items() if key in accepted} | dict(options.get(name, {}))
        if run.get("checkpoint") is not None:
            run["checkpoint"] = Path(run["checkpoint"]) / f"{quote(name, safe='')}-{part}.checkpoint"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FitWarning)  # the weights are learnt from what the model says
                fresh.fit(inside, **run)
        except BmcdError as error:
            raise BlendError(f"{name}: {error}") from error
        fitted[name] = fresh
        if hasattr(fresh, "law_of_next_click"):
            scales.append(None)
        else:
            rows = np.unique(np.linspace(0, inside.n_users - 1, min(SCALE_USERS, inside.n_users)).astype(np.int64))
            people = inside.of_users(rows)
            free = ~np.asarray(people.matrix.toarray(), np.bool_)
            scales.append(make_scale(scores_of(name, fresh, people, n_threads), free))
    return DenseMembers(fitted, tuple(scales), items)
