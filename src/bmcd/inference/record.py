"""What a chain has left so far: `ChainRecord`, which the loop fills and a checkpoint keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.inference.draws import MIXTURE, FitSpec, Schema, Stopped
from bmcd.inference.mixture import ChainState
from bmcd.inference.run import Plan

# Some numbers to keep of every draw. Probes and tallies run in the threads of the chains.
Probe = Callable[[Any], NDArray[np.float64]]


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
        """Return the counts of no draws: [k, user, item]."""
        return np.zeros((len(self.ks), len(self.n_clicked), self.n_items), np.int32)

    def add(self, total: NDArray[Any], state: ChainState) -> None:
        """Count one draw."""
        for counts, k in zip(total, self.ks, strict=True):
            counts += state.ranks <= (self.n_clicked + k)[:, None]


@dataclass(frozen=True)
class Recording:
    """What is fitted, and what is kept of its chains."""

    problem: FitSpec
    schema: Schema = MIXTURE
    probe: Probe | None = None
    """Gives some numbers to keep of every draw, such as the probabilities of a sample of users and items."""
    tally: RankCounts | None = None
    """Sums over the draws, such as `RankCounts`."""


class ChainRecord:
    """The state the next sweep of a chain starts from, and what its sweeps have left so far."""

    def __init__(self, chain: int, state: Any, recording: Recording, plan: Plan) -> None:
        schema, problem, probe, tally = recording.schema, recording.problem, recording.probe, recording.tally
        schema.check_state(state, problem)
        # Copies: sweeps work in place, and the caller's arrays are not ours to change.
        self.state = schema.state_type(**{name: np.array(getattr(state, name), order="C") for name in schema.state})
        self.chain, self.recording, self.plan = chain, recording, plan
        self.next_sweep = 0
        # Sum and number of the shares since the last kept draw.
        self.pending = {name: np.zeros((2, *problem.shape(schema.traces[name][1]))) for name in schema.shares}
        self.warmup_log_joint = np.zeros(plan.warmup)
        self.tally = None if tally is None else tally.zeros()
        n_probed = 0 if probe is None else len(probe(self.state))
        self.traces = {
            name: np.zeros((plan.draws, *problem.shape(dims, probed=n_probed)), problem.stored_dtype(dtype))
            for name, (dtype, dims) in schema.traces.items()
        }

    @property
    def n_kept(self) -> int:
        """How many draws are kept so far."""
        return self.plan.kept_before(self.next_sweep)

    def add(self, info: Any) -> None:
        """Note what the sweep `next_sweep` left; the state has already been changed by it."""
        if not math.isfinite(info.log_joint):
            raise FloatingPointError(f"the log joint is {info.log_joint}; this is a bug in the sampler")
        sweep, kept = self.next_sweep, self.n_kept
        self.next_sweep += 1
        if sweep < self.plan.warmup:
            self.warmup_log_joint[sweep] = info.log_joint
            return
        for name, pending in self.pending.items():
            share = np.asarray(getattr(info, name))
            was_tried = share == share  # not nan
            pending[0] += np.where(was_tried, share, 0.0)
            pending[1] += was_tried
        if self.n_kept == kept:
            return
        for name, trace in self.traces.items():
            if name in self.pending:
                total, number = self.pending[name]
                trace[kept] = np.where(number > 0, total / np.maximum(number, 1), np.nan)
                self.pending[name][:] = 0
            elif name == "probe":
                if self.recording.probe is not None:
                    trace[kept] = self.recording.probe(self.state)
            else:
                trace[kept] = getattr(info if hasattr(info, name) else self.state, name)
        if self.recording.tally is not None and self.tally is not None:
            self.recording.tally.add(self.tally, self.state)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all but the sweep number, for a checkpoint; rankings in the smallest dtype that holds them."""
        state = {
            f"state/{name}": getattr(self.state, name).astype(self.recording.problem.stored_dtype(dtype))
            for name, (dtype, _) in self.recording.schema.state.items()
        }
        traces = {f"draws/{name}": trace[: self.n_kept] for name, trace in self.traces.items()}
        warmup = self.warmup_log_joint[: self.next_sweep]
        tally = {} if self.tally is None else {"tally": self.tally}
        pending = {f"pending/{name}": array for name, array in self.pending.items()}
        return {**state, **traces, "warmup_log_joint": warmup, **pending, **tally}

    @classmethod
    def resumed(
        cls, chain: int, next_sweep: int, arrays: Mapping[str, NDArray[Any]], recording: Recording, plan: Plan
    ) -> ChainRecord:
        """Return a record made of what `arrays` gave; ValueError if that cannot be of this problem and plan."""
        state, schema, problem = {}, recording.schema, recording.problem
        for name, (dtype, _) in schema.state.items():
            given, stored = arrays.get(f"state/{name}"), problem.stored_dtype(dtype)
            if given is None or given.dtype != stored:
                raise ValueError(f"state/{name} of chain {chain} must be there as {stored}")
            state[name] = given.astype("<i8" if dtype == "rank" else dtype)
        record = cls(chain, schema.state_type(**state), recording, plan)
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
            array[...] = given  # the record's own array, or a copy of the state
        return record


def draws_of(
    records: list[ChainRecord],
    seed: int,
    version: str,
    stopped: Stopped = "finished",
    note: str = "",
    resume: str = "",
) -> Any:
    """Return the draws of all chains, cut to the shortest, as the schema's own kind of draws."""
    kept, recording = min(record.n_kept for record in records), records[0].recording
    tallies = [record.tally for record in records if record.tally is not None]
    return recording.schema.draws_type(
        **{name: np.stack([record.traces[name][:kept] for record in records]) for name in recording.schema.traces},
        warmup_log_joint=np.stack([record.warmup_log_joint for record in records]),
        tally=np.stack(tallies) if tallies else None,
        n_tallied=np.array([record.n_kept if tallies else 0 for record in records]),
        problem=recording.problem,
        plan=records[0].plan,
        seed=seed,
        version=version,
        stopped=stopped,
        note=note,
        resume=resume,
    )
