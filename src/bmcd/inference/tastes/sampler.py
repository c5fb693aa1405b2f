"""The sampler of the tastes: one sweep, top to bottom, and what it needs.

The visits are redrawn from the rates, and everything else is then given the visits alone: the consensuses and
scales through the number of visits to each item, a with the rates integrated out. Only then come the rates, given
all of these, and b given the rates. Between two sweeps the visits are forgotten.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.inference.rng_streams import TASTE_CONSENSUS, TASTE_SCALE
from bmcd.inference.tastes.consensus import list_of_gaps, log_posterior, update_consensus, update_scale
from bmcd.inference.tastes.priors import (
    GammaPrior,
    TastePriors,
    log_gamma_density,
    log_visits_given,
    pairs_with_more,
    update_a,
    update_b,
)
from bmcd.inference.tastes.rank_laws import RankLaws, rank_laws
from bmcd.inference.tastes.rates import update_rates
from bmcd.inference.tastes.start import ROUNDS, TasteData, TasteInfo, TasteState, best_scale, mean_field
from bmcd.inference.tastes.visits import first_item_probabilities, padded, update_visits
from bmcd.rng import STREAM_SIZE, open_stream, stream_key
from bmcd.utils import check_count


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
    log_first, tried, taken = 0.0, 0, 0
    for c in range(n_tastes):
        per_taste[c], log_p, swaps_tried, swaps_taken = update_taste(
            state, c, of_item[:, c].copy(), log_law, log_prior, gaps, effort, key, chain, sweep
        )
        log_first += log_p
        tried += swaps_tried
        taken += swaps_taken

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
    return log_joint, n_visits, of_user, per_taste, swaps_accepted, a_accepted


@numba.njit(cache=True, nogil=True)
def update_taste(state, c, counts, log_law, log_prior, gaps, effort, key, chain, sweep):
    """Move the consensus and the scale of a taste, given how often each item was visited under it.

    Returns the visits, the log density of their items with the prior of consensus and scale, and the swaps
    proposed and taken. Without visits the shuffle of the consensus is an exact draw from the prior.
    """
    stream = np.empty(STREAM_SIZE, np.uint64)
    item_at = state.item_at[c]
    n_visits = counts.sum()
    open_stream(stream, key, chain, sweep, c, TASTE_CONSENSUS)
    tried, taken = update_consensus(stream, counts, log_law[state.scale_index[c]], item_at, gaps, effort.swaps)
    open_stream(stream, key, chain, sweep, c, TASTE_SCALE)
    counts_at = counts[item_at]
    state.scale_index[c] = update_scale(stream, state.scale_index[c], counts_at, log_law, log_prior, effort.window)
    log_p = log_prior[state.scale_index[c]]
    if n_visits > 0.0:
        log_p = log_posterior(counts_at, log_law[state.scale_index[c]], log_p)
    return n_visits, log_p - math.lgamma(counts.size + 1.0), tried, taken


FIRST_STEP = 0.2  # of log a; warm-up tunes it


class TasteSampler:
    """Sweeps over a `TasteState`, in place. All randomness is a function of (seed, chain, sweep, user or taste).

    Cost of a sweep: clicks x tastes and users x tastes; nothing grows with users x items.

    >>> from bmcd.inference.tastes.start import make_taste_data
    >>> sampler = TasteSampler(make_taste_data([[1, 1, 0], [0, 1, 1]]), 2, TastePriors(), seed=1)
    >>> state = sampler.start(chain=0)
    >>> info = sampler.sweep(state, chain=0, sweep=0, warmup=True)
    >>> info.n_visits >= 4, first_items_of(state, sampler.laws).sum(axis=0).round(9).tolist()
    (True, [1.0, 1.0])
    """

    def __init__(
        self,
        data: TasteData,
        n_tastes: int,
        priors: TastePriors | None = None,
        *,
        seed: int = 0,
        distance: str = "footrule",
        rank_scale: str | ArrayLike = "linear",
        effort: TasteEffort | None = None,
    ) -> None:
        self.data = data
        self.n_tastes = check_count("n_tastes", n_tastes)
        self.priors = priors or TastePriors()
        self.key = stream_key(seed)
        self.effort = effort or TasteEffort()
        self.laws = rank_laws(data.n_items, distance, rank_scale)
        self._log_prior = self.laws.log_prior(self.priors.scale_rate_for(data.n_items))
        self._hyper = self.priors.hyper()
        self._reach = np.arange(1 - self.effort.window, self.effort.window)

    def start(self, chain: int, rounds: int = ROUNDS, laws: NDArray[np.float64] | None = None) -> TasteState:
        """A first state for this chain: mean-field rounds, then each parameter by what they leave.

        Consensus by expected counts (ties go to the item with more clicks), alpha by its conditional mode, rates by
        their conditional mean. ``laws`` [item, taste] are those of a fit before, to start from.
        """
        a = self.priors.first_a(self.n_tastes)
        n_users, n_clicks = self.data.user_start.size - 1, self.data.user_items.size
        of_user, of_item = mean_field(self.data, self.n_tastes, a, self.key, chain, rounds, laws)
        popularity = np.bincount(self.data.user_items, minlength=self.data.n_items) / max(n_clicks, 1)
        item_at = np.argsort(-(of_item.T + 1e-3 * popularity), axis=1, kind="stable").astype(np.int64)
        scale_index = [best_scale(of_item[item_at[c], c], self.laws, self._log_prior) for c in range(self.n_tastes)]
        b = self.priors.first_b()
        if isinstance(self.priors.b, GammaPrior) and n_clicks > 0:
            b = a * self.n_tastes * n_users / n_clicks
        return TasteState(
            rates=(of_user + a) / (b + 1.0),
            item_at=item_at,
            scale_index=np.array(scale_index, np.int64),
            a=np.array([a]),
            b=np.array([b]),
            a_step=np.array([FIRST_STEP]),
        )

    def sweep(self, state: TasteState, chain: int, sweep: int, warmup: bool) -> TasteInfo:
        """One sweep. ``warmup`` lets it tune the step of a; after warm-up nothing is tuned."""
        near = state.scale_index[:, None] + self._reach
        self.laws.make(near[(near >= 0) & (near < self._log_prior.size)])
        log_joint, n_visits, visits, per_taste, *shares = taste_sweep(
            state, self.data, self.laws.log_law, self._log_prior, self._hyper, self.effort,
            self.key, chain, sweep, warmup,
        )  # fmt: skip
        rho = np.argsort(state.item_at, axis=1) + 1
        return TasteInfo(log_joint, n_visits, visits, per_taste, rho, self.laws.alphas[state.scale_index], *shares)


def first_items_of(state: TasteState, laws: RankLaws) -> NDArray[np.float64]:
    """Return q[item, taste] of a state: the probability that a visit to the taste clicks the item."""
    laws.make(state.scale_index)
    n_tastes, n_items = state.item_at.shape
    q = np.empty((n_items, n_tastes))
    for c in range(n_tastes):
        q[state.item_at[c], c] = np.exp(laws.log_law[state.scale_index[c]])
    return q
