"""Ids and clicks out of frames and matrices, and the error that says where one of them is wrong."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.errors import ClicksError
from bmcd.system.text import listed, shown


def objects(values: list[Any]) -> NDArray[np.object_]:
    """Return a 1-d object array also when the values are tuples, which np.array would unpack."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def columns(frame: Any, *names: str) -> list[NDArray[Any]]:
    """Return the named columns of a pandas, polars or Arrow table."""
    import narwhals as nw

    table, have = _table(frame)
    for name in names:
        if have.count(name) != 1:
            what = "there are several columns" if name in have else "there is no column"
            raise ClicksError(f"{what} {name!r}; the columns are {listed([shown(c) for c in have])}.", column=name)
    table = table.select(*names)
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
    return [table[name].to_numpy() for name in names]


def library_of(frame: Any) -> Literal["pandas", "polars", "pyarrow"]:
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
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        raise ClicksError(
            f"expected a pandas, polars or Arrow table, got {type(frame).__name__} ({error})."
        ) from error


def encode(values: NDArray[Any], column: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a code for each value and the ids the codes stand for, int64 if all are whole numbers."""
    import pandas as pd

    try:
        codes, found = pd.factorize(values)
        ids = pd.Series(found).astype(object).to_numpy()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError, for text that is not Unicode, is a ValueError
        reason = f"the ids cannot be told apart ({error}). Use text, numbers or tuples."
        raise ClicksError(reason, column=column) from error
    blank = [code for code, value in enumerate(ids) if isinstance(value, str) and not value.strip()]
    if (bad := np.flatnonzero(np.isin(codes, [-1, *blank]))).size:
        what = "missing" if codes[bad[0]] == -1 else "empty"
        reason = f"the {column} id is {what} (rows count from 0). Every row needs a user and an item."
        raise ClicksError(reason, row=int(bad[0]), column=column)
    whole = all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) and -(2**63) <= v < 2**63 for v in ids)
    return codes, ids.astype(np.int64) if whole else ids


def nonzero(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], tuple[int, int], int]:
    """Return rows and columns of what is not zero, the shape, and how many values are neither 0 nor 1."""
    try:
        checked: Any = matrix if sparse.issparse(matrix) else np.asarray(matrix)
    except ValueError as error:
        raise ClicksError(f"the matrix has rows of different lengths ({error}).") from error
    if checked.ndim != 2 or 0 in checked.shape:
        shape = checked.shape
        raise ClicksError(f"the matrix must have two dimensions, users and items, and be not empty: {shape}.")
    if checked.dtype.kind not in "buif":
        raise ClicksError(f"the matrix must hold booleans or numbers, not {checked.dtype}.")
    coo: Any = sparse.coo_array(checked, copy=True)
    coo.sum_duplicates()
    rows, cols = coo.coords
    if (bad := np.flatnonzero(np.isnan(coo.data))).size:
        reason = "the value is NaN (rows and columns count from 0). Write 0 where nothing was clicked."
        raise ClicksError(reason, row=int(rows[bad].min()), column=int(cols[bad[rows[bad].argmin()]]))
    clicked = coo.data != 0
    if not clicked.any():
        raise ClicksError("the matrix is all zeros, so there are no clicks to read.")
    return rows[clicked], cols[clicked], checked.shape, int((coo.data[clicked] != 1).sum())


def distinct(values: list[Any], what: str, length: int) -> NDArray[Any]:
    """Return the ids given for one side of a matrix, which must be as many and all different."""
    if len(values) != length:
        raise ClicksError(f"the matrix has {length} {what}s, but {len(values)} {what} ids were given.")
    codes, ids = encode(objects(values), what)
    if len(ids) < length:
        twice = ids[np.bincount(codes).argmax()]
        raise ClicksError(f"the {what} id {shown(twice)} is given more than once. Ids must differ.", column=what)
    return ids


def titles_of_frame(frame: Any, item: str, title: str) -> dict[Any, str]:
    """Return the titles by item out of a frame; an item may be repeated, but not with another title."""
    import pandas as pd

    ids, texts = columns(frame, item, title)
    codes, own = encode(ids, item)
    found: dict[int, str] = {}
    for row in np.flatnonzero(~pd.isna(texts)).tolist():
        text = str(texts[row])
        if found.setdefault(int(codes[row]), text) != text:
            reason = f"item {shown(own[codes[row]])} has two titles (rows count from 0). Keep one of them."
            raise ClicksError(reason, row=row, column=title)
    keys = own.tolist()
    return {keys[code]: text for code, text in found.items()}
