"""What a blend weighs: the scores of its models on scales that do not depend on how a model writes its scores.

A model with probabilities gives log p, p its law of the next click. Of any other score only its place among all
scores of the model counts: where a share u of them lies below, it is read as e = -log(1 - u), so that with every
unit of e all but the best 37 % are left behind. Squaring scores or adding a number to them changes nothing. The
weight of a unit may differ along the scale, which is cut at `KNOTS`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Mixed into a law before its logarithm is taken, in parts of the law of pure chance: nothing is impossible.
CHANCE = 1e-3
# Where the scale of a score is cut; the best 1 - exp(-5), or one in 148, lie beyond the last.
KNOTS = (0.0, 1.0, 2.5, 5.0, np.inf)
# Points by which the places of scores are remembered.
POINTS = 256


class Scores(NamedTuple):
    """What a model says of some people and all items, [person, item]."""

    values: Floats  # a score, or the law of the next click
    relative_error: Floats | None = None  # Monte Carlo standard error of the law, as a part of it; None: no law


class Scale(NamedTuple):
    """Where scores stand among all scores of a model: increasing scores, and e at each."""

    score: Floats
    e: Floats


def make_scale(values: Floats, free: NDArray[np.bool_]) -> Scale:
    """Return the scale of a model out of the scores of some people on the items they have not clicked.

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


def places(values: Floats, scale: Scale) -> Floats:
    """Return e of every score; beyond the best that was seen it grows on as it does among the last."""
    score, e = scale
    out = np.interp(values, score, e)
    if len(score) > 1:
        step = max(score[-1] - score[-min(len(score), 9)], 1e-300)
        beyond = np.maximum(values - score[-1], 0.0) / step
        out = out + np.minimum(beyond, 4.0)
    return np.asarray(out)


def features_of(scores: Scores, scale: Scale | None) -> Floats:
    """Return the features of one model, [person, item, feature]; ``scale`` is None for a law."""
    if scale is None:
        n_items = scores.values.shape[1]
        return np.asarray(np.log(scores.values + CHANCE / n_items)[:, :, None])
    e = places(scores.values, scale)
    return np.stack([np.clip(e, low, high) - low for low, high in pairwise(KNOTS)], axis=-1)


def feature_names(is_law: bool) -> tuple[str, ...]:
    """Return the names of a model's features, as the table of weights has them."""
    if is_law:
        return ("log probability",)
    names = []
    for low, high in pairwise(KNOTS):
        top = "" if low == 0 else f"best {np.exp(-low):.2g}"
        names.append(f"score, {top or 'all'}" + ("" if np.isinf(high) else f" to best {np.exp(-high):.2g}"))
    return tuple(names)
