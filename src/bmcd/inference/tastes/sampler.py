"""The sampler of the tastes: `sweep.py` with what it needs at hand, and where a chain starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.inference.tastes.priors import GammaPrior, TastePriors
from bmcd.inference.tastes.rank_laws import RankLaws, rank_laws
from bmcd.inference.tastes.start import ROUNDS, best_scale, mean_field
from bmcd.inference.tastes.state import TasteData, TasteInfo, TasteState
from bmcd.inference.tastes.sweep import TasteEffort, taste_sweep
from bmcd.rng import stream_key
from bmcd.utils import check_count

FIRST_STEP = 0.2  # of log a; warm-up tunes it


class TasteSampler:
    """Sweeps over a `TasteState`, in place. All randomness is a function of (seed, chain, sweep, user or taste).

    Cost of a sweep: clicks x tastes and users x tastes; nothing grows with users x items.

    >>> from bmcd.inference.tastes.state import make_taste_data
    >>> sampler = TasteSampler(make_taste_data([[1, 1, 0], [0, 1, 1]]), 2, TastePriors(), seed=1)
    >>> state = sampler.start(chain=0)
    >>> info = sampler.sweep(state, chain=0, sweep=0, warmup=True)
    >>> info.n_visits >= 4, sampler.first_items(state).sum(axis=0).round(9).tolist()
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

    def first_items(self, state: TasteState) -> NDArray[np.float64]:
        """q[item, taste]: the probability that a visit to the taste clicks the item."""
        return first_items_of(state, self.laws)


def first_items_of(state: TasteState, laws: RankLaws) -> NDArray[np.float64]:
    """Return q[item, taste] of a state: the probability that a visit to the taste clicks the item."""
    laws.make(state.scale_index)
    n_tastes, n_items = state.item_at.shape
    q = np.empty((n_items, n_tastes))
    for c in range(n_tastes):
        q[state.item_at[c], c] = np.exp(laws.log_law[state.scale_index[c]])
    return q
