"""choose_n_clusters: exact held-out log-likelihood, the paper's within-cluster distance, and the k-means elbow.

The held-out log-likelihood decides. The other two are the paper's criteria, given for comparison. The distance
within clusters has no minimum at the true number: the latent rankings are drawn around the consensuses, so it
follows from the scales alone, and clusters that share the users of one each have a larger scale than that one. All
it shows is where it stops falling fast. The elbow can be anywhere in a curve without a bend.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.clicks.table import Clicks
from bmcd.clusters.curves import boxplot_rows, end_of_fall, falls, find_elbow
from bmcd.clusters.held_out_users import log_likelihood_by_draw, log_mean, split_users
from bmcd.errors import InputError, InputTypeError, Interrupted
from bmcd.sampling.chain_progress import open_candidate_progress
from bmcd.sampling.posterior import sample_posterior
from bmcd.sampling.priors import Priors
from bmcd.sampling.run import Run
from bmcd.sampling.start.kmeans import kmeans_inertia

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
# What is tried unless the caller says otherwise.
CANDIDATES = range(2, 9)


@dataclass(frozen=True, eq=False, repr=False)
class ClusterChoice:
    """The result of `choose_n_clusters`; `print` it for the reason and the table."""

    recommended: int
    """The smallest candidate within one standard error of the best held-out log-likelihood."""
    by_mwcd: int
    """Where MWCD stops falling: the first candidate after which `mwcd_fall` is small, less than 5 % or less than a
    quarter of the largest before."""
    least_mwcd: int
    """The paper's choice in its simulations: the candidate with the smallest MWCD. Mostly too many, see `mwcd`."""
    elbow: int | None
    """The paper's choice for its case study: the elbow of the k-means curve (see `find_elbow`), if it has one."""
    table: pd.DataFrame
    """One row for each candidate, which is the index, `n_clusters`:

    * `held_out`, `held_out_se`: log-likelihood of a held-out user, mean over users, and its standard error;
    * `step`, `step_se`: the gain over the candidate before, mean over users of the paired differences;
    * `behind`, `behind_se`: how far it is behind the best, likewise;
    * `chain_gap`: largest minus smallest `held_out` of single chains. The standard errors cover the choice of
      users only; where this is as large as the steps, the chains are too short or too few to tell;
    * `mwcd`: posterior mean of the within-cluster footrule distance, sum over the training users. It goes on
      falling a little beyond the true number: clusters that share the users of one have larger scales than it;
    * `mwcd_fall`: the share by which it falls from the candidate before, for each doubling of the number;
    * `kmeans`: within-cluster sum of squares of k-means on the binary clicks of all users.
    """
    boxplot: pd.DataFrame
    """Draws of the within-cluster distance: `whislo`, `q1`, `med`, `q3`, `whishi` and `mean` of each candidate.

    These are the names that matplotlib's `Axes.bxp(boxplot.to_dict("records"), showfliers=False)` expects.
    """
    within_distance: Mapping[int, Floats]
    """The draws themselves, [chain, draw], for each candidate."""
    log_likelihood: Mapping[int, Floats]
    """Log-likelihood of each held-out user, for each candidate."""
    held_out_users: NDArray[Any]
    """Their ids, in the order of `log_likelihood`."""
    n_training_users: int
    """How many users the fits saw."""

    @property
    def reason(self) -> str:
        """Why this number is recommended, in words and numbers."""
        numbers: list[int] = self.table.index.tolist()
        chosen, best = self.recommended, numbers[int(self.table["held_out"].argmax())]
        n_held_out, several = len(self.held_out_users), len(numbers) > 1
        score = (
            f"held-out log-likelihood, {self.table['held_out'].loc[chosen]:.4f} a user "
            f"({n_held_out:,} of {n_held_out + self.n_training_users:,} users)"
        )
        if not several:
            parts = [f"{_clusters(chosen)}: the only candidate, so its {score}, has nothing to be compared with."]
        elif chosen == best:
            parts = [f"{_clusters(chosen)}: the best of {len(numbers)} candidates by {score}."]
        else:
            parts = [
                f"{_clusters(chosen)}: the smallest of {len(numbers)} candidates within one standard error of the "
                f"best by {score}. It is {self._behind(chosen)}; the best has {_clusters(best)}."
            ]
        if smaller := [c for c in numbers if c < chosen]:
            parts.append(f"The next smaller, {_clusters(smaller[-1])}, is {self._behind(smaller[-1])}.")
        if several and best == numbers[-1]:
            parts.append("The best is the largest candidate: try larger ones too.")
        if several and chosen == numbers[0] > 1:
            parts.append("It is the smallest candidate: try smaller ones too.")
        elbow = "no elbow among the candidates" if self.elbow is None else f"its elbow at {self.elbow}"
        parts.append(
            f"For comparison: MWCD hardly falls after {self.by_mwcd} (its minimum, the paper's rule, is at "
            f"{self.least_mwcd}), and the k-means curve has {elbow}."
        )
        return " ".join(parts)

    def _behind(self, c: int) -> str:
        return f"{self.table['behind'].loc[c]:.4f} behind (standard error {self.table['behind_se'].loc[c]:.4f})"

    def __repr__(self) -> str:
        return (
            f"ClusterChoice(recommended={self.recommended}, by_mwcd={self.by_mwcd}, elbow={self.elbow}, "
            f"candidates={self.table.index.tolist()})"
        )

    def __str__(self) -> str:
        formatters = {
            name: ("{:,.0f}" if name in ("mwcd", "kmeans") else "{:.4f}").format for name in self.table.columns
        }
        return f"{self.reason}\n\n{self.table.to_string(formatters=formatters, na_rep='')}"


def choose_n_clusters(
    clicks: Clicks,
    candidates: Iterable[int] = CANDIDATES,
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
    squares is that of all users; its elbow is the point farthest from the chord.

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
        Decides who is held out, and all draws. The number of threads does not change the result.
    priors, rank_scale
        The model, see `bmcd.sampling.posterior.sample_posterior`.
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
    numbers = _check_candidates(candidates)
    training, held_out = split_users(clicks, holdout, seed)
    if numbers[-1] > training.n_users:
        raise InputError(
            f"candidate {numbers[-1]} is more clusters than there are training users: {training.n_users}, as "
            f"{held_out.n_users} of {clicks.n_users} are held out. Leave it out, or hold out fewer."
        )
    within: dict[int, Floats] = {}
    by_draw: dict[int, Floats] = {}
    with open_candidate_progress(progress, numbers) as bar:
        for c in numbers:
            bar.start(c)
            run = Run(draws, warmup, chains, 1, seed, n_threads, bar)
            fitted = sample_posterior(training, c, run, priors=priors, rank_scale=rank_scale)
            if fitted.stopped == "interrupted":
                # A candidate with fewer draws than the others cannot be compared with them.
                raise Interrupted(f"stopped by Ctrl-C at {c} clusters; no candidate is recommended.")
            within[c] = fitted.within_distance
            by_draw[c] = log_likelihood_by_draw(held_out, fitted, n_threads)
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
        n_training_users=training.n_users,
    )


def criteria_table(
    by_draw: Mapping[int, Floats], within: Mapping[int, Floats], inertia: Mapping[int, float]
) -> pd.DataFrame:
    """Return `ClusterChoice.table`, by candidates in increasing order.

    ``by_draw`` has log-likelihoods, held-out users x chains x draws; ``within`` has draws of the distance within
    clusters.
    """
    import pandas as pd

    scores = pd.DataFrame({c: log_mean(values, axis=(1, 2)) for c, values in by_draw.items()})
    steps, best = scores.diff(axis=1), scores[scores.mean().idxmax()]
    behind = scores.rsub(best, axis=0)
    mwcd = {c: float(values.mean()) for c, values in within.items()}
    columns = {
        "held_out": scores.mean(),
        "held_out_se": scores.sem(),
        "step": steps.mean(),
        "step_se": steps.sem(),
        "behind": behind.mean(),
        "behind_se": behind.sem(),
        "chain_gap": {c: np.ptp(log_mean(values, axis=2).mean(axis=0)) for c, values in by_draw.items()},
        "mwcd": mwcd,
        "mwcd_fall": falls(mwcd),
        "kmeans": {c: inertia[c] for c in by_draw},
    }
    return pd.DataFrame(columns).rename_axis(index="n_clusters")


def within_one_standard_error(table: pd.DataFrame) -> int:
    """Return the smallest candidate that is behind the best by no more than one standard error."""
    return int(table.index[table["behind"] <= table["behind_se"]].min())


def _clusters(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number} clusters"


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
