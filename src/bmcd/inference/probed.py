"""Which users and items the diagnostics follow through the chains besides the parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# User-item pairs whose probability is followed, and their k.
PROBED, PROBED_K = 24, 10


def probed_pairs(seed: int, n_users: int, n_items: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the users and the columns of the items, which follow from the seed of the run."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_users, PROBED), rng.integers(0, n_items, PROBED)
