"""One iteration of the paper's Algorithm 2 (supplement, "MCMC algorithm"), compiled.

The matrix of distances between every user and every consensus is kept up to date, never recomputed: a
user's move changes a row, an accepted consensus move changes a column. For footrule, spearman and hamming an
iteration costs, with N users, C clusters and leap size L:

* labels: N C terms, and as many exponentials for users between clusters;
* rankings: N proposals of 4 terms (swap) or 2 (L + 1) (leap-and-shift), and C times that where accepted;
* consensuses: N (L + 1) terms for the C proposals together, as each looks at its own users only, and N (L + 1)
  more for each that is accepted;
* alpha: one log Z a cluster, every ``alpha_update`` iterations.

There is no factor n. `distance_cache.py` lists what the other distances cost. An iteration is serial and
releases Python's lock, so that chains run side by side on threads.

Users do not depend on each other, so their swaps are done for some 100 users at a time, in four short loops: all
random numbers and proposals, all labels, all acceptances, all updates. None of these loops has a branch that
cannot be predicted, and memory is fetched before it is needed. One loop over users would take 1.5 times as long.
In these loops additive distances are written out, without a call that takes arrays: such a call counts references
up and down, atomically, which would cost several times what the move itself does.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.bmcd.labels import group_by_label
from bmcd.inference.paper import moves
from bmcd.inference.paper.distance_cache import PaperTally, change_by_leap, list_leap, sum_up
from bmcd.inference.paper.log_z import log_z_at
from bmcd.inference.rng_streams import PAPER_ALPHA, PAPER_CONSENSUS, PAPER_TAU, PAPER_USER
from bmcd.inference.variates import draw_dirichlet, normal
from bmcd.mallows.distances import change_by_swap, cost_of_swap, is_additive, make_scratch, place_cost
from bmcd.rng import STREAM_SIZE, four_uniforms, integer_below, open_stream, uniform, uniform_below

USERS_AT_ONCE = 128
# Far above rounding errors, and no uniform number is this near to 0 or 1 more than once in 10^11 users.
SLACK = 1e-12


@numba.njit(cache=True, nogil=True)
def draw_labels(labels, distances, log_base, slope, numbers, weights, first, last):
    """Draw labels given the rankings, with weights tau_c exp(-alpha_c / n d) / Z(alpha_c) (Gibbs).

    ``numbers[j - first]`` decides for user j. Where the best cluster leads by g, the others together weigh at most
    (C - 1) exp(-g) of it, and exp(g) is more than the first terms of its series. Mostly that decides the label
    without an exponential.
    """
    n_clusters = log_base.size
    for j in range(first, last):
        largest, second, best = -math.inf, -math.inf, 0
        for c in range(n_clusters):
            weight = log_base[c] - slope[c] * distances[j, c]
            weights[c] = weight
            second = max(second, min(weight, largest))
            best = c if weight > largest else best
            largest = max(weight, largest)
        u = numbers[j - first]
        g = largest - second
        series = 1.0 + g * (1.0 + g * (1 / 2 + g * (1 / 6 + g * (1 / 24 + g * (1 / 120)))))
        if n_clusters - 1 < (min(u, 1.0 - u) - SLACK) * series:
            labels[j] = best
            continue
        total = 0.0
        for c in range(n_clusters):
            total += math.exp(weights[c] - largest)
            weights[c] = total
        u *= total
        label = 0
        for c in range(n_clusters - 1):
            label += weights[c] <= u
        labels[j] = label


@numba.njit(cache=True, nogil=True)
def move_users_by_swap(state, cache, model, tally, stream, scratch, chain, sweep):
    """Move each user's label given the ranking (Gibbs), then the ranking by a swap (Metropolis-Hastings)."""
    n_users, n_clusters = cache.distances.shape
    log_base = np.log(state.tau) - cache.log_z
    slope = state.alpha / model.scale.size * model.unit
    places = np.empty_like(state.rho)
    for c in range(n_clusters):
        for i in range(places.shape[1]):
            places[c, i] = model.scale[state.rho[c, i] - 1]
    weights = np.empty(n_clusters)
    numbers = np.empty((2, USERS_AT_ONCE))  # for the label, for the acceptance
    swaps = np.empty((USERS_AT_ONCE, 6), np.int64)  # user, two positions, the items there, change of distance
    accepted = np.empty(USERS_AT_ONCE, np.int64)
    for first in range(0, n_users, USERS_AT_ONCE):
        last = min(first + USERS_AT_ONCE, n_users)
        n_proposed = _propose_swaps(cache.order, model, stream, numbers, swaps, first, last, chain, sweep)
        draw_labels(state.labels, cache.distances, log_base, slope, numbers[0], weights, first, last)
        n_accepted = _accept_swaps(
            state, cache, model, places, slope, numbers[1], swaps, n_proposed, accepted, scratch
        )
        _do_swaps(state, cache, model, places, swaps, accepted[:n_accepted], scratch)
        tally.ranks[0] += n_proposed
        tally.ranks[1] += n_accepted


@numba.njit(cache=True, nogil=True)
def _propose_swaps(orders, model, stream, numbers, swaps, first, last, chain, sweep):
    """Fill ``numbers`` and ``swaps``, except for the change, for some users; return how many proposals.

    An item alone in its block has no partner: its user has a number for the label, but no proposal.
    """
    key, user_start, n_items = model.key, model.user_start, model.scale.size
    n_proposed = 0
    for j in range(first, last):
        open_stream(stream, key, chain, sweep, j, PAPER_USER)
        for_label, for_item, for_partner, for_acceptance = four_uniforms(stream)
        numbers[0, j - first] = for_label
        a = integer_below(for_item, n_items)
        low, high = moves.block_of(a, user_start[j + 1] - user_start[j], n_items)
        b = moves.swap_partner(a, integer_below(for_partner, high - low), low) if high > low else a
        swaps[n_proposed, 0], swaps[n_proposed, 1], swaps[n_proposed, 2] = j, a, b
        swaps[n_proposed, 3], swaps[n_proposed, 4] = orders[j, a], orders[j, b]
        numbers[1, n_proposed] = for_acceptance
        n_proposed += high > low
    return n_proposed


@numba.njit(cache=True, nogil=True)
def _accept_swaps(state, cache, model, places, slope, numbers, swaps, n_proposed, accepted, scratch):
    """Record which rows of ``swaps`` are accepted; return how many."""
    labels, rho, orders, distances = state.labels, state.rho, cache.order, cache.distances
    code, scale = model.code, model.scale
    additive = is_additive(code)
    n_accepted = 0
    for m in range(n_proposed):
        j, a, b = swaps[m, 0], swaps[m, 1], swaps[m, 2]
        label = labels[j]
        if additive:
            x, y = places[label, swaps[m, 3]], places[label, swaps[m, 4]]
            change = cost_of_swap(code, scale[a], scale[b], x, y)
        else:
            change = change_by_swap(code, orders, j, rho, label, a, b, distances[j, label], scratch)
            swaps[m, 5] = change
        accepted[n_accepted] = m
        n_accepted += numbers[m] < math.exp(min(-slope[label] * change, 0.0))
    return n_accepted


@numba.njit(cache=True, nogil=True)
def _do_swaps(state, cache, model, places, swaps, accepted, scratch):
    """Do the accepted swaps, and update the distances to all consensuses."""
    labels, ranks, rho, orders, distances = state.labels, cache.ranks, state.rho, cache.order, cache.distances
    code, scale, n_clusters = model.code, model.scale, distances.shape[1]
    additive = is_additive(code)
    for m in accepted:
        j, a, b, i, k = swaps[m, 0], swaps[m, 1], swaps[m, 2], swaps[m, 3], swaps[m, 4]
        for c in range(n_clusters):
            if additive:
                distances[j, c] += cost_of_swap(code, scale[a], scale[b], places[c, i], places[c, k])
            elif c == labels[j]:
                distances[j, c] += swaps[m, 5]
            else:
                distances[j, c] += change_by_swap(code, orders, j, rho, c, a, b, distances[j, c], scratch)
        moves.swap(orders, ranks, j, a, b)


@numba.njit(cache=True, nogil=True)
def move_users_by_leap(state, cache, model, tally, stream, scratch, chain, sweep):
    """Move each user's label, then the ranking by leap-and-shift within the clicked items and within the others."""
    labels, ranks, rho, orders, distances = state.labels, cache.ranks, state.rho, cache.order, cache.distances
    code, scale, leap = model.code, model.scale, model.leap_size
    key, user_start = model.key, model.user_start
    n_users, n_clusters = distances.shape
    n_items = scale.size
    log_base = np.log(state.tau) - cache.log_z
    slope = state.alpha / n_items * model.unit
    weights, changes, for_label = np.empty(n_clusters), np.empty(n_clusters, np.int64), np.empty(1)
    additive = is_additive(code)
    n_proposed, n_accepted = 0, 0
    for j in range(n_users):
        open_stream(stream, key, chain, sweep, j, PAPER_USER)
        for_label[0] = uniform(stream)
        draw_labels(labels, distances, log_base, slope, for_label, weights, j, j + 1)
        label = labels[j]
        n_clicked = user_start[j + 1] - user_start[j]
        for part in range(2):
            low, high = (0, n_clicked - 1) if part == 0 else (n_clicked, n_items - 1)
            if high > low:
                a = low + uniform_below(stream, high - low + 1)
                b = moves.leap_target(
                    a, uniform_below(stream, moves.leap_targets(a, low, high, leap)), low, high, leap
                )
                if additive:
                    # Most leaps are accepted, so the changes for all clusters are found in one go.
                    changes[:] = 0
                    for m in range(list_leap(orders, j, a, b, scale, scratch)):
                        for c in range(n_clusters):
                            x = scale[rho[c, scratch[0, m]] - 1]
                            changes[c] += place_cost(code, scratch[2, m], x) - place_cost(code, scratch[1, m], x)
                else:
                    d = distances[j, label]
                    changes[label] = change_by_leap(code, orders, j, rho, label, a, b, d, scratch)
                log_ratio = moves.leap_log_ratio(a, b, low, high, leap) - slope[label] * changes[label]
                n_proposed += 1
                if uniform(stream) < math.exp(min(log_ratio, 0.0)):
                    n_accepted += 1
                    for c in range(n_clusters):
                        d = distances[j, c]
                        if not additive and c != label:
                            changes[c] = change_by_leap(code, orders, j, rho, c, a, b, d, scratch)
                        distances[j, c] = d + changes[c]
                    moves.leap_and_shift(orders, ranks, j, a, b)
    tally.ranks[0] += n_proposed
    tally.ranks[1] += n_accepted


@numba.njit(cache=True, nogil=True)
def run_iterations(state, cache, model, log_z_method, trace, chain, first_sweep, warmup):
    """Do as many iterations of Algorithm 2 as ``trace`` has rows. Changes state, cache and trace in place.

    The latent rankings are moved in ``cache`` only, where they take fewer bytes, which is faster.
    """
    n_users, n_clusters = cache.distances.shape
    stream = np.empty(STREAM_SIZE, np.uint64)
    scratch = make_scratch(model.scale.size)
    everyone = np.arange(n_users)
    for row in range(trace.log_joint.size):
        sweep, tally = first_sweep + row, PaperTally(trace.alpha[row], trace.rho[row], trace.ranks[row])
        members, first_member = group_by_label(state.labels, n_clusters)
        open_stream(stream, model.key, chain, sweep, 0, PAPER_TAU)
        draw_dirichlet(stream, model.concentration + np.diff(first_member), state.tau)
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
def _move_consensus(state, cache, model, tally, users, everyone, c, stream, scratch, chain, sweep):
    """Move rho_c, whose prior is uniform, by leap-and-shift (Metropolis-Hastings)."""
    n_items = model.scale.size
    if n_items == 1:
        return
    open_stream(stream, model.key, chain, sweep, c, PAPER_CONSENSUS)
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
            change = change_by_leap(code, orders, c, ranks, j, origin, target, distances[j, c], scratch)
            total += change
            if keep:
                distances[j, c] += change
    return total


@numba.njit(cache=True, nogil=True)
def _move_alpha(state, cache, model, log_z_method, tally, users, c, stream, chain, sweep, warmup):
    """Move alpha_c, given the rankings of its users, by a log-normal random walk (Metropolis-Hastings).

    Above ``max_alpha`` log Z is not known. The prior ends there, so such a proposal is rejected.
    """
    open_stream(stream, model.key, chain, sweep, c, PAPER_ALPHA)
    alpha = state.alpha[c]
    proposed = alpha * math.exp(state.alpha_step[c] * normal(stream))
    tally.alpha[0, c] += 1
    log_ratio, log_z = -math.inf, 0.0
    if 0.0 < proposed < math.inf and proposed <= log_z_method.max_alpha:
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
    if warmup and users.size > 0:  # an empty cluster moves under the prior, which does not depend on the data
        state.alpha_step[c] = moves.tuned_step(state.alpha_step[c], log_ratio, sweep // model.alpha_update)
