"""From clicks to draws by Pseudo-Mallows, as the package's samplers leave them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bmcd import Clicks
from bmcd.errors import InputError
from bmcd.inference.bmcd.initial import initial_state
from bmcd.inference.draws import Draws, FitSpec
from bmcd.inference.loop import run_chains
from bmcd.inference.mixture import ChainState, Data, Priors, SweepInfo, make_data
from bmcd.inference.record import RankCounts, Recording
from bmcd.inference.run import Run
from bmcd.mallows.latent.scan import shared_tables
from bmcd.rng import stream_key
from experiments.pseudo_mallows.kernels import pseudo_sweep

ORDERS = ("any", "V")


class PseudoSampler:
    """Sweeps over a `ChainState`, in place. All randomness is a function of (seed, chain, sweep)."""

    def __init__(self, data: Data, priors: Priors, *, v_shaped: bool = False, seed: int = 0) -> None:
        self.data, self.priors, self.v_shaped, self.key = data, priors, v_shaped, stream_key(seed)
        self._shared = shared_tables(np.diff(data.scale))

    def sweep(self, state: ChainState, chain: int, sweep: int, warmup: bool) -> SweepInfo:
        """Do one sweep; ``warmup`` changes nothing, as there is nothing to tune."""
        log_joint, within, counts = pseudo_sweep(
            state, self.data, self._shared, float(self.priors.concentration), self.v_shaped, self.key, chain, sweep
        )
        # Nothing is proposed, so nothing is rejected; alpha does not move.
        return SweepInfo(log_joint, within, counts, np.full(state.alpha.size, np.nan), 1.0, 1.0)


def sample_pseudo(
    clicks: Clicks,
    n_clusters: int,
    run: Run | None = None,
    *,
    alpha: float | None = None,
    rankings_order: str = "any",
    start: str = "kmeans",
    count_k: Sequence[int] = (),
) -> Draws:
    """Draw (rho, tau) with alpha fixed, by turns with the users' rankings and labels; the footrule only.

    Parameters
    ----------
    alpha
        The same for all clusters, as in the paper. None: as the start estimates it for each cluster, by the exact
        likelihood of the training clicks.
    rankings_order
        In which order the items of a user's ranking have their turns: "any" (all orders alike) or "V". A consensus
        given many rankings is nearly certain, and V-shaped orders are the nearest to its posterior; a ranking given
        rho is not, and orders at random are nearer (README.md).
    start
        As in `initial_state`. Only "kmeans" estimates alpha.
    count_k
        Count how often each item is among the user's next k in the rankings drawn, for these k.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=200, seed=1).clicks
    >>> sample_pseudo(clicks, 3, Run(draws=10, warmup=10, chains=2))
    Draws(2 chains x 10 draws, 3 clusters, 50 items)
    """
    run, priors = run or Run(), Priors()
    if not 1 <= n_clusters <= clicks.n_users:
        raise InputError(
            f"n_clusters must lie between 1 and the number of users, {clicks.n_users}, but it is {n_clusters}."
        )
    if alpha is None and start != "kmeans":
        raise InputError(f"the start {start!r} does not estimate alpha: give alpha, or start from 'kmeans'.")
    if alpha is not None and not 0 < alpha < np.inf:
        raise InputError(f"alpha must be a positive number, or None, but it is {alpha!r}.")
    if rankings_order not in ORDERS:
        raise InputError(f"rankings_order is {rankings_order!r}: choose one of {', '.join(ORDERS)}.")
    data, v_shaped = make_data(clicks.matrix), rankings_order == "V"
    options = {
        "rate": priors.rate,
        "concentration": priors.concentration,
        "distance": "footrule",
        "rank_scale": "linear",
        "sampler": "pseudo-mallows",
        "start": start,
        "count_k": list(count_k),
        "alpha": alpha,
        "rankings_order": rankings_order,
    }

    def start_of_chain(chain: int) -> ChainState:
        state = initial_state(clicks.matrix, n_clusters, start, seed=run.seed, chain=chain)
        if alpha is not None:
            state.alpha[:] = alpha
        return state

    recording = Recording(
        FitSpec(clicks.n_users, clicks.n_items, n_clusters, clicks.fingerprint(), options),
        tally=RankCounts(clicks.per_user, clicks.n_items, tuple(count_k)) if count_k else None,
    )
    drawn: Draws = run_chains(
        lambda chain: PseudoSampler(data, priors, v_shaped=v_shaped, seed=run.seed), start_of_chain, recording, run
    )
    return drawn
