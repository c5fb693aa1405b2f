"""Slow, obvious references of Tastes: definitions taken literally, and the posterior of a tiny problem by sums.

Integrating the rates out of the distribution of a set needs no quadrature. With mu_i = sum_c lambda_c q_c(i),
multiply out

    prod over clicked i of (1 - exp(-mu_i)) * prod over the others of exp(-mu_i)
        = sum over subsets B of the clicked of (-1)^|B| exp(-sum over c of lambda_c Q_c(S)),

where S is B with all items that were not clicked and Q_c(S) what taste c gives to S, and the mean of exp(-lambda
Q) under Gamma(a, b) is (b / (b + Q))^a.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from tests.reference.mallows import probabilities_enumerated

from bmcd.inference.arrivals import race_stays
from bmcd.inference.tastes.priors import GammaPrior, TastePriors
from bmcd.inference.tastes.rank_laws import RankLaws
from bmcd.mallows.rank_scale import scale_values
from bmcd.utils import Floats


def slow_first_item_law(
    n: int, alpha: float, distance: str = "footrule", rank_scale: str | ArrayLike = "linear"
) -> Floats:
    """P(the item at consensus rank r comes first), by a sum over all rankings.

    >>> slow_first_item_law(2, 0.0).tolist()
    [0.5, 0.5]
    """
    scale = scale_values(n, rank_scale).tolist() if distance == "footrule" else None
    law = probabilities_enumerated(range(1, n + 1), alpha, distance, scale)
    return np.array([math.fsum(p for r, p in law.items() if r[item] == 1) for item in range(n)])


def slow_prior(alphas: Floats, rate: float) -> Floats:
    """Mass of Exponential(rate) in the cell of each alpha: up to the geometric means with its neighbours.

    >>> slow_prior(np.array([1.0, 4.0]), 0.5).round(6).tolist()  # up to 2, and from 2 on
    [0.632121, 0.367879]
    """
    edges = [0.0, *(math.sqrt(x * y) for x, y in pairwise(alphas.tolist())), math.inf]
    return np.array([math.exp(-rate * low) - math.exp(-rate * high) for low, high in pairwise(edges)])


def set_log_probability(clicked: NDArray[np.bool_], rates: Floats, q: Floats) -> float:
    """log P(a user clicks just these items | rates by taste, q[item, taste]): the law of a set.

    >>> clicked, rates, q = np.array([True, False]), np.array([2.0]), np.array([[0.5], [0.5]])
    >>> round(np.exp(set_log_probability(clicked, rates, q)).item(), 6)  # (1 - 1 / e) / e
    0.232544
    """
    total = 0.0
    for item, was_clicked in enumerate(clicked.tolist()):
        mu = math.fsum(rates[c] * q[item, c] for c in range(len(rates)))
        total += math.log(-math.expm1(-mu)) if was_clicked else -mu
    return total


def log_joint_of_visits(
    visits: NDArray[np.int64], log_q: Floats, log_prior: Floats, a: float, b: float, priors: TastePriors
) -> float:
    """Log density of visits[user, item, taste], consensuses, scales, a and b, the rates integrated out.

    ``log_q`` is [item, taste]; ``log_prior`` holds the prior mass of each taste's alpha. Visits are told apart, so
    that the ways to share n visits to an item out among tastes are n! / (n_1! n_2! ...) times the one that is
    counted.
    """
    n_users, n_items, n_tastes = visits.shape
    total = math.fsum(log_prior) - n_tastes * math.lgamma(n_items + 1)
    for user in range(n_users):
        for c in range(n_tastes):
            n = int(visits[user, :, c].sum())
            total += a * math.log(b) - math.lgamma(a) + math.lgamma(a + n) - (a + n) * math.log(b + 1)
        for item in range(n_items):
            total += math.fsum(visits[user, item] * log_q[item]) - math.lgamma(int(visits[user, item].sum()) + 1)
    for value, prior in ((a, priors.a), (b, priors.b)):
        if isinstance(prior, GammaPrior):
            total += prior.shape * math.log(prior.rate) - math.lgamma(prior.shape)
            total += (prior.shape - 1) * math.log(value) - prior.rate * value
    return float(total)


class TinyPosterior(NamedTuple):
    """Posterior means of quantities that do not depend on the names of the tastes."""

    first: Floats  # [item]: sum over tastes of q_c(item)
    square: Floats  # [item]: sum over tastes of q_c(item)^2
    log_alpha: float  # sum over tastes
    same_best: float  # P(two tastes have the same best item); 1 with one taste
    total_rate: Floats  # [user]: sum over tastes of lambda
    a: float
    b: float


def tiny_posterior(
    clicks: NDArray[np.bool_],
    n_tastes: int,
    priors: TastePriors,
    distance: str = "footrule",
    rank_scale: str | ArrayLike = "linear",
    nodes: int = 24,
) -> TinyPosterior:
    """Sum over every consensus and alpha of one or two tastes; a and b by quadrature if they are not fixed.

    Feasible to n = 3 or 4 items and a handful of users.
    """
    if n_tastes > 2:
        raise ValueError(f"the sum is over one or two tastes, but there are {n_tastes}.")
    n_users, n = clicks.shape
    alphas = RankLaws(n, distance, rank_scale).alphas  # nothing else is taken from the fast code
    laws = np.array([slow_first_item_law(n, alpha, distance, rank_scale) for alpha in alphas.tolist()])
    orders = np.array(list(permutations(range(n))))  # item at each rank
    size = len(orders) * alphas.size
    q = np.empty((size, n))
    for which, order in enumerate(orders):
        q[which * alphas.size : (which + 1) * alphas.size, order] = laws
    prior = np.tile(slow_prior(alphas, priors.scale_rate_for(n)), len(orders)) / len(orders)
    log_alpha, best = np.tile(np.log(alphas), len(orders)), np.repeat(orders[:, 0], alphas.size)

    weight_total = 0.0
    sums: list[Floats] = [np.zeros(n), np.zeros(n), np.zeros(4), np.zeros(n_users)]
    for a, weight_a in _nodes(priors.a, priors.first_a(n_tastes), nodes):
        for b, weight_b in _nodes(priors.b, priors.first_b(), nodes):
            given = weight_a * weight_b * (prior[:, None] * prior if n_tastes == 2 else prior[:, None])
            of_users = [_set_probability(row, q, n_tastes, a, b) for row in clicks]
            weight = math.prod((p for p, _ in of_users), start=given)
            # Both tastes have the same law, so the sum over tastes is twice the first one's share.
            first_taste = n_tastes * weight.sum(axis=1)
            total = float(weight.sum())
            weight_total += total
            sums[0] += first_taste @ q
            sums[1] += first_taste @ q**2
            same = float(weight[best[:, None] == best].sum()) if n_tastes == 2 else total
            sums[2] += np.array([first_taste @ log_alpha, same, a * total, b * total])
            for user, (_, rate) in enumerate(of_users):
                others = (p for other, (p, _) in enumerate(of_users) if other != user)
                sums[3][user] += math.prod(others, start=given * rate).sum()
    first, square, rest, total_rate = (part / weight_total for part in sums)
    return TinyPosterior(first, square, float(rest[0]), float(rest[1]), total_rate, float(rest[2]), float(rest[3]))


def _set_probability(
    clicked: NDArray[np.bool_], q: Floats, n_tastes: int, a: float, b: float
) -> tuple[Floats, Floats]:
    """P(set), the rates integrated out, for every law of the first taste and of the second; and times the rate."""
    items, others = np.flatnonzero(clicked), np.flatnonzero(~clicked)
    shape = (len(q), len(q) if n_tastes == 2 else 1)
    probability, rate = np.zeros(shape), np.zeros(shape)
    for size in range(len(items) + 1):
        for subset in combinations(items, size):
            of_set = q[:, [*others, *subset]].sum(axis=1)
            factor, mean = (b / (b + of_set)) ** a, a / (b + of_set)
            if n_tastes == 2:
                term = np.outer(factor, factor)
                means = mean[:, None] + mean
            else:
                term, means = factor[:, None], mean[:, None]
            probability += (-1) ** size * term
            rate += (-1) ** size * term * means
    return probability, rate


def _nodes(prior: float | GammaPrior | None, fixed: float, nodes: int) -> list[tuple[float, float]]:
    """Points and weights of a sum over the prior: the one point if it is fixed, else Gauss-Laguerre."""
    if not isinstance(prior, GammaPrior):
        return [(fixed, 1.0)]
    from scipy.special import roots_genlaguerre

    points, weights = roots_genlaguerre(nodes, prior.shape - 1.0)
    return [(float(x) / prior.rate, float(w)) for x, w in zip(points, weights / weights.sum(), strict=True)]


# Spacing of the trapezoidal rule in log t, and how far below the largest term its ends lie.
SPACING = 0.12
NEGLIGIBLE = 1e-14


def race_integral(rates: Floats, k: int) -> Floats:
    """P(item among the first k to arrive), exactly: the integral that `race_corrected` approximates.

    By the trapezoidal rule in log t: its error falls faster than any power of the spacing, and stays below 1e-9.
    O(items x k) for each of some hundred t.

    >>> race_integral(np.array([2.0, 1.0, 1.0]), 1).round(9).tolist()
    [0.5, 0.25, 0.25]
    """
    out = np.zeros(rates.size)
    center = math.log(race_stays(rates, k, k / rates.sum(), np.empty(rates.size)))
    for direction in (-1, 1):
        step = 0 if direction < 0 else 1
        while True:
            largest = _add_moment(rates, k, math.exp(center + direction * step * SPACING), out)
            step += 1
            if largest < NEGLIGIBLE and step > 10:
                break
    return out


@numba.njit
def _add_moment(rates, k, t, out):  # type: ignore[no-untyped-def]
    """Add the integrand at one time, times the spacing, to ``out``; return its largest value."""
    n = rates.size
    arrived = -np.expm1(-rates * t)
    # How many of the items before i, and of those from i on, have arrived: the law of a sum of coin tosses.
    before, after = np.zeros((n + 1, k)), np.zeros((n + 1, k))
    before[0, 0], after[n, 0] = 1.0, 1.0
    for i in range(n):
        for m in range(k):
            carried = before[i, m - 1] * arrived[i] if m > 0 else 0.0
            before[i + 1, m] = before[i, m] * (1.0 - arrived[i]) + carried
    for i in range(n - 1, -1, -1):
        for m in range(k):
            carried = after[i + 1, m - 1] * arrived[i] if m > 0 else 0.0
            after[i, m] = after[i + 1, m] * (1.0 - arrived[i]) + carried
    largest = 0.0
    for i in range(n):
        at_most, others = 0.0, 0.0
        for m in range(k - 1, -1, -1):  # m arrivals before i, at most k - 1 - m after it
            at_most += after[i + 1, k - 1 - m]
            others += before[i, m] * at_most
        value = rates[i] * t * math.exp(-rates[i] * t) * others
        out[i] += SPACING * value
        largest = max(largest, value)
    return largest
