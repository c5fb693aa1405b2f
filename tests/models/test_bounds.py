"""Bounds for finite samples: valid, tight enough to be of use, and tested in an order that costs no level."""

import numpy as np
import pytest
from scipy import stats

from bmcd.errors import InputError
from bmcd.models.cutoffs import BOLDEST, betting_p_value, lower_bound, qualified, sure_cutoff_for


def capital_by_hand(values, least, level):
    """The capital of the bets, one after the other, in plain Python."""
    capital, history, squares, largest = 1.0, [0.5], [0.25], 1.0
    for value in values:
        variance = sum(squares) / len(squares)
        bet = min((2 * np.log(1 / level) / (len(values) * variance)) ** 0.5, BOLDEST / least)
        capital *= 1 + bet * (value - least)
        largest = max(largest, capital)
        history.append(value)
        squares.append((value - sum(history) / len(history)) ** 2)
    return largest


def test_it_is_the_capital_of_the_bets():
    rng = np.random.default_rng(1)
    for n in (1, 2, 30, 200):
        values, least = rng.beta(1, 4, n), float(rng.uniform(0.05, 0.5))
        in_order = values[np.random.default_rng([3, n]).permutation(n)]
        assert betting_p_value(values, least, 0.9, seed=3) == pytest.approx(
            1 / capital_by_hand(in_order, least, 1 - 0.9), rel=1e-9
        )


@pytest.mark.parametrize("law", [stats.beta(2, 8), stats.bernoulli(0.2), stats.binom(10, 0.2)])
@pytest.mark.parametrize("n", [20, 400])
def test_p_values_are_valid(law, n):
    """At the edge of the hypothesis at most 5 % of the p-values are below 5 % (false alarm: 1 in 30,000 each)."""
    rng = np.random.default_rng([n, 2])
    scale = 10 if law.dist.name == "binom" else 1
    values = law.rvs((2_000, n), random_state=rng) / scale
    mean = law.mean() / scale
    share = np.mean([betting_p_value(one.astype(float), mean, 0.95) <= 0.05 for one in values])
    assert share <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2_000)
    ends = [lower_bound(one.astype(float), 0.95) for one in values[:100]]
    assert np.mean(np.array(ends) > mean) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 100)


def test_the_bound_is_not_far_from_that_of_a_normal_law():
    """With 2,000 users it gives away at most twice what a bound for infinitely many users does."""
    rng = np.random.default_rng(4)
    values = rng.binomial(10, 0.2, (20, 2_000)) / 10
    normal = 1.645 * values.std(axis=1) / np.sqrt(2_000)
    given_away = values.mean(axis=1) - [lower_bound(one) for one in values]
    assert (given_away > 0).all()
    assert np.mean(given_away / normal) < 2


def test_a_wanted_mean_of_nothing_always_holds():
    assert betting_p_value(np.zeros(10), 0.0) == 0.0
    assert betting_p_value(np.zeros(10), 0.1) == 1.0


def test_fixed_sequences_cost_no_level():
    """Of 40 true hypotheses, none is rejected in at least 95 % of 2,000 runs; each alone would be in 13 %."""
    rng = np.random.default_rng(7)
    p = rng.random((2_000, 40))
    for starts in ([0], [0, 10, 20, 30]):
        wrong = np.mean([bool(qualified(40, own.__getitem__, starts, 0.95)) for own in p])
        assert wrong <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2_000)
    assert np.mean((p < 0.05).any(axis=1)) > 0.8  # without an order


def test_qualified_is_what_the_words_say():
    p = [0.01, 0.02, 0.2, 0.01, 0.01]
    assert qualified(5, p.__getitem__, [0], 0.95) == [0, 1]
    assert qualified(5, p.__getitem__, [0, 3], 0.95) == [0, 1, 3, 4]
    assert qualified(5, p.__getitem__, [0, 1, 2], 0.95) == [0]  # each at a third of the level


def draw(rng, n_users):
    """Recommendations whose probabilities are right on average, and hang together within a user."""
    user = np.repeat(np.arange(n_users), 8)
    p = rng.beta(1, 3, len(user))
    level = np.repeat(rng.normal(0, 0.5, n_users), 8)
    q = 1 / (1 + np.exp(-(np.log(p / (1 - p)) + level)))
    return p, rng.random(len(user)) < q, user


@pytest.mark.deep
def test_cutoffs_keep_their_hit_rate_for_other_users():
    """In at least 95 % of 200 data sets, within two standard errors; without a bound it is far fewer."""
    rng = np.random.default_rng(11)
    p, hit, _ = draw(rng, 200_000)
    order = np.argsort(p)
    rate = np.cumsum(hit[order][::-1])[::-1] / np.arange(len(p), 0, -1)
    held, bare, bootstrap = [], [], []
    for number in range(200):
        own = draw(rng, 1_000)
        cut = sure_cutoff_for(*own, 0.5, seed=number, finite_sample=True)
        held.append(rate[np.searchsorted(p[order], cut)] >= 0.5)
        if number < 60:
            bootstrap.append(sure_cutoff_for(*own, 0.5, seed=number) <= cut)
            from bmcd.models.cutoffs import cutoff_for

            bare.append(rate[np.searchsorted(p[order], cutoff_for(own[0], own[1], 0.5))] >= 0.5)
    assert np.mean(held) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 200)
    assert np.mean(bare) < 0.8
    assert np.mean(bootstrap) > 0.5  # what holds for any number of users keeps less


def test_no_cutoff_for_a_finite_sample():
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match=r"0\.9 with 95% confidence for a finite sample of 40 users: the best is"):
        sure_cutoff_for(*draw(rng, 40), 0.9, finite_sample=True)
