"""Floors and caps on how often items are shown: read as people write them, and turned into numbers of users."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.errors import ExposureError, InputError, InputTypeError
from bmcd.system.text import listed, shown

Ints = NDArray[np.int64]
Limit = int | float | Mapping[Any, int | float]

# A share times a number of users may miss a whole number by a rounding error.
ROUNDING = 1e-9
# How many items a message names.
NAMED = 5


class Limits(NamedTuple):
    """What the recommendations must keep, items in the order of the clicks."""

    low: Ints
    """[item]: the floor, the least number of users to whom the item is shown."""
    high: Ints
    """[item]: the cap, the largest number of users to whom it is shown."""
    cover: int
    """The least number of different items shown."""

    def kept_by(self, exposure: Ints) -> bool:
        """Return whether items that are shown this often keep all limits."""
        within = (self.low <= exposure) & (exposure <= self.high)
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
