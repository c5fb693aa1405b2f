"""Measures by groups of items, such as sections; docs/diversity.md defines each, with its reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.item_table import ItemGroups
from bmcd.clicks.log import Clicks, Library
from bmcd.evaluation.lists import RankedLists
from bmcd.evaluation.metrics import PerUser, list_lengths
from bmcd.utils import Floats

# The part of a user's own distribution that is mixed into that of the list, so that no logarithm is infinite.
SMOOTHING = 0.01


@dataclass(frozen=True, eq=False)
class GroupMeasures:
    """What recommendations are like by the groups of one column of the item table: `Evaluation.by_group`."""

    column: str
    names: tuple[str, ...]
    """Of the groups; the last of each array below are items without a group."""
    items: Floats
    """Items of each group. Here and below an item in n groups counts as 1/n in each."""
    clicks: Floats
    """Training clicks on them."""
    shown: Floats
    """Recommendations of them."""
    hits: Floats
    next_clicks: Floats
    """Test clicks on them, within the horizon."""
    groups_per_list: float
    """Different groups in a list, mean over users with a list."""
    group_distance: float
    """1 - Jaccard similarity of the groups of two items, mean over pairs of a list, then over users."""
    group_miscalibration: float
    """Divergence of a list's groups from those of the user's clicks (Steck 2018), mean over users; 0 is best."""
    group_gap: float
    """Share of recommendations that would have to move to other groups to match the test clicks."""

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return a frame with a row for each group: items, clicks, shown, hits, next_clicks, hit_rate."""
        import narwhals as nw

        data: dict[str, Any] = {self.column: [*self.names, None]}
        data |= {name: getattr(self, name) for name in ("items", "clicks", "shown", "hits", "next_clicks")}
        shown = self.shown
        data["hit_rate"] = np.divide(self.hits, shown, out=np.full_like(shown, np.nan), where=shown > 0)
        keep = slice(None) if self.items[-1] > 0 else slice(-1)
        return nw.from_dict(
            {name: list(values)[keep] for name, values in data.items()}, backend=library
        ).to_native()

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON."""
        measures = ("groups_per_list", "group_distance", "group_miscalibration", "group_gap")
        return {name: getattr(self, name) for name in measures} | {"groups": self.to_frame().to_dict("records")}


MEASURES = ("groups_per_list", "group_distance", "group_miscalibration", "group_gap")


def measure_groups(
    column: str, groups: ItemGroups, lists: RankedLists, hit: NDArray[np.bool_], users: Clicks, train: Clicks,
    truth: sparse.csr_array[Any], n_users: int,
) -> tuple[GroupMeasures, dict[str, PerUser]]:  # fmt: skip
    """Return the measures of one column, and those that have intervals by user.

    ``users`` are those of the lists, with what they had clicked; ``truth`` is what would have been a hit for them.
    """
    share = shares_of(groups)
    per_user = {
        "groups_per_list": groups_per_list(lists, groups, n_users),
        "group_distance": group_distance(lists, groups, n_users),
        "group_miscalibration": miscalibration(lists, share, users.matrix, n_users),
    }

    def total(items: NDArray[Any], weights: Any = None) -> Floats:
        return np.asarray(np.bincount(items, weights=weights, minlength=train.n_items) @ share, np.float64)

    shown, nexts = total(lists.item), total(truth.indices)
    own = {name: one.value if one.denominator.any() else float("nan") for name, one in per_user.items()}
    measures = GroupMeasures(
        column, groups.names, np.ones(train.n_items) @ share, train.per_item @ share, shown, total(lists.item[hit]),
        nexts, **own, group_gap=gap(shown, nexts),
    )  # fmt: skip
    return measures, per_user


def shares_of(groups: ItemGroups) -> Floats:
    """Return the share of each item in each group, items x (groups, none): an item in n groups is 1/n in each.

    >>> shares_of(ItemGroups.of([["a"], ["a", "b"], []])).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    inside = groups.matrix.toarray().astype(np.float64)
    number = inside.sum(axis=1)
    return np.column_stack([inside / np.maximum(number, 1)[:, None], number == 0])


def groups_per_list(lists: RankedLists, groups: ItemGroups, n_users: int) -> PerUser:
    """Return the number of different groups in a list, averaged over the users with a list."""
    lengths = np.diff(groups.starts)[lists.item]
    user = np.repeat(lists.user, lengths)
    before = np.cumsum(lengths) - lengths
    own = groups.numbers[np.repeat(groups.starts[lists.item] - before, lengths) + np.arange(lengths.sum())]
    pairs = np.unique(user * max(len(groups.names), 1) + own)
    found = np.bincount(pairs // max(len(groups.names), 1), minlength=n_users).astype(np.float64)
    return PerUser(found, (list_lengths(lists, n_users) > 0).astype(np.float64))


def group_distance(lists: RankedLists, groups: ItemGroups, n_users: int) -> PerUser:
    """Return 1 - |shared groups| / |groups of either|, mean over pairs of items with groups, then over users.

    Users whose list has no such pair do not count.
    """
    inside = groups.matrix.astype(np.int64)
    number = np.diff(groups.starts)
    total, n_pairs = np.zeros(n_users), np.zeros(n_users)
    for apart in range(1, int(lists.rank.max(initial=1))):
        one, other = lists.item[apart:], lists.item[:-apart]
        use = (lists.user[apart:] == lists.user[:-apart]) & (number[one] > 0) & (number[other] > 0)
        one, other, user = one[use], other[use], lists.user[apart:][use]
        if not len(user):
            continue
        both = np.asarray((inside[one] * inside[other]).sum(axis=1)).ravel()
        distance = 1 - both / (number[one] + number[other] - both)
        total += np.bincount(user, weights=distance, minlength=n_users)
        n_pairs += np.bincount(user, minlength=n_users)
    return PerUser(total / np.maximum(n_pairs, 1), (n_pairs > 0).astype(np.float64))


def miscalibration(
    lists: RankedLists, share: Floats, clicked: sparse.csr_array[Any], n_users: int, smoothing: float = SMOOTHING
) -> PerUser:
    """Return sum over groups of p log(p / q), mean over users with clicks and recommendations that have groups.

    p is the distribution of groups over a user's clicks, and q that over the list, mixed with a little of p.
    """
    rows = sparse.csr_array((np.ones(len(lists.user)), (lists.user, lists.item)), shape=(n_users, len(share)))
    p: Floats = np.asarray(clicked.astype(np.float64) @ share[:, :-1])
    q: Floats = np.asarray(rows @ share[:, :-1])
    of_clicks, of_list = p.sum(axis=1), q.sum(axis=1)
    counts = (of_clicks > 0) & (of_list > 0)
    p = p / np.maximum(of_clicks, 1e-300)[:, None]
    q = (1 - smoothing) * q / np.maximum(of_list, 1e-300)[:, None] + smoothing * p
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    return PerUser(np.where(counts, (p * np.log(ratio)).sum(axis=1), 0.0), counts.astype(np.float64))


def gap(shown: Floats, clicked: Floats) -> float:
    """Return half the sum of the differences of two distributions: what would have to move.

    >>> gap(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    0.25
    """
    if not shown.sum() or not clicked.sum():
        return float("nan")
    return float(np.abs(shown / shown.sum() - clicked / clicked.sum()).sum() / 2)


def personalisation(lists: RankedLists, n_users: int) -> float:
    """Return 1 - the mean number of items that two users' lists share, over the mean length of a list.

    1: no two users share an item; 0: all have the same list. NaN for a single user.

    >>> lists = RankedLists(np.array([0, 0, 1, 1]), np.array([4, 5, 5, 6]), np.array([1, 2, 1, 2]), None)
    >>> personalisation(lists, 2)
    0.5
    """
    length = list_lengths(lists, n_users)
    n = int((length > 0).sum())
    if n < 2:
        return float("nan")
    shown = np.bincount(lists.item).astype(np.float64)
    shared = (shown * (shown - 1) / 2).sum() / (n * (n - 1) / 2)
    return float(1 - shared / length[length > 0].mean())
