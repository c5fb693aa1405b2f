"""The default sampler (footrule distance): `sweep.py` with the data, priors and tables that it needs."""

from __future__ import annotations

import numpy as np

from bmcd.inference.bmcd.sweep import Effort, exact_sweep
from bmcd.inference.priors import Priors
from bmcd.inference.state import ChainState, Data, SweepInfo
from bmcd.mallows.latent.scan import shared_tables
from bmcd.rng import stream_key


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
