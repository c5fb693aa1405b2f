"""Checks of numbers that people pass to the public functions of this room: a count, a scale."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.errors import InputError


def check_alpha(alpha: ArrayLike) -> NDArray[np.float64]:
    """Return scales as an array of any shape, or refuse them with the place of the first one that is wrong."""
    try:
        alphas: NDArray[np.float64] = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"alpha is {alpha!r}: give a number, 0 or more, or an array of them") from error
    bad = ~(np.isfinite(alphas) & (alphas >= 0))
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"alpha[{', '.join(map(str, index))}]" if index else "alpha"
        raise InputError(f"{where} is {alphas[index]:g}: alpha must be finite and 0 or more (0 is uniform)")
    return alphas


def alpha_by_cluster(alpha: ArrayLike, n_clusters: int) -> NDArray[np.float64]:
    """Return one checked scale for each cluster, from one number or from one for each.

    >>> alpha_by_cluster(3.0, 2)
    array([3., 3.])
    """
    alphas = check_alpha(alpha)
    if alphas.ndim > 1 or (alphas.ndim == 1 and alphas.size not in (1, n_clusters)):
        raise InputError(
            f"alpha has shape {alphas.shape}, but there are {n_clusters} clusters: "
            "pass one number, or one for each."
        )
    return np.broadcast_to(alphas, (n_clusters,)).copy()
