"""The baselines that use order against slow references, and on logs where the right answer is plain."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import baselines as reference
from tests.reference.events import some_events

from bmcd import Clicks
from bmcd.baselines import EASE, RecentCooccurrence, SessionKNN, Transitions, Trending
from bmcd.baselines.counting import decayed_counts, events_of
from bmcd.baselines.session_knn import session_scores
from bmcd.clicks.histories import clicks_of_histories

SESSIONS = st.lists(st.lists(st.integers(0, 4), max_size=6), min_size=1, max_size=3)
DECAYS = st.sampled_from([0.0, 0.5, 0.7, 1.0])
TIGHT = {"rtol": 1e-5, "atol": 1e-9}  # counts are kept in single precision


def text(hours):
    return None if hours is None else f"{hours}h"


def scores_of(model, events, sessions):
    starts = np.concatenate(([0], np.cumsum([len(one) for one in sessions]))).astype(np.int64)
    return model.count(events)._scores_of_sessions(starts, np.array(list(chain(*sessions)), np.int32))


@given(
    some_events(),
    SESSIONS,
    st.fixed_dictionaries(
        {
            "decay": DECAYS,
            "gaps": st.integers(1, 5),
            "smoothing": st.sampled_from([0.5, 10.0]),
            "half_life": st.sampled_from([None, 12]),
            "window": st.sampled_from([None, 24]),
            "followers": st.just(5),
            "steps": st.sampled_from([1, 2]),
            "share_half_life": st.sampled_from([None, 4]),
        }
    ),
)
def test_transitions(events, sessions, settings):
    durations = {name: text(settings[name]) for name in ("half_life", "window", "share_half_life")}
    fast = scores_of(Transitions(**settings | durations), events, sessions)
    for row, session in zip(fast, sessions, strict=True):
        np.testing.assert_allclose(row, reference.transitions(events, session, **settings), **TIGHT)


@given(
    some_events(),
    SESSIONS,
    st.fixed_dictionaries(
        {
            "memory": st.sampled_from([0.5, 70]),
            "gaps": st.integers(1, 5),
            "decay": DECAYS,
            "smoothing": st.sampled_from([0.5, 10.0]),
            "window": st.sampled_from([None, 24]),
            "partners": st.just(5),
            "share_half_life": st.sampled_from([None, 4]),
        }
    ),
)
def test_recent_cooccurrence(events, sessions, settings):
    durations = {name: text(settings[name]) for name in ("window", "share_half_life")}
    fast = scores_of(RecentCooccurrence(**settings | durations), events, sessions)
    for row, session in zip(fast, sessions, strict=True):
        np.testing.assert_allclose(row, reference.recent_cooccurrence(events, session, **settings), **TIGHT)


@given(
    some_events(),
    SESSIONS,
    st.fixed_dictionaries(
        {
            # Of equal similarities rounding may decide, so as many neighbours count as there are candidates.
            "neighbours": st.just(30),
            "candidates": st.integers(1, 8),
            "decay": DECAYS,
            "half_life": st.sampled_from([None, 12]),
        }
    ),
)
def test_session_knn(events, sessions, settings):
    fast = scores_of(SessionKNN(**settings | {"half_life": text(settings["half_life"])}), events, sessions)
    for row, session in zip(fast, sessions, strict=True):
        np.testing.assert_allclose(row, reference.session_knn(events, session, **settings), **TIGHT)


@given(some_events(), st.sampled_from([1, 4]))
def test_trending(events, half_life):
    scores = scores_of(Trending(text(half_life)), events, [[], [1]])
    np.testing.assert_array_equal(scores, np.tile(decayed_counts(events, half_life), (2, 1)))


@given(st.lists(st.lists(st.integers(0, 4), max_size=7), min_size=1, max_size=4), DECAYS)
def test_ease_with_decay(histories, decay):
    clicks = Clicks.from_matrix((np.random.default_rng(0).random((30, 5)) < 0.5) | np.eye(30, 5, dtype=bool))
    model = EASE(2.0, decay=decay).fit(clicks)
    # Not clicks that are listed: scores of everything, so the frame has those of unclicked items.
    frame = model.recommend_for(histories, 5)
    for user, item, score in frame[["user", "item", "score"]].itertuples(index=False):
        slow = reference.ease_scores(model.weights_, histories[user], decay)
        np.testing.assert_allclose(score, slow[item], atol=1e-9)


def test_the_nearest_sessions_count_and_no_others():
    """Session 1 shares two items with the running one, sessions 2 and 3 share one, and 3 is the later of these."""
    frame = pd.DataFrame({"user": [1, 1, 1, 2, 2, 3, 3, 4], "item": list("abxaybzw")})
    clicks = Clicks.from_frame(frame, order="rows")
    for neighbours, found in ((1, "x"), (2, "xz"), (3, "xzy")):
        model = SessionKNN(neighbours, decay=1.0).fit(clicks)
        lists = model.recommend_for([["a", "b"]], 9)
        assert lists[lists["score"] > 0]["item"].tolist() == list(found)


def test_the_work_of_a_query_is_bounded():
    frame = pd.DataFrame({"user": np.repeat(range(60), 200), "item": np.tile(range(200), 60)})
    model = SessionKNN(neighbours=7, candidates=9).fit(Clicks.from_frame(frame, order="rows"))
    assert np.diff(model.sessions_.indptr).max() == 50
    assert np.diff(model.sessions_of_.indptr).max() == 9
    slot = np.full(200, -1, np.int32)
    items, scores = session_scores(np.arange(199, dtype=np.int32), slot, *model.arrays())
    assert len(items) == len(scores) == 50
    assert (slot == -1).all()


def test_what_comes_next_depends_on_the_last_click():
    frame = pd.DataFrame({"user": np.repeat(range(40), 3), "item": list("abcbca") * 20})
    model = Transitions().fit(Clicks.from_frame(frame, order="rows"))
    assert model.recommend_for([["a"]], 1)["item"].tolist() == ["b"]
    assert model.recommend_for([["a", "b"]], 1)["item"].tolist() == ["c"]
    # Scores are the probabilities of the next click: they sum to about 1.
    scores = model._scores_of_sessions(np.array([0, 2, 2]), np.array([0, 1], np.int32))
    assert scores.sum(axis=1) == pytest.approx([1, 1], abs=0.02)


def test_trending_follows_the_clock_and_counts_repeated_clicks():
    frame = pd.DataFrame({"user": [1, 2, 3, 4, 4, 5], "item": list("aaabbc")})
    frame["time"] = [f"2026-05-01 {hour:02d}:00" for hour in (1, 1, 1, 11, 12, 13)]
    clicks = Clicks.from_frame(frame)
    assert Trending("1h").fit(clicks).counts_.tolist() == pytest.approx([3 * 0.5**12, 0.75, 1.0])
    rows = Clicks.from_frame(frame.drop(columns="time"), order="rows")
    assert Trending("1h").fit(rows).counts_.tolist() == [3, 2, 1]
    plain = Clicks.from_frame(frame.drop(columns="time"))
    assert Trending("1h").fit(plain).counts_.tolist() == [3, 1, 1]


def test_ease_of_the_most_clicked_items():
    clicked = np.random.default_rng(1).random((50, 8)) < np.linspace(0.7, 0.1, 8)
    clicked[:, 7] = False
    clicked[0, 7] = True
    clicks = Clicks.from_matrix(clicked)
    few, small = EASE(3.0, most_clicked=4).fit(clicks), EASE(3.0).fit(clicks.most_clicked(4))
    np.testing.assert_allclose(few.weights_, small.weights_)
    assert few.modelled_.tolist() == small.clicks_.items.tolist()
    scores = few.scores_for(clicks)
    others = np.setdiff1d(np.arange(8), few.modelled_)
    assert (scores[:, others] == 0).all()
    np.testing.assert_allclose(scores[:, few.modelled_], small.scores_for(small.clicks_))


@pytest.mark.parametrize("by", ["user", "session"])
def test_ease_counts_events(by):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"user": rng.integers(0, 20, 200), "item": rng.integers(0, 9, 200)})
    clicks = Clicks.from_frame(frame.assign(time=1e9 + rng.permutation(10**6)[:200]))
    events = events_of(clicks)
    rows = events.user if by == "user" else events.session
    matrix = np.zeros((rows.max() + 1, clicks.n_items))
    matrix[rows, events.item] = 1
    expected = EASE(5.0).fit(Clicks.from_matrix(matrix, items=clicks.items)).weights_
    np.testing.assert_allclose(EASE(5.0).count(events, by=by).weights_, expected)
    if by == "user":
        np.testing.assert_allclose(EASE(5.0).fit(clicks).weights_, expected)


def test_items_outside_the_model_are_accepted_in_histories():
    frame = pd.DataFrame({"user": np.repeat(range(40), 3), "item": list("abcbca") * 20})
    clicks = Clicks.from_frame(frame, order="rows")
    for model in (Transitions(), RecentCooccurrence(), SessionKNN(), EASE(decay=0.5), Trending()):
        fitted = model.fit(clicks)
        known = fitted.recommend_for([["a", "b"]], 1)
        for history in (["new", "a", "b"], ["a", "new", "b"], ["a", "b", "new"]):
            pd.testing.assert_frame_equal(fitted.recommend_for([history], 1, unknown="ignore"), known)


@pytest.mark.parametrize("make", [Transitions, RecentCooccurrence, SessionKNN])
def test_histories_with_times_end_in_a_running_session(make):
    frame = pd.DataFrame({"user": np.repeat(range(40), 4), "item": list("abcdbcda") * 20})
    model = make().fit(Clicks.from_frame(frame, order="rows"))
    history = pd.DataFrame({"user": "ann", "item": ["d", "a"], "time": ["2026-05-01 10:00", "2026-05-02 10:00"]})
    assert model.recommend_for(history, 1)["score"].tolist() == model.recommend_for([["a"]], 1)["score"].tolist()
    assert "d" not in model.recommend_for(history, 4)["item"].tolist()


@pytest.mark.parametrize("make", [Transitions, RecentCooccurrence, SessionKNN])
def test_a_session_that_is_over_is_as_an_empty_one(make):
    clicks = Clicks.from_frame(
        pd.DataFrame({"user": np.repeat(range(40), 3), "item": list("abcbca") * 20}), order="rows"
    )
    model = make().fit(clicks)
    histories = Clicks.from_frame(pd.DataFrame({"user": ["ann", "bob"], "item": ["a", "a"]}), order="rows")
    histories = clicks_of_histories(histories, clicks, "error")
    over = model.scores_for(replace(histories, session_over=np.array([True, False])))
    np.testing.assert_array_equal(over[0], model.scores_for(clicks_of_histories([[]], clicks))[0])
    np.testing.assert_array_equal(over[1], model.scores_for(histories)[1])
    assert not np.array_equal(over[0], over[1])


def test_without_a_session_session_knn_recommends_what_is_recent():
    frame = pd.DataFrame({"user": [1, 2, 3, 4, 5, 5], "item": ["old", "old", "old", "new", "new", "other"]})
    frame["time"] = pd.Timestamp("2026-05-01") + pd.to_timedelta([0, 0, 0, 48, 49, 49.1], unit="h")
    model = SessionKNN(half_life="12h").fit(Clicks.from_frame(frame))
    assert model.recommend_for([[]], 3)["item"].tolist() == ["new", "other", "old"]
    assert SessionKNN(half_life=None).fit(Clicks.from_frame(frame)).recommend_for([[]], 1)["item"].tolist() == [
        "old"
    ]
