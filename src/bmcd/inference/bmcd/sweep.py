"""One sweep of the exact sampler, top to bottom.

Compared with the paper's Algorithm 2, the steps are the same, but labels and alpha move with the latent rankings
summed out, and the latent rankings are redrawn exactly. A move with R summed out leaves R stale. So all of those
come first, then every R_j is drawn afresh, and only then come the moves that use R.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from bmcd.inference.bmcd.alpha import SMALLEST, update_alpha
from bmcd.inference.bmcd.consensus import cost_matrix, relabel_pass, shuffle, swap_pass
from bmcd.inference.bmcd.labels import group_by_label, update_labels
from bmcd.inference.bmcd.latent_rankings import hit_and_run
from bmcd.inference.bmcd.tau import update_tau
from bmcd.inference.rng_streams import REDRAW, RELABEL, RHO_PRIOR, RHO_SWAPS, ROUND_STRIDE
from bmcd.inference.variates import exponential
from bmcd.mallows.latent.scan import cluster_tables
from bmcd.mallows.latent.users import redraw
from bmcd.rng import STREAM_SIZE, open_stream


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
        if round_ + 1 < effort.rounds:  # after the last one nothing uses R before the next sweep draws it afresh
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
