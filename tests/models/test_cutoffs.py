"""Cut-offs against numbers worked out by hand, and against brute force."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bmcd.evaluation.calibration import Calibration
from bmcd.models.cutoffs import cutoff_for, cutoff_table, sure_cutoff_for

P = np.repeat([0.1, 0.2, 0.3, 0.6], 10)
HIT = np.concatenate([np.arange(10) < hits for hits in (2, 2, 4, 5)])

probabilities = st.one_of(st.floats(0, 1), st.integers(0, 100).map(lambda i: i / 100))
outcomes = st.lists(st.tuples(probabilities, st.booleans()), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("p", "hit", "message"),
    [
        ([0.5], [True, False], r"shapes are \(1,\) and \(2,\)"),
        ([], [], "not empty"),
        ([1.5], [True], "between 0 and 1, but there is 1.5"),
        ([float("nan")], [True], "between 0 and 1, but there is nan"),
        ([0.5], [2], "True or False"),
    ],
)
def test_bad_arrays_are_refused(p, hit, message):
    for function in (Calibration.of, cutoff_table, lambda a, b: cutoff_for(a, b, 0.5, min_kept=1)):
        with pytest.raises(ValueError, match=message):
            function(p, hit)


def test_cutoff_table_by_hand():
    table = cutoff_table(P, HIT, [0.0, 0.2, 0.25, 0.6, 0.7])
    assert table["cutoff"].tolist() == [0.0, 0.2, 0.25, 0.6, 0.7]
    assert table["n"].tolist() == [40, 30, 20, 10, 0]  # 0.2 itself is kept by the cut-off 0.2
    assert table["share"].tolist() == [1, 0.75, 0.5, 0.25, 0]
    assert table["accuracy"].tolist()[:4] == pytest.approx([13 / 40, 11 / 30, 9 / 20, 1 / 2])
    assert np.isnan(table["accuracy"].iloc[4])
    polars = cutoff_table(P, HIT, [0.2, 0.7], library="polars")
    assert polars["accuracy"].to_list() == [pytest.approx(11 / 30), None]


def test_cutoffs_without_being_given_are_those_of_the_papers_tables():
    """Multiples of 0.05, from the last that keeps everything to the last that keeps anything."""
    assert cutoff_table([0.11, 0.27], [0, 1])["cutoff"].tolist() == [0.1, 0.15, 0.2, 0.25]
    assert cutoff_table([0.01], [0])["cutoff"].tolist() == [0]
    assert cutoff_table([1.0], [1])["cutoff"].tolist() == [1]
    assert cutoff_table([0.3, 0.35], [0, 1])["n"].tolist() == [2, 1]


def test_cutoffs_must_be_numbers():
    with pytest.raises(ValueError, match="cutoffs must be numbers"):
        cutoff_table(P, HIT, [0.1, float("nan")])


def test_cutoff_for_by_hand():
    assert cutoff_for(P, HIT, 0.3, min_kept=1) == 0.0  # all of them reach 0.325
    assert cutoff_for(P, HIT, 0.36, min_kept=1) == 0.2
    assert cutoff_for(P, HIT, 0.45, min_kept=1) == 0.3
    assert cutoff_for(P, HIT, 0.5, min_kept=10) == 0.6
    with pytest.raises(ValueError, match=r"best is 0.4500, with cut-off 0.3000, which keeps 20 of 40"):
        cutoff_for(P, HIT, 0.5, min_kept=11)
    with pytest.raises(ValueError, match=r"no cut-off reaches a hit rate of 0.9: the best is 0.5"):
        cutoff_for(P, HIT, 0.9, min_kept=1)
    with pytest.raises(ValueError, match="hit_rate must be between 0 and 1"):
        cutoff_for(P, HIT, 30)
    with pytest.raises(ValueError, match="min_kept must be 1 to 40"):
        cutoff_for(P, HIT, 0.3, min_kept=41)


@given(outcomes, st.floats(0, 1), st.integers(1, 5))
def test_cutoff_for_is_the_smallest_that_will_do(pairs, wanted, min_kept):
    p, hit = (np.array(side) for side in zip(*pairs, strict=True))
    min_kept = min(min_kept, len(p))
    kept = {cut: hit[p >= cut] for cut in np.unique(p)}
    good = [cut for cut, own in kept.items() if len(own) >= min_kept and own.sum() / len(own) >= wanted]
    if not good:
        with pytest.raises(ValueError, match="no cut-off reaches"):
            cutoff_for(p, hit, wanted, min_kept=min_kept)
        return
    cut = cutoff_for(p, hit, wanted, min_kept=min_kept)
    assert cut == (0 if good[0] == p.min() else good[0])


def users_who_differ(rng, n_users=250, n=8):
    """Return probabilities, hits and users: hits of a user are correlated, and the probabilities are too high."""
    user = np.repeat(np.arange(n_users), n)
    p = rng.beta(2, 3, n_users * n)
    mood = np.repeat(rng.normal(0, 0.8, n_users), n)
    log_odds = np.log(p / (1 - p)) * 0.8 - 0.3 + mood
    return p, rng.random(len(p)) < 1 / (1 + np.exp(-log_odds)), user


@pytest.mark.slow
@pytest.mark.chance(1e-4)
def test_the_hit_rate_is_reached_with_the_stated_confidence(rotating_seed, deep, times):
    """It is missed in at most 10 % of the cases at 90 %; by the binomial law, at most 1 false alarm in 10,000."""
    rng = np.random.default_rng(rotating_seed)
    p, hit, _ = users_who_differ(rng, n_users=40_000 * times)  # what is true
    n, broken, found = times * (1000 if deep else 100), 0, 0
    for _ in range(n):
        sample = users_who_differ(rng)
        try:
            cut = sure_cutoff_for(*sample, 0.6, confidence=0.9, seed=rotating_seed)
        except ValueError:
            continue
        found += 1
        broken += hit[p >= cut].mean() < 0.6
    assert found > n / 2  # else nothing would be tested
    assert broken <= stats.binom.isf(1e-4, n, 0.1)


@pytest.mark.slow
@pytest.mark.chance(1e-3)
def test_confidence_keeps_less_than_a_guess_and_more_with_more_users(rotating_seed):
    """The cut-off of all is below that of a fifth of them by 0.036, with a standard deviation of 0.024 (174 seeds).

    So 0.1 above it would be more than five standard deviations.
    """
    rng = np.random.default_rng(rotating_seed)
    p, hit, user = users_who_differ(rng, n_users=4000)
    guess, sure = cutoff_for(p, hit, 0.45), sure_cutoff_for(p, hit, user, 0.45)
    few = user < 800
    assert guess <= sure <= sure_cutoff_for(p[few], hit[few], user[few], 0.45) + 0.1
    assert sure_cutoff_for(p, hit, user, 0.0) == 0.0


@pytest.mark.chance(1e-3)
def test_the_hit_rate_that_the_error_reports_is_reached(rotating_seed):
    """The error names a hit rate: asked for a little less there is a cut-off, for a little more there is none."""
    p, hit, user = users_who_differ(np.random.default_rng(rotating_seed))
    with pytest.raises(ValueError, match="to be sure") as refused:
        sure_cutoff_for(p, hit, user, 0.95)
    sure = float(re.search(r"to be sure, at least (\d\.\d+)", str(refused.value))[1])
    assert 0.2 < sure < 0.95
    sure_cutoff_for(p, hit, user, sure - 0.02)
    with pytest.raises(ValueError, match="no cut-off has a hit rate"):
        sure_cutoff_for(p, hit, user, sure + 0.02)


def test_a_hit_rate_out_of_reach_is_an_error():
    p, hit, user = users_who_differ(np.random.default_rng(1))
    with pytest.raises(
        ValueError, match=r"no cut-off has a hit rate of 0.99 with 95% confidence: the best is 0\.\d+"
    ):
        sure_cutoff_for(p, hit, user, 0.99)
    with pytest.raises(ValueError, match="which confidence needs: there are 40 of 5 users"):
        sure_cutoff_for(p[:40], hit[:40], user[:40], 0.5)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        sure_cutoff_for(p, hit, user, 0.5, confidence=95)
