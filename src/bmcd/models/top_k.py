"""The best k of each user's items, the frame in which they are returned, and which of them are hits."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.clicks.sequences import owners, position_in_group
from bmcd.clicks.splitting import are_next_clicks
from bmcd.errors import ClicksError, InputError, InputTypeError, ShortListWarning, UnknownIdError
from bmcd.utils import Floats, check_count, shown

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from bmcd.simulation import Simulation


# A frame of recommendations, of the library that the clicks came from; pandas if they came from none.
Frame: TypeAlias = "pd.DataFrame | pl.DataFrame | pa.Table"

# Scores closer than this are a tie.
TIE = 1e-6


class Lists(NamedTuple):
    """Items by number, best first, of some users; -1 where a user has fewer than k."""

    items: NDArray[np.int64]  # [user, k]
    values: dict[str, Floats]  # by the name of the column: [user, k]
    about: Mapping[str, Any] = MappingProxyType({})  # what holds for the whole frame: its attributes


def check_k(k: int) -> int:
    """Return a number of recommendations, or raise an error that describes what is wrong with it."""
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
                if settled.all():  # no user's k-th can be tied with anything from here on
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
    ``column`` is that or more. What holds for all lists becomes the attributes of a pandas frame
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


def warn_if_few_are_left(
    n_clicked: NDArray[np.int64], n_items: int, k: int, horizon: int, stacklevel: int = 3
) -> None:
    """Warn if some users have fewer items left than k (lists are short) or the horizon (every probability is 1)."""
    left = n_items - n_clicked
    if not (few := left < max(k, horizon)).any():
        return
    asked = f"k = {k}" if k >= horizon else f"horizon = {horizon}"
    of = f"{few.sum():,} of {few.size:,} users (as few as {left.min()})"
    if (left < horizon).any():
        what = "they get all of them, each" if k >= horizon else "each of them is recommended"
        what = f"{what} with probability 1, which carries no information"
    else:
        what = "their lists are shorter"
    warnings.warn(
        f"{asked} is more than the items left for {of}: {what}. Ask for a smaller {asked.split()[0]}.",
        ShortListWarning,
        stacklevel=stacklevel,
    )


Ints = NDArray[np.int64]


class Truth(NamedTuple):
    """The items that would have been a hit for the users of some clicks, and which of these users are scored."""

    matrix: sparse.csr_array[Any]
    """Users x items, bool."""
    n_relevant: Ints
    """Different items that each user clicked within the horizon, clicks on items outside the model included."""
    n_clicks: Ints
    """Test clicks of each user within the horizon."""
    n_outside: Ints
    """Those of them that are on items outside the model; they are misses for every recommendation."""
    scored: NDArray[np.bool_]
    """The users with at least `horizon` test clicks; all users if there is no horizon."""
    horizon: int | None
    """The number of test clicks of each user that count; None for all of them."""
    split: str
    """How the test clicks were chosen, in words."""


def read_truth(
    test: Clicks | Simulation,
    train: Clicks,
    k: int,
    horizon: int | None = None,
    *,
    repeats: bool = False,
    fewer: bool = False,
) -> Truth:
    """Return what would be a hit for the users of ``train``: their next clicks in the test.

    Of test clicks in the order in which they followed, the first ``horizon`` of each user count, by default k. Of
    test clicks taken at random all count; a horizon must then be their number. With ``fewer``, users with at least
    one test click are scored.
    """
    if not isinstance(test, Clicks):
        from bmcd.simulation import Simulation  # here, as it loads the kernels of the model

        if not isinstance(test, Simulation):
            raise InputTypeError(f"test must be Clicks or a Simulation, not {type(test).__name__}.")
        matrix = _next_items(test, train, check_horizon(horizon, k))
        number = np.diff(matrix.indptr).astype(np.int64)
        every = np.ones(train.n_users, np.bool_)
        none = np.zeros_like(number)
        return Truth(matrix, number, number, none, every, horizon, "the true rankings of a simulation")
    if len(test.sequence) == 0:
        raise ClicksError("the test clicks are empty, so nothing can be a hit.")
    user, item = _places(test, train)
    follows = are_next_clicks(test, train, user)
    limit = check_horizon(horizon, k) if follows or horizon is not None else None
    new = np.ones(len(item), np.bool_) if repeats else test.distinct.first | (test.sequence < 0)
    place = position_in_group(new, test.starts)
    total = np.diff(np.concatenate(([0], np.cumsum(new)))[test.starts])
    within, scored = new, np.ones(train.n_users, np.bool_)
    if limit is not None:
        if not follows and (total > limit).any():
            raise InputError(
                f"horizon is {limit}, but the test has {total.max()} clicks of user "
                f"{shown(test.users[total.argmax()])}, in no order, so none of them are the next {limit}. Split "
                "by time, hold out as many clicks as the horizon, or leave the horizon out."
            )
        within = new & (place < limit)
        per_user = np.bincount(user, weights=total, minlength=train.n_users)
        scored = per_user >= (1 if fewer else limit)
        if not scored.any():
            raise InputError(
                f"no user has {limit} test clicks; the most any user has is {total.max()}. Choose a smaller "
                "horizon, or take more test clicks of each user."
            )
    owner = user[owners(test.starts)]
    if not repeats:
        _refuse_old(train, owner[item >= 0], item[item >= 0])
    inside, outside = within & (item >= 0), within & (item < 0)
    ones = np.ones(int(inside.sum()), np.bool_)
    matrix = sparse.csr_array((ones, (owner[inside], item[inside])), shape=train.matrix.shape)
    matrix.sum_duplicates()
    n_outside = np.bincount(owner[outside], minlength=train.n_users).astype(np.int64)
    n_relevant = np.diff(matrix.indptr).astype(np.int64) + n_outside
    split = test.split or ("the clicks that followed" if follows else "held-out clicks, in no order")
    n_clicks = np.bincount(owner[within], minlength=train.n_users).astype(np.int64)
    return Truth(matrix, n_relevant, n_clicks, n_outside, scored, limit, split)


def was_clicked(matrix: sparse.csr_array[Any], user: Ints, item: Ints) -> NDArray[np.bool_]:
    """Return whether each pair of a user and an item is a click.

    >>> was_clicked(sparse.csr_array([[True, False], [False, True]]), np.array([0, 1]), np.array([0, 0]))
    array([ True, False])
    """
    rows, columns = matrix.tocoo().coords
    n_items = matrix.shape[1]
    pairs = rows.astype(np.int64) * n_items + columns
    clicked: NDArray[np.bool_] = np.isin(user.astype(np.int64) * n_items + item, pairs)
    return clicked


def _places(test: Clicks, train: Clicks) -> tuple[Ints, Ints]:
    """Return the row in train of each test user, and the column in train of each test click (-1: outside)."""
    places = []
    for ids, place_of, what in ((test.users, train.rows_of, "user"), (test.items, train.columns_of, "item")):
        same = ids is getattr(train, f"{what}s")
        try:
            places.append(np.arange(len(ids)) if same else place_of(ids))
        except UnknownIdError as error:
            raise ClicksError(
                f"the test clicks do not fit train: {error}Keep only {what}s of train, as Clicks.hold_out does.",
                column=what,
            ) from error
    return places[0], np.append(places[1], -1)[test.sequence]


def _refuse_old(train: Clicks, user: Ints, item: Ints) -> None:
    if (both := np.flatnonzero(was_clicked(train.matrix, user, item))).size:
        who, what = train.users[user[both[0]]], train.items[item[both[0]]]
        raise ClicksError(
            f"user {shown(who)} clicked item {shown(what)} in train and in test, and {both.size - 1} more clicks "
            "are in both. Take them out of one: a clicked item is not recommended again, so it can be no hit. "
            "Where repeated clicks count as next clicks, use repeats=True."
        )


def _next_items(test: Simulation, train: Clicks, horizon: int) -> sparse.csr_array[Any]:
    if test.clicks.fingerprint() != train.fingerprint():
        raise InputError(
            "train is not the clicks of the simulation. Against a true ranking the next items start after those "
            "clicked, so train must be simulation.clicks; for held-out clicks, pass them as test."
        )
    return test.next_items(horizon).matrix
