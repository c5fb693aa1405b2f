"""The counting kernels against slow references, and events against the log they come from."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tests.reference import counting as reference
from tests.reference.events import some_events

from bmcd import Clicks
from bmcd.baselines import counting
from bmcd.baselines.counting import events_of
from bmcd.errors import InputError

TIGHT = {"rtol": 1e-6, "atol": 1e-12}  # values are kept in single precision


@given(some_events(), st.integers(1, 6), st.sampled_from([None, 0.5, 12.0]))
def test_directed_pairs(events, gaps, half_life):
    weights = counting.decay_weights(events, half_life)
    fast = counting.directed_pairs(events, weights, gaps)
    np.testing.assert_allclose(fast.toarray(), reference.directed_pairs(events, weights, gaps), **TIGHT)
    fast.check_format(full_check=True)


@given(some_events(), st.sampled_from([0.5, 3.0, 70.0]), st.integers(1, 5))
def test_recent_pairs(events, memory, gaps):
    fast = counting.recent_pairs(events, memory, gaps)
    np.testing.assert_allclose(fast.toarray(), reference.recent_pairs(events, memory, gaps), **TIGHT)


@given(some_events(), st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_pairs_of_many(events, fewest, gaps, both):
    events = events._replace(user=events.session // 2)  # several sessions of a user
    fast = counting.pairs_of_many(events, fewest, gaps, both=both)
    slow = np.zeros((events.n_items, events.n_items), np.int64)
    for user in np.unique(events.user):
        own = events._replace(item=events.item[events.user == user], session=events.session[events.user == user])
        own = own._replace(tied=events.tied[events.user == user], age=None, user=events.user[events.user == user])
        pairs = reference.directed_pairs(own, np.ones(len(own.item)), gaps) > 0
        slow += pairs | pairs.T if both else pairs
    np.testing.assert_array_equal(fast.toarray(), slow >= fewest)
    fast.check_format(full_check=True)


@given(st.lists(st.floats(0, 5).map(lambda x: round(x, 1)) | st.just(2.0), min_size=1, max_size=60), st.data())
def test_nth_smallest(values, data):
    n = data.draw(st.integers(0, len(values) - 1))
    for kind in (np.float32, np.float64):
        given_values = np.array(values, kind)
        assert counting.nth_smallest(given_values.copy(), n) == np.partition(given_values, n)[n]


@given(some_events(), st.sampled_from([None, 0.25, 24.0]))
def test_decayed_counts(events, half_life):
    fast = counting.decayed_counts(events, half_life)
    np.testing.assert_allclose(fast, reference.decayed_counts(events, half_life), **TIGHT)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=6, max_size=6), min_size=1, max_size=6), st.integers(1, 7))
def test_keep_largest(rows, n):
    table = np.array(rows, np.float32)
    fast = counting.keep_largest(sparse.csr_array(table), n)
    np.testing.assert_array_equal(fast.toarray(), reference.keep_largest(table, n))


@given(some_events(), st.sampled_from([0.5, 10.0]), st.integers(1, 5))
def test_two_steps(events, smoothing, n):
    followers = counting.directed_pairs(events, np.ones(len(events.item)), 1)
    walk, total = counting.two_steps(followers, counting.row_sums(followers), smoothing, n)
    slow = reference.two_steps(followers.toarray().astype(float), smoothing)
    np.testing.assert_allclose(total, slow.sum(axis=1), **TIGHT)
    np.testing.assert_allclose(
        counting.two_steps(followers, counting.row_sums(followers), smoothing, 5)[0].toarray(), slow, **TIGHT
    )
    assert np.diff(walk.indptr).max(initial=0) <= n
    # Sums that are equal in theory may differ in their last bits, so the largest are compared by size.
    kept, wanted = (np.sort(table, axis=1) for table in (walk.toarray(), reference.keep_largest(slow, n)))
    np.testing.assert_allclose(kept, wanted, **TIGHT)


@given(some_events(), st.data())
def test_a_run_of_ties_stays_one_when_clicks_are_left_out(events, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(events.item), max_size=len(events.item))), bool)
    kept, places = events.keep(mask), np.flatnonzero(mask)
    for i in range(1, len(places)):
        earlier, later = places[i - 1], places[i]
        assert kept.tied[i] == reference.same_time(events, earlier, later)


@given(st.lists(st.integers(0, 10**13), max_size=30))
def test_newest_first(micro):
    age = np.array(micro, np.float64) / counting.HOUR
    order = counting.newest_first(age)
    assert order.tolist() == sorted(range(len(micro)), key=lambda i: (micro[i], -i))


def log(**columns):
    return pd.DataFrame(columns)


def test_events_of_a_timed_log():
    frame = log(
        user=["ann", "bob", "ann", "ann", "ann"],
        item=["a", "a", "b", "c", "d"],
        time=["2026-05-01 10:00", "2026-05-01 10:05", "2026-05-01 10:10", "2026-05-01 10:10", "2026-05-01 12:10"],
    )
    events = events_of(Clicks.from_frame(frame))
    assert events.item.tolist() == [0, 1, 2, 3, 0]
    assert events.session.tolist() == [0, 0, 0, 1, 2]
    assert events.user.tolist() == [0, 0, 0, 0, 1]
    assert events.tied.tolist() == [False, False, True, False, False]
    np.testing.assert_allclose(events.age, [13 / 6, 2, 2, 0, 25 / 12])
    earlier = events_of(Clicks.from_frame(frame), "2026-05-01 10:10")
    assert earlier.item.tolist() == [0, 0]
    np.testing.assert_allclose(earlier.age, [1 / 6, 1 / 12])
    np.testing.assert_allclose(events.before(2.0).age, earlier.age)
    assert events.within(2.0).item.tolist() == [1, 2, 3]
    assert counting.directed_pairs(events, np.ones(5), 2).toarray()[0].tolist() == [0, 1, 0.5, 0]


def test_events_without_a_clock_have_no_age():
    frame = log(user=[1, 1, 2], item=list("aba"))
    for clicks in (Clicks.from_frame(frame, order="rows"), Clicks.from_frame(frame.assign(time=[1, 2, 3]))):
        events = events_of(clicks)
        assert events.age is None
        assert counting.directed_pairs(events, np.ones(3), 1).nnz == 1
        assert events.within(1.0) is events
        with pytest.raises(InputError, match="no clock"):
            events.before(1.0)


def test_the_clicks_of_a_log_without_order_form_no_pairs():
    events = events_of(Clicks.from_frame(log(user=[1, 1, 2], item=list("aba"))))
    assert counting.directed_pairs(events, np.ones(3), 2).nnz == 0
    assert counting.recent_pairs(events, 70.0).nnz == 0


def test_clicks_outside_the_catalogue_are_left_out():
    frame = log(user=[1, 1, 1, 2], item=list("axba"), time=[1e9, 1.0001e9, 1.0002e9, 1.0003e9])
    clicks = Clicks.from_frame(frame).of_items([0, 2], keep_outside=True)
    assert events_of(clicks).item.tolist() == [0, 1, 0]


def test_a_present_that_cannot_be_is_an_error():
    timed = Clicks.from_frame(log(user=[1, 1], item=list("ab"), time=[1e9, 1.1e9]))
    with pytest.raises(InputError, match="no clicks before"):
        events_of(timed, 1e9)
    with pytest.raises(InputError, match="time_column"):
        events_of(Clicks.from_matrix([[1, 1]]), "2026-05-01")


def test_rows_sorted_otherwise_give_the_same_counts():
    rng = np.random.default_rng(0)
    frame = log(user=rng.integers(0, 20, 300), item=rng.integers(0, 9, 300), time=1e9 + rng.integers(0, 10**6, 300))
    tables = []
    for rows in (frame, frame.sample(frac=1, random_state=1)):
        events = events_of(Clicks.from_frame(rows))
        tables.append([counting.recent_pairs(events, 5.0), counting.directed_pairs(events, np.exp(-events.age), 3)])
    for one, other in zip(*tables, strict=True):
        assert (one != other).nnz == 0
