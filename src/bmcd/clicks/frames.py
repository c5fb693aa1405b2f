"""Columns of pandas, polars and Arrow tables."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.errors import ClicksError
from bmcd.utils import listed, shown

Library = Literal["pandas", "polars", "pyarrow"]


def collected(frame: Any, names: Iterable[str | None]) -> Any:
    """Return some columns of a lazy frame as a frame, and any other frame as it is.

    A lazy frame must be collected once for all columns: each time its rows may come in another order.
    """
    import narwhals as nw

    table, have = _table(frame)
    if not isinstance(table, nw.LazyFrame):
        return frame
    return table.select([name for name in dict.fromkeys(names) if name in have]).collect().to_native()


def column_of(frame: Any, name: str) -> Any:
    """Return the named column: a chunked Arrow array, a pandas column, or a NumPy array of objects.

    >>> import pyarrow as pa
    >>> column_of(pa.table({"user": [1, 2]}), "user").to_pylist()
    [1, 2]
    """
    table = _selected(frame, name)
    if table.implementation.is_pandas():
        return table[name].to_native()
    try:
        return table.to_arrow()[name]
    except Exception:  # objects that Arrow does not know, each library has its own error
        return np.asarray(table[name].to_numpy(), dtype=object)


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
    """Return the library of a frame; pandas if it is none of the three.

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
