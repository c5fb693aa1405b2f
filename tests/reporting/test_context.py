import numpy as np
import pytest

from bmcd.evaluation import Calibration
from bmcd.models.top_k import Lists
from bmcd.reporting.choices import choose_k
from bmcd.reporting.context import choose_cutoffs, make_context


def test_the_chance_is_that_of_a_random_item(reported):
    results = make_context(reported.model, reported.train, reported.test, k=2, rivals={}, n_threads=1)
    train, test = (clicks.matrix.toarray() for clicks in (reported.train, reported.test))
    hit_rates = [kept_aside[~clicked].mean() for clicked, kept_aside in zip(train, test, strict=True)]
    assert results.chance(results.by_k[0]) == pytest.approx(np.mean(hit_rates))


def test_items_are_counted_alike_with_and_without_a_test(reported):
    tested, untested = (
        make_context(reported.model, reported.train, test, k=2, rivals={}).by_k[0].items
        for test in (reported.test, None)
    )
    for name in ("item", "clicks", "recommended"):
        assert getattr(tested, name).tolist() == getattr(untested, name).tolist()
    assert tested.n_popular == untested.n_popular
    assert not untested.hits.any()


def test_numbers_of_recommendations(reported):
    most = 12 - int(reported.train.per_user.min())
    assert choose_k(reported.model, reported.train, None, None) == [k for k in (5, 10) if k <= most]
    assert choose_k(reported.model, reported.train, None, (3, 2, 3)) == [3, 2]
    assert choose_k(reported.model, reported.train, None, 4) == [4]
    with pytest.raises(ValueError, match=f"k is 12, but no user has more than {most} items left"):
        choose_k(reported.model, reported.train, None, 12)
    with pytest.raises(ValueError, match="k is empty"):
        choose_k(reported.model, reported.train, None, ())
    with pytest.raises(ValueError, match="1 or more"):
        choose_k(reported.model, reported.train, None, 0)


def test_cutoffs_keep_what_they_say():
    rng = np.random.default_rng(4)
    p = np.round(rng.random((200, 3)), 3)
    items = np.tile(np.arange(3), (200, 1))
    items[0, 2] = -1  # a shorter list
    calibration = Calibration.of(p[items >= 0], (rng.random((200, 3)) < p)[items >= 0])
    cutoffs, best = choose_cutoffs(calibration, Lists(items, {"probability": p}))
    assert [cutoff.probability == 0 for cutoff in cutoffs] == [True] + [False] * (len(cutoffs) - 1)
    assert cutoffs[-1].wanted <= best.hit_rate < cutoffs[-1].wanted + 0.05
    for cutoff in cutoffs:
        kept = (p >= cutoff.probability) & (items >= 0)
        assert cutoff.hit_rate >= cutoff.wanted
        assert (cutoff.n, cutoff.n_users) == (kept.sum(), kept.any(axis=1).sum())
        assert cutoff.per_user == pytest.approx(kept.sum() / 200)
        assert cutoff.probability == calibration.cutoff_for(cutoff.wanted)


def test_without_hits_there_are_no_cutoffs():
    lists = Lists(np.zeros((2, 2), int), {"probability": np.full((2, 2), 0.5)})
    assert choose_cutoffs(Calibration.of([0.5] * 4, [False] * 4), lists) == ((), None)


def test_probabilities_that_are_all_equal_leave_nothing_to_cut():
    lists = Lists(np.zeros((2, 2), int), {"probability": np.full((2, 2), 0.5)})
    cutoffs, best = choose_cutoffs(Calibration.of([0.5] * 4, [True, False] * 2), lists)
    assert best.hit_rate == 0.5
    assert [cutoff.probability for cutoff in cutoffs] == [0.0]


def test_hits_are_those_of_the_test_in_any_order_of_its_users(reported):
    shuffled = reported.test.of_users(np.arange(reported.test.n_users)[:0:-1])  # without the first user
    (for_k,) = make_context(reported.model, reported.train, shuffled, k=2, rivals={}).by_k
    assert for_k.relevant(0) == frozenset()
    assert sorted(for_k.relevant(3)) == reported.test.of_users([3]).matrix.indices.tolist()
