"""What a run is asked to do: `Plan` and `Run`; and which users a chain sees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import InputError
from bmcd.utils import check_count, thread_count


@dataclass(frozen=True)
class Plan:
    """How many chains, and how many sweeps of each: `warmup`, then `thin` for every draw that is kept."""

    n_chains: int
    draws: int
    warmup: int
    thin: int = 1

    def __post_init__(self) -> None:
        for name, least in (("n_chains", 1), ("draws", 1), ("warmup", 0), ("thin", 1)):
            check_count("chains" if name == "n_chains" else name, getattr(self, name), least)

    @property
    def n_sweeps(self) -> int:
        """The number of sweeps of one chain."""
        return self.warmup + self.draws * self.thin

    def kept_before(self, sweep: int) -> int:
        """Return how many draws the sweeps 0, ..., sweep - 1 leave."""
        return max(0, sweep - self.warmup) // self.thin

    def sweeps_to_draw(self, sweep: int) -> int:
        """Return how many sweeps are left to the end of the warm-up or, after it, to the next draw that is kept."""
        past = sweep - self.warmup
        return -past if past < 0 else self.thin - past % self.thin


@dataclass(frozen=True)
class Run:
    """All settings of a run besides the model: the arguments of `fit`, in one object.

    Only `draws`, `warmup`, `chains`, `thin` and `seed` change what is drawn.

    >>> Run(draws=10, warmup=5, thin=2).plan.n_sweeps
    25
    """

    draws: int = 200
    """Draws to keep of each chain."""
    warmup: int = 200
    """Sweeps of each chain before its first draw."""
    chains: int = 4
    thin: int = 1
    """Sweeps for every draw that is kept."""
    seed: int = 0
    n_threads: int | None = None
    """Chains at a time; by default as many as there are cores. It never changes a draw."""
    progress: bool | None = None
    """Show a line on standard error: True, False, or None for only at a terminal."""
    checkpoint: str | Path | None = None
    """A file to resume from if it is there, written every `checkpoint_every` seconds and at the end."""
    checkpoint_every: float = 60.0
    max_time: float | None = None
    """Seconds after which to stop and return what was drawn."""

    def __post_init__(self) -> None:
        _ = self.plan  # checks the numbers
        thread_count(self.n_threads)
        if self.max_time is not None and not self.max_time > 0:
            raise InputError(f"max_time must be a positive number of seconds, but it is {self.max_time!r}.")
        if math.isnan(self.checkpoint_every) or self.checkpoint_every < 0:
            raise InputError(
                f"checkpoint_every must be a positive number of seconds, but it is {self.checkpoint_every!r}."
            )

    @property
    def plan(self) -> Plan:
        """Chains and sweeps."""
        return Plan(self.chains, self.draws, self.warmup, self.thin)


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
