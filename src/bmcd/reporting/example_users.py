"""The example users of a report: who is shown, what they clicked, where they belong, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.blend.blend import Blend
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference.draws import MaxDraws
from bmcd.models.bmcd import BMCD
from bmcd.models.persistence import Model
from bmcd.models.tastes import Tastes
from bmcd.models.top_k import Lists

N_EXAMPLES = 12
# Examples are looked for among so many users, with so few draws: where they belong need not be exact.
N_CANDIDATES, CANDIDATE_DRAWS = 240, 8
# Which users of a cluster are shown, as quantiles of how sure the model is: one of whom it is sure, one of whom it
# is not, one in the middle, ...
QUANTILES = (0.9, 0.1, 0.5, 1.0, 0.0, 0.7, 0.3)


@dataclass(frozen=True, eq=False)
class ExampleUser:
    """One user of the clicks."""

    row: int
    user: Any
    """The id."""
    clicked: tuple[int, ...]
    """Columns of the items clicked."""
    memberships: tuple[tuple[int, float], ...]
    """Clusters (1 is the largest) with the probability of each, the most probable first; empty if unknown."""
    reasons: Mapping[int, str]
    """In words why an item is probable, by its column; only of a blend."""


def choose_example_users(
    model: Model,
    grouping: BMCD | Tastes | None,
    clicks: Clicks,
    lists: Sequence[Lists],
    users: Iterable[Any] | None,
) -> tuple[ExampleUser, ...]:
    """Return the users asked for; by default 12, spread over the clusters and over how sure the model is.

    The same model and clicks give the same users.
    """
    if users is None:
        rows = _spread_rows(grouping, clicks, lists[0])
    else:
        wanted = clicks.rows_of(
            users, "Show users of the report: those of the histories, or those that the model was fitted to."
        )
        rows = list(dict.fromkeys(wanted.tolist()))
        if not rows:
            raise InputError("users is empty. Leave it out to have examples chosen, or name at least one.")
    weights = _memberships(grouping, clicks, rows, "auto")
    examples = []
    for place, row in enumerate(rows):
        by_cluster = enumerate([] if weights is None else weights[place].tolist(), start=1)
        belongs = tuple(sorted(by_cluster, key=lambda pair: -pair[1]))
        clicked = _clicked(clicks, row)
        shown = dict.fromkeys(item for of_k in lists for item in of_k.items[row].tolist() if item >= 0)
        why = _reasons(model, clicks, row, list(shown))
        examples.append(ExampleUser(row, clicks.users[row], clicked, belongs, why))
    return tuple(examples)


def _spread_rows(grouping: BMCD | Tastes | None, clicks: Clicks, lists: Lists) -> list[int]:
    given = lists.items >= 0
    n_given = given.sum(axis=1)
    sureness = np.where(given, lists.values["probability"], 0.0).sum(axis=1) / np.maximum(n_given, 1)
    with_list = np.flatnonzero(n_given > 0)
    order = with_list[np.argsort(sureness[with_list], kind="stable")]
    places = np.linspace(0, len(order) - 1, min(N_CANDIDATES, len(order))).round().astype(int)
    candidates = order[np.unique(places)]
    weights = _memberships(grouping, clicks, candidates.tolist(), CANDIDATE_DRAWS)
    label = np.zeros(len(candidates), int) if weights is None else weights.argmax(axis=1)
    groups = [candidates[label == c].tolist() for c in range(int(label.max()) + 1)]
    chosen: list[int] = []
    for quantile in QUANTILES * N_EXAMPLES:
        for group in groups:
            left = [row for row in group if row not in chosen]
            if left and len(chosen) < N_EXAMPLES:
                chosen.append(left[round(quantile * (len(left) - 1))])
        if len(chosen) >= min(N_EXAMPLES, len(candidates)):
            break
    return chosen


def _memberships(
    grouping: BMCD | Tastes | None, clicks: Clicks, rows: list[int], max_draws: MaxDraws
) -> NDArray[np.float64] | None:
    """Return P(cluster) of the users in these rows; None without clusters, and for distances that only count."""
    options = {} if grouping is None else grouping.draws_.problem.options
    if grouping is None or ("count_k" in options and options["distance"] != "footrule"):
        return None
    people = clicks_of_histories(clicks.of_users(np.array(rows, np.int64)), grouping.clicks_, "ignore")
    return grouping.memberships_of(people, max_draws=max_draws)


def _clicked(clicks: Clicks, row: int) -> tuple[int, ...]:
    """Return the columns of a user's items: the latest click first, or in the order of the items."""
    if clicks.order is None:
        return tuple(clicks.matrix[[row]].indices.tolist())
    own = clicks.sequence[clicks.starts[row] : clicks.starts[row + 1]]
    return tuple(dict.fromkeys(int(item) for item in own[::-1] if item >= 0))


def _reasons(model: Model, clicks: Clicks, row: int, columns: list[int]) -> dict[int, str]:
    """Return in words why these items are probable for a user; only of a blend."""
    if not isinstance(model, Blend):
        return {}
    history = clicks.items[list(_clicked(clicks, row)[::-1])].tolist()
    explained = {column: model.explain(None, clicks.items[column], 1, history=history) for column in columns}
    return {column: one.short for column, one in explained.items() if one.short}
