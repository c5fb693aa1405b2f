"""The rule of a blend: from the scores of its models to the rates of everybody's items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.blending.features import Scale, Scores, feature_names, features_of
from bmcd.blending.learning import learn_map, learn_weights, rank_features
from bmcd.blending.likelihood import HeldOut
from bmcd.system.progress import counting

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

# Weights are learnt for these numbers of clicks to come; between them they follow the logarithm of k.
LADDER = (1, 3, 10, 30)


class Activity(NamedTuple):
    """How much users click, as log(1 + clicks): what is usual, and the ends of what was seen."""

    usual: float
    least: float
    most: float

    def of(self, n_clicks: NDArray[Any]) -> Floats:
        """Return how much more than usual people click, no further than was seen."""
        return np.asarray(np.clip(np.log1p(n_clicks), self.least, self.most) - self.usual)


class Rule(NamedTuple):
    """The weights of a blend, by the number of clicks to come."""

    names: tuple[str, ...]  # of the models
    is_law: tuple[bool, ...]  # whether a model gives a law of the next click
    activity: Activity
    ks: NDArray[np.int64]
    weights: Floats  # [k, feature]
    standard_errors: Floats
    maps: Floats  # of the second stage, [k, group]; all 1 where it was not kept
    brier: Floats  # on unseen users, without and with the second stage, [k, 2]
    n_clicks: int  # held-out clicks they were learnt from
    n_users: int

    def features(self, scores: Sequence[Scores], scales: Sequence[Scale | None], n_clicks: NDArray[Any]) -> Floats:
        """Return the features of all models, [person, item, feature]."""
        return stack_features(scores, scales, self.activity.of(n_clicks))

    def at(self, k: int) -> tuple[Floats, Floats]:
        """Return the weights of the features and of the second stage for the next k."""
        place = np.interp(np.log(k), np.log(self.ks), np.arange(len(self.ks)))
        low = int(place)
        high, part = min(low + 1, len(self.ks) - 1), place - low
        return tuple((1 - part) * of[low] + part * of[high] for of in (self.weights, self.maps))

    def log_rates(self, features: Floats, free: NDArray[np.bool_], k: int) -> Floats:
        """Return the logarithms of the rates at which items arrive, [person, item]."""
        weights, stretch = self.at(k)
        score = features @ weights
        return score if (stretch == 1).all() else np.asarray(rank_features(score, free) @ stretch)

    def features_by_model(self) -> list[slice]:
        """Return which features are those of each model."""
        ends = np.cumsum([0, *(len(feature_names(law)) + 1 for law in self.is_law)]).tolist()
        return [slice(first, last) for first, last in pairwise(ends)]

    def table(self) -> pd.DataFrame:
        """Return the weights with their standard errors, a row for each feature and number of clicks to come."""
        import pandas as pd

        rows = []
        for k, weights, errors in zip(self.ks.tolist(), self.weights, self.standard_errors, strict=True):
            labels = [
                (name, feature)
                for name, law in zip(self.names, self.is_law, strict=True)
                for feature in (*feature_names(law), "more for active users")
            ]
            for (name, feature), weight, error in zip(labels, weights.tolist(), errors.tolist(), strict=True):
                rows.append({"k": k, "model": name, "feature": feature, "weight": weight, "standard_error": error})
        return pd.DataFrame(rows)


def stack_features(scores: Sequence[Scores], scales: Sequence[Scale | None], activity: Floats) -> Floats:
    """Return the features of all models; the last of each is how much more it counts for active users."""
    parts = []
    for given, scale in zip(scores, scales, strict=True):
        own = features_of(given, scale)
        parts += [own, own.sum(axis=2, keepdims=True) * activity[:, None, None]]
    return np.concatenate(parts, axis=2)


def learn_rule(
    names: Mapping[str, bool],
    held: HeldOut,
    activity: Activity,
    n_clicks: int,
    *,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Rule:
    """Learn the weights for every k of the ladder; ``names`` says of each model whether it gives a law."""
    n_items, n_features = held.x.shape[1:]
    ks = [k for k in LADDER if k == 1 or k <= n_items // 4]
    weights = centre = start_weights(tuple(names.values()), n_features)
    # Of one score more must never mean less; how much more it counts for active users may have any sign.
    positive = np.arange(n_features) < n_features - 1 if tuple(names.values()) == (False,) else None
    found, stages = [], []
    with counting(progress, "learning weights", 2 * len(ks)) as show:
        for number, k in enumerate(ks):
            learnt = learn_weights(held, k, weights, centre=centre, positive=positive, n_threads=n_threads)
            weights = learnt.weights  # a good start for the next
            found.append(learnt)
            show(2 * number + 1)
            stages.append(learn_map(held, k, weights, n_threads))
            show(2 * number + 2)
    return Rule(
        names=tuple(names),
        is_law=tuple(names.values()),
        activity=activity,
        ks=np.array(ks, np.int64),
        weights=np.stack([learnt.weights for learnt in found]),
        standard_errors=np.stack([learnt.standard_errors for learnt in found]),
        maps=np.stack([stage.weights for stage in stages]),
        brier=np.array([[stage.brier_without, stage.brier_with] for stage in stages]),
        n_clicks=n_clicks,
        n_users=len(np.unique(held.users)),
    )


def start_weights(is_law: Sequence[bool], n_features: int) -> Floats:
    """Return where learning begins: the first law as it is, or, without one, the first score."""
    weights, place = np.zeros(n_features), 0
    first_law = is_law.index(True) if True in is_law else -1
    for number, law in enumerate(is_law):
        size = len(feature_names(law))
        if number == max(first_law, 0):
            weights[place : place + size] = 1.0 if law else 0.5
        place += size + 1
    return weights
