"""The arrays in which the kernels work on one user: made here, once for many users."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray


class Workspace(NamedTuple):
    """Scratch arrays of a kernel. Messages and rows hold cell m at index m + 1, so that cell -1 exists."""

    clicked: NDArray[np.int64]  # consensus positions of the clicked items
    message: NDArray[np.float64]  # of the step before
    next_message: NDArray[np.float64]
    rows: NDArray[np.float64]  # [t, m + 1]: weight of all completions after step t
    row_scales: NDArray[np.float64]  # logarithm of the factor taken out of each row
    windows: NDArray[np.int64]  # [:, t]: first and last cell that matter after step t
    forward: NDArray[np.float64]  # [t - c, m + 1]: messages after steps c, ..., c + k
    forward_scales: NDArray[np.float64]
    probability: NDArray[np.float64]  # a result for each consensus position
    ranks: NDArray[np.int64]  # a result for each consensus position
    waiting: NDArray[np.int64]  # [block and side, i]: items and ranks that are still open


@numba.njit(cache=True, nogil=True)
def make_workspace(shared, n_rows, n_forward):
    """Return a workspace with so many rows for completions and for forward messages: 4 n bytes each.

    The likelihood needs none of either, a draw needs n + 1 rows, the top-k probabilities need k + 1 forward
    messages besides.
    """
    n, width = shared.gaps.size, shared.twice.size + 1
    return Workspace(
        np.empty(n, np.int64),
        np.zeros(width + 3),
        np.zeros(width + 3),
        np.empty((n_rows, width)),
        np.empty(n_rows),
        np.empty((2, n_rows), np.int64),
        np.empty((n_forward, width)),
        np.empty(n_forward),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty((4, n), np.int64),
    )
