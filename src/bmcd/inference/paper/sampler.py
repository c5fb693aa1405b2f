"""The paper's own sampler, Algorithm 2 of its supplement as written, for all six distances.

Its moves are local (one swap a user and iteration), so it needs many thousands of iterations where the default
sampler needs dozens of sweeps. It is here for comparison, and for the other distances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import InputError
from bmcd.inference.mixture import ChainState, Data, Priors, SweepInfo
from bmcd.inference.paper import distance_cache as kernels
from bmcd.inference.paper.distance_cache import PaperCache, PaperModel, PaperTrace
from bmcd.inference.paper.iteration import run_iterations
from bmcd.inference.paper.log_z import TABLE, LogZMethod, choose_method, log_z_at
from bmcd.mallows.distances import DISTANCES
from bmcd.rng import stream_key

RANKS_MOVES = ("swap", "leap_and_shift")


class PaperSampler:
    """Algorithm 2 of the paper's supplement, one iteration a sweep.

    A sweep moves tau given the labels (Gibbs); then for each cluster rho_c by leap-and-shift and, in every
    ``alpha_update``-th sweep, alpha_c by a log-normal random walk (Metropolis-Hastings); then for each user the
    label given the ranking (Gibbs), and the ranking (Metropolis-Hastings).

    The sampler keeps the distances between users and consensuses of each chain it has seen, and nothing else may
    change its state meanwhile. When it is given another state, it computes them again. Distances are whole numbers,
    so a chain that is resumed from a copy of its state continues with the same bits. One sampler may run several
    chains on threads at a time, each under another chain number.

    Parameters
    ----------
    data, n_clusters, priors
        The clicks and the model. A rank scale that is not made of whole numbers is rounded to a multiple of 2^-k
        with k near 40 (27 at 5,000 items), for the distances and for log Z alike, so that sums of distances are
        exact.
    distance
        One of footrule, spearman, kendall, cayley, hamming, ulam; `distance_cache.py` lists their costs.
    seed
        Seed and chain number together decide every draw.
    alpha_update
        Sweeps between two proposals for alpha; the paper has 10.
    leap_size
        How far an item may leap, 1 to n - 1. The default is n / 5, rounded down.
    ranks_move
        ``"swap"``: two items of a user that are both clicked or both not trade ranks. ``"leap_and_shift"``: one
        leap-and-shift within the clicked items and one within the others.

    The prior of alpha has no end, except for spearman beyond 12 items and ulam beyond 80, where log Z comes from a
    table: there it ends where nearly all users of a cluster would rank exactly alike, or earlier if log Z cannot be
    estimated that far. Making a table takes 10 to 20 seconds for spearman at 50 items, minutes for ulam.
    """

    def __init__(
        self,
        data: Data,
        n_clusters: int,
        priors: Priors,
        *,
        distance: str = "footrule",
        seed: int = 0,
        alpha_update: int = 10,
        leap_size: int | None = None,
        ranks_move: str = "swap",
    ) -> None:
        n_items = data.scale.size
        if ranks_move not in RANKS_MOVES:
            raise InputError(f"ranks_move is {ranks_move!r}: choose one of {', '.join(RANKS_MOVES)}.")
        if alpha_update < 1:
            raise InputError(f"alpha_update must be at least 1 (1 = in every sweep), but it is {alpha_update}.")
        scale, unit = whole_scale(data.scale)
        self.n_clusters, self.n_items = n_clusters, n_items
        self._log_z: LogZMethod = choose_method(distance, np.multiply(scale, unit, dtype=np.float64))
        self._model = PaperModel(
            code=DISTANCES.index(distance),
            scale=scale,
            unit=unit,
            user_start=data.user_start,
            rate=float(priors.rate),
            concentration=float(priors.concentration),
            alpha_update=int(alpha_update),
            leap_size=max(1, n_items // 5) if leap_size is None else leap_size,
            by_swap=ranks_move == "swap",
            key=stream_key(seed),
        )
        self._caches: dict[int, tuple[ChainState, PaperCache]] = {}

    def sweep(self, state: ChainState, chain: int, sweep: int, warmup: bool) -> SweepInfo:
        """Do one iteration of Algorithm 2; changes ``state`` in place."""
        return self.stretch(state, chain, sweep, 1, warmup)[0]

    def stretch(
        self, state: ChainState, chain: int, first_sweep: int, n_sweeps: int, warmup: bool
    ) -> list[SweepInfo]:
        """Do sweeps first_sweep, ..., first_sweep + n_sweeps - 1 in one call, the same to the bit as one by one.

        ``log_joint`` is sum_j [log tau - log Z(alpha) - alpha / n d(R_j, rho)], each at the user's own cluster,
        - rate sum alpha + (psi - 1) sum log tau: without the constants of the priors of alpha, rho and tau.
        """
        known, cache = self._caches.get(chain, (None, None))
        if cache is None or known is not state:
            cache = self._make_cache(state)
            self._caches[chain] = (state, cache)
        trace = PaperTrace.of(n_sweeps, self.n_clusters)
        run_iterations(state, cache, self._model, self._log_z, trace, chain, first_sweep, bool(warmup))
        state.ranks[:] = cache.ranks
        with np.errstate(invalid="ignore"):
            shares = (counts[:, 1] / counts[:, 0] for counts in (trace.alpha, trace.rho, trace.ranks))
            sweeps = zip(trace.log_joint, trace.within_distance, trace.counts, *shares, strict=True)
            return [SweepInfo(*values) for values in sweeps]

    def distances(self, chain: int) -> NDArray[np.float64]:
        """Return the distances between users and consensuses as the sampler left them, users x clusters."""
        return np.multiply(self._caches[chain][1].distances, self._model.unit, dtype=np.float64)

    def _make_cache(self, state: ChainState) -> PaperCache:
        """Compute everything that is kept from scratch."""
        largest = self._log_z.max_alpha
        for c in np.flatnonzero(~((state.alpha > 0) & (state.alpha <= largest))):
            why = " (where the table of log Z ends)" if self._log_z.method == TABLE else ""
            raise InputError(
                f"alpha of cluster {c} is {state.alpha[c]:g}: alpha must lie above 0 and not above "
                f"max_alpha={largest:g}{why}."
            )
        small = np.int16 if self.n_items < 2**15 else np.int32
        cache = PaperCache(
            ranks=state.ranks.astype(small),
            order=np.argsort(state.ranks, axis=1).astype(small),
            rho_order=np.argsort(state.rho, axis=1),
            distances=np.empty((len(state.ranks), self.n_clusters), np.int64),
            log_z=np.array([log_z_at(self._log_z, alpha) for alpha in state.alpha]),
        )
        kernels.fill_distances(state, cache, self._model)
        return cache


def whole_scale(scale: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """Return a rank scale as whole numbers, and their unit; exact for whole numbers, otherwise to 2^-40 or so.

    The unit is a power of two, small enough to distinguish ranks and large enough that any sum of n distances
    stays below 2^52, where every whole number is a float.

    >>> whole_scale(np.array([1.0, 2.0, 3.0]))
    (array([1, 2, 3]), 1.0)
    >>> whole_scale(np.array([1.0, 2.5, 3.0]))[1] == 2.0**-40
    True
    """
    if np.array_equal(scale, np.floor(scale)):
        return scale.astype(np.int64), 1.0
    bits = min(40, 52 - int(np.ceil(np.log2(scale.size * (scale[-1] - scale[0])))))
    return np.rint(scale * 2.0**bits).astype(np.int64), 2.0**-bits
