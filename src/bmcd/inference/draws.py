"""What is fitted, which arrays a sampler keeps, and the draws that a fit returns.

`FitSpec` and `Schema` describe a fit and its arrays, `ChainDraws` are the draws of any sampler, `Draws` those of
the mixture of Mallows models. `Previous` is an earlier fit, at whose draws chains can start.

Clusters may have other numbers in every draw and chain; `match_clusters` numbers them alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from bmcd.errors import InputError
from bmcd.inference.mixture import ChainState
from bmcd.inference.run import Plan
from bmcd.utils import Floats, Integers

# A dtype and the names of the dimensions. The dtype "rank" is int64 in a state, and the smallest that holds all
# ranks on disk and in draws.
Field = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class FitSpec:
    """What is fitted: its sizes, the fingerprint of the data, every option that changes the draws (JSON only)."""

    n_users: int
    n_items: int
    n_clusters: int
    data_hash: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_users_of_chain(self) -> int:
        """How many users a chain sees: all of them, or at most the option max_users."""
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

        >>> FitSpec(1, 200, 1, "").stored_dtype("rank"), FitSpec(1, 40_000, 1, "").stored_dtype("rank")
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
    """What is kept of every draw: fields of the state, or of the info that a sweep returns."""
    shares: tuple[str, ...]
    """Those traces that are means over all sweeps since the draw before, such as shares of accepted proposals."""
    check: Callable[[Any, FitSpec], None]
    """Raises ValueError unless compiled code can trust a state."""

    def check_state(self, state: Any, problem: FitSpec) -> None:
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


Stopped = Literal["finished", "time", "interrupted"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ChainDraws:
    """The kept draws of all chains, and how they came about."""

    log_joint: NDArray[np.float64]  # [chain, draw]
    probe: NDArray[np.float64]  # [chain, draw, m]; m = 0 without a probe
    warmup_log_joint: NDArray[np.float64]  # [chain, warm-up sweep]
    tally: NDArray[Any] | None = None  # [chain, ...], the sum over n_tallied draws of the chain
    n_tallied: NDArray[np.int64]  # [chain]; more than n_draws where a chain was cut to the length of the others
    problem: FitSpec
    plan: Plan
    seed: int
    version: str
    stopped: Stopped = "finished"
    note: str = ""  # in words, if it did not go to the end
    resume: str = ""  # in words, how to resume from a checkpoint
    caveat: str = ""  # in words, if the draws are of an approximation to the model
    _called: ClassVar[str] = "clusters"

    @property
    def n_chains(self) -> int:
        """How many chains there are."""
        return len(self.log_joint)

    @property
    def n_draws(self) -> int:
        """How many draws there are of each chain."""
        return int(self.log_joint.shape[1])

    def of_chain(self, chain: int) -> Self:
        """Return the draws of one chain alone."""
        part = slice(chain, chain + 1)
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        kept: Any = {name: value[part] for name, value in arrays.items() if isinstance(value, np.ndarray)}
        return replace(self, **kept, plan=replace(self.plan, n_chains=1))

    def __repr__(self) -> str:
        of = self.problem
        return (
            f"{type(self).__name__}({self.n_chains} chains x {self.n_draws} draws, {of.n_clusters} {self._called}, "
            f"{of.n_items} items)"
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Draws(ChainDraws):
    """The draws of a mixture of Mallows models. Cluster numbers may switch between draws and chains."""

    alpha: NDArray[np.float64]  # [chain, draw, cluster]
    tau: NDArray[np.float64]  # [chain, draw, cluster]
    rho: NDArray[np.signedinteger[Any]]  # [chain, draw, cluster, item], ranks 1..n
    label_counts: NDArray[np.int64]  # [chain, draw, cluster]
    within_distance: NDArray[np.float64]  # [chain, draw]
    alpha_accepted: NDArray[np.float64]  # [chain, draw, cluster], mean over the sweeps since the draw before
    rho_accepted: NDArray[np.float64]  # [chain, draw]
    ranks_accepted: NDArray[np.float64]  # [chain, draw]


def check_mixture_state(state: ChainState, problem: FitSpec) -> None:
    """Raise ValueError unless every number and index of a state is one that compiled code can take."""
    for name in ("alpha", "tau", "alpha_step"):
        check_not_negative(getattr(state, name), f"{name} of the state")
    if not ((state.labels >= 0) & (state.labels < problem.n_clusters)).all():
        raise ValueError(f"labels of the state must lie in 0..{problem.n_clusters - 1}")
    for name in ("rho", "ranks"):
        check_rankings(getattr(state, name), problem.n_items, f"{name} of the state")


MIXTURE = Schema(
    state_type=ChainState,
    state={
        "alpha": ("<f8", ("cluster",)),
        "tau": ("<f8", ("cluster",)),
        "rho": ("rank", ("cluster", "item")),
        "labels": ("<i8", ("user",)),
        "ranks": ("rank", ("user", "item")),
        "alpha_step": ("<f8", ("cluster",)),
    },
    draws_type=Draws,
    traces={
        "alpha": ("<f8", ("cluster",)),
        "tau": ("<f8", ("cluster",)),
        "rho": ("rank", ("cluster", "item")),
        "label_counts": ("<i8", ("cluster",)),
        "log_joint": ("<f8", ()),
        "within_distance": ("<f8", ()),
        "alpha_accepted": ("<f8", ("cluster",)),
        "rho_accepted": ("<f8", ()),
        "ranks_accepted": ("<f8", ()),
        "probe": ("<f8", ("probed",)),
    },
    shares=("alpha_accepted", "rho_accepted", "ranks_accepted"),
    check=check_mixture_state,
)


class Previous(NamedTuple):
    """A fit to other clicks, and where the items of these clicks stand in it."""

    draws: Any  # ChainDraws
    columns: Integers  # [item]: its column in that fit, or -1 if it is new

    def place(self, chain: int) -> tuple[int, int]:
        """Return the chain and the draw at which this chain starts: the last draws first, one of each chain."""
        rounds, of = divmod(chain, self.draws.n_chains)
        return of, self.draws.n_draws - 1 - rounds % self.draws.n_draws

    def describe(self) -> str:
        """Return what makes it another start than any other, for checkpoints and files."""
        sha = hashlib.sha256(np.ascontiguousarray(self.draws.rho[:, -1]).tobytes())
        sha.update(np.ascontiguousarray(self.draws.alpha[:, -1]).tobytes())
        return f"previous {sha.hexdigest()[:16]}"


def match_items(draws: ChainDraws, known: NDArray[Any], items: NDArray[Any]) -> Previous:
    """Return the draws, fitted to the items ``known``, laid out for ``items``, which may be others."""
    place = {own: column for column, own in enumerate(known.tolist())}
    return Previous(draws, np.array([place.get(own, -1) for own in items.tolist()], np.int64))


# Of how many draws an answer is the mean, over all chains: "auto" leaves it to the model, None takes all.
MaxDraws = int | Literal["auto"] | None


def draws_per_chain(max_draws: MaxDraws, enough: int, n_chains: int, n_draws: int) -> int:
    """Return how many of the ``n_draws`` of each chain are used, at least one; ``enough`` in all is "auto".

    >>> [draws_per_chain(max_draws, 20, 4, 25) for max_draws in ("auto", None, 40, 3)]
    [5, 25, 10, 1]
    """
    if max_draws is None:
        return n_draws
    if isinstance(max_draws, str) and max_draws != "auto":
        raise InputError(f"max_draws must be a whole number, 'auto', or None for all, but it is {max_draws!r}.")
    if max_draws != "auto" and max_draws < 1:
        raise InputError(f"max_draws must be at least 1, or None for all, but it is {max_draws}.")
    return min(max((enough if max_draws == "auto" else max_draws) // n_chains, 1), n_draws)


# How often the draws of a chain are matched to their mean ranks, which then change.
MATCHING_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class ClusterMatching:
    """Names 0, 1, ... by falling size, the same in every draw."""

    name: NDArray[np.int64]
    """[chain, draw, cluster]: the name of what that draw calls ``cluster``."""
    agreement: Floats
    """[name]: how well the chains agree on the consensus; 1 is the same in all, 0 no more alike than by chance."""

    def sort(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values, [chain, draw, cluster, ...], with their clusters in the order of the names."""
        order = np.argsort(self.name, axis=2)
        return np.take_along_axis(values, order.reshape(*order.shape, *[1] * (values.ndim - 3)), axis=2)


def match_clusters(draws: Draws) -> ClusterMatching:
    """Match clusters by their consensus rankings, first the draws of each chain, then the chains.

    Each match has the smallest sum of footrule distances. The draws of a chain are matched to its mean ranks, which
    are then computed again; the mean ranks of a chain are matched to those of the chain with the highest log joint.
    """
    rho = draws.rho.astype(np.float64)
    n_chains, n_draws, n_clusters, n_items = rho.shape
    name = np.empty((n_chains, n_draws, n_clusters), np.int64)
    means = np.empty((n_chains, n_clusters, n_items))
    for chain in range(n_chains):
        mean = rho[chain, -1]
        for _ in range(MATCHING_ROUNDS):
            for s in range(n_draws):
                name[chain, s] = _match(rho[chain, s], mean)
            mean = np.take_along_axis(rho[chain], np.argsort(name[chain], axis=1)[:, :, None], axis=1).mean(axis=0)
        means[chain] = mean
    first = int(draws.log_joint.mean(axis=1).argmax())
    for chain in range(n_chains):
        to_first = _match(means[chain], means[first])
        name[chain] = to_first[name[chain]]
        means[chain] = means[chain][np.argsort(to_first)]
    by_chain = ClusterMatching(name, np.ones(n_clusters))
    size = by_chain.sort(draws.label_counts.astype(np.float64)).mean(axis=(0, 1))
    place = np.argsort(np.argsort(-size, kind="stable"))
    by_chance = max((n_items**2 - 1) / 3, 1.0)
    others = [chain for chain in range(n_chains) if chain != first] or [first]
    distance = np.abs(means[others] - means[first]).sum(axis=2).mean(axis=0)
    return ClusterMatching(place[name], np.clip(1.0 - distance / by_chance, 0.0, 1.0)[np.argsort(place)])


def _match(these: Floats, those: Floats) -> NDArray[np.int64]:
    """Return, for each of these rankings, which of those it is matched with."""
    distance = np.abs(these[:, None, :] - those[None, :, :]).sum(axis=2)
    return np.asarray(linear_sum_assignment(distance)[1], np.int64)
