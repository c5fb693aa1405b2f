"""What changed from one model to another: hits, lists, items shown, groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation.intervals import bootstrap, percentiles
from bmcd.evaluation.metrics import PerUser
from bmcd.models.base import ProbabilityModel
from bmcd.models.persistence import Model, sampled_models
from bmcd.models.top_k import Lists

LEVEL, RESAMPLES = 0.95, 2000
Items = frozenset[Any]


class HitChange(NamedTuple):
    """How often both models hit for the same users, on test items that both know."""

    before: float
    now: float
    low: float
    """Of now minus before, a 95 % interval over users."""
    high: float
    n_users: int


class ListChange(NamedTuple):
    """How the lists for one k have changed, for the users that both models know."""

    k: int
    n_users: int
    in_common: float
    """Items of a list that were also in the one before, on average."""
    n_same: int
    """Users whose lists have the same items."""
    gained: tuple[tuple[Any, int], ...]
    """Items, and the number of additional users they are recommended to, largest first."""
    lost: tuple[tuple[Any, int], ...]
    hits: HitChange | None
    """None without a test, or without test users that both models know."""


class GroupChange(NamedTuple):
    """A group, and the most similar group of the model before."""

    group: int
    share: float
    before: int
    share_before: float
    n_common: int
    """How many of its best items are also among the best of that group."""
    n_best: int


@dataclass(frozen=True, eq=False)
class Changes:
    """Everything that changed since another model."""

    before: str
    now: str
    clicks: Clicks
    """Those of the model before."""
    lists: tuple[ListChange, ...]
    groups: tuple[GroupChange, ...]
    """Empty if one of the two has no groups."""

    def of_k(self, k: int) -> ListChange | None:
        """Return how the lists of one length have changed; None without a user that both models know."""
        return next((change for change in self.lists if change.k == k), None)

    def came(self, now: Clicks) -> int:
        """Return the number of items that are new."""
        return len(set(now.items.tolist()) - set(self.clicks.items.tolist()))

    def gone(self, now: Clicks) -> int:
        """Return the number of items that are no longer there."""
        return len(set(self.clicks.items.tolist()) - set(now.items.tolist()))

    def titles(self, now: Clicks) -> dict[Any, str]:
        """Return the title of each item of either model."""
        both = (self.clicks, now)
        return {item: log.title_of(column) for log in both for column, item in enumerate(log.items.tolist())}


def read_models(model: Any) -> tuple[Model, tuple[str, str, Model] | None]:
    """Return the model to report on and, if two were given by name, both names and the one before."""
    if not isinstance(model, Mapping):
        return model, None
    if len(model) != 2:
        raise InputError(f"a report is about one model, or about two, the older first, not {len(model)}.")
    (before, old), (now, new) = model.items()
    for name, one in model.items():
        if not isinstance(one, ProbabilityModel):
            raise InputTypeError(f"{name!r} is {type(one).__name__}, but a report is about BMCD, Tastes or Blend.")
    if old.check_fitted().clicks_.n_users == 0:
        raise InputError(f"{before!r} was saved without the clicks it was fitted to: its lists are not known.")
    return new, (str(before), str(now), old)


def find_changes(
    names: tuple[str, str], old: Model, new: Model, test: Clicks | None, lists: Mapping[int, Lists], seed: int = 0
) -> Changes:
    """Return what changed; ``lists`` are those of the new model, of all its users, by k."""
    known = set(new.clicks_.users.tolist())
    users = [user for user in old.clicks_.users.tolist() if user in known]
    changed = []
    for k, of_all in lists.items() if users else ():
        now = _sets(of_all.items[new.clicks_.rows_of(users)], new.clicks_)
        before = _sets(old.lists(k, users, progress=False).items, old.clicks_)
        hits = (
            None
            if test is None
            else _hits(dict(zip(users, zip(before, now, strict=True), strict=True)), old, test, seed)
        )
        changed.append(_list_change(k, before, now, hits))
    return Changes(*names, old.clicks_, tuple(changed), _group_changes(old, new))


def _sets(lists: NDArray[np.int64], clicks: Clicks) -> list[Items]:
    return [frozenset(clicks.items[row[row >= 0]].tolist()) for row in lists]


def _list_change(k: int, before: list[Items], now: list[Items], hits: HitChange | None) -> ListChange:
    pairs = list(zip(before, now, strict=True))
    shown = [Counter(item for one in lists for item in one) for lists in (now, before)]
    gained, lost = ((a - b).most_common() for a, b in (shown, shown[::-1]))
    in_common = sum(len(a & b) for a, b in pairs) / len(pairs)
    return ListChange(k, len(pairs), in_common, sum(a == b for a, b in pairs), tuple(gained), tuple(lost), hits)


def _hits(lists: Mapping[Any, tuple[Items, Items]], old: Model, test: Clicks, seed: int) -> HitChange | None:
    """Compare both for the users of the test that both know, on the items of the test that both know."""
    known, starts = set(old.clicks_.items.tolist()), test.matrix.indptr
    rows = []
    for row, user in enumerate(test.users.tolist()):
        kept = known.intersection(test.items[test.matrix.indices[starts[row] : starts[row + 1]]].tolist())
        if kept and user in lists:
            rows.append([number for one in lists[user] for number in (len(kept & one), len(one))])
    if len(rows) < 2:
        return None
    counts = np.array(rows, np.float64)
    measures = [PerUser(counts[:, column], counts[:, column + 1]) for column in (0, 2)]
    draws = bootstrap(measures, RESAMPLES, seed)
    low, high, _ = percentiles(draws[:, 1] - draws[:, 0], LEVEL)
    return HitChange(measures[0].value, measures[1].value, low, high, len(rows))


def _group_changes(old: Model, new: Model) -> tuple[GroupChange, ...]:
    """Return each group with the group before that shares most of its best items."""
    both = [next(iter(sampled_models(model).values()), None) for model in (old, new)]
    if both[0] is None or both[1] is None:
        return ()
    before = [(group, {each.item for each in group.top}) for group in both[0].clusters_]
    changes = []
    for group in both[1].clusters_:
        best = {each.item for each in group.top}
        like, items = max(before, key=lambda pair: len(pair[1] & best))
        changes.append(
            GroupChange(group.cluster, group.share, like.cluster, like.share, len(items & best), len(best))
        )
    return tuple(changes)
