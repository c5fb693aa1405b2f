"""Rank scales: how far apart neighbouring ranks are.

The footrule on a rank scale is sum |g(r_i) - g(rho_i)| with g increasing. The paper's model has g(t) = t. With a
concave g a displacement near the top costs more than the same displacement near the bottom. Every g is stretched to
span n - 1, so that alpha keeps its meaning.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.errors import InputError

NAMED_SCALES = ("linear", "sqrt", "log")


def scale_values(n_items: int, rank_scale: str | ArrayLike = "linear") -> NDArray[np.float64]:
    """Return the values g(1), ..., g(n) of a rank scale, stretched so that g(n) - g(1) = n - 1.

    ``rank_scale`` is ``"linear"`` (the paper's), ``"sqrt"``, ``"log"``, or any strictly increasing array of
    ``n_items`` numbers.

    >>> scale_values(4)
    array([1., 2., 3., 4.])
    >>> scale_values(3, [0, 3, 4]).tolist()
    [1.0, 2.5, 3.0]
    """
    ranks = np.arange(1.0, n_items + 1.0)
    if isinstance(rank_scale, str):
        if rank_scale not in NAMED_SCALES:
            choices = ", ".join(repr(name) for name in NAMED_SCALES)
            raise InputError(
                f"rank_scale {rank_scale!r} is not known. Choose one of {choices}, "
                f"or pass {n_items} increasing numbers."
            )
        if rank_scale == "linear":
            return ranks
        raw: NDArray[np.float64] = np.sqrt(ranks) if rank_scale == "sqrt" else np.log(ranks)
    else:
        raw = np.asarray(rank_scale, dtype=np.float64)
        if raw.shape != (n_items,):
            raise InputError(
                f"rank_scale has shape {raw.shape}, but there are {n_items} ranks: pass one number for each rank."
            )
        if not np.all(np.isfinite(raw)):
            bad = int(np.flatnonzero(~np.isfinite(raw))[0])
            raise InputError(f"rank_scale must be finite, but the value for rank {bad + 1} is {raw[bad]}.")
        steps = np.diff(raw)
        if np.any(steps <= 0):
            bad = int(np.flatnonzero(steps <= 0)[0])
            raise InputError(
                f"rank_scale must increase, but it goes from {raw[bad]} at rank {bad + 1} "
                f"to {raw[bad + 1]} at rank {bad + 2}."
            )
    if n_items == 1:
        return ranks
    stretched: NDArray[np.float64] = 1.0 + (raw - raw[0]) * ((n_items - 1.0) / (raw[-1] - raw[0]))
    return stretched
