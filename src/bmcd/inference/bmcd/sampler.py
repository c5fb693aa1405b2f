"""The default sampler (footrule distance): the moves of alpha and tau, one sweep from top to bottom, ExactSampler.

The steps are those of the paper's Algorithm 2, but labels and alpha move with the latent rankings summed out, and
the latent rankings are redrawn exactly. A move with R summed out leaves R stale. So all of those come first, then
every R_j is redrawn, and only then come the moves that use R. Given the rankings, their total distance would hold
alpha in place; with the rankings summed out it moves freely.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from bmcd.inference.bmcd.consensus import cost_matrix, relabel_pass, shuffle, swap_pass
from bmcd.inference.bmcd.labels import group_by_label, update_labels
from bmcd.inference.bmcd.latent_rankings import hit_and_run
from bmcd.inference.mixture import ChainState, Data, Priors, SweepInfo
from bmcd.inference.rng_streams import ALPHA, REDRAW, RELABEL, RHO_PRIOR, RHO_SWAPS, ROUND_STRIDE, TAU
from bmcd.inference.variates import draw_dirichlet, exponential, normal
from bmcd.mallows.latent.scan import cluster_tables, shared_tables
from bmcd.mallows.latent.users import log_likelihoods, redraw
from bmcd.rng import STREAM_SIZE, open_stream, stream_key, uniform

# Warm-up tunes the log-normal step to this share of accepted proposals, the best one in one dimension.
TARGET_ACCEPTANCE = 0.44
# Proposals outside are refused: the posterior has no mass there, and tables would under- or overflow.
SMALLEST, LARGEST = 1e-8, 1e8


@numba.njit(cache=True, nogil=True)
def alpha_log_ratio(log_p, log_p_proposal, alpha, proposal, rate):
    """Return the log acceptance ratio: likelihood, Exponential(rate) prior, Jacobian of the log-normal proposal."""
    return log_p_proposal - log_p - rate * (proposal - alpha) + math.log(proposal / alpha)


@numba.njit(cache=True, nogil=True)
def update_alpha(state, c, members, log_p, table, data, shared, rate, proposals, key, chain, sweep, warmup):
    """Move alpha_c by Metropolis steps in log alpha; return the tables of the new alpha_c and the share accepted.

    ``log_p`` is the present log-likelihood of the members, ``table`` the present tables.
    """
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, c, ALPHA)
    values = np.empty(members.size)
    n_accepted = 0
    for _ in range(proposals):
        alpha = state.alpha[c]
        proposal = alpha * math.exp(state.alpha_step[c] * normal(stream))
        u = uniform(stream)
        probability = 0.0
        if SMALLEST < proposal < LARGEST:
            proposed_table = cluster_tables(shared, proposal)
            log_likelihoods(members, data, state.rho[c], shared, proposed_table, values)
            log_p_proposal = values.sum()
            probability = math.exp(min(alpha_log_ratio(log_p, log_p_proposal, alpha, proposal, rate), 0.0))
            if u < probability:
                state.alpha[c] = proposal
                table = proposed_table
                log_p = log_p_proposal
                n_accepted += 1
        if warmup:
            # Robbins and Monro; the gain falls with the sweep, so that the step converges.
            step = state.alpha_step[c] * math.exp((probability - TARGET_ACCEPTANCE) * 3.0 / math.sqrt(sweep + 4.0))
            state.alpha_step[c] = min(max(step, 1e-4), 3.0)
    return table, n_accepted / proposals


@numba.njit(cache=True, nogil=True)
def update_tau(tau, counts, concentration, key, chain, sweep):
    """Draw tau given the labels, from Dirichlet(psi + users in each cluster)."""
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, 0, TAU)
    draw_dirichlet(stream, concentration + counts, tau)


class Effort(NamedTuple):
    """How much a sweep does. Changes the time and the mixing, never the posterior."""

    rounds: int = 2  # rounds of moves that use R
    swaps: int = 20  # consensus swaps per item, cluster and round
    relabels: int = 4  # joint relabellings per item, cluster and round
    alpha_proposals: int = 3  # proposals of alpha_c; each costs one likelihood for every user


@numba.njit(cache=True, nogil=True)
def exact_sweep(state, data, shared, rate, concentration, effort, key, chain, sweep, warmup):
    """Do one sweep: change ``state`` in place, return what `SweepInfo` holds."""
    n_clusters, n_items = state.rho.shape
    tables = [cluster_tables(shared, alpha) for alpha in state.alpha]

    log_p = update_labels(state, data, shared, tables, key, chain, sweep)
    users, start = group_by_label(state.labels, n_clusters)
    counts = np.diff(start)
    update_tau(state.tau, counts, concentration, key, chain, sweep)

    alpha_accepted = np.full(n_clusters, np.nan)
    proposed, accepted, within = 0, 0, 0.0
    log_joint = (concentration - 1.0) * np.log(state.tau).sum()
    mark = np.zeros(state.labels.size, np.bool_)
    for c in range(n_clusters):
        members = users[start[c] : start[c + 1]]
        if members.size == 0:
            draw_from_prior(state, c, rate, key, chain, sweep)
        else:
            total = 0.0
            for user in members:
                total += log_p[user]
            table, alpha_accepted[c] = update_alpha(
                state, c, members, total, tables[c], data, shared, rate, effort.alpha_proposals,
                key, chain, sweep, warmup,
            )  # fmt: skip
            redraw(members, data, state.rho[c], shared, table, key, chain, sweep, REDRAW, state.ranks)
            n_proposed, n_accepted, distance = move_consensus_and_ranks(
                state, c, members, data, effort, mark, key, chain, sweep
            )
            proposed += n_proposed
            accepted += n_accepted
            within += distance
            log_joint += members.size * (math.log(state.tau[c]) - table.log_z) - state.alpha[c] / n_items * distance
        log_joint -= rate * state.alpha[c]
    return log_joint, within, counts, alpha_accepted, accepted / max(proposed, 1)


@numba.njit(cache=True, nogil=True)
def move_consensus_and_ranks(state, c, members, data, effort, mark, key, chain, sweep):
    """Do rounds of joint relabelling and consensus swaps, with hit-and-run between the rounds.

    Returns proposals, acceptances and distance.
    """
    n_items = data.scale.size
    beta = state.alpha[c] / n_items
    rho = state.rho[c]
    stream = np.empty(STREAM_SIZE, np.uint64)
    n_proposed, n_accepted = 0, 0
    n_relabels, n_swaps = effort.relabels * n_items, effort.swaps * n_items
    for round_ in range(effort.rounds):
        open_stream(stream, key, chain, sweep, c, RELABEL + ROUND_STRIDE * round_)
        n_accepted += relabel_pass(stream, data, state.ranks, state.labels, members, c, rho, beta, n_relabels, mark)
        open_stream(stream, key, chain, sweep, c, RHO_SWAPS + ROUND_STRIDE * round_)
        n_accepted += swap_pass(stream, cost_matrix(state.ranks, members, data.scale), rho, beta, n_swaps)
        n_proposed += n_relabels + n_swaps
        if round_ + 1 < effort.rounds:  # after the last one nothing uses R before the next sweep redraws it
            hit_and_run(members, data, rho, beta, round_ % 2 == 0, key, chain, sweep, round_, state.ranks)
    distance = 0.0
    for user in members:
        row = state.ranks[user]
        for item in range(n_items):
            distance += abs(data.scale[row[item] - 1] - data.scale[rho[item] - 1])
    return n_proposed, n_accepted, distance


@numba.njit(cache=True, nogil=True)
def draw_from_prior(state, c, rate, key, chain, sweep):
    """Draw alpha and rho of an empty cluster, which knows only the prior."""
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, c, RHO_PRIOR)
    state.alpha[c] = max(exponential(stream) / rate, SMALLEST)
    shuffle(stream, state.rho[c])


class ExactSampler:
    """Sweeps over a `ChainState`, in place. All randomness is a function of (seed, chain, sweep).

    A sweep costs one likelihood and one draw for every user, a likelihood for every user and proposal of alpha, and
    O(users x items) for each round of moves that use the latent rankings.
    """

    def __init__(
        self, data: Data, n_clusters: int, priors: Priors, *, seed: int = 0, effort: Effort | None = None
    ) -> None:
        self.data = data
        self.n_clusters = n_clusters
        self.priors = priors
        self.key = stream_key(seed)
        self.effort = effort or Effort()
        self._shared = shared_tables(np.diff(data.scale))

    def sweep(self, state: ChainState, chain: int, sweep: int, warmup: bool) -> SweepInfo:
        """Do one sweep. ``warmup`` lets it tune the step of alpha; after warm-up nothing is tuned."""
        log_joint, within, counts, alpha_accepted, rho_accepted = exact_sweep(
            state, self.data, self._shared, float(self.priors.rate), float(self.priors.concentration), self.effort,
            self.key, chain, sweep, warmup,
        )  # fmt: skip
        # The latent rankings are drawn from their exact law or by hit-and-run: there is nothing to reject.
        return SweepInfo(log_joint, within, counts, alpha_accepted, rho_accepted, 1.0)
