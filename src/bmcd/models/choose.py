"""How many clusters or tastes, chosen by held-out clicks.

`choose_n_clusters`: the exact held-out log-likelihood decides. The paper's criteria are given for comparison. The
within-cluster distance has no minimum at the true number: the latent rankings are drawn around the consensuses,
so it follows from the scales alone, and clusters that share the users of one have larger scales than that one.
All it shows is where it stops falling fast. The elbow of k-means can be anywhere in a curve without a bend.

`choose_tastes`: a fifth of the training clicks is held out, of the same users. Each candidate is fitted to the
rest with several chains, whose laws are averaged as they will be.

* The concentration has the highest log probability of a held-out click: the logarithm of its share in the
  user's next-click distribution, raised to the power that fits best. (Averages over few chains are too sharp and
  those over many too flat; the power makes them comparable.)
* The number of tastes is chosen by the ranks of held-out clicks: log probability prefers fewer tastes than give the
  most hits. It is FIRST_TASTES unless the clicks clearly favour another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from bmcd.clicks import splitting
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, InputTypeError, Interrupted, Message, Option
from bmcd.inference.bmcd.kmeans import kmeans_inertia
from bmcd.inference.draws import Draws
from bmcd.inference.mixture import Priors, check_priors
from bmcd.inference.posterior import sample_posterior
from bmcd.inference.run import LEAST_CLICKS, Run
from bmcd.inference.tastes.draws import sample_tastes
from bmcd.inference.tastes.priors import TastePriors
from bmcd.mallows.latent.exact import log_likelihood
from bmcd.markup import Html, tag
from bmcd.models.taste_predictor import PreparedTasteDraws
from bmcd.progress import counting
from bmcd.utils import Floats, check_count

if TYPE_CHECKING:
    import pandas as pd


# A boxplot's whiskers reach to the last draw within this many interquartile ranges of the box.
WHISKERS = 1.5
# A curve has stopped falling where a doubling of the number of clusters would lower it by a share of less than
# SMALL_FALL, or of less than SMALL_PART of its largest fall so far. Measured on posterior mean distances: on the
# paper's simulation (3,000 users) they fall by 14 to 19 % a doubling up to the true number of clusters and by about
# 2 % after it; with 300 users and 12 items in two opposed clusters by 71 to 74 %, and then still by 3 to 16 %.
SMALL_FALL, SMALL_PART = 0.05, 0.25


def find_elbow(curve: Mapping[int, float]) -> int | None:
    """Return the point of a falling curve that lies farthest below the chord from its first to its last point.

    Both axes are scaled to 0..1 first. The ends are on the chord, so an end is never the elbow; None if no point
    is below the chord, or there are fewer than three.

    >>> find_elbow({2: 100.0, 3: 40.0, 4: 35.0, 5: 30.0})
    3
    >>> find_elbow({2: 100.0, 3: 40.0}) is None
    True
    """
    x = np.array(sorted(curve), dtype=np.float64)
    y = np.array([curve[int(c)] for c in x])
    if len(x) < 3 or not y[0] > y[-1]:
        return None
    # The distance from the chord x + y = 1 is this over sqrt(2).
    below = 1.0 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    best = int(below.argmax())
    return int(x[best]) if below[best] > 1e-9 else None


def falls(curve: Mapping[int, float]) -> dict[int, float]:
    """Return the share by which a curve falls from the point before, for each doubling of the number of clusters.

    A curve that falls as a power of the number of clusters falls by this share from C to 2 C, so short and long
    steps can be compared. It is nan for the first point, negative where the curve rises, and 0 after a 0.

    >>> {c: round(fall, 3) for c, fall in falls({1: 100.0, 2: 80.0, 4: 72.0, 5: 72.0}).items()}
    {1: nan, 2: 0.2, 4: 0.1, 5: 0.0}
    """
    numbers = sorted(curve)
    shares = {numbers[0]: math.nan}
    for before, c in pairwise(numbers):
        ratio = curve[c] / curve[before] if curve[before] > 0 else 1.0
        shares[c] = 1.0 - ratio ** (1.0 / math.log2(c / before))
    return shares


def end_of_fall(curve: Mapping[int, float]) -> int:
    """Return the first number of clusters after which the curve hardly falls; the last number if it always falls.

    It hardly falls where the next of its `falls` is less than 5 %, or less than a quarter of the largest so far.
    Distances within clusters keep falling a little, so they have no minimum to look for. Unlike the elbow of a
    chord this may be the first number, or the last, and does not depend on the largest number tried.

    >>> end_of_fall({2: 560.0, 3: 509.0, 4: 506.0, 5: 501.0, 8: 492.0})
    3
    """
    by_step = falls(curve)
    largest = 0.0
    for c, following in pairwise(by_step):
        if by_step[following] < max(SMALL_FALL, SMALL_PART * largest):
            return c
        largest = max(largest, by_step[following])
    return list(by_step)[-1]


def boxplot_rows(within: Mapping[int, NDArray[np.float64]]) -> pd.DataFrame:
    """Return one box for each number of clusters, with the column names of matplotlib's `Axes.bxp`."""
    import pandas as pd

    rows = []
    for values in within.values():
        q1, med, q3 = np.percentile(values, [25, 50, 75])
        reach = WHISKERS * (q3 - q1)
        # With few draws a quartile may lie between two draws, beyond all draws within reach of the box.
        low = min(values[values >= q1 - reach].min(), q1)
        high = max(values[values <= q3 + reach].max(), q3)
        rows.append({"whislo": low, "q1": q1, "med": med, "q3": q3, "whishi": high, "mean": values.mean()})
    return pd.DataFrame(rows, index=pd.Index(list(within), name="n_clusters")).astype(np.float64)


def log_likelihood_by_draw(clicks: Clicks, draws: Draws, n_threads: int | None = None) -> Floats:
    """Return log sum_c tau_c P(A_j | rho_c, alpha_c), users x chains x draws."""
    shape = (clicks.n_users, draws.n_draws, draws.problem.n_clusters)
    log_mixture = np.empty((clicks.n_users, draws.n_chains, draws.n_draws))
    for chain in range(draws.n_chains):
        # All clusters of all draws at once, so that the tables they share are made once.
        log_p = log_likelihood(
            clicks,
            draws.rho[chain].reshape(-1, clicks.n_items),
            draws.alpha[chain].reshape(-1),
            rank_scale=draws.problem.options["rank_scale"],
            n_threads=n_threads,
        ).reshape(shape)
        with np.errstate(divide="ignore"):  # a tau that has underflowed to 0
            log_tau = np.log(draws.tau[chain])
        log_mixture[:, chain] = logsumexp(log_p + log_tau, axis=2)
    return log_mixture


def log_mean(log_values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Return the log of the mean of values, given their logs.

    >>> log_mean(np.log([[1.0, 3.0]]), axis=1).round(6).tolist() == np.log([2.0]).round(6).tolist()
    True
    """
    axes = (axis,) if isinstance(axis, int) else axis
    number = math.prod(log_values.shape[a] for a in axes)
    log_of_mean: Floats = logsumexp(log_values, axis=axes) - math.log(number)
    return log_of_mean


@dataclass(frozen=True, eq=False, repr=False)
class ClusterChoice:
    """What `choose_n_clusters` found; `print` it."""

    table: pd.DataFrame
    """One row for each candidate, which is the index, `n_clusters`:

    * `held_out`, `held_out_se`: log-likelihood of a held-out user, mean over users, and its standard error;
    * `step`, `step_se`: the gain over the candidate before, mean over users of the paired differences;
    * `behind`, `behind_se`: how far it is behind the best, likewise;
    * `chain_gap`: largest minus smallest `held_out` of single chains. The standard errors cover the choice of
      users only; where this is as large as the steps, the chains are too short or too few to decide;
    * `mwcd`: posterior mean of the within-cluster footrule distance, sum over the training users. It keeps
      falling a little beyond the true number: clusters that share the users of one have larger scales than it;
    * `mwcd_fall`: the share by which it falls from the candidate before, for each doubling of the number;
    * `kmeans`: within-cluster sum of squares of k-means on the binary clicks of all users.
    """
    within_distance: Mapping[int, Floats]
    """Draws of the within-cluster distance, [chain, draw], for each candidate."""
    log_likelihood: Mapping[int, Floats]
    """Log-likelihood of each held-out user, for each candidate."""
    held_out_users: NDArray[Any]
    """Their ids, in the order of `log_likelihood`; none if the model was saved without users."""
    n_held_out_users: int
    n_training_users: int
    """The number of users in the fits."""

    @property
    def recommended(self) -> int:
        """The smallest candidate that is behind the best by no more than one standard error."""
        return within_one_standard_error(self.table)

    @property
    def by_mwcd(self) -> int:
        """Where MWCD stops falling: the first candidate after which `mwcd_fall` is small.

        Small is less than 5 %, or less than a quarter of the largest before.
        """
        return end_of_fall(self._curve("mwcd"))

    @property
    def least_mwcd(self) -> int:
        """The paper's choice in its simulations: the candidate with the smallest MWCD. Mostly too many."""
        mwcd = self._curve("mwcd")
        return min(mwcd, key=lambda c: mwcd[c])

    @property
    def elbow(self) -> int | None:
        """The paper's choice for its case study: the elbow of the k-means curve (`find_elbow`), if it has one."""
        return find_elbow(self._curve("kmeans"))

    @property
    def boxplot(self) -> pd.DataFrame:
        """Draws of the within-cluster distance: `whislo`, `q1`, `med`, `q3`, `whishi` and `mean` by candidate.

        Matplotlib draws it with `Axes.bxp(boxplot.to_dict("records"), showfliers=False)`.
        """
        return boxplot_rows(self.within_distance)

    @property
    def reason(self) -> str:
        """Why this number is recommended, in words and numbers."""
        numbers: list[int] = self.table.index.tolist()
        chosen, best = self.recommended, numbers[int(self.table["held_out"].argmax())]
        n_held_out, several = self.n_held_out_users, len(numbers) > 1
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
        parts.append(self.edge_in_words)
        if several and chosen == numbers[0] > 1:
            parts.append("It is the smallest candidate: try smaller ones too.")
        elbow = "no elbow among the candidates" if self.elbow is None else f"its elbow at {self.elbow}"
        parts.append(
            f"For comparison: MWCD hardly falls after {self.by_mwcd} (its minimum, the paper's rule, is at "
            f"{self.least_mwcd}), and the k-means curve has {elbow}."
        )
        return " ".join(filter(None, parts))

    @property
    def edge_in_words(self) -> str:
        """What to know if the best of several candidates is the largest that was tried; otherwise nothing."""
        numbers: list[int] = self.table.index.tolist()
        if len(numbers) == 1 or numbers[int(self.table["held_out"].argmax())] < numbers[-1]:
            return ""
        return (
            f"The best is the largest candidate, {_clusters(numbers[-1])}: try larger ones too (choose_n_clusters "
            "takes any candidates)."
        )

    def _repr_html_(self) -> str:
        table = Html(self.table.to_html(float_format="{:.4f}".format, na_rep=""))
        return tag("div", tag("p", self.reason), table)

    def _curve(self, column: str) -> dict[int, float]:
        return dict(zip(self.table.index.tolist(), self.table[column].tolist(), strict=True))

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


def scores_by_user(by_draw: Mapping[int, Floats]) -> pd.DataFrame:
    """Return the log-likelihood of each held-out user, a column a candidate, in increasing order."""
    import pandas as pd

    return pd.DataFrame({c: log_mean(by_draw[c], axis=(1, 2)) for c in sorted(by_draw)})


def behind_best(scores: pd.DataFrame) -> pd.DataFrame:
    """Return how far each candidate is behind the best, with standard error; scores are by user and candidate."""
    import pandas as pd

    behind = scores.rsub(scores[scores.mean().idxmax()], axis=0)
    return pd.DataFrame({"behind": behind.mean(), "behind_se": behind.sem()})


def criteria_table(
    by_draw: Mapping[int, Floats], within: Mapping[int, Floats], inertia: Mapping[int, float]
) -> pd.DataFrame:
    """Return `ClusterChoice.table`, by candidates in increasing order.

    ``by_draw`` has log-likelihoods, held-out users x chains x draws; ``within`` has draws of the distance within
    clusters.
    """
    import pandas as pd

    scores = scores_by_user(by_draw)
    steps, behind = scores.diff(axis=1), behind_best(scores)
    mwcd = {c: float(values.mean()) for c, values in within.items()}
    columns = {
        "held_out": scores.mean(),
        "held_out_se": scores.sem(),
        "step": steps.mean(),
        "step_se": steps.sem(),
        "behind": behind["behind"],
        "behind_se": behind["behind_se"],
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


# What is tried first by default; then twice the largest, repeatedly, while that is not behind
# the best, up to MOST_CLUSTERS, and to what leaves LEAST_USERS training users to a cluster.
CANDIDATES, MOST_CLUSTERS, LEAST_USERS = range(2, 9), 64, 10


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
    time. The paper takes its minimum (`least_mwcd`); as it keeps falling a little beyond the true number,
    `by_mwcd` is where it stops falling fast (`cluster_curves.end_of_fall`). The k-means within-cluster sum of
    squares is that of all users; its elbow is the point farthest from the chord.

    Parameters
    ----------
    clicks
        Who clicked what. Users without clicks, or who clicked everything, have log-likelihood 0.
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
    most = max(CANDIDATES[-1], min(MOST_CLUSTERS, training.n_users // LEAST_USERS))
    first = _check_candidates(CANDIDATES if candidates is None else candidates)
    if max(first) > training.n_users:
        raise InputError(
            f"candidate {max(first)} is more clusters than there are training users: {training.n_users}, as "
            f"{held_out.n_users} of {clicks.n_users} are held out. Leave it out, or hold out fewer."
        )
    within: dict[int, Floats] = {}
    by_draw: dict[int, Floats] = {}
    with counting(progress, "candidates", len(first)) as show:

        def try_number(c: int) -> None:
            run = Run(draws, warmup, chains, 1, seed, n_threads, False)
            fitted = sample_posterior(training, c, run, priors=priors, rank_scale=rank_scale)
            if fitted.stopped == "interrupted":
                # A candidate with fewer draws than the others cannot be compared with them.
                raise Interrupted(f"stopped by Ctrl-C at {c} clusters; no candidate is recommended.")
            within[c] = fitted.within_distance
            by_draw[c] = log_likelihood_by_draw(held_out, fitted, n_threads)
            show(min(len(by_draw), len(first)))

        for c in first:
            try_number(c)
        if candidates is None:
            try_beyond(by_draw, try_number, most)
    numbers = sorted(by_draw)
    within, by_draw = ({c: of[c] for c in numbers} for of in (within, by_draw))
    inertia = kmeans_inertia(clicks, numbers, seed)
    return ClusterChoice(
        table=criteria_table(by_draw, within, inertia),
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
    numbers = [check_count("each candidate", c) for c in candidates]
    if not numbers:
        raise InputError("candidates is empty: give at least one number of clusters.")
    if twice := sorted({c for c in numbers if numbers.count(c) > 1}):
        raise InputError(f"candidates must differ, but {', '.join(map(str, twice))} is there more than once.")
    return sorted(numbers)


# Concentrations a x tastes: this one first, with half of FIRST_TASTES; then twice and half as much, while it helps.
CONCENTRATION, LEAST_CONCENTRATION, MOST_CONCENTRATION = 2.0, 0.25, 32.0
FIRST_TASTES, FEWEST_TASTES, MOST_TASTES = 40, 5, 320
# Ahead by more than this number of standard errors is clearly ahead.
CLEARLY = 2.0
# Held out: this share of the clicks of users with at least LEAST_CLICKS, of whom two stay.
HELD_OUT = 0.2
# A candidate gets this many chains and sweeps: all together then take one to two times as long as the fit.
CHAINS, WARMUP, DRAWS, THIN = 8, 60, 4, 10
POWERS = (0.3, 3.0)


class Scores(NamedTuple):
    """Of each held-out click, given a candidate."""

    log_probability: Floats
    gain: Floats  # 1 / log2(1 + rank among the items the user may be shown): 1 for the first, then falling


@dataclass(frozen=True, eq=False)
class TasteChoice:
    """What `choose_tastes` found; `print` it."""

    n_tastes: int
    priors: TastePriors
    table: pd.DataFrame
    """By candidate: log probability and gain of a held-out click, by how much its gain is behind, and the error."""
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}\n{self.table.round(4).to_string(index=False)}"

    def __repr__(self) -> str:
        return f"TasteChoice(n_tastes={self.n_tastes}, a={self.priors.a}, {len(self.table)} candidates)"

    def _repr_html_(self) -> str:
        table = Html(self.table.to_html(float_format="{:.4f}".format, na_rep="", index=False))
        return tag("div", tag("p", self.reason), table)


def ends_of_tastes(n_items: int) -> tuple[int, int]:
    """Return the smallest and the largest number of tastes that is tried."""
    return FEWEST_TASTES, max(FEWEST_TASTES, min(MOST_TASTES, n_items))


def choose_tastes(
    clicks: Clicks, run: Run | None = None, *, priors: TastePriors | None = None, **model: Any
) -> TasteChoice:
    """Choose the number of tastes and, unless the priors fix it, the concentration; ``model``: see `sample_tastes`.

    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=200, seed=1).clicks
    >>> choose_tastes(clicks, Run(chains=2), priors=TastePriors(a=1.0)).table.columns.tolist()
    ['n_tastes', 'concentration', 'log_probability', 'gain', 'behind', 'behind_se']
    """
    run, priors = run or Run(), TastePriors() if priors is None else priors
    check_priors(priors, TastePriors)
    kept, pairs = hold_out_clicks(clicks, run.seed)
    tried: dict[tuple[int, float], Scores] = {}
    _, most = ends = ends_of_tastes(clicks.n_items)
    first = min(FIRST_TASTES, most)
    half = max(first // 2, min(FEWEST_TASTES, first))
    with counting(run.progress, "candidates", 6) as show:

        def score(n_tastes: int, concentration: float) -> Scores:
            key = (n_tastes, concentration)
            if key not in tried:
                tried[key] = _score(clicks, kept, pairs, n_tastes, concentration, priors, run, model)
                show(len(tried))
            return tried[key]

        concentration = CONCENTRATION
        for factor in (2.0, 0.5) if priors.a is None else ():
            while LEAST_CONCENTRATION <= (other := concentration * factor) <= MOST_CONCENTRATION:
                here, there = (score(half, value).log_probability.mean() for value in (concentration, other))
                if there <= here:
                    break
                concentration = other

        n_tastes = first
        while n_tastes * 2 <= most and _is_ahead(
            score(n_tastes * 2, concentration), score(n_tastes, concentration), pairs
        ):
            n_tastes *= 2
        best = number = n_tastes
        while (number := number // 2) >= FEWEST_TASTES:
            if score(number, concentration).gain.mean() <= score(best, concentration).gain.mean():
                break
            best = number
        while n_tastes > best and _is_ahead(score(best, concentration), score(n_tastes, concentration), pairs):
            n_tastes //= 2
    return _choice(tried, (n_tastes, concentration), pairs, priors, ends)


def _is_ahead(one: Scores, other: Scores, pairs: NDArray[np.int64]) -> bool:
    """Return whether the gain of one is clearly above that of the other."""
    ahead, error = _difference(one.gain, other.gain, pairs[:, 0])
    return ahead > CLEARLY * error


def _difference(one: Floats, other: Floats, users: NDArray[np.int64]) -> tuple[float, float]:
    """Return the mean difference and its standard error; clicks of one user go together."""
    difference = one - other
    by_user = np.bincount(users, difference - difference.mean())
    return float(difference.mean()), float(np.sqrt((by_user**2).sum()) / difference.size)


def hold_out_clicks(clicks: Clicks, seed: int) -> tuple[Clicks, NDArray[np.int64]]:
    """Return the clicks that are left, and the (user, item) pairs held out, [pair, 2]."""
    left, pairs = splitting.hold_out_share(clicks, HELD_OUT, LEAST_CLICKS, [seed, 1])
    if not len(pairs):
        said = (
            f"no user has {LEAST_CLICKS} clicks or more, so that none can be held out to choose the number of "
            "tastes: give "
        )
        raise InputError(Message(said, Option("n_tastes"), " a number."))
    return left, pairs


def _score(
    clicks: Clicks,
    kept: Clicks,
    pairs: NDArray[np.int64],
    n_tastes: int,
    concentration: float,
    priors: TastePriors,
    run: Run,
    model: Mapping[str, Any],
) -> Scores:
    """Fit a candidate to the clicks that are left, and score each held-out click."""
    tried = priors if priors.a is not None else replace(priors, a=concentration / n_tastes)
    short = Run(DRAWS, WARMUP, min(CHAINS, run.chains), THIN, run.seed, run.n_threads, False)
    draws = sample_tastes(kept, n_tastes, short, priors=tried, **model)
    if draws.stopped == "interrupted":
        raise Interrupted("stopped by Ctrl-C while the number of tastes was chosen.")
    predictor = PreparedTasteDraws(draws, None)
    log_laws, gains, start = [], [], 0
    for rows, predicted in predictor.blocks(kept.matrix, 1, run.n_threads):
        # The next-click distribution; other clicked items do not compete.
        end = np.searchsorted(pairs[:, 0], rows[-1], side="right")
        users, items = pairs[start:end, 0] - rows[0], pairs[start:end, 1]
        log_law = np.log(np.maximum(-predicted.tie_breaker, 1e-12))
        own = log_law[users, items]
        log_law[clicks.matrix[rows].toarray()] = -np.inf
        log_laws.append((log_law, users, own))
        above = [np.count_nonzero(log_law[user] > x) for user, x in zip(users, own, strict=True)]
        gains.append(1.0 / np.log2(2.0 + np.array(above)))
        start = end

    def log_probability(power: float) -> Floats:
        parts = []
        for log_law, users, own in log_laws:
            others = np.exp(power * log_law).sum(axis=1)[users]
            parts.append(power * own - np.log(others + np.exp(power * own)))
        return np.concatenate(parts)

    best = minimize_scalar(lambda power: -log_probability(power).mean(), bounds=POWERS, method="bounded")
    return Scores(log_probability(float(best.x)), np.concatenate(gains))


def _choice(
    tried: Mapping[tuple[int, float], Scores],
    chosen: tuple[int, float],
    pairs: NDArray[np.int64],
    priors: TastePriors,
    ends: tuple[int, int],
) -> TasteChoice:
    import pandas as pd

    rows = []
    for (n_tastes, concentration), scores in sorted(tried.items()):
        behind, error = _difference(tried[chosen].gain, scores.gain, pairs[:, 0])
        rows.append(
            {
                "n_tastes": n_tastes,
                "concentration": concentration if priors.a is None else np.nan,
                "log_probability": scores.log_probability.mean(),
                "gain": scores.gain.mean(),
                "behind": behind,
                "behind_se": error,
            }
        )
    n_tastes, concentration = chosen
    said = f"{n_tastes} tastes" + (f" with a = {concentration:g} / {n_tastes}" if priors.a is None else "")
    reason = (
        f"{said}: no other number that was tried ranks {len(pairs):,} held-out clicks clearly better; "
        f"{len(tried)} candidates."
    )
    if n_tastes in ends:
        reason += " That is the end of what was tried."
    priors = priors if priors.a is not None else replace(priors, a=concentration / n_tastes)
    return TasteChoice(n_tastes, priors, pd.DataFrame(rows), reason)
