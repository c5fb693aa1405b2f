"""One iteration of the paper's Algorithm 2 (supplement, "MCMC algorithm"), compiled.

The matrix of distances between every user and every consensus is kept up to date, never computed afresh: a
user's move changes a row, an accepted consensus move changes a column. For footrule, spearman and hamming an
iteration costs, with N users, C clusters and leap size L:

* labels: N C terms, and as many exponentials for users between clusters;
* rankings: N proposals of 4 terms (swap) or 2 (L + 1) (leap-and-shift), and C times that where accepted;
* consensuses: N (L + 1) terms for the C proposals together, as each looks at its own users only, and N (L + 1)
  more for each that is accepted;
* alpha: one log Z a cluster, every ``alpha_update`` iterations.

There is no factor n. `distance_changes.py` tells what the other distances cost. An iteration is serial and releases
Python's lock, so that chains run side by side on threads.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.paper import moves
from bmcd.inference.paper.cache import PaperTally, sum_up
from bmcd.inference.paper.distance_changes import change_by_leap, is_additive, list_leap, make_scratch, place_cost
from bmcd.inference.paper.log_z import log_z_at
from bmcd.inference.paper.user_moves import move_users_by_leap, move_users_by_swap
from bmcd.inference.variates import draw_dirichlet, normal
from bmcd.rng import STREAM_SIZE, open_stream, uniform, uniform_below


@numba.njit(cache=True, nogil=True)
def run_iterations(state, cache, model, log_z_method, trace, chain, first_sweep, warmup):
    """Do as many iterations of Algorithm 2 as ``trace`` has rows. Changes state, cache and trace in place.

    The latent rankings are moved in ``cache`` only, where they take fewer bytes, which is faster.
    """
    n_users, n_clusters = cache.distances.shape
    stream = np.empty(STREAM_SIZE, np.uint64)
    scratch = make_scratch(model.scale.size)
    everyone, members = np.arange(n_users), np.empty(n_users + 1, np.int64)
    first_member = np.empty(n_clusters + 1, np.int64)
    for row in range(trace.log_joint.size):
        sweep, tally = first_sweep + row, PaperTally(trace.alpha[row], trace.rho[row], trace.ranks[row])
        _group_users(state.labels, first_member, members)
        _draw_tau(state, model, first_member, stream, chain, sweep)
        for c in range(n_clusters):
            users = members[first_member[c] : first_member[c + 1]]
            _move_consensus(state, cache, model, tally, users, everyone, c, stream, scratch, chain, sweep)
            if sweep % model.alpha_update == 0:
                _move_alpha(state, cache, model, log_z_method, tally, users, c, stream, chain, sweep, warmup)
        if model.by_swap:
            move_users_by_swap(state, cache, model, tally, stream, scratch, chain, sweep)
        else:
            move_users_by_leap(state, cache, model, tally, stream, scratch, chain, sweep)
        trace.log_joint[row], trace.within_distance[row], trace.counts[row] = sum_up(state, cache, model)


@numba.njit(cache=True, nogil=True)
def _group_users(labels, first_member, members):
    """Set members[first_member[c] : first_member[c + 1]] to the users of cluster c, ascending."""
    size = 0
    for c in range(first_member.size - 1):
        first_member[c] = size
        for j in range(labels.size):  # without a branch, and so faster than counting first
            members[size] = j
            size += labels[j] == c
    first_member[-1] = size


@numba.njit(cache=True, nogil=True)
def _draw_tau(state, model, first_member, stream, chain, sweep):
    """Draw tau given the labels, from Dirichlet(psi + users in each cluster) (Gibbs)."""
    open_stream(stream, model.key, chain, sweep, 0, moves.TAU)
    draw_dirichlet(stream, model.concentration + np.diff(first_member), state.tau)


@numba.njit(cache=True, nogil=True)
def _move_consensus(state, cache, model, tally, users, everyone, c, stream, scratch, chain, sweep):
    """Move rho_c, whose prior is uniform, by leap-and-shift (Metropolis-Hastings)."""
    n_items = model.scale.size
    if n_items == 1:
        return
    open_stream(stream, model.key, chain, sweep, c, moves.CONSENSUS)
    origin = uniform_below(stream, n_items)
    n_targets = moves.leap_targets(origin, 0, n_items - 1, model.leap_size)
    target = moves.leap_target(origin, uniform_below(stream, n_targets), 0, n_items - 1, model.leap_size)
    change = _leap_over_users(cache, model, users, c, origin, target, False, scratch)
    log_ratio = moves.leap_log_ratio(origin, target, 0, n_items - 1, model.leap_size)
    log_ratio -= state.alpha[c] / n_items * model.unit * change
    tally.rho[0] += 1
    if uniform(stream) < math.exp(min(log_ratio, 0.0)):
        tally.rho[1] += 1
        _leap_over_users(cache, model, everyone, c, origin, target, True, scratch)
        moves.leap_and_shift(cache.rho_order, state.rho, c, origin, target)
        cache.rho[c] = state.rho[c]


@numba.njit(cache=True, nogil=True)
def _leap_over_users(cache, model, users, c, origin, target, keep, scratch):
    """Return the sum over ``users`` of the change of d(R_j, rho_c) by a leap of rho_c; ``keep`` stores it."""
    ranks, orders, distances, code, scale = cache.ranks, cache.rho_order, cache.distances, model.code, model.scale
    total = 0
    if is_additive(code):
        n_moved = list_leap(orders, c, origin, target, scale, scratch)
        for j in users:
            change = 0
            for m in range(n_moved):
                x = scale[ranks[j, scratch[0, m]] - 1]
                change += place_cost(code, scratch[2, m], x) - place_cost(code, scratch[1, m], x)
            total += change
            if keep:
                distances[j, c] += change
    else:
        for j in users:
            change = change_by_leap(code, orders, c, ranks, j, origin, target, scale, distances[j, c], scratch)
            total += change
            if keep:
                distances[j, c] += change
    return total


@numba.njit(cache=True, nogil=True)
def _move_alpha(state, cache, model, log_z_method, tally, users, c, stream, chain, sweep, warmup):
    """Move alpha_c, given the rankings of its users, by a log-normal random walk (Metropolis-Hastings).

    Above ``max_alpha`` log Z is not known. The prior ends there, so such a proposal is rejected, and counted.
    """
    open_stream(stream, model.key, chain, sweep, c, moves.ALPHA)
    alpha = state.alpha[c]
    proposed = alpha * math.exp(state.alpha_step[c] * normal(stream))
    tally.alpha[0, c] += 1
    log_ratio, log_z = -math.inf, 0.0
    if proposed > log_z_method.max_alpha:
        tally.alpha[2, c] += 1
    elif 0.0 < proposed < math.inf:
        within = 0
        for j in users:
            within += cache.distances[j, c]
        log_z = log_z_at(log_z_method, proposed)
        log_ratio = moves.alpha_log_ratio(
            alpha, proposed, users.size, within * model.unit, cache.log_z[c], log_z, model.scale.size, model.rate
        )
    if uniform(stream) < math.exp(min(log_ratio, 0.0)):
        tally.alpha[1, c] += 1
        state.alpha[c] = proposed
        cache.log_z[c] = log_z
    if warmup and users.size > 0:  # an empty cluster moves under the prior, which says nothing about the data
        state.alpha_step[c] = moves.tuned_step(state.alpha_step[c], log_ratio, sweep // model.alpha_update)
