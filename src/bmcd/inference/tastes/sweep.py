"""One sweep of the tastes sampler, top to bottom.

The visits are drawn afresh from the rates, and everything else is then given the visits alone: the consensuses and
scales through the number of visits to each item, a with the rates integrated out. Only then come the rates, given
all of these, and b given the rates. Between two sweeps the visits are forgotten.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from bmcd.inference.tastes.consensus import list_of_gaps, update_consensus
from bmcd.inference.tastes.hyper import log_gamma_density, log_visits_given, pairs_with_more, update_a, update_b
from bmcd.inference.tastes.rates import update_rates
from bmcd.inference.tastes.rng_streams import CONSENSUS, SCALE
from bmcd.inference.tastes.scale import log_posterior, update_scale
from bmcd.inference.tastes.visits import first_item_probabilities, padded, update_visits
from bmcd.rng import STREAM_SIZE, open_stream


class TasteEffort(NamedTuple):
    """How much a sweep does. Changes the time and the mixing, never the posterior."""

    passes: int = 1  # passes over the visits with the rates integrated out
    swaps: int = 10  # consensus swaps per taste and item visited under it
    window: int = 32  # points of the grid among which alpha is drawn
    a_proposals: int = 3


@numba.njit(cache=True, nogil=True)
def taste_sweep(state, data, log_law, log_prior, hyper, effort, key, chain, sweep, warmup):
    """Change ``state`` in place; return what `TasteInfo` holds."""
    n_users, n_tastes = state.rates.shape
    q = np.zeros((data.n_items, padded(n_tastes)))
    first_item_probabilities(state.item_at, state.scale_index, log_law, q)

    of_user, of_item = np.empty((n_users, n_tastes)), np.empty((data.n_items, n_tastes))
    n_visits, log_repeats = update_visits(
        state.rates, data, q, state.a[0], effort.passes, key, chain, sweep, of_user, of_item
    )

    per_taste, gaps = np.empty(n_tastes), list_of_gaps(data.n_items)
    log_first, tried, taken, at_edge = 0.0, 0, 0, 0
    for c in range(n_tastes):
        per_taste[c], log_p, swaps_tried, swaps_taken = update_taste(
            state, c, of_item[:, c].copy(), log_law, log_prior, gaps, effort, key, chain, sweep
        )
        log_first += log_p
        tried += swaps_tried
        taken += swaps_taken
        at_edge += per_taste[c] > 0.0 and state.scale_index[c] in (0, log_prior.size - 1)

    more = pairs_with_more(of_user)
    a_accepted = update_a(state, more, of_user.size, hyper, effort.a_proposals, key, chain, sweep, warmup)
    total_rate = update_rates(state.rates, of_user, state.a[0], state.b[0], key, chain, sweep)
    update_b(state, total_rate, hyper, key, chain, sweep)

    log_joint = log_first - log_repeats + log_visits_given(state.a[0], state.b[0], more, of_user.size)
    if hyper.a_shape > 0.0:
        log_joint += log_gamma_density(state.a[0], hyper.a_shape, hyper.a_rate)
    if hyper.b_shape > 0.0:
        log_joint += log_gamma_density(state.b[0], hyper.b_shape, hyper.b_rate)
    swaps_accepted = taken / tried if tried > 0 else math.nan
    return log_joint, n_visits, of_user, per_taste, swaps_accepted, a_accepted, at_edge


@numba.njit(cache=True, nogil=True)
def update_taste(state, c, counts, log_law, log_prior, gaps, effort, key, chain, sweep):
    """Move the consensus and the scale of a taste, given how often each item was visited under it.

    Returns the visits, the log density of their items with the prior of consensus and scale, and the swaps
    proposed and taken. Without visits the shuffle of the consensus is an exact draw from the prior.
    """
    stream = np.empty(STREAM_SIZE, np.uint64)
    item_at = state.item_at[c]
    n_visits = counts.sum()
    open_stream(stream, key, chain, sweep, c, CONSENSUS)
    tried, taken = update_consensus(stream, counts, log_law[state.scale_index[c]], item_at, gaps, effort.swaps)
    open_stream(stream, key, chain, sweep, c, SCALE)
    counts_at = counts[item_at]
    state.scale_index[c] = update_scale(stream, state.scale_index[c], counts_at, log_law, log_prior, effort.window)
    log_p = log_prior[state.scale_index[c]]
    if n_visits > 0.0:
        log_p = log_posterior(counts_at, log_law[state.scale_index[c]], log_p)
    return n_visits, log_p - math.lgamma(counts.size + 1.0), tried, taken
