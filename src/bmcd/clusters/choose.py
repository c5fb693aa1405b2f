"""How many clusters: exact held-out log-likelihood, the paper's within-cluster distance, and the k-means elbow.

Held-out log-likelihood decides. The other two are the paper's criteria, and are there to compare with. The
within-cluster distance has no minimum at the true number: the latent rankings are drawn around the consensuses, so
it follows from the scales alone, and clusters that share the users of one each have a larger scale than that one.
What can be seen is where it stops falling fast. The elbow can be anywhere in a curve without a bend.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.clicks.table import Clicks
from bmcd.clusters.choice import ClusterChoice, make_reason, make_table
from bmcd.clusters.curves import boxplot_rows, end_of_fall, find_elbow
from bmcd.clusters.held_out_users import log_likelihood_by_draw, log_mean, split_users
from bmcd.errors import InputError, InputTypeError
from bmcd.sampling.chain_progress import open_candidate_progress
from bmcd.sampling.posterior import sample_posterior
from bmcd.sampling.priors import Priors
from bmcd.sampling.start.kmeans import kmeans_inertia

__all__ = ["ClusterChoice", "choose_n_clusters", "find_elbow"]

Floats = NDArray[np.float64]


def choose_n_clusters(
    clicks: Clicks,
    candidates: Iterable[int] = range(2, 9),
    *,
    holdout: float = 0.2,
    draws: int = 30,
    warmup: int = 30,
    chains: int = 2,
    seed: int = 0,
    priors: Priors | None = None,
    rank_scale: str | ArrayLike = "linear",
    n_threads: int | None = None,
    progress: bool | None = None,
) -> ClusterChoice:
    """Fit the mixture with each number of clusters and recommend one.

    A share of the users is held out. For each candidate C the exact sampler is run on the others, and the held-out
    users' clicks are scored by their exact posterior predictive probability, given how many they clicked:

        log of the mean, over draws and chains, of sum_c tau_c P(A_j | rho_c, alpha_c)

    with the latent rankings summed out (`bmcd.mallows.log_likelihood`). The recommendation is the smallest C that
    is behind the best by no more than one standard error of the paired difference, user by user.

    Two criteria of the paper are reported as well. MWCD, the posterior mean of the within-cluster footrule distance
    (each user counted once, in the user's own cluster), comes from the same fits, on the training users, to save
    time. The paper takes its minimum (`least_mwcd`); as it goes on falling a little beyond the true number,
    `by_mwcd` is where it stops falling fast (`bmcd.clusters.curves.end_of_fall`). The k-means within-cluster sum of
    squares is of all users; its elbow is the point farthest from the chord.

    Parameters
    ----------
    clicks
        Who clicked what. Users without clicks, or who clicked everything, have log-likelihood 0 and tell nothing.
    candidates
        Different whole numbers, from 1 to the number of training users.
    holdout
        The share of users to hold out, between 0 and 1.
    draws, warmup, chains
        Short runs mostly suffice, as the warm start is close; `chain_gap` in the table shows if they do not. With
        the defaults the seven candidates take 72 s of processor time for 3,000 users and 50 items, and 5, 10, 17
        and 25 clusters about 280 s for 2,877 users and 200 items; two chains at a time should halve that.
    seed
        Decides who is held out, and all draws. The number of threads changes no digit.
    priors, rank_scale
        The model, see `bmcd.sampling.posterior.sample_posterior`.
    n_threads
        As many chains at a time, and threads for the sums over users; by default as many as there are cores. Where
        others use the same cores, 1 can be the fastest.
    progress
        Show a bar: by default only if standard error is a terminal.

    Examples
    --------
    >>> import bmcd
    >>> up = np.arange(1, 11)
    >>> clicks = bmcd.simulate(200, 10, consensuses=[up, up[::-1]], alpha=6, mean_clicks=3, seed=1).clicks
    >>> choice = choose_n_clusters(clicks, [1, 2, 3], draws=10, warmup=10, n_threads=1)
    >>> choice.recommended
    2
    >>> bool(choice.table.loc[2, "step"] > choice.table.loc[2, "step_se"])
    True
    """
    if not isinstance(clicks, Clicks):
        raise InputTypeError(
            f"clicks must be a Clicks, such as Clicks.from_matrix(...), not {type(clicks).__name__}."
        )
    wanted = _check_candidates(candidates)
    training, held_out = split_users(clicks, holdout, seed)
    if wanted[-1] > training.n_users:
        raise InputError(
            f"candidate {wanted[-1]} is more clusters than there are training users: {training.n_users}, as "
            f"{held_out.n_users} of {clicks.n_users} are held out. Leave it out, or hold out fewer."
        )
    within: dict[int, Floats] = {}
    by_draw: dict[int, Floats] = {}
    with open_candidate_progress(progress, wanted) as shown, _at_most(n_threads):
        for c in wanted:
            if shown is not None:
                shown.start(c)
            fitted = sample_posterior(
                training,
                c,
                priors=priors,
                rank_scale=rank_scale,
                draws=draws,
                warmup=warmup,
                chains=chains,
                seed=seed,
                n_threads=n_threads,
                progress=False if shown is None else shown,
            )
            if fitted.stopped == "interrupted":
                # A candidate with fewer draws than the others is not to be compared with them.
                raise KeyboardInterrupt(f"stopped by Ctrl-C at {c} clusters; no candidate is recommended.")
            within[c] = fitted.within_distance
            by_draw[c] = log_likelihood_by_draw(held_out, fitted, n_threads)
    inertia = kmeans_inertia(clicks, wanted, seed)
    scores = {c: log_mean(values, axis=(1, 2)) for c, values in by_draw.items()}
    table = make_table(scores, by_draw, within, inertia)
    recommended = int(table.index[table["behind"] <= table["behind_se"]].min())
    mwcd = {c: float(table["mwcd"].loc[c]) for c in wanted}
    by_mwcd, least_mwcd = end_of_fall(mwcd), min(wanted, key=lambda c: mwcd[c])
    elbow = find_elbow(inertia)
    return ClusterChoice(
        recommended=recommended,
        reason=make_reason(table, recommended, by_mwcd, least_mwcd, elbow, held_out.n_users, clicks.n_users),
        by_mwcd=by_mwcd,
        least_mwcd=least_mwcd,
        elbow=elbow,
        table=table,
        boxplot=boxplot_rows(within),
        within_distance=within,
        log_likelihood=scores,
        held_out_users=held_out.users,
        n_training_users=training.n_users,
    )


def _check_candidates(candidates: Iterable[int]) -> list[int]:
    """In increasing order."""
    if not isinstance(candidates, Iterable):
        raise InputTypeError(
            f"candidates must be several numbers of clusters, such as range(2, 9), not {candidates!r}."
        )
    given = list(candidates)
    if not given:
        raise InputError("candidates is empty: give at least one number of clusters.")
    numbers = []
    for c in given:
        if isinstance(c, bool | np.bool_) or not hasattr(c, "__index__"):
            raise InputTypeError(f"each candidate must be a whole number, but {c!r} is a {type(c).__name__}.")
        numbers.append(operator.index(c))
    if min(numbers) < 1:
        raise InputError(f"each candidate must be at least 1, but {min(numbers)} is among {numbers}.")
    if twice := sorted({c for c in numbers if numbers.count(c) > 1}):
        raise InputError(f"candidates must differ, but {', '.join(map(str, twice))} is there more than once.")
    return sorted(numbers)


@contextmanager
def _at_most(n_threads: int | None) -> Iterator[None]:
    """Let the exact sums over users, here and in the warm start, use no more threads than the chains.

    These are many short parallel loops. Where others use the same cores, numba's threads wait for each other in
    each of them, up to a hundred times longer than the work takes; with one thread they do not.
    """
    before = numba.get_num_threads()
    try:
        if n_threads is not None:
            numba.set_num_threads(max(1, min(n_threads, before)))
        yield
    finally:
        numba.set_num_threads(before)
