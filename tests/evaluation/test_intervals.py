"""Bootstrap over users and paired differences."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bmcd import Clicks, evaluate
from bmcd.evaluation import paired_difference
from bmcd.evaluation.intervals import bootstrap
from bmcd.evaluation.metrics import PerUser

N_USERS, N_ITEMS = 400, 12


def make_clicks():
    """Each user clicked item 0, and a random half of the items 1 to 10 later."""
    rng = np.random.default_rng(1)
    test = np.zeros((N_USERS, N_ITEMS), dtype=bool)
    test[:, 1:11] = rng.random((N_USERS, 10)) < 0.5
    train = np.zeros((N_USERS, N_ITEMS), dtype=bool)
    train[:, 0] = True
    return Clicks.from_matrix(train), Clicks.from_matrix(test)


def make_lists(test, seed, skill, longest=4, same_length=False):
    """Random lists of random length, in which liked items come first the more, the more skill."""
    rng = np.random.default_rng(seed)
    score = rng.random((N_USERS, N_ITEMS)) + skill * test.matrix.toarray()
    score[:, 0] = -np.inf
    length = np.full(N_USERS, longest) if same_length else rng.integers(1, longest + 1, N_USERS)
    items = np.argsort(-score, axis=1)
    rows = [(u, items[u, r], r + 1) for u in range(N_USERS) for r in range(length[u])]
    return pd.DataFrame(rows, columns=["user", "item", "rank"])


TRAIN, TEST = make_clicks()
GOOD = evaluate(make_lists(TEST, 2, skill=0.3), TRAIN, TEST, k=4)
POOR = evaluate(make_lists(TEST, 3, skill=0.0), TRAIN, TEST, k=4)


def test_accuracy_with_lists_of_different_lengths_has_the_interval_scipy_gives():
    """A ratio of sums. Two bootstraps of 4,000 differ by sqrt(2 / 8,000) = 1.6 % in their standard error."""
    numerator, denominator = GOOD.per_user["accuracy"]
    assert len(set(denominator.tolist())) == 4

    def ratio(x, y, axis):
        return x.sum(axis=axis) / y.sum(axis=axis)

    other = stats.bootstrap(
        (numerator, denominator),
        ratio,
        paired=True,
        vectorized=True,
        n_resamples=4000,
        method="percentile",
        random_state=np.random.default_rng(0),
    )
    result = GOOD.interval("accuracy", resamples=4000, seed=5)
    assert result.value == GOOD.accuracy == pytest.approx(numerator.sum() / denominator.sum())
    assert result.standard_error == pytest.approx(other.standard_error, rel=0.08)
    ends = other.confidence_interval
    # An end of a 95 % interval from 4,000 resamples has a standard error of 0.043 standard errors.
    assert result.low == pytest.approx(ends.low, abs=0.3 * result.standard_error)
    assert result.high == pytest.approx(ends.high, abs=0.3 * result.standard_error)


def test_a_mean_over_users_has_the_standard_error_of_a_mean():
    result = GOOD.interval("mrr", resamples=4000)
    values = GOOD.per_user["mrr"].numerator
    assert result.standard_error == pytest.approx(values.std() / np.sqrt(N_USERS), rel=0.06)


def test_intervals_depend_on_the_seed_alone_and_not_on_the_company():
    alone, among = GOOD.interval("recall", seed=3), GOOD.intervals(seed=3)["recall"]
    assert (alone.low, alone.high) == (pytest.approx(among.low), pytest.approx(among.high))
    assert GOOD.interval("accuracy", seed=3) != GOOD.interval("accuracy", seed=4)


def test_a_lower_level_gives_a_narrower_interval():
    wide, narrow = (GOOD.interval("accuracy", level=level) for level in (0.99, 0.5))
    assert wide.low < narrow.low < GOOD.accuracy < narrow.high < wide.high


def test_a_resample_without_anybody_who_counts_is_left_out():
    one_of_three = PerUser(np.array([0.5, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    draws = bootstrap([one_of_three], 200, seed=0)[:, 0]
    # (2/3)^3 of the resamples miss the only user who counts: 59 of 200, give or take 6.5.
    assert 59 - 33 < np.isnan(draws).sum() < 59 + 33
    assert set(draws[~np.isnan(draws)]) == {0.5}


def test_bad_arguments_of_intervals():
    with pytest.raises(ValueError, match="'coverage' has no interval; those that have: accuracy, intra"):
        GOOD.interval("coverage")
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        GOOD.interval("accuracy", level=95)
    with pytest.raises(ValueError, match="2 users and 2 resamples, but there are 400 and 1"):
        GOOD.interval("accuracy", resamples=1)
    alone = Clicks.from_matrix([[1, 0]]), Clicks.from_matrix([[0, 1]])
    with pytest.raises(ValueError, match="2 users and 2 resamples, but there are 1 and 2000"):
        evaluate(pd.DataFrame({"user": [0], "item": [1], "rank": [1]}), *alone).interval("accuracy")


def test_a_better_model_is_found_to_be_better():
    result = paired_difference(GOOD, POOR)
    assert (result.a, result.b, result.n_users) == (GOOD.accuracy, POOR.accuracy, N_USERS)
    assert result.difference == pytest.approx(GOOD.accuracy - POOR.accuracy)
    assert 0 < result.low < result.difference < result.high
    assert result.p_value < 1e-4
    back = paired_difference(POOR, GOOD)
    assert (back.difference, back.p_value) == (pytest.approx(-result.difference), pytest.approx(result.p_value))
    assert (back.low, back.high) == (pytest.approx(-result.high), pytest.approx(-result.low))
    assert str(result).startswith(f"accuracy: {result.a:.4f} - {result.b:.4f} = +")


def test_a_model_does_not_differ_from_itself():
    for test in ("t", "permutation"):
        result = paired_difference(GOOD, GOOD, "recall", test=test)
        assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


def test_a_difference_that_is_the_same_for_everybody_is_certain():
    train = Clicks.from_matrix([[1, 0, 0]] * 9)
    test = Clicks.from_matrix([[0, 1, 0]] * 9)
    right, wrong = (pd.DataFrame({"user": range(9), "item": item, "rank": 1}) for item in (1, 2))
    result = paired_difference(evaluate(right, train, test), evaluate(wrong, train, test))
    assert (result.difference, result.p_value) == (1, 0)


def test_for_means_over_users_the_t_test_is_the_paired_one():
    result = paired_difference(GOOD, POOR, "ndcg")
    has = GOOD.per_user["ndcg"].denominator > 0
    assert has.all()
    expected = stats.ttest_rel(GOOD.per_user["ndcg"].numerator, POOR.per_user["ndcg"].numerator)
    assert result.p_value == pytest.approx(expected.pvalue)


def test_for_ratios_the_t_test_agrees_with_bootstrap_and_permutation():
    """A weak difference, so that p is well above what 9,999 permutations can show."""
    other = evaluate(make_lists(TEST, 4, skill=0.04), TRAIN, TEST, k=4)
    by_t, by_swaps = (paired_difference(other, POOR, test=test) for test in ("t", "permutation"))
    z = stats.norm.isf(by_t.p_value / 2)
    assert abs(by_t.difference) / by_t.standard_error == pytest.approx(z, rel=0.1)
    assert 0.01 < by_t.p_value < 0.99
    # 0.01 is two standard errors of the permutation p at worst; the tests themselves differ a little.
    assert by_swaps.p_value == pytest.approx(by_t.p_value, abs=0.02)
    assert (by_swaps.difference, by_swaps.test) == (by_t.difference, "permutation")


def test_the_permutation_test_of_a_ratio_by_enumeration():
    """Five users whose lists differ in length: all 32 swaps, each with its ratio of sums."""
    chosen = list(range(5))
    train, test = (
        Clicks.from_matrix(part.matrix.toarray()[chosen], items=range(N_ITEMS)) for part in (TRAIN, TEST)
    )
    frames = [make_lists(TEST, seed, skill) for seed, skill in ((2, 0.3), (3, 0.0))]
    a, b = (evaluate(frame[frame["user"].isin(chosen)], train, test, k=4) for frame in frames)
    terms = np.array([a.per_user["accuracy"], b.per_user["accuracy"]])  # model, term, user
    gaps = []
    for swap in itertools.product([False, True], repeat=5):
        x = np.where(swap, terms[::-1], terms).sum(axis=2)
        gaps.append(x[0, 0] / x[0, 1] - x[1, 0] / x[1, 1])
    at_least = [sum(gap >= gaps[0] - 1e-12 for gap in gaps), sum(gap <= gaps[0] + 1e-12 for gap in gaps)]
    result = paired_difference(a, b, test="permutation")
    assert result.difference == pytest.approx(gaps[0])
    assert result.p_value == pytest.approx(min(1, 2 * min(at_least) / 32))


def test_users_only_one_model_serves_count_for_it_alone(make_case):
    """Nobody but ann and bob has test clicks; cem is served by the first model only."""
    train, test = {"ann": "a", "bob": "a", "cem": "b"}, {"ann": "b", "bob": "c"}
    first = evaluate(*make_case("abc", train, test, {"ann": "b", "bob": "b", "cem": "a"}))
    second = evaluate(*make_case("abc", train, test, {"ann": "c", "bob": "c"}))
    result = paired_difference(first, second)
    assert (result.a, result.b, result.n_users) == (first.accuracy, second.accuracy, 3)
    assert (result.a, result.b) == (pytest.approx(1 / 3), pytest.approx(1 / 2))


def test_what_cannot_be_compared(make_case):
    train, test, own = {"ann": "a", "bob": "a"}, {"ann": "b", "bob": "c"}, {"ann": "bc", "bob": "b"}
    base = evaluate(*make_case("abc", train, test, own))
    with pytest.raises(ValueError, match=r"'coverage' has no values by user; those that have: accuracy"):
        paired_difference(base, base, "coverage")
    with pytest.raises(ValueError, match=r"'brier' has no values by user.*need probabilities"):
        paired_difference(base, base, "brier")
    with pytest.raises(ValueError, match="test must be 't' or 'permutation'"):
        paired_difference(base, base, test="wilcoxon")
    with pytest.raises(ValueError, match="different k, 2 and 3"):
        paired_difference(base, evaluate(*make_case("abc", train, test, own), k=3))
    with pytest.raises(ValueError, match="different training clicks"):
        paired_difference(base, evaluate(*make_case("abcd", train, test, own)))
    with pytest.raises(ValueError, match="different training clicks or n_popular"):
        paired_difference(base, evaluate(*make_case("abc", train, test, own), n_popular=2))
    with pytest.raises(ValueError, match="user 'bob' has 1 test clicks in the one and 2 in the other"):
        paired_difference(base, evaluate(*make_case("abc", train, {"ann": "b", "bob": "bc"}, own)))
