"""What a fit leaves: `Draws`; and what a chain has left so far: `ChainRecord`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import InputError
from bmcd.sampling.state import ChainState, SweepInfo

# What is kept of every draw: dtype ("rank": the smallest that holds all ranks) and dimensions after chain and draw.
TRACES: dict[str, tuple[str, tuple[str, ...]]] = {
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
}
_STATE: dict[str, tuple[str, tuple[str, ...]]] = {
    "alpha": ("<f8", ("cluster",)),
    "tau": ("<f8", ("cluster",)),
    "rho": ("<i8", ("cluster", "item")),
    "labels": ("<i8", ("user",)),
    "ranks": ("<i8", ("user", "item")),
    "alpha_step": ("<f8", ("cluster",)),
}
# Probes and tallies run in the threads of the chains, where numba's parallel loops are not safe on every machine.
Probe = Callable[[ChainState], NDArray[np.float64]]
Stopped = Literal["finished", "time", "interrupted"]


@dataclass(frozen=True)
class Problem:
    """What is fitted: its sizes, the hash of the data, and every option that changes the draws (JSON only)."""

    n_users: int
    n_items: int
    n_clusters: int
    data_hash: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each dimension that does not depend on the run."""
        return {"user": self.n_users, "item": self.n_items, "cluster": self.n_clusters}


@dataclass(frozen=True)
class Plan:
    """How many chains, and how many sweeps of each: `warmup`, then `thin` for every draw that is kept."""

    n_chains: int
    draws: int
    warmup: int
    thin: int = 1

    def __post_init__(self) -> None:
        for name, least in (("n_chains", 1), ("draws", 1), ("warmup", 0), ("thin", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                raise InputError(f"{name} must be a whole number, {least} or more, but it is {value!r}.")

    @property
    def n_sweeps(self) -> int:
        """Sweeps of one chain."""
        return self.warmup + self.draws * self.thin

    def kept_before(self, sweep: int) -> int:
        """How many draws the sweeps 0, ..., sweep - 1 leave."""
        return max(0, sweep - self.warmup) // self.thin

    def sweeps_to_draw(self, sweep: int) -> int:
        """How many sweeps from this one to the end of the warm-up or, after it, to the next draw that is kept."""
        past = sweep - self.warmup
        return -past if past < 0 else self.thin - past % self.thin


class Tally(Protocol):
    """Something summed over the kept draws of a chain, such as `RankCounts`; all latent rankings are never kept."""

    def zeros(self) -> NDArray[Any]:
        """The sum over no draws."""

    def add(self, total: NDArray[Any], state: ChainState) -> None:
        """Add one draw to ``total``, in place."""


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Counts, for each k and user, how often each item is at rank n_clicked + k or better.

    Divided by the number of draws they estimate the probability that an item a user has not clicked is among the
    next k. The footrule has exact sums instead (`mallows.top_probabilities`).
    """

    n_clicked: NDArray[np.int64]  # [user]
    n_items: int
    ks: tuple[int, ...]

    def zeros(self) -> NDArray[np.int32]:
        """The counts of no draws: [k, user, item]."""
        return np.zeros((len(self.ks), len(self.n_clicked), self.n_items), np.int32)

    def add(self, total: NDArray[Any], state: ChainState) -> None:
        """Count one draw."""
        for counts, k in zip(total, self.ks, strict=True):
            counts += state.ranks <= (self.n_clicked + k)[:, None]


@dataclass(frozen=True, eq=False)
class Draws:
    """The kept draws of all chains, and how they came about. Cluster names may switch between draws and chains."""

    alpha: NDArray[np.float64]  # [chain, draw, cluster]
    tau: NDArray[np.float64]  # [chain, draw, cluster]
    rho: NDArray[np.signedinteger[Any]]  # [chain, draw, cluster, item], ranks 1..n
    label_counts: NDArray[np.int64]  # [chain, draw, cluster]
    log_joint: NDArray[np.float64]  # [chain, draw]
    within_distance: NDArray[np.float64]  # [chain, draw]
    alpha_accepted: NDArray[np.float64]  # [chain, draw, cluster], mean over the sweeps since the draw before
    rho_accepted: NDArray[np.float64]  # [chain, draw]
    ranks_accepted: NDArray[np.float64]  # [chain, draw]
    probe: NDArray[np.float64]  # [chain, draw, m]; m = 0 without a probe
    warmup_log_joint: NDArray[np.float64]  # [chain, warm-up sweep]
    tally: NDArray[Any] | None  # [chain, ...], the sum over n_tallied draws of the chain
    n_tallied: NDArray[np.int64]  # [chain]; more than n_draws where a chain was cut to the length of the others
    problem: Problem
    plan: Plan
    seed: int
    version: str
    stopped: Stopped = "finished"
    note: str = ""  # in words, if it did not go to the end
    caveat: str = ""  # in words, if the draws are of an approximation to the model

    @property
    def n_chains(self) -> int:
        """How many chains there are."""
        return len(self.log_joint)

    @property
    def n_draws(self) -> int:
        """How many draws there are of each chain."""
        return int(self.log_joint.shape[1])

    def of_chain(self, chain: int) -> Draws:
        """The draws of one chain alone."""
        one = slice(chain, chain + 1)
        kept = {name: getattr(self, name)[one] for name in (*TRACES, "warmup_log_joint", "n_tallied")}
        tally = None if self.tally is None else self.tally[one]
        return replace(self, **kept, tally=tally, plan=replace(self.plan, n_chains=1))

    def __repr__(self) -> str:
        of = self.problem
        return f"Draws({self.n_chains} chains x {self.n_draws} draws, {of.n_clusters} clusters, {of.n_items} items)"


class ChainRecord:
    """The state the next sweep of a chain starts from, and what its sweeps have left so far."""

    def __init__(
        self,
        chain: int,
        state: ChainState,
        problem: Problem,
        plan: Plan,
        probe: Probe | None = None,
        tally: Tally | None = None,
    ) -> None:
        check_state(state, problem)
        # Copies: sweeps work in place, and the caller's arrays are not ours to change.
        self.state = ChainState(**{name: np.array(array, order="C") for name, array in state._asdict().items()})
        self.chain, self.problem, self.plan, self.probe, self._tally = chain, problem, plan, probe, tally
        self.next_sweep = 0
        # Sum and number of the acceptance shares since the last kept draw; the last two columns: rho, ranks.
        self.pending = np.zeros((2, problem.n_clusters + 2))
        self._shares = np.zeros(problem.n_clusters + 2)
        self.warmup_log_joint = np.zeros(plan.warmup)
        self.tally = None if tally is None else tally.zeros()
        sizes = {**problem.sizes, "probed": 0 if probe is None else len(probe(self.state))}
        self.traces = {
            name: np.zeros(
                (plan.draws, *(sizes[dim] for dim in dims)),
                rank_dtype(problem.n_items) if dtype == "rank" else dtype,
            )
            for name, (dtype, dims) in TRACES.items()
        }

    @property
    def n_kept(self) -> int:
        """How many draws are kept so far."""
        return self.plan.kept_before(self.next_sweep)

    def add(self, info: SweepInfo) -> None:
        """Note what the sweep `next_sweep` left; the state has already been changed by it."""
        if not math.isfinite(info.log_joint):
            raise FloatingPointError(f"the log joint is {info.log_joint}; this is a bug in the sampler")
        sweep, kept = self.next_sweep, self.n_kept
        self.next_sweep += 1
        if sweep < self.plan.warmup:
            self.warmup_log_joint[sweep] = info.log_joint
            return
        shares = self._shares
        shares[:-2], shares[-2], shares[-1] = info.alpha_accepted, info.rho_accepted, info.ranks_accepted
        made = shares == shares  # not nan
        self.pending[1] += made
        shares[~made] = 0.0
        self.pending[0] += shares
        if self.n_kept == kept:
            return
        total, number = self.pending
        accepted = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        self.pending[:] = 0
        row = {
            "alpha": self.state.alpha,
            "tau": self.state.tau,
            "rho": self.state.rho,
            "label_counts": info.label_counts,
            "log_joint": info.log_joint,
            "within_distance": info.within_distance,
            "alpha_accepted": accepted[:-2],
            "rho_accepted": accepted[-2],
            "ranks_accepted": accepted[-1],
        }
        if self.probe is not None:
            row["probe"] = self.probe(self.state)
        for name, value in row.items():
            self.traces[name][kept] = value
        if self._tally is not None and self.tally is not None:
            self._tally.add(self.tally, self.state)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it but the sweep number, for a checkpoint; rankings in the smallest dtype that holds them."""
        state = {
            f"state/{name}": getattr(self.state, name).astype(_stored_dtype(name, dtype, self.problem))
            for name, (dtype, _) in _STATE.items()
        }
        traces = {f"draws/{name}": trace[: self.n_kept] for name, trace in self.traces.items()}
        warmup = self.warmup_log_joint[: self.next_sweep]
        tally = {} if self.tally is None else {"tally": self.tally}
        return {**state, **traces, "warmup_log_joint": warmup, "pending": self.pending, **tally}

    @classmethod
    def resumed(
        cls,
        chain: int,
        next_sweep: int,
        arrays: Mapping[str, NDArray[Any]],
        problem: Problem,
        plan: Plan,
        probe: Probe | None = None,
        tally: Tally | None = None,
    ) -> ChainRecord:
        """A record from what `arrays` gave; ValueError if that cannot be of this problem and plan."""
        state = {}
        for name, (dtype, _) in _STATE.items():
            given, stored = arrays.get(f"state/{name}"), _stored_dtype(name, dtype, problem)
            if given is None or given.dtype != stored:
                raise ValueError(f"state/{name} of chain {chain} must be there as {stored}")
            state[name] = given.astype(dtype)
        record = cls(chain, ChainState(**state), problem, plan, probe, tally)
        record.next_sweep = next_sweep
        wanted = record.arrays()
        if arrays.keys() != wanted.keys():
            differs = ", ".join(sorted(arrays.keys() ^ wanted.keys()))
            raise ValueError(f"what is kept of chain {chain} differs: {differs}")
        for name, array in wanted.items():
            if (given := arrays[name]).dtype != array.dtype or given.shape != array.shape:
                raise ValueError(
                    f"{name} of chain {chain} is {given.dtype} {given.shape}, not {array.dtype} {array.shape}"
                )
        for name, trace in record.traces.items():
            trace[: record.n_kept] = arrays[f"draws/{name}"]
        record.warmup_log_joint[:next_sweep] = arrays["warmup_log_joint"]
        record.pending[:] = arrays["pending"]
        if record.tally is not None:
            record.tally[:] = arrays["tally"]
        return record


def joined(records: list[ChainRecord], seed: int, version: str, stopped: Stopped, note: str) -> Draws:
    """The draws of all chains, cut to the shortest."""
    kept = min(record.n_kept for record in records)
    traces = {name: np.stack([record.traces[name][:kept] for record in records]) for name in TRACES}
    tallies = [record.tally for record in records if record.tally is not None]
    return Draws(
        **traces,
        warmup_log_joint=np.stack([record.warmup_log_joint for record in records]),
        tally=np.stack(tallies) if tallies else None,
        n_tallied=np.array([record.n_kept if tallies else 0 for record in records]),
        problem=records[0].problem,
        plan=records[0].plan,
        seed=seed,
        version=version,
        stopped=stopped,
        note=note,
        caveat="",
    )


def rank_dtype(n_items: int) -> str:
    """The smallest dtype in which ranks are stored.

    >>> rank_dtype(200), rank_dtype(40_000)
    ('<i2', '<i4')
    """
    return "<i2" if n_items < 2**15 else "<i4"


def _stored_dtype(name: str, dtype: str, problem: Problem) -> str:
    return rank_dtype(problem.n_items) if name in ("rho", "ranks") else dtype


def check_state(state: ChainState, problem: Problem) -> None:
    """Check what compiled code will trust: dtypes, shapes, and that every index stays inside; else ValueError."""
    for name, (dtype, dims) in _STATE.items():
        array, shape = getattr(state, name), tuple(problem.sizes[dim] for dim in dims)
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(f"{name} of the state is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    for name in ("alpha", "tau", "alpha_step"):
        values = getattr(state, name)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError(f"{name} of the state must be finite and not negative, but it is {values}")
    if not ((state.labels >= 0) & (state.labels < problem.n_clusters)).all():
        raise ValueError(f"labels of the state must lie in 0..{problem.n_clusters - 1}")
    for name in ("rho", "ranks"):
        if not (np.sort(getattr(state, name), axis=1) == np.arange(1, problem.n_items + 1)).all():
            raise ValueError(f"each row of {name} of the state must be a ranking, 1..{problem.n_items}")
