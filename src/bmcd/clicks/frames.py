"""Columns and rows out of pandas, polars and Arrow tables, and the error that says where one of them is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.ids import Missing, check_missing, encode, how_to_drop, strip
from bmcd.clicks.rows import Rows
from bmcd.clicks.times import BadTimeError, Order, absent_times, times_of_column, to_clock
from bmcd.errors import ClicksError, Message, Option
from bmcd.system.text import listed, shown

Library = Literal["pandas", "polars", "pyarrow"]


def rows_of_frame(
    frame: Any,
    user: str,
    item: str,
    time_column: str | None = None,
    title_column: str | None = None,
    missing: Missing = "error",
    order: str | None = None,
    session_column: str | None = None,
) -> Rows:
    """Return the rows of a log that is a pandas, polars or Arrow table."""
    check_missing(missing)
    time_column, found = order_of_log(order, time_column, column_names(frame), (user, item))
    have, wanted = column_names(frame), {"user": user, "item": item}
    if strange := [name for name in wanted.values() if name not in have]:
        call = ", ".join(f"{what}={(name if name in have else '...')!r}" for what, name in wanted.items())
        raise ClicksError(
            f"there is no column {strange[0]!r}; the columns are {listed([shown(c) for c in have])}. Say which "
            f"ones to read: bmcd.Clicks.from_frame(frame, {call}).",
            column=strange[0],
        )
    users, items = (
        strip(encode(values, name, missing, how_to_drop()))
        for values, name in zip(columns(frame, user, item), (user, item), strict=True)
    )
    times = None if time_column is None else _times(frame, time_column, missing)
    titles = None
    if title_column is not None:
        titles = strip(encode(columns(frame, title_column)[0], title_column, "drop"))
    sessions = None
    if session_column is not None:
        sessions = strip(
            encode(columns(frame, session_column)[0], session_column, missing, how_to_drop("a session"))
        )
    return Rows(users, items, times, titles, sessions, found)


def order_of_log(
    order: str | None, time_column: str | None, have: Sequence[str], taken: Iterable[str]
) -> tuple[str | None, Order | None]:
    """Return which column has the times, if any, and where the order of the clicks comes from.

    A column named "time" is used unless ``order`` says otherwise, or it is one of the ``taken`` columns.
    """
    if order not in (None, "time", "rows", "none"):
        raise ClicksError(f"order must be 'time', 'rows' or 'none', not {shown(order)}.")
    if order in ("rows", "none"):
        if time_column is not None:
            said = f"order={order!r} and a time column contradict each other. Leave out one of them."
            raise ClicksError(said)
        return None, "rows" if order == "rows" else None
    if time_column is None and "time" in have and "time" not in taken:
        time_column = "time"
    if order == "time" and time_column is None:
        said = Message("order='time' needs a column of times. Name it: ", Option("time_column", "..."), ".")
        raise ClicksError(said)
    return time_column, None if time_column is None else "time"


def _times(frame: Any, name: str, missing: Missing) -> NDArray[Any]:
    try:
        times = times_of_column(_selected(frame, name)[name].to_pandas(), name)
    except BadTimeError as error:
        raise ClicksError(f"{error.reason} (Rows count from 0.)", row=error.place, column=name) from None
    if missing == "error" and (bad := np.flatnonzero(absent_times(times))).size:
        reason = Message("the time is missing (rows count from 0). ", how_to_drop("a time"))
        raise ClicksError(reason, row=int(bad[0]), column=name)
    try:
        return to_clock(times)
    except BadTimeError as error:
        raise ClicksError(f"{error.reason} (Rows count from 0.)", row=error.place, column=name) from None


def columns(frame: Any, *names: str) -> list[NDArray[Any]]:
    """Return the named columns of a pandas, polars or Arrow table."""
    table = _selected(frame, *names)
    return [table[name].to_numpy() for name in names]


def _selected(frame: Any, *names: str) -> Any:
    import narwhals as nw

    table, have = _table(frame)
    for name in names:
        if have.count(name) != 1:
            what = "there are several columns" if name in have else "there is no column"
            raise ClicksError(f"{what} {name!r}; the columns are {listed([shown(c) for c in have])}.", column=name)
    table = table.select(*names)
    return table.collect() if isinstance(table, nw.LazyFrame) else table


def library_of(frame: Any) -> Library:
    """Return the library of a frame; that of one which is none of the three is pandas.

    >>> import pyarrow as pa
    >>> library_of(pa.table({"user": [1]}))
    'pyarrow'
    """
    if hasattr(frame, "__arrow_c_array__"):
        return "pyarrow"
    import narwhals as nw

    found = nw.from_native(frame).implementation
    return "polars" if found.is_polars() else "pyarrow" if found.is_pyarrow() else "pandas"


def column_names(frame: Any) -> list[str]:
    """Return the names of the columns of a pandas, polars or Arrow table.

    >>> import pandas as pd
    >>> column_names(pd.DataFrame({"user": [1], "item": [2]}))
    ['user', 'item']
    """
    return _table(frame)[1]


def _table(frame: Any) -> tuple[Any, list[str]]:
    import narwhals as nw

    try:
        if hasattr(frame, "__arrow_c_array__"):  # a record batch, which narwhals does not take
            import pyarrow as pa

            frame = pa.table(frame)
        table: Any = nw.from_native(frame)
        return table, table.collect_schema().names()
    except nw.exceptions.NarwhalsError as error:  # such as columns of the same name
        why = " ".join(str(error).split())
        raise ClicksError(f"the {type(frame).__name__} cannot be read as a table: {why}.") from error
    except TypeError as error:
        kind = type(frame).__name__
        raise ClicksError(f"expected a pandas, polars or Arrow table, got {kind}. {_right_call(frame)}") from error


def _right_call(given: Any) -> str:
    if isinstance(given, np.ndarray) or sparse.issparse(given):
        return "For a matrix of users x items: bmcd.Clicks.from_matrix(matrix)."
    if isinstance(given, str | os.PathLike):
        return f"For a file: bmcd.read_clicks({shown(os.fspath(given))})."
    if isinstance(given, dict):
        return "A dict of columns becomes one with pandas.DataFrame(...)."
    return "It needs a column of users and one of items: bmcd.Clicks.from_frame(frame, user='...', item='...')."
