"""What a fit leaves: `ChainDraws`, of any sampler, and `Draws`, those of the mixture of Mallows models."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bmcd.inference.run import Plan
from bmcd.inference.schema import Problem, Schema, check_not_negative, check_rankings
from bmcd.inference.state import ChainState

Stopped = Literal["finished", "time", "interrupted"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ChainDraws:
    """The kept draws of all chains, and how they came about."""

    log_joint: NDArray[np.float64]  # [chain, draw]
    probe: NDArray[np.float64]  # [chain, draw, m]; m = 0 without a probe
    warmup_log_joint: NDArray[np.float64]  # [chain, warm-up sweep]
    tally: NDArray[Any] | None = None  # [chain, ...], the sum over n_tallied draws of the chain
    n_tallied: NDArray[np.int64]  # [chain]; more than n_draws where a chain was cut to the length of the others
    problem: Problem
    plan: Plan
    seed: int
    version: str
    stopped: Stopped = "finished"
    note: str = ""  # in words, if it did not go to the end
    resume: str = ""  # in words, how to go on from a checkpoint
    caveat: str = ""  # in words, if the draws are of an approximation to the model

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
            f"{type(self).__name__}({self.n_chains} chains x {self.n_draws} draws, {of.n_clusters} clusters, "
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


def check_mixture_state(state: ChainState, problem: Problem) -> None:
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
