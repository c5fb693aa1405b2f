"""Floors and caps on how often items are shown, as people write them and as numbers of users."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.table import Clicks, positions
from bmcd.errors import ExposureError, InputError, InputTypeError
from bmcd.system.text import listed, shown

Ints = NDArray[np.int64]
Limit = int | float | Mapping[Any, int | float]

# A share times a number of users may miss a whole number by the last bits.
ROUNDING = 1e-9
# Items that a message names.
NAMED = 5


class Limits(NamedTuple):
    """What the recommendations must keep, items as in the clicks."""

    low: Ints
    """[item]: each item is shown to at least so many users,"""
    high: Ints
    """[item]: and to at most so many."""
    cover: int
    """So many different items are shown, at least."""

    def kept_by(self, exposure: Ints) -> bool:
        """Whether items shown so often keep to all limits."""
        within = (self.low <= exposure) & (exposure <= self.high)
        return bool(within.all()) and int((exposure > 0).sum()) >= self.cover


def read_limits(
    min_exposure: Limit | None, max_exposure: Limit | None, min_coverage: int | float | None, clicks: Clicks
) -> Limits:
    """Floors and caps as numbers of users, and the number of items to show.

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
    found = np.full(clicks.n_items, otherwise, np.int64)
    if limit is None:
        return found
    if hasattr(limit, "items"):  # a dict, or a pandas Series
        given = dict(limit.items())
        at = positions(given, clicks.items, "item", f"{name} can name only items of the clicks.")
        for place, (item, own) in zip(at, given.items(), strict=True):
            found[place] = _number(own, f"{name} of item {shown(item)}", clicks.n_users, "users", round_off)
        return found
    found[:] = _number(limit, name, clicks.n_users, "users", round_off)
    return found


def _number(value: Any, name: str, total: int, what: str, round_off: Any) -> int:
    """A whole number counts; any other is a share of the total. 1 and 1.0 differ."""
    hint = f"Give a whole number of {what}, such as 20, or a share of them between 0.0 and 1.0."
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if int(value) < 0:
            raise InputError(f"{name} is {value}, which is below 0. {hint}")
        return int(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InputTypeError(f"{name} is {shown(value)}, which is no number. {hint}")
    if not 0 <= float(value) <= 1:
        raise InputError(f"{name} is {value}, which is neither whole nor a share. {hint}")
    exact = float(value) * total
    return round(exact) if abs(exact - round(exact)) < ROUNDING * max(total, 1) else int(round_off(exact))
