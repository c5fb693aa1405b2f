"""Floors and caps on how often items are shown: read as people write them, and turned into numbers of users."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.item_table import ItemGroups, group_numbers
from bmcd.clicks.log import Clicks
from bmcd.errors import ExposureError, InputError, InputTypeError
from bmcd.utils import listed, shown

Ints = NDArray[np.int64]
Limit = int | float | Mapping[Any, int | float]

# A share times a number of users may miss a whole number by a rounding error.
ROUNDING = 1e-9
# An item with a floor is a candidate of this many times as many users, where there are as many.
CHOICE = 3
# How many items a message names.
NAMED = 5


class GroupLimits(NamedTuple):
    """Floors and caps of groups of items, as numbers of recommendations."""

    names: tuple[str, ...]
    of_item: Ints
    """[item]: the number of its group, -1 without one."""
    low: Ints
    """[group]"""
    high: Ints
    """[group]"""

    def shown(self, exposure: Ints) -> Ints:
        """Return how many recommendations are of each group, given how often each item is shown."""
        inside = self.of_item >= 0
        counts = np.bincount(self.of_item[inside], weights=exposure[inside], minlength=len(self.names))
        return counts.astype(np.int64)


class Limits(NamedTuple):
    """What the recommendations must keep, items in the order of the clicks."""

    low: Ints
    """[item]: the floor, the least number of users to whom the item is shown."""
    high: Ints
    """[item]: the cap, the largest number of users to whom it is shown."""
    cover: int
    """The least number of different items shown."""
    groups: GroupLimits | None = None

    def lacking(self, items: Ints, possible: Ints, k: int) -> NDArray[np.bool_]:
        """Return which items with floors are candidates, [user, place], of so few users that there is no choice.

        ``possible`` is the number of users to whom each item may be shown. Items of a group that has a floor lack
        users while the group does.
        """
        found = np.bincount(items[items >= 0], minlength=len(self.low))
        own: NDArray[np.bool_] = found < np.minimum(CHOICE * self.low, possible)
        if self.groups is not None:
            of_item = np.append(self.groups.of_item, -1)[items]
            for g in np.flatnonzero(self.groups.low > 0).tolist():
                places = int(np.minimum((of_item == g).sum(axis=1), k).sum())
                short = (self.groups.of_item == g) & (found < possible)
                own |= short & (places < CHOICE * self.groups.low[g])
        return own

    def kept_by(self, exposure: Ints) -> bool:
        """Return whether items that are shown this often keep all limits."""
        within = (self.low <= exposure) & (exposure <= self.high)
        if self.groups is not None:
            shown = self.groups.shown(exposure)
            if (shown < self.groups.low).any() or (shown > self.groups.high).any():
                return False
        return bool(within.all()) and int((exposure > 0).sum()) >= self.cover


def read_limits(
    min_exposure: Limit | None, max_exposure: Limit | None, min_coverage: int | float | None, clicks: Clicks
) -> Limits:
    """Return floors and caps as numbers of users, and the number of items to show.

    >>> clicks = Clicks.from_matrix(np.eye(4), items=list("abcd"))
    >>> limits = read_limits({"b": 2}, 0.5, 0.75, clicks)
    >>> limits.low.tolist(), limits.high.tolist(), limits.cover
    ([0, 2, 0, 0], [2, 2, 2, 2], 3)
    """
    low = _of_items(min_exposure, "min_exposure", clicks, otherwise=0)
    high = np.minimum(_of_items(max_exposure, "max_exposure", clicks, otherwise=clicks.n_users), clicks.n_users)
    if (crossed := np.flatnonzero(low > high)).size:
        named = [f"item {shown(clicks.items[i])} ({low[i]:,} above {high[i]:,})" for i in crossed]
        raise ExposureError(
            f"the floor, min_exposure, is above the cap, max_exposure or the {clicks.n_users:,} users, of "
            f"{listed(named, NAMED)}.",
            clicks.items[crossed].tolist(),
            int((low - high)[crossed].sum()),
        )
    cover = 0 if min_coverage is None else _number(min_coverage, "min_coverage", clicks.n_items, "items", math.ceil)
    if cover > clicks.n_items:
        raise InputError(f"min_coverage asks for {cover:,} items, but there are {clicks.n_items:,}.")
    return Limits(low, high, cover)


def with_groups(
    limits: Limits, group: str | None, least: Limit | None, most: Limit | None, clicks: Clicks, due: int
) -> Limits:
    """Return limits with floors and caps of groups; ``due`` is the number of all recommendations."""
    if least is None and most is None:
        if group is not None:
            raise InputError("group goes with min_group_exposure or max_group_exposure.")
        return limits
    if limits.cover:
        raise InputError("min_coverage and limits of groups cannot be combined. Give floors to items instead.")
    if clicks.items_table is None:
        raise InputError("limits of groups need an item table: read_clicks(..., items='items.csv').")
    name, groups = clicks.items_table.grouping(group)
    lengths = np.diff(groups.starts)
    if (several := np.flatnonzero(lengths > 1)).size:
        item = int(several[0])
        raise InputError(
            f"limits of groups need items with one {name} at most, but {several.size:,} items have several, such "
            f"as item {shown(clicks.items[item])}: {listed(list(groups.of_item(item)))}."
        )
    of_item = np.full(clicks.n_items, -1, np.int64)
    of_item[lengths == 1] = groups.numbers
    low = _of_groups(least, "min_group_exposure", name, groups, due, 0)
    high = np.minimum(_of_groups(most, "max_group_exposure", name, groups, due, due), due)
    if (crossed := np.flatnonzero(low > high)).size:
        named = [f"{shown(groups.names[g])} ({low[g]:,} above {high[g]:,})" for g in crossed]
        raise ExposureError(
            f"the floor, min_group_exposure, is above the cap or the {due:,} recommendations in {name} "
            f"{listed(named, NAMED)}.",
            [groups.names[g] for g in crossed],
            int((low - high)[crossed].sum()),
        )
    return limits._replace(groups=GroupLimits(groups.names, of_item, low, high))


def _of_groups(limit: Limit | None, name: str, column: str, groups: ItemGroups, due: int, otherwise: int) -> Ints:
    round_off = math.ceil if name == "min_group_exposure" else math.floor
    counts = np.full(len(groups.names), otherwise, np.int64)
    if limit is not None and hasattr(limit, "items"):
        given = dict(limit.items())
        for g, (one, number) in zip(
            group_numbers(groups, list(given), f"{name} of {column}"), given.items(), strict=True
        ):
            counts[g] = _number(number, f"{name} of {shown(one)}", due, "recommendations", round_off)
    elif limit is not None:
        counts[:] = _number(limit, name, due, "recommendations", round_off)
    return counts


def _of_items(limit: Limit | None, name: str, clicks: Clicks, otherwise: int) -> Ints:
    # A floor is never rounded below the share asked for, a cap never above it.
    round_off = math.ceil if name == "min_exposure" else math.floor
    counts = np.full(clicks.n_items, otherwise, np.int64)
    if limit is not None and hasattr(limit, "items"):  # a dict, or a pandas Series
        given = dict(limit.items())
        columns = clicks.columns_of(given, f"{name} can name only items of the clicks.")
        for column, (item, number) in zip(columns, given.items(), strict=True):
            counts[column] = _number(number, f"{name} of item {shown(item)}", clicks.n_users, "users", round_off)
    elif limit is not None:
        counts[:] = _number(limit, name, clicks.n_users, "users", round_off)
    return counts


def _number(value: Any, name: str, total: int, what: str, round_off: Any) -> int:
    """Return a count: a whole number as it is, any other as a share of the total. So 1 and 1.0 differ."""
    hint = f"Give a whole number of {what}, such as 20, or a share of them between 0.0 and 1.0."
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if int(value) < 0:
            raise InputError(f"{name} is {value}, which is below 0. {hint}")
        return int(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InputTypeError(f"{name} is {shown(value)}, which is not a number. {hint}")
    if not 0 <= float(value) <= 1:
        raise InputError(f"{name} is {value}, which is neither whole nor a share. {hint}")
    exact = float(value) * total
    return round(exact) if abs(exact - round(exact)) < ROUNDING * max(total, 1) else int(round_off(exact))
