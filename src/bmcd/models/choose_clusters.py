"""choose_n_clusters: exact held-out log-likelihood, the paper's within-cluster distance, and the k-means elbow.

The held-out log-likelihood decides. The other two are the paper's criteria, given for comparison. The distance
within clusters has no minimum at the true number: the latent rankings are drawn around the consensuses, so it
follows from the scales alone, and clusters that share the users of one each have a larger scale than that one. All
it shows is where it stops falling fast. The elbow can be anywhere in a curve without a bend.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from bmcd.clicks import splitting
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, InputTypeError, Interrupted
from bmcd.inference.bmcd.kmeans import kmeans_inertia
from bmcd.inference.chain_progress import open_candidate_progress
from bmcd.inference.posterior import sample_posterior
from bmcd.inference.priors import Priors
from bmcd.inference.run import Run
from bmcd.models.cluster_choice import (
    ClusterChoice,
    behind_best,
    criteria_table,
    scores_by_user,
    within_one_standard_error,
)
from bmcd.models.cluster_curves import boxplot_rows, end_of_fall, find_elbow
from bmcd.models.held_out_users import log_likelihood_by_draw, log_mean
from bmcd.utils import Floats

__all__ = ["ClusterChoice", "choose_n_clusters", "criteria_table", "within_one_standard_error"]

# What is tried first unless the caller says otherwise; then twice the largest, on and on, while that is not behind
# the best, up to MOST, and to what leaves LEAST_USERS training users to a cluster.
CANDIDATES, MOST, LEAST_USERS = range(2, 9), 64, 10


def choose_n_clusters(
    clicks: Clicks,
    candidates: Iterable[int] | None = None,
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
    `by_mwcd` is where it stops falling fast (`cluster_curves.end_of_fall`). The k-means within-cluster sum of
    squares is that of all users; its elbow is the point farthest from the chord.

    Parameters
    ----------
    clicks
        Who clicked what. Users without clicks, or who clicked everything, have log-likelihood 0 and tell nothing.
    candidates
        Different whole numbers, from 1 to the number of training users. By default 2 to 8, and then as many more as
        it takes for the best to lie inside: 16, 32 and 64, while the larger is not behind the best by more than a
        standard error; then half-way between the best and its neighbours; and 1, if 2 is recommended. Beyond 8
        there must be 10 training users to a cluster.
    holdout
        The share of users to hold out, between 0 and 1.
    draws, warmup, chains
        Short runs mostly suffice, as the warm start is close; `chain_gap` in the table shows if they do not. With
        the defaults the seven candidates take 72 s of processor time for 3,000 users and 50 items, and 5, 10, 17
        and 25 clusters about 280 s for 2,877 users and 200 items; two chains at a time should halve that.
    seed
        Decides who is held out, and all draws. The number of threads does not change the result.
    priors, rank_scale
        The model, see `bmcd.inference.posterior.sample_posterior`.
    n_threads
        How many chains run at a time, and how many threads sum over users; by default as many as there are cores.
        Where other programs use the same cores, 1 can be the fastest.
    progress
        Show a bar (default: if standard error is a terminal).

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
    training, held_out = splitting.split_at_random_users(clicks, holdout, seed)
    most = max(CANDIDATES[-1], min(MOST, training.n_users // LEAST_USERS))
    first = _check_candidates(CANDIDATES if candidates is None else candidates)
    if max(first) > training.n_users:
        raise InputError(
            f"candidate {max(first)} is more clusters than there are training users: {training.n_users}, as "
            f"{held_out.n_users} of {clicks.n_users} are held out. Leave it out, or hold out fewer."
        )
    within: dict[int, Floats] = {}
    by_draw: dict[int, Floats] = {}
    with open_candidate_progress(progress, first) as bar:

        def try_number(c: int) -> None:
            bar.start(c)
            run = Run(draws, warmup, chains, 1, seed, n_threads, bar)
            fitted = sample_posterior(training, c, run, priors=priors, rank_scale=rank_scale)
            if fitted.stopped == "interrupted":
                # A candidate with fewer draws than the others cannot be compared with them.
                raise Interrupted(f"stopped by Ctrl-C at {c} clusters; no candidate is recommended.")
            within[c] = fitted.within_distance
            by_draw[c] = log_likelihood_by_draw(held_out, fitted, n_threads)

        for c in first:
            try_number(c)
        if candidates is None:
            try_beyond(by_draw, try_number, most)
    numbers = sorted(by_draw)
    within, by_draw = ({c: of[c] for c in numbers} for of in (within, by_draw))
    inertia = kmeans_inertia(clicks, numbers, seed)
    table = criteria_table(by_draw, within, inertia)
    mwcd = {c: float(table["mwcd"].loc[c]) for c in numbers}
    return ClusterChoice(
        recommended=within_one_standard_error(table),
        by_mwcd=end_of_fall(mwcd),
        least_mwcd=min(numbers, key=lambda c: mwcd[c]),
        elbow=find_elbow(inertia),
        table=table,
        boxplot=boxplot_rows(within),
        within_distance=within,
        log_likelihood={c: log_mean(values, axis=(1, 2)) for c, values in by_draw.items()},
        held_out_users=held_out.users,
        n_held_out_users=held_out.n_users,
        n_training_users=training.n_users,
    )


def try_beyond(by_draw: Mapping[int, Floats], try_number: Callable[[int], None], most: int) -> None:
    """Try further numbers, whose scores are then in ``by_draw``, until the best lies inside or ``most`` is tried.

    Twice the largest while that is the best or within one standard error of it, then half-way between the best and
    its neighbours; 1 if 2 is recommended.
    """

    def is_behind(c: int) -> bool:
        found = behind_best(scores_by_user(by_draw)).loc[c]
        return bool(found["behind"] > found["behind_se"])

    while (largest := max(by_draw)) < most and not is_behind(largest):
        try_number(min(2 * largest, most))
    numbers = sorted(by_draw)
    place = int(scores_by_user(by_draw).mean().argmax())
    for low, high in pairwise(numbers[max(place - 1, 0) : place + 2]):
        if (between := (low + high) // 2) not in by_draw:
            try_number(between)
    if within_one_standard_error(behind_best(scores_by_user(by_draw))) == 2:
        try_number(1)


def _check_candidates(candidates: Iterable[int]) -> list[int]:
    """Return the candidates in increasing order."""
    if not isinstance(candidates, Iterable):
        raise InputTypeError(
            f"candidates must be several numbers of clusters, such as range(2, 9), not {candidates!r}."
        )
    numbers = []
    for c in candidates:
        if isinstance(c, bool | np.bool_) or not hasattr(c, "__index__"):
            raise InputTypeError(f"each candidate must be a whole number, but {c!r} is a {type(c).__name__}.")
        numbers.append(operator.index(c))
    if not numbers:
        raise InputError("candidates is empty: give at least one number of clusters.")
    if min(numbers) < 1:
        raise InputError(f"each candidate must be at least 1, but {min(numbers)} is among {numbers}.")
    if twice := sorted({c for c in numbers if numbers.count(c) > 1}):
        raise InputError(f"candidates must differ, but {', '.join(map(str, twice))} is there more than once.")
    return sorted(numbers)
