"""What a kind of sampler keeps of its chains: the arrays of a state and of a draw, with dtype and dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A dtype and the names of the dimensions. The dtype "rank" is int64 in a state, and the smallest that holds all
# ranks on disk and in draws.
Field = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Problem:
    """What is fitted: its sizes, the fingerprint of the data, every option that changes the draws (JSON only)."""

    n_users: int
    n_items: int
    n_clusters: int
    data_hash: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_users_of_chain(self) -> int:
        """How many users a chain sees: all of them, or as many as the option max_users says."""
        return min(self.n_users, int(self.options.get("max_users", self.n_users)))

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each dimension that does not depend on the run."""
        return {"user": self.n_users_of_chain, "item": self.n_items, "cluster": self.n_clusters, "one": 1}

    def shape(self, dims: tuple[str, ...], **more: int) -> tuple[int, ...]:
        """Return the lengths of these dimensions; ``more`` gives those that are not sizes of the problem."""
        sizes = {**self.sizes, **more}
        return tuple(sizes[dim] for dim in dims)

    def stored_dtype(self, dtype: str) -> str:
        """Return the dtype on disk and in draws.

        >>> Problem(1, 200, 1, "").stored_dtype("rank"), Problem(1, 40_000, 1, "").stored_dtype("rank")
        ('<i2', '<i4')
        """
        return ("<i2" if self.n_items < 2**15 else "<i4") if dtype == "rank" else dtype


@dataclass(frozen=True)
class Schema:
    """The arrays that a kind of sampler works on and leaves."""

    state_type: Callable[..., Any]
    """A NamedTuple of arrays: all that the next sweep needs."""
    state: Mapping[str, Field]
    draws_type: Callable[..., Any]
    """A dataclass of `ChainDraws` with one field for every trace."""
    traces: Mapping[str, Field]
    """What is kept of every draw: fields of the state, or of what a sweep tells about itself."""
    shares: tuple[str, ...]
    """Those traces that are means over all sweeps since the draw before, such as shares of accepted proposals."""
    check: Callable[[Any, Problem], None]
    """Raises ValueError unless compiled code can trust a state."""

    def check_state(self, state: Any, problem: Problem) -> None:
        """Check what compiled code will trust: dtypes, shapes, and what `check` says; else ValueError."""
        for name, (dtype, dims) in self.state.items():
            array, expected = getattr(state, name), np.dtype("<i8" if dtype == "rank" else dtype)
            shape = problem.shape(dims)
            if array.dtype != expected or array.shape != shape:
                raise ValueError(f"{name} of the state is {array.dtype} {array.shape}, not {expected} {shape}")
        self.check(state, problem)


def check_rankings(rows: NDArray[Any], n_items: int, name: str) -> None:
    """Raise ValueError unless every row is a ranking, 1..n_items."""
    if not (np.sort(rows, axis=-1) == np.arange(1, n_items + 1)).all():
        raise ValueError(f"each row of {name} must be a ranking, 1..{n_items}")


def check_not_negative(values: NDArray[Any], name: str) -> None:
    """Raise ValueError unless all numbers are finite and not negative."""
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"{name} must be finite and not negative, but it is {values}")
