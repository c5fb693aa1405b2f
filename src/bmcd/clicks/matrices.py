"""Matrices of clicks, users x items: read, joined from codes, and narrowed, with the times that go with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.errors import ClicksError


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


def joined(
    user_codes: NDArray[Any], item_codes: NDArray[Any], shape: tuple[int, int], times: NDArray[Any] | None = None
) -> tuple[sparse.csr_array[Any], NDArray[Any] | None]:
    """Return the matrix of clicks given as pairs of codes, and their times; a repeated click keeps its first.

    >>> matrix, times = joined(np.array([0, 0, 0]), np.array([1, 0, 1]), (1, 2), np.array([5, 6, 4]))
    >>> matrix.toarray().tolist(), times.tolist()
    ([[True, True]], [6, 4])
    """
    if times is not None:
        order = np.lexsort((times, item_codes, user_codes))
        user_codes, item_codes, times = user_codes[order], item_codes[order], times[order]
        first = np.ones(len(times), dtype=np.bool_)
        first[1:] = (np.diff(user_codes) != 0) | (np.diff(item_codes) != 0)
        user_codes, item_codes, times = user_codes[first], item_codes[first], times[first]
    ones = np.ones(len(user_codes), dtype=np.bool_)
    matrix = sparse.csr_array((ones, (user_codes, item_codes)), shape=shape)
    matrix.sum_duplicates()
    return matrix, times


def narrowed(
    matrix: sparse.csr_array[Any], times: NDArray[Any] | None, rows: Any = slice(None), columns: Any = slice(None)
) -> tuple[sparse.csr_array[Any], NDArray[Any] | None]:
    """Return some rows and columns of a matrix, with the times that belong to them.

    >>> matrix, times = narrowed(sparse.csr_array(np.eye(3, dtype=bool)), np.array([5, 6, 7]), rows=[2, 0])
    >>> times.tolist()
    [7, 5]
    """
    chosen = matrix[rows][:, columns]
    chosen.sort_indices()
    if times is None:
        return chosen, None
    numbers = sparse.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    places = numbers[rows][:, columns]
    places.sort_indices()
    return chosen, times[places.data]
