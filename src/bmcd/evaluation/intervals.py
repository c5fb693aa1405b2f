"""How sure a measure is: bootstrap over users, and the paired difference between two models.

Users are resampled, not single recommendations: those of one user depend on each other, so resampling them one by
one would give intervals that are too narrow.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.ids import objects, positions
from bmcd.errors import InputError
from bmcd.evaluation.metrics import PerUser
from bmcd.models.cutoffs import wilson as wilson  # of the paper's shares, and documented here
from bmcd.utils import Floats, listed, shown

if TYPE_CHECKING:
    from bmcd.evaluation.evaluate import Evaluation


PERMUTATIONS = 9999
"""How many swaps the permutation test draws: a p-value of 0.05 then has a standard error of 0.002."""
BATCH_VALUES = 2_000_000
"""How many numbers the permutation test may hold at once in each of its arrays."""


@dataclass(frozen=True)
class Interval:
    """A measure with its bootstrap interval.

    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=200, seed=1)
    >>> model = bmcd.baselines.Popularity().fit(simulation.clicks)
    >>> evaluation = bmcd.evaluate(model.recommend(k=5), simulation.clicks, simulation)
    >>> interval = evaluation.interval("accuracy")
    >>> interval.low < interval.value < interval.high
    True
    """

    measure: str
    value: float
    low: float
    high: float
    standard_error: float
    """Standard deviation over the resamples."""
    level: float

    def __str__(self) -> str:
        return f"{self.measure} {self.value:.4f} ({self.level:.0%} interval {self.low:.4f} to {self.high:.4f})"


@dataclass(frozen=True)
class PairedDifference:
    """How much better model `a` did than model `b`, for the same users.

    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> models = {"EASE": bmcd.baselines.EASE(), "popularity": bmcd.baselines.Popularity()}
    >>> comparison = bmcd.compare(models, simulation.clicks, simulation, k=5, against="popularity")
    >>> found = comparison.differences["EASE"]["accuracy"]
    >>> found.difference == found.a - found.b, found.p_value < 0.05
    (True, True)
    """

    measure: str
    a: float
    b: float
    difference: float
    """a - b"""
    low: float
    high: float
    standard_error: float
    level: float
    p_value: float
    """Of no difference, two-sided."""
    test: str
    n_users: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.measure}: {self.a:.4f} - {self.b:.4f} = {self.difference:+.4f} "
            f"({self.level:.0%} interval {self.low:+.4f} to {self.high:+.4f}), p = {self.p_value:.2g}"
        )


def bootstrap(measures: Sequence[PerUser], resamples: int, seed: int) -> Floats:
    """Return the measures in resamples of the users, resamples x measures; NaN where nobody in a resample counts.

    All measures see the same resamples, so that differences between them are paired.

    >>> constant = PerUser(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    >>> bootstrap([constant], resamples=4, seed=0).tolist()
    [[0.5], [0.5], [0.5], [0.5]]
    """
    resamples = operator.index(resamples)
    n_users = len(measures[0].numerator)
    if n_users < 2 or resamples < 2:
        raise InputError(
            f"a bootstrap needs at least 2 users and 2 resamples, but there are {n_users} and {resamples}."
        )
    terms = np.column_stack([term for measure in measures for term in measure])
    rng = np.random.default_rng(seed)
    sums = np.empty((resamples, terms.shape[1]))
    for row in sums:
        times = np.bincount(rng.integers(n_users, size=n_users), minlength=n_users)
        row[:] = times.astype(np.float64) @ terms
    numerator, denominator = sums[:, ::2], sums[:, 1::2]
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator > 0)


def percentiles(draws: Floats, level: float) -> tuple[float, float, float]:
    """Return low and high end of the percentile interval, and the standard deviation, over finite resamples."""
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, like 0.95, but it is {level}.")
    finite = draws[np.isfinite(draws)]
    if len(finite) < 2:
        raise InputError("fewer than 2 resamples have a user who counts for this measure: use more resamples.")
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high), float(finite.std(ddof=1))


def paired_difference(
    a: Evaluation,
    b: Evaluation,
    measure: str = "accuracy",
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    test: Literal["t", "permutation"] = "t",
) -> PairedDifference:
    """Compare two models that were evaluated for the same users against the same test.

    The interval is the percentile interval of a - b over resamples of the users. The p-value, from scipy, is that
    of no difference, two-sided:

    * ``test="t"``: `scipy.stats.ttest_1samp` on what each user adds to the difference. For measures that are means
      over users it is the paired t-test; ratios of sums (accuracy, when lists have different lengths) are first
      made linear in each user's terms. It needs a few dozen users or more.
    * ``test="permutation"``: `scipy.stats.permutation_test`, which swaps the two models' results of random users
      (9,999 times, or in every way where there are fewer); for few users. It takes seconds for thousands of users.

    Examples
    --------
    >>> import pandas as pd
    >>> from bmcd import Clicks, evaluate
    >>> train = Clicks.from_matrix([[1, 0, 0], [1, 0, 0], [0, 0, 1]])
    >>> test = Clicks.from_matrix([[0, 1, 0], [0, 1, 0], [1, 0, 0]])
    >>> good = pd.DataFrame({"user": [0, 1, 2], "item": [1, 1, 0], "rank": 1})
    >>> bad = pd.DataFrame({"user": [0, 1, 2], "item": [2, 2, 0], "rank": 1})
    >>> gain = paired_difference(evaluate(good, train, test), evaluate(bad, train, test), test="permutation")
    >>> round(gain.difference, 4), gain.p_value
    (0.6667, 0.5)
    """
    return paired_differences(a, b, [measure], level=level, resamples=resamples, seed=seed, test=test)[measure]


def paired_differences(
    a: Evaluation,
    b: Evaluation,
    measures: Sequence[str],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    test: Literal["t", "permutation"] = "t",
) -> dict[str, PairedDifference]:
    """Return `paired_difference` for several measures, in the time of one: they share the resamples."""
    if test not in ("t", "permutation"):
        raise InputError(f"test must be 't' or 'permutation', but it is {test!r}.")
    pairs = [_aligned(a, b, measure) for measure in measures]
    draws = bootstrap([terms for pair in pairs for terms in pair], resamples, seed)
    p_value = _t_test if test == "t" else partial(_permutation_test, seed=seed)
    differences = {}
    for measure, (first, second), gaps in zip(measures, pairs, (draws[:, ::2] - draws[:, 1::2]).T, strict=True):
        low, high, error = percentiles(gaps, level)
        differences[measure] = PairedDifference(
            measure=measure,
            a=first.value,
            b=second.value,
            difference=first.value - second.value,
            low=low,
            high=high,
            standard_error=error,
            level=level,
            p_value=p_value(first, second),
            test=test,
            n_users=len(first.numerator),
        )
    return differences


def _aligned(a: Evaluation, b: Evaluation, measure: str) -> tuple[PerUser, PerUser]:
    """Return the terms of both for all users evaluated in either; who is not evaluated in one has 0 there."""
    for evaluation in (a, b):
        if measure not in evaluation.per_user:
            raise InputError(
                f"{measure!r} has no values by user; those that have: {listed(list(evaluation.per_user), 20)}. "
                "(brier and log_score need probabilities; coverage is a number for all users together.)"
            )
    if a.k != b.k:
        raise InputError(f"the evaluations have different k, {a.k} and {b.k}.")
    if a.horizon != b.horizon:
        raise InputError(f"the evaluations have different horizons, {a.horizon} and {b.horizon}.")
    same_train = np.array_equal(a.items.item, b.items.item) and np.array_equal(a.items.clicks, b.items.clicks)
    if not same_train or a.items.n_popular != b.items.n_popular:
        raise InputError("the evaluations have different training clicks or n_popular, so they do not compare.")
    users = objects(list(dict.fromkeys([*a.users.tolist(), *b.users.tolist()])))
    terms, n_relevant = np.zeros((2, 2, len(users))), np.full((2, len(users)), -1)
    for number, evaluation in enumerate((a, b)):
        places = positions(evaluation.users, users, "user")
        terms[number][:, places] = evaluation.per_user[measure]
        n_relevant[number, places] = evaluation.n_relevant
    if (other := np.flatnonzero((n_relevant[0] != n_relevant[1]) & (n_relevant >= 0).all(axis=0))).size:
        raise InputError(
            f"the evaluations have different tests: user {shown(users[other[0]])} has {n_relevant[0, other[0]]} "
            f"test clicks in the one and {n_relevant[1, other[0]]} in the other."
        )
    return PerUser(*terms[0]), PerUser(*terms[1])


def _t_test(a: PerUser, b: PerUser) -> float:
    from scipy import stats

    # To first order a user moves a ratio r of two sums by (numerator - r * denominator) / (mean denominator * n).
    parts = [(x.numerator - x.value * x.denominator) / x.denominator.mean() + x.value for x in (a, b)]
    difference = parts[0] - parts[1]
    if np.ptp(difference) <= 1e-12 * max(1.0, np.abs(difference).max()):  # no spread to judge by
        return 1.0 if abs(a.value - b.value) <= 1e-12 else 0.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def _permutation_test(a: PerUser, b: PerUser, seed: int) -> float:
    from scipy import stats

    n = len(a.numerator)
    numerator, denominator = (np.concatenate(both) for both in zip(a, b, strict=True))

    def difference(x: NDArray[Any], y: NDArray[Any], axis: int) -> Floats:
        # x and y are places, not values: the two terms of a user must be swapped together.
        with np.errstate(invalid="ignore", divide="ignore"):
            gap: Floats = numerator[x].sum(axis) / denominator[x].sum(axis)
            gap -= numerator[y].sum(axis) / denominator[y].sum(axis)
        return gap

    result = stats.permutation_test(
        (np.arange(n), np.arange(n, 2 * n)),
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=PERMUTATIONS,
        batch=max(1, BATCH_VALUES // n),
        random_state=np.random.default_rng(seed),
    )
    return float(result.pvalue)
