"""From clicks to draws: the parts of a fit put together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, Message, Option
from bmcd.inference.bmcd.initial import initial_state, state_after
from bmcd.inference.bmcd.next_items import LEFT_OUT, add_predictions, keep_tables, score_tables
from bmcd.inference.bmcd.sampler import ExactSampler
from bmcd.inference.diagnostics import PROBED, PROBED_K, probed_pairs
from bmcd.inference.draws import Draws, FitSpec, Previous
from bmcd.inference.loop import Sampler, run_chains
from bmcd.inference.mixture import ChainState, Data, Priors, check_priors, make_data
from bmcd.inference.paper.log_z import is_estimated, table_uncertainty
from bmcd.inference.paper.sampler import PaperSampler
from bmcd.inference.record import RankCounts, Recording
from bmcd.inference.run import Run, check_max_users, users_of_chain
from bmcd.mallows.distances import check_distance
from bmcd.mallows.latent.scan import shared_tables

SAMPLERS = ("exact", "paper")


def sample_posterior(
    clicks: Clicks,
    n_clusters: int,
    run: Run | None = None,
    *,
    priors: Priors | None = None,
    distance: str = "footrule",
    rank_scale: str | ArrayLike = "linear",
    sampler: str = "exact",
    start: str = "kmeans",
    count_k: tuple[int, ...] = (),
    alpha_update: int = 10,
    ranks_move: str = "swap",
    previous: Previous | None = None,
    max_users: int | None = None,
) -> Draws:
    """Draw from the posterior of the mixture of Mallows models given the clicks.

    Parameters
    ----------
    clicks, n_clusters, priors, distance, rank_scale
        The model. Labels, rankings, consensuses, scales and weights are unknown.
    run
        How many draws of how many chains, and all else that a run is asked to do.
    sampler
        "exact" (footrule only): labels and scales with the latent rankings summed out, exact redraws. "paper": the
        paper's Algorithm 2, for every distance; it needs many thousands of iterations.
    start
        "kmeans", "popularity" (the paper's) or "random". Chains start apart, see `initial_state`.
    count_k
        Count how often each item is among the user's next k, for these k. The footrule does not need it: its
        probabilities are exact given the draws.
    alpha_update, ranks_move
        Options of the paper's sampler, see `PaperSampler`.
    previous
        A fit to other clicks, at whose draws the chains start instead; see `bmcd.inference.bmcd.previous`.
    max_users
        Maximum number of users per chain; each chain draws its own random sample. By default all.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=200, seed=1).clicks
    >>> sample_posterior(clicks, 3, Run(draws=10, warmup=10, chains=2))
    Draws(2 chains x 10 draws, 3 clusters, 50 items)
    """
    run = run or Run()
    check_distance(distance, rank_scale)
    if sampler not in SAMPLERS:
        raise InputError(f"sampler {sampler!r} is not known. Choose one of {', '.join(map(repr, SAMPLERS))}.")
    if sampler == "exact" and distance != "footrule":
        said = f"the exact sampler is for the footrule, not for {distance!r}: use "
        raise InputError(Message(said, Option("sampler", "paper"), "."))
    if not 1 <= n_clusters <= clicks.n_users:
        said = f" must lie between 1 and the number of users, {clicks.n_users}, but it is {n_clusters}."
        raise InputError(Message(Option("n_clusters"), said))
    priors = Priors() if priors is None else priors
    check_priors(priors, Priors)
    size = check_max_users(max_users, clicks.n_users)
    if size is not None:
        if count_k:
            raise InputError(
                Message(Option("count_k"), " counts for all users: leave out ", Option("max_users"), ".")
            )
        if n_clusters > size:
            said = f" is {size}, fewer than the {n_clusters} clusters: give more users."
            raise InputError(Message(Option("max_users"), said))
    data = make_data(clicks.matrix, rank_scale)
    options = {
        "rate": priors.rate,
        "concentration": priors.concentration,
        "distance": distance,
        "rank_scale": rank_scale if isinstance(rank_scale, str) else np.asarray(rank_scale, float).tolist(),
        "sampler": sampler,
        "start": start if previous is None else previous.describe(),
        "count_k": list(count_k),
    }
    if sampler == "paper":
        options |= {"alpha_update": alpha_update, "ranks_move": ranks_move}
    if size is not None:
        options["max_users"] = size

    def clicks_of_chain(chain: int) -> Any:
        return (
            clicks.matrix if size is None else clicks.matrix[users_of_chain(run.seed, chain, clicks.n_users, size)]
        )

    def sampler_for_chain(chain: int) -> Sampler:
        own = data if size is None else make_data(clicks_of_chain(chain), rank_scale)
        if sampler == "exact":
            return ExactSampler(own, n_clusters, priors, seed=run.seed)
        paper: Any = {"distance": distance, "alpha_update": alpha_update, "ranks_move": ranks_move}
        return PaperSampler(own, n_clusters, priors, seed=run.seed, **paper)

    def start_of_chain(chain: int) -> ChainState:
        own = clicks_of_chain(chain)
        if previous is not None:
            return state_after(own, previous, seed=run.seed, chain=chain, rank_scale=rank_scale)
        return initial_state(own, n_clusters, start, seed=run.seed, chain=chain, rank_scale=rank_scale)

    recording = Recording(
        FitSpec(clicks.n_users, clicks.n_items, n_clusters, clicks.fingerprint(), options),
        probe=_Probe(data, distance, run.seed),
        tally=RankCounts(clicks.per_user, clicks.n_items, count_k) if count_k else None,
    )
    drawn: Draws = run_chains(sampler_for_chain, start_of_chain, recording, run)
    return replace(drawn, caveat=_caveat(drawn, distance)) if is_estimated(distance, clicks.n_items) else drawn


def _caveat(draws: Draws, distance: str) -> str:
    """Return what it means for these draws that log Z was estimated.

    An error e of the slope of log Z adds e times the number of users N to the slope of the log posterior of alpha,
    which therefore, if about normal, peaks e N sd^2 off.
    """
    n_items = draws.problem.n_items
    error = table_uncertainty(distance, n_items, draws.alpha)
    off = error.slope.mean(axis=1) * draws.label_counts.mean(axis=1) * draws.alpha.std(axis=1)
    return (
        f"log Z of the {distance} distance is estimated for {n_items} items, with a standard error of up to "
        f"{error.log_z.max():.1g} at the alphas drawn; on that account alpha is off by up to {off.max():.1g} of "
        "its posterior standard deviations (standard error), alike in all chains, so that R-hat does not show it."
    )


class _Probe:
    """Probabilities of a fixed sample of users and items: what the diagnostics follow besides the parameters."""

    def __init__(self, data: Data, distance: str, seed: int) -> None:
        n_users, n_items = data.user_start.size - 1, data.scale.size
        self.data, self.exact = data, distance == "footrule"
        self.users, self.items = probed_pairs(seed, n_users, n_items)
        self.k = min(PROBED_K, n_items)
        self.limit = np.diff(data.user_start)[self.users] + self.k
        self.shared = shared_tables(np.diff(data.scale))
        self.no_tables = keep_tables(self.shared, np.ones((1, 1)), 0)
        self.no_scores = score_tables(0, 1, 1, 1)

    def __call__(self, state: ChainState) -> NDArray[np.float64]:
        if not self.exact:
            return (state.ranks[self.users, self.items] <= self.limit).astype(np.float64)
        out, mean_rank = np.zeros((2, PROBED, self.data.scale.size))
        weight = np.empty((1, PROBED, state.tau.size))
        add_predictions(
            self.users, self.data, state.rho[None], state.alpha[None], state.tau[None], self.no_tables, self.shared,
            self.no_scores, self.k, LEFT_OUT, 0, 1, out, mean_rank, weight,
        )  # fmt: skip
        return out[np.arange(PROBED), self.items]
