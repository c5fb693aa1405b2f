"""PoissonFactorisation: rates of clicks that are products of positive factors, and probabilities by the race."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.baselines.base import Baseline, Matrix
from bmcd.clicks.log import Clicks
from bmcd.inference.arrivals import race_corrected
from bmcd.models.top_k import check_k, clicked_mask
from bmcd.utils import Floats, check_count, check_number

# The article's prior of how active a user or how popular an item is: Gamma(0.3, 0.3), with mean 1.
ACTIVITY_SHAPE, ACTIVITY_MEAN = 0.3, 1.0
# Rounds in which the factors of people are found when those of the items are known.
FOLD_IN_ROUNDS = 50
# Below it the geometric mean of a factor cannot be told from 0.
LEAST_SHAPE = 0.01


class Factors(NamedTuple):
    """The Gamma laws of the factors of users, or of items, and of how active or popular each is."""

    shape: Floats  # [row, factor]
    rate: Floats  # [row, factor]
    activity_rate: Floats  # [row]; the shape is the same for all

    @property
    def mean(self) -> Floats:
        """E of the factors."""
        return self.shape / self.rate

    @property
    def geometric_mean(self) -> Floats:
        """exp of E of their logarithms."""
        means: Floats = np.exp(digamma(self.shape)) / self.rate
        return means


@numba.njit(cache=True, nogil=True)
def expected_counts(starts, columns, own, others, out):
    """Write how many clicks of each row are expected to come from each factor: a click is split as own x others."""
    n_rows, n_factors = own.shape
    out[:] = 0.0
    for row in range(n_rows):
        for place in range(starts[row], starts[row + 1]):
            column = columns[place]
            total = 0.0
            for f in range(n_factors):
                total += own[row, f] * others[column, f]
            for f in range(n_factors):
                out[row, f] += others[column, f] / total
        for f in range(n_factors):
            out[row, f] *= own[row, f]


class PoissonFactorisation(Baseline):
    """Hierarchical Poisson factorisation (Gopalan, Hofman and Blei, 2015): the nearest relative of `Tastes`.

    User j clicks item i at the rate mu[j, i] = theta[j]'beta[i]; all factors are positive, with Gamma priors whose
    rates, the activity of the user and the popularity of the item, have Gamma priors as well. The posterior is
    approximated by independent Gamma laws (coordinate ascent, as in the article). The next k are a race of all
    that the user has not clicked, at the mean rates: so it recommends with a `probability`, as BMCD does. Everybody
    is served from their own clicks alone, with the factors of the items held.

    Parameters
    ----------
    factors
        The length of theta and beta.
    user_shape, item_shape
        Shapes of the Gamma priors of theta and beta, 0.01 or more: small ones let a user have few factors, and a
        factor few items. The article takes 0.3 for both.
    iterations
        How many rounds, each of which updates the users and then the items.

    Attributes
    ----------
    item_factors_ : the means of beta, items x factors
    item_geometric_means_ : exp(E log beta), by which the clicks of people are split among factors

    Examples
    --------
    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> model = PoissonFactorisation(3).fit(simulation.clicks)
    >>> model.recommend(k=2, users=[7]).columns.tolist()
    ['user', 'item', 'rank', 'probability']
    >>> model.probabilities(k=5).sum(axis=1).round(6).max()
    np.float64(5.0)
    """

    item_factors_: Floats
    item_geometric_means_: Floats
    _learned = ("item_factors_", "item_geometric_means_")
    _value = "probability"

    def __init__(
        self, factors: int = 10, *, user_shape: float = 0.5, item_shape: float = 3.0, iterations: int = 100
    ) -> None:
        self.factors = factors
        self.user_shape = user_shape
        self.item_shape = item_shape
        self.iterations = iterations

    def _check_settings(self) -> None:
        check_count("factors", self.factors)
        check_number("user_shape", self.user_shape, low=LEAST_SHAPE)
        check_number("item_shape", self.item_shape, low=LEAST_SHAPE)
        check_count("iterations", self.iterations)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        by_item: Matrix = self._clicked.T.tocsr()
        users, items = start(self._clicked, self.factors, self.user_shape, self.item_shape, seed)
        for _ in range(self.iterations):
            users = updated(self._clicked, users, items.mean, items.geometric_mean, self.user_shape)
            items = updated(by_item, items, users.mean, users.geometric_mean, self.item_shape)
        self.item_factors_, self.item_geometric_means_ = items.mean, items.geometric_mean

    def _scores_of(self, clicked: Matrix) -> Floats:
        """Return the mean rates of these people, given the factors of the items."""
        people = even_factors(clicked, self.item_factors_, self.user_shape)
        for _ in range(FOLD_IN_ROUNDS):
            people = updated(clicked, people, self.item_factors_, self.item_geometric_means_, self.user_shape)
        rates: Floats = people.mean @ self.item_factors_.T
        return rates

    def _best(
        self, people: Clicks, rows: NDArray[np.int64], allowed: NDArray[np.bool_], k: int, horizon: int
    ) -> tuple[NDArray[np.int64], Floats]:
        best, _ = super()._best(people, rows, allowed, k, horizon)
        probability = self._probabilities_of(people.of_users(rows), horizon)
        return best, np.take_along_axis(probability, np.maximum(best, 0), axis=1)

    def probabilities(self, k: int = 10, users: Iterable[Any] | None = None) -> Floats:
        """Return P(item among the user's next k), users x items in the order of `clicks_`; 0 for clicked items."""
        self._check_fitted()
        rows = None if users is None else self.clicks_.rows_of(users, "Only users it was fitted to.")
        return self._probabilities_of(self.clicks_ if rows is None else self.clicks_.of_users(rows), check_k(k))

    def law_of_next_click(self, people: Clicks, *, n_threads: int | None = None) -> tuple[Floats, Floats]:
        """Return the law of the next click of anybody with clicks on its items, and 0 for its Monte Carlo error.

        Both are people x items; the law is 0 for clicked items. It is what `Blend` weighs.
        """
        law = self._probabilities_of(people, 1)
        return law, np.zeros_like(law)

    def _probabilities_of(self, people: Clicks, k: int) -> Floats:
        """Return the probability of being among the next k, by the race at the mean rates."""
        free = ~clicked_mask(people.matrix, np.arange(people.n_users))
        score = self.scores_for(people)
        probability = np.zeros_like(score)
        race_rows(np.log(np.maximum(score, 1e-300)), free, k, probability)
        return probability

    def _width(self) -> int:
        return max(self._clicked.shape[1], 3 * self.factors)


def start(
    clicked: Matrix, n_factors: int, user_shape: float, item_shape: float, seed: int
) -> tuple[Factors, Factors]:
    """Return laws to begin with: every click comes from a factor at random."""
    rows, columns = clicked.nonzero()
    chosen = np.random.default_rng(seed).integers(0, n_factors, len(rows))
    laws = []
    for prior, numbers, n in ((user_shape, rows, clicked.shape[0]), (item_shape, columns, clicked.shape[1])):
        counts = np.bincount(numbers * n_factors + chosen, minlength=n * n_factors).reshape(n, n_factors)
        shape = prior + counts.astype(np.float64)
        # Users and items have a half each in the number of clicks of a factor, which is the product of two sums.
        rate = np.broadcast_to(np.sqrt(shape.sum(axis=0)), shape.shape)
        laws.append(Factors(shape, rate, np.full(n, ACTIVITY_SHAPE + n_factors * prior)))
    users, items = laws
    return users, items


def even_factors(clicked: Matrix, item_means: Floats, user_shape: float) -> Factors:
    """Return laws of users whose clicks are split evenly among the factors."""
    n_users, n_factors = clicked.shape[0], item_means.shape[1]
    shape = user_shape + np.repeat(np.diff(clicked.indptr)[:, None] / n_factors, n_factors, axis=1)
    rate = np.broadcast_to(1.0 + item_means.sum(axis=0), shape.shape)
    return Factors(shape, rate, np.full(n_users, ACTIVITY_SHAPE + n_factors * user_shape))


def updated(clicked: Matrix, own: Factors, other_means: Floats, other_geometric: Floats, prior: float) -> Factors:
    """Return the laws of the rows of ``clicked`` after one update, those of its columns being held.

    First the clicks are split among the factors, then the factors follow, then the activities.
    """
    n_factors = own.shape.shape[1]
    geometric, counts = own.geometric_mean, np.empty(own.shape.shape)
    expected_counts(clicked.indptr, clicked.indices, geometric, np.ascontiguousarray(other_geometric), counts)
    shape = prior + counts
    activity_shape = ACTIVITY_SHAPE + n_factors * prior
    rate = (activity_shape / own.activity_rate)[:, None] + other_means.sum(axis=0)
    activity_rate = ACTIVITY_SHAPE / ACTIVITY_MEAN + (shape / rate).sum(axis=1)
    return Factors(shape, rate, activity_rate)


@numba.njit(cache=True, nogil=True)
def race_rows(log_rates, free, k, probability):
    """Write the probabilities of the free items of each row to be among the next k."""
    n_rows, n_items = log_rates.shape
    rates, out, numbers = np.empty(n_items), np.empty(n_items), np.empty(n_items, np.int64)
    for row in range(n_rows):
        n, largest = 0, -math.inf
        for i in range(n_items):
            if free[row, i]:
                numbers[n] = i
                n += 1
                largest = max(largest, log_rates[row, i])
        if n <= k:  # all that is left is among the next k
            for j in range(n):
                probability[row, numbers[j]] = 1.0
            continue
        total = 0.0
        for j in range(n):
            rates[j] = math.exp(log_rates[row, numbers[j]] - largest)
            total += rates[j]
        for j in range(n):
            rates[j] /= total
        if k == 1:
            out[:n] = rates[:n]  # exact
        else:
            race_corrected(rates[:n], float(k), float(k), out[:n])
        for j in range(n):
            probability[row, numbers[j]] = min(max(out[j], 0.0), 1.0)
