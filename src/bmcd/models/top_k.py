"""The best k of each user's items, and the frame in which people get them. For BMCD and all its rivals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.utils import Floats, check_count

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

# What people get: a frame of the library that their clicks came from, pandas if they came from none.
Frame: TypeAlias = "pd.DataFrame | pl.DataFrame | pa.Table"

# Scores closer than this are a tie.
TIE = 1e-6


class Lists(NamedTuple):
    """Items by number, best first, of some users; -1 where a user has fewer than k."""

    items: NDArray[np.int64]  # [user, k]
    values: dict[str, Floats]  # by the name of the column: [user, k]
    about: Mapping[str, Any] = MappingProxyType({})  # what holds for the whole frame: its attributes


def check_k(k: int) -> int:
    """A number of recommendations, or an error that says what is wrong with it."""
    return check_count("k", k)


def check_horizon(horizon: int | None, k: int) -> int:
    """Return the number of next clicks that probabilities refer to; k if None is given.

    >>> check_horizon(None, 10), check_horizon(1, 10)
    (10, 1)
    """
    return k if horizon is None else check_count("horizon, a number of next clicks,", horizon)


def best_items(
    score: Floats, available: NDArray[np.bool_], k: int, id_order: NDArray[np.int64], second: Floats | None = None
) -> NDArray[np.int64]:
    """The best k available items of each user, [user, k], -1 where there are fewer.

    Highest score first. Scores within `TIE` of the highest of them are a tie, which goes to the smallest ``second``
    (if given), then to the item that comes first by id (``id_order``, see `id_ranks`). So neither the order of
    the columns nor the last bits of a score decide.

    >>> best_items(np.array([[0.5, 0.9, 0.5]]), np.ones((1, 3), bool), 2, np.array([2, 1, 0]))
    array([[1, 2]])
    """
    n_users, n_items = score.shape
    k = min(k, n_items)
    ranked = np.where(available, score, -np.inf)
    order, in_order = _contenders(ranked, k)
    group = np.zeros(order.shape, np.int64)
    highest, n_decided = in_order[:, 0].copy(), order.shape[1]
    settled = np.zeros(n_users, np.bool_)
    with np.errstate(invalid="ignore"):  # -inf minus -inf
        for j in range(1, n_decided):
            lower = (highest - in_order[:, j] > TIE) | (np.isneginf(in_order[:, j]) & (highest > -np.inf))
            highest = np.where(lower, in_order[:, j], highest)
            group[:, j] = group[:, j - 1] + lower
            if j >= k:
                settled |= lower | np.isneginf(highest)
                if settled.all():  # nobody's k-th can be tied with anything from here on
                    n_decided = j
                    break
    order, group = order[:, :n_decided], group[:, :n_decided]
    keys: list[NDArray[Any]] = [id_order[order], group]
    if second is not None:
        keys.insert(1, np.take_along_axis(second, order, axis=1))
    order = np.take_along_axis(order, np.lexsort(keys, axis=1)[:, :k], axis=1)
    return np.where(np.take_along_axis(available, order, axis=1), order, -1)


def _contenders(ranked: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
    """Items that are among the best k of a user or may be tied with one of them, best first, and their scores.

    All that is tied with the k-th best is at most `TIE` below it. The lists of users with fewer such items than
    others are filled up, with scores of minus infinity.
    """
    n_users, n_items = ranked.shape
    kth = np.partition(ranked, n_items - k, axis=1)[:, n_items - k] if k else np.full(n_users, -np.inf)
    rows, columns = np.nonzero(ranked >= (kth - 2 * TIE)[:, None])
    counts = np.bincount(rows, minlength=n_users)
    places = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    items = np.zeros((n_users, counts.max(initial=1)), np.int64)
    scores = np.full(items.shape, -np.inf)
    items[rows, places], scores[rows, places] = columns, ranked[rows, columns]
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(items, order, axis=1), np.take_along_axis(scores, order, axis=1)


def clicked_mask(matrix: sparse.csr_array, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which items the users in these rows have clicked, dense."""
    return np.asarray(matrix[rows].toarray(), np.bool_)


def recommendation_frame(
    users: NDArray[Any], lists: Lists, clicks: Clicks, *, column: str | None = None, at_least: float | None = None
) -> Frame:
    """One row for each recommendation: user, item, title (if items have titles), rank, and the values.

    In the ids of the clicks, and in the frame library they came from. With ``at_least``, only rows in which
    ``column`` is that or more. What lists say about themselves becomes the attributes of a pandas frame
    (``frame.attrs``) or the metadata of an Arrow table's schema; polars has no place for it.
    """
    import narwhals as nw

    there = lists.items >= 0
    if at_least is not None and column is not None:
        there &= lists.values[column] >= at_least
    rows, places = np.nonzero(there)
    items = lists.items[rows, places]
    data: dict[str, Any] = {"user": users[rows].tolist(), "item": clicks.items[items].tolist()}
    if clicks.titles is not None:
        data["title"] = clicks.titles[items].tolist()
    data["rank"] = places + 1
    for name, values in lists.values.items():
        data[name] = values[rows, places]
    frame: Frame = nw.from_dict(data, _schema(clicks, users, data), backend=clicks.library).to_native()
    return _with_attributes(frame, lists.about)


def _with_attributes(frame: Any, about: Mapping[str, Any]) -> Any:
    """Return the frame with attributes, which must be fit for JSON: pandas writes them into parquet files so."""
    if about and isinstance(getattr(frame, "attrs", None), dict):
        frame.attrs.update(about)
    elif about and hasattr(frame, "replace_schema_metadata"):
        known = frame.schema.metadata or {}
        return frame.replace_schema_metadata({**known, **{name: json.dumps(v) for name, v in about.items()}})
    return frame


def _schema(clicks: Clicks, users: NDArray[Any], data: Mapping[str, Any]) -> Any:
    """Types, so that an empty answer has those of a full one."""
    import narwhals as nw

    if len(data["rank"]):
        return None
    ids = {"user": users, "item": clicks.items}
    types = {name: nw.Int64 if name in ids and ids[name].dtype.kind == "i" else nw.String for name in data}
    return types | {name: nw.Float64 for name in data if name not in ("user", "item", "title")} | {"rank": nw.Int64}
