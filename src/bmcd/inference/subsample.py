"""Which users a chain sees, where there are more than it is given: a random sample of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.utils import check_count

# Clicks that a user needs before any of them is held out.
LEAST_CLICKS = 3
# Sets these random numbers apart from others of the same seed.
_TAG = 0x75736572


def check_max_users(max_users: Any, n_users: int) -> int | None:
    """Return how many users a chain is given, or None if that is all of them."""
    if max_users is None:
        return None
    number = check_count("max_users", max_users, otherwise="'auto' or None")
    return None if number >= n_users else number


def users_of_chain(seed: int, chain: int, n_users: int, max_users: int | None) -> NDArray[np.int64]:
    """Return the rows of the users that a chain sees, in ascending order.

    The sample follows from seed and chain. A smaller one is part of a larger one, so that what a larger sample
    gains is not blurred by other users.

    >>> small, large = (users_of_chain(1, 0, 10, size) for size in (3, 6))
    >>> set(small.tolist()) < set(large.tolist())
    True
    """
    if max_users is None or max_users >= n_users:
        return np.arange(n_users)
    order = np.random.default_rng([_TAG, seed, chain]).permutation(n_users)
    return np.sort(order[:max_users])
