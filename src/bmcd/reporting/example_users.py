"""Example users: who they are, what they clicked, what they are recommended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.table import positions
from bmcd.errors import InputError
from bmcd.prediction.predictor import DRAWS
from bmcd.reporting.facts import Facts

SHOWN = 12
# Among how many users examples are looked for, and with how few draws: where they belong need not be exact.
LOOKED_AT, LOOKED_WITH = 240, 8
# How sure the model is of those shown, as places among the users of their cluster: one that is sure, one that is
# not, one in the middle, ...
PLACES = (0.9, 0.1, 0.5, 1.0, 0.0, 0.7, 0.3)


@dataclass(frozen=True, eq=False)
class Person:
    """One user of the clicks."""

    row: int
    user: Any
    clicked: tuple[int, ...]
    """Items by number."""
    kept_aside: frozenset[int]
    """Test clicks, by number."""
    memberships: tuple[tuple[int, float], ...]
    """Clusters (1 is the largest) and the probability to belong to each, the largest first; may be unknown."""


def choose_people(facts: Facts, users: Iterable[Any] | None) -> list[Person]:
    """The users asked for; or 12, spread over the clusters and over how sure the model is, always the same."""
    clicks = facts.clicks
    if users is not None:
        wanted = positions(users, clicks.users, "user", "Show users that the model was fitted to.")
        rows = list(dict.fromkeys(wanted.tolist()))
        if not rows:
            raise InputError("users is empty. Leave it out to have examples chosen, or name at least one.")
    else:
        rows = _spread(facts)
    belongs = _memberships(facts, np.array(rows), DRAWS)
    aside = _kept_aside(facts)
    people = []
    for at, row in enumerate(rows):
        own = (
            () if belongs is None else tuple((int(c) + 1, float(belongs[at, c])) for c in np.argsort(-belongs[at]))
        )
        starts = clicks.matrix.indptr
        clicked = tuple(clicks.matrix.indices[starts[row] : starts[row + 1]].tolist())
        people.append(Person(row, clicks.users[row], clicked, frozenset(aside.get(row, ())), own))
    return people


def _spread(facts: Facts) -> list[int]:
    lists = facts.views[0].lists
    has = lists.items >= 0
    number = has.sum(axis=1)
    sure = np.where(has, lists.values["probability"], 0.0).sum(axis=1) / np.maximum(number, 1)
    some = np.flatnonzero(number > 0)
    order = some[np.argsort(sure[some], kind="stable")]
    looked_at = order[np.unique(np.linspace(0, len(order) - 1, min(LOOKED_AT, len(order))).round().astype(int))]
    belongs = _memberships(facts, looked_at, LOOKED_WITH)
    label = np.zeros(len(looked_at), int) if belongs is None else belongs.argmax(axis=1)
    groups = [looked_at[label == c] for c in range(int(label.max()) + 1)]
    chosen: list[int] = []
    for place in PLACES * SHOWN:
        for group in groups:
            left = [int(row) for row in group if row not in chosen]
            if left and len(chosen) < SHOWN:
                chosen.append(left[round(place * (len(left) - 1))])
        if len(chosen) >= min(SHOWN, len(looked_at)):
            break
    return chosen


def _memberships(facts: Facts, rows: NDArray[Any], draws: int) -> NDArray[np.float64] | None:
    """P(cluster) of these users, clusters by their names; None for distances that only count."""
    answers = facts.model._ask()
    if not answers.exact:
        return None
    predictor = answers.predictor(draws)
    weight = predictor.memberships(facts.clicks.matrix[rows])
    name = answers.names().name[:, predictor.chosen].reshape(weight.shape[0], -1)
    order = np.argsort(name, axis=1)[:, None, :]
    return np.asarray(np.take_along_axis(weight, order, axis=2).mean(axis=0))


def _kept_aside(facts: Facts) -> dict[int, list[int]]:
    """Test clicks by the rows of the users, with the numbers that the items have in the clicks."""
    if facts.test is None:
        return {}
    item = {own: at for at, own in enumerate(facts.clicks.items.tolist())}
    user = {own: at for at, own in enumerate(facts.clicks.users.tolist())}
    starts, items = facts.test.matrix.indptr, facts.test.items.tolist()
    return {
        user[own]: [item[items[i]] for i in facts.test.matrix.indices[starts[at] : starts[at + 1]]]
        for at, own in enumerate(facts.test.users.tolist())
    }
