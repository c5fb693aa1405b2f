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
from bmcd.mallows.distances import DISTANCES, check_distance
from bmcd.rng import stream_key

RANKS_MOVES = ("swap", "leap_and_shift")


class PaperSampler:
    """Algorithm 2 of the paper's supplement, one iteration a sweep.

    A sweep moves tau given the labels (Gibbs); then for each cluster rho_c by leap-and-shift and, in every
    ``alpha_update``-th sweep, alpha_c by a log-normal random walk (Metropolis-Hastings); then for each user the
    label given the ranking (Gibbs), and the ranking (Metropolis-Hastings).

    The sampler keeps the distances between users and consensuses of each chain it has seen. When it is handed a
    state that differs from the one it left behind, it computes them again. Distances are whole numbers, so a chain
    that is resumed from a copy of its state continues with the same bits. One sampler may run several chains on
    threads at a time, each under another chain number.

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
    max_alpha
        Where the prior of alpha ends. By default it has no end, except for spearman beyond 12 items and ulam
        beyond 80, where log Z comes from a table: there it ends where nearly all users of a cluster would rank
        exactly alike, or earlier if log Z cannot be estimated that far. Proposals above are rejected, and counted
        in ``alpha_too_large``. Making a table takes 10 to 20 seconds for spearman at 50 items, minutes for ulam.
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
        max_alpha: float | None = None,
    ) -> None:
        check_distance(distance)
        n_items, n_users = data.scale.size, data.user_start.size - 1
        if n_clusters < 1:
            raise InputError(f"n_clusters must be at least 1, but it is {n_clusters}.")
        if ranks_move not in RANKS_MOVES:
            raise InputError(f"ranks_move is {ranks_move!r}: choose one of {', '.join(RANKS_MOVES)}.")
        if alpha_update < 1:
            raise InputError(f"alpha_update must be at least 1 (1 = in every sweep), but it is {alpha_update}.")
        largest_leap = max(1, n_items - 1)
        if leap_size is None:
            leap_size = max(1, n_items // 5)
        elif not 1 <= leap_size <= largest_leap:
            raise InputError(f"leap_size is {leap_size}: with {n_items} items choose one of 1 to {largest_leap}.")
        if max_alpha is not None and not 0 < max_alpha < np.inf:
            raise InputError(f"max_alpha must be a positive number or None, but it is {max_alpha}.")
        if distance != "footrule" and not np.array_equal(data.scale, np.arange(1, n_items + 1)):
            raise InputError(
                f"the data have a stretched rank scale, and the distance is {distance!r}: only the footrule has a "
                "rank scale; make the data with rank_scale='linear' or use distance='footrule'."
            )
        scale, unit = whole_scale(data.scale)
        self.n_clusters, self.n_users, self.n_items = n_clusters, n_users, n_items
        self.distance = distance
        self.alpha_too_large: dict[int, int] = {}
        """Number of proposals for alpha above ``max_alpha``, by chain."""
        self._data = data
        self._log_z: LogZMethod = choose_method(distance, np.multiply(scale, unit, dtype=np.float64), max_alpha)
        self._model = PaperModel(
            code=DISTANCES.index(distance),
            scale=scale,
            unit=unit,
            user_start=data.user_start,
            rate=float(priors.rate),
            concentration=float(priors.concentration),
            alpha_update=int(alpha_update),
            leap_size=int(leap_size),
            by_swap=ranks_move == "swap",
            key=stream_key(seed),
        )
        self._caches: dict[int, tuple[PaperCache, NDArray[np.float64]]] = {}

    @property
    def max_alpha(self) -> float:
        """Where the prior of alpha ends."""
        return self._log_z.max_alpha

    def sweep(self, state: ChainState, chain: int, sweep: int, warmup: bool) -> SweepInfo:
        """Do one iteration of Algorithm 2; changes ``state`` in place.

        Each call compares all rankings with those it left behind, so many sweeps are faster through `stretch` or
        `run`.
        """
        return self.run(state, chain, sweep, 1, warmup)

    def run(self, state: ChainState, chain: int, first_sweep: int, n_sweeps: int, warmup: bool) -> SweepInfo:
        """Do sweeps first_sweep, ..., first_sweep + n_sweeps - 1 in one call, the same to the bit as one by one.

        Shares of accepted proposals are over all of these sweeps; the rest describes the state after the last.
        ``log_joint`` is sum_j [log tau - log Z(alpha) - alpha / n d(R_j, rho)], each at the user's own cluster,
        - rate sum alpha + (psi - 1) sum log tau: without the constants of the priors of alpha, rho and tau.
        """
        trace = self._do_sweeps(state, chain, first_sweep, n_sweeps, warmup)
        with np.errstate(invalid="ignore"):
            totals = (counts.sum(axis=0) for counts in (trace.alpha, trace.rho, trace.ranks))
            shares = (accepted / proposed for proposed, accepted, *_ in totals)
            return SweepInfo(trace.log_joint[-1], trace.within_distance[-1], trace.counts[-1], *shares)

    def stretch(
        self, state: ChainState, chain: int, first_sweep: int, n_sweeps: int, warmup: bool
    ) -> list[SweepInfo]:
        """Do the same as `run`, and return what every single sweep would have returned."""
        trace = self._do_sweeps(state, chain, first_sweep, n_sweeps, warmup)
        with np.errstate(invalid="ignore"):
            shares = (counts[:, 1] / counts[:, 0] for counts in (trace.alpha, trace.rho, trace.ranks))
            sweeps = zip(trace.log_joint, trace.within_distance, trace.counts, *shares, strict=True)
            return [SweepInfo(*values) for values in sweeps]

    def _do_sweeps(
        self, state: ChainState, chain: int, first_sweep: int, n_sweeps: int, warmup: bool
    ) -> PaperTrace:
        """Do the sweeps, copy the rankings into the state, and keep what the next call for this chain needs."""
        cache, trace = self._cache_for(state, chain), PaperTrace.of(n_sweeps, self.n_clusters)
        run_iterations(state, cache, self._model, self._log_z, trace, chain, first_sweep, bool(warmup))
        state.ranks[:] = cache.ranks
        self._caches[chain] = (cache, state.alpha.copy())
        self.alpha_too_large[chain] = self.alpha_too_large.get(chain, 0) + int(trace.alpha[:, 2].sum())
        return trace

    def distances(self, chain: int) -> NDArray[np.float64]:
        """Return the distances between users and consensuses as the sampler left them, users x clusters."""
        return np.multiply(self._caches[chain][0].distances, self._model.unit, dtype=np.float64)

    def _cache_for(self, state: ChainState, chain: int) -> PaperCache:
        """Return the kept distances if ``state`` is the one that this chain left behind; otherwise rebuild them."""
        self._check(state)
        cache, known_alpha = self._caches.get(chain, (None, None))
        same = (
            cache is not None
            and kernels.are_same(state.rho, cache.rho)
            and kernels.are_same(state.ranks, cache.ranks)
        )
        if cache is None or not same:
            cache, known_alpha = self._rebuild(state), np.full(self.n_clusters, np.nan)
        for c in np.flatnonzero(known_alpha != state.alpha):
            cache.log_z[c] = log_z_at(self._log_z, state.alpha[c])
        return cache

    def _check(self, state: ChainState) -> None:
        """Refuse a state that would make compiled code go astray; `_rebuild` checks the rankings."""
        shapes = dict.fromkeys(("alpha", "tau", "alpha_step"), (self.n_clusters,)) | {"labels": (self.n_users,)}
        rankings = {"rho": (self.n_clusters, self.n_items), "ranks": (self.n_users, self.n_items)}
        for name, shape in (shapes | rankings).items():
            if getattr(state, name).shape != shape:
                raise InputError(f"state.{name} has shape {getattr(state, name).shape}, not {shape}.")
        if self.n_users and not 0 <= state.labels.min() <= state.labels.max() < self.n_clusters:
            raise InputError(f"state.labels must be 0 to {self.n_clusters - 1}.")
        if not (state.tau > 0).all():
            raise InputError(f"state.tau must be positive, but it is {state.tau.tolist()}.")
        for c in range(self.n_clusters):
            if not (0 < state.alpha[c] <= self.max_alpha and np.isfinite(state.alpha[c])):
                raise InputError(self._alpha_refused(c, float(state.alpha[c])))

    def _alpha_refused(self, c: int, alpha: float) -> str:
        advice = "alpha must be positive and finite"
        if self.max_alpha < np.inf:
            why = " (where the table of log Z ends)" if self._log_z.method == TABLE else ""
            advice = f"alpha must lie above 0 and not above max_alpha={self.max_alpha:g}{why}"
        return f"alpha of cluster {c} is {alpha:g}: {advice}."

    def _rebuild(self, state: ChainState) -> PaperCache:
        """Check the rankings, and compute everything that is kept from scratch."""
        small = np.int16 if self.n_items < 2**15 else np.int32
        cache = PaperCache(
            ranks=state.ranks.astype(small),
            order=np.empty((self.n_users, self.n_items), small),
            rho_order=np.empty((self.n_clusters, self.n_items), np.int64),
            rho=state.rho.copy(),
            distances=np.empty((self.n_users, self.n_clusters), np.int64),
            log_z=np.empty(self.n_clusters),
        )
        for name, ranks, order in (("ranks", state.ranks, cache.order), ("rho", state.rho, cache.rho_order)):
            bad = kernels.invert_ranks(ranks, order)
            if bad >= 0:
                raise InputError(
                    f"state.{name}[{bad}] is not a ranking: it must hold each of 1..{self.n_items} once."
                )
        n_clicked = np.diff(self._data.user_start)
        owner = np.repeat(np.arange(self.n_users), n_clicked)
        low = np.flatnonzero(state.ranks[owner, self._data.user_items] > n_clicked[owner])
        if low.size:
            j, item = int(owner[low[0]]), int(self._data.user_items[low[0]])
            raise InputError(
                f"state.ranks[{j}] gives item {item} the rank {state.ranks[j, item]}, but user {j} clicked it: "
                f"the {n_clicked[j]} clicked items must have the ranks 1 to {n_clicked[j]}."
            )
        kernels.fill_distances(cache, self._model)
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
