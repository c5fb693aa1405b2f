"""The users' half of the paper's Algorithm 2: for each a label, then a move of the latent ranking.

In these loops additive distances are written out, without a call that takes arrays: such a call counts
references up and down, atomically, and that would cost several times what the move itself does.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.kernels.paper_distances import (
    change_by_leap,
    change_by_swap,
    cost_of_swap,
    is_additive,
    list_leap,
    place_cost,
)
from bmcd.kernels.paper_moves import (
    USER,
    block_of,
    four_uniforms,
    leap_and_shift,
    leap_log_ratio,
    leap_target,
    leap_targets,
    swap,
    swap_partner,
    whole_below,
)
from bmcd.streams import open_stream, uniform, uniform_below


@numba.njit(cache=True, nogil=True)
def _draw_label(log_base, slope, distances, j, weights, u):
    """Gibbs: the label given the ranking, weights tau_c exp(-alpha_c / n d) / Z(alpha_c)."""
    largest = -math.inf
    for c in range(weights.size):
        weights[c] = log_base[c] - slope[c] * distances[j, c]
        largest = max(largest, weights[c])
    total = 0.0
    for c in range(weights.size):
        total += math.exp(weights[c] - largest)
        weights[c] = total
    u *= total
    label = 0
    for c in range(weights.size - 1):
        label += weights[c] <= u
    return label


@numba.njit(cache=True, nogil=True)
def move_users_by_swap(state, cache, model, tally, stream, room, chain, sweep):
    """For each user: Gibbs for the label given the ranking, then Metropolis-Hastings for the ranking by a swap."""
    labels, ranks, rho, orders, distances = state.labels, state.ranks, state.rho, cache.order, cache.distances
    code, scale, fixed = model.code, model.scale, model.fixed_labels
    key, user_numbers, user_start = model.key, model.user_numbers, model.user_start
    n_users, n_clusters = distances.shape
    n_items = scale.size
    log_base = np.log(state.tau) - cache.log_z
    slope = state.alpha / n_items * model.unit
    weights, changes = np.empty(n_clusters), np.empty(n_clusters, np.int64)
    additive = is_additive(code)
    n_proposed, n_accepted = 0, 0
    for j in range(n_users):
        open_stream(stream, key, chain, sweep, user_numbers[j], USER)
        for_label, for_item, for_partner, for_acceptance = four_uniforms(stream)
        if not fixed:  # this is `_draw_label`
            largest = -math.inf
            for c in range(n_clusters):
                weights[c] = log_base[c] - slope[c] * distances[j, c]
                largest = max(largest, weights[c])
            total = 0.0
            for c in range(n_clusters):
                total += math.exp(weights[c] - largest)
                weights[c] = total
            for_label *= total
            label = 0
            for c in range(n_clusters - 1):
                label += weights[c] <= for_label
            labels[j] = label
        own = labels[j]
        a = whole_below(for_item, n_items)
        low, high = block_of(a, user_start[j + 1] - user_start[j], n_items)
        if high > low:
            b = swap_partner(a, whole_below(for_partner, high - low), low)
            i, k = orders[j, a], orders[j, b]
            if additive:
                x, y = scale[rho[own, i] - 1], scale[rho[own, k] - 1]
                change = cost_of_swap(code, scale[a], scale[b], x, y)
            else:
                d = distances[j, own]
                change = change_by_swap(code, orders, j, rho, own, a, b, scale, d, room)
            n_proposed += 1
            if for_acceptance < math.exp(min(-slope[own] * change, 0.0)):
                n_accepted += 1
                if additive:
                    for c in range(n_clusters):
                        x, y = scale[rho[c, i] - 1], scale[rho[c, k] - 1]
                        distances[j, c] += cost_of_swap(code, scale[a], scale[b], x, y)
                else:
                    for c in range(n_clusters):
                        d = distances[j, c]
                        if c != own:
                            changes[c] = change_by_swap(code, orders, j, rho, c, a, b, scale, d, room)
                    changes[own] = change
                    distances[j] += changes
                swap(orders, ranks, j, a, b)
    tally.ranks[0] += n_proposed
    tally.ranks[1] += n_accepted


@numba.njit(cache=True, nogil=True)
def move_users_by_leap(state, cache, model, tally, stream, room, chain, sweep):
    """The same with two leap-and-shift moves: one within the clicked items, one within the others."""
    labels, ranks, rho, orders, distances = state.labels, state.ranks, state.rho, cache.order, cache.distances
    code, scale, fixed, leap = model.code, model.scale, model.fixed_labels, model.leap_size
    key, user_numbers, user_start = model.key, model.user_numbers, model.user_start
    n_users, n_clusters = distances.shape
    n_items = scale.size
    log_base = np.log(state.tau) - cache.log_z
    slope = state.alpha / n_items * model.unit
    weights, changes = np.empty(n_clusters), np.empty(n_clusters, np.int64)
    additive = is_additive(code)
    n_proposed, n_accepted = 0, 0
    for j in range(n_users):
        open_stream(stream, key, chain, sweep, user_numbers[j], USER)
        if not fixed:
            labels[j] = _draw_label(log_base, slope, distances, j, weights, uniform(stream))
        own = labels[j]
        n_clicked = user_start[j + 1] - user_start[j]
        for part in range(2):
            low, high = (0, n_clicked - 1) if part == 0 else (n_clicked, n_items - 1)
            if high > low:
                a = low + uniform_below(stream, high - low + 1)
                b = leap_target(a, uniform_below(stream, leap_targets(a, low, high, leap)), low, high, leap)
                if additive:
                    # Most leaps are accepted, so the changes for all clusters are found in one go.
                    changes[:] = 0
                    for m in range(list_leap(orders, j, a, b, scale, room)):
                        for c in range(n_clusters):
                            x = scale[rho[c, room[0, m]] - 1]
                            changes[c] += place_cost(code, room[2, m], x) - place_cost(code, room[1, m], x)
                else:
                    d = distances[j, own]
                    changes[own] = change_by_leap(code, orders, j, rho, own, a, b, scale, d, room)
                log_ratio = leap_log_ratio(a, b, low, high, leap) - slope[own] * changes[own]
                n_proposed += 1
                if uniform(stream) < math.exp(min(log_ratio, 0.0)):
                    n_accepted += 1
                    for c in range(n_clusters):
                        d = distances[j, c]
                        if not additive and c != own:
                            changes[c] = change_by_leap(code, orders, j, rho, c, a, b, scale, d, room)
                        distances[j, c] = d + changes[c]
                    leap_and_shift(orders, ranks, j, a, b)
    tally.ranks[0] += n_proposed
    tally.ranks[1] += n_accepted
