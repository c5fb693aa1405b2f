"""What every baseline must do, whatever its method."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bmcd
from bmcd import Clicks, baselines
from bmcd.baselines.base import best_of_rows
from bmcd.errors import InputError
from bmcd.models.top_k import best_items
from bmcd.testing import check_recommender, example_clicks

BASELINES = {
    "Popularity": {},
    "ItemKNN": {"neighbours": 3},
    "UserKNN": {"neighbours": 3},
    "EASE": {"regularization": 2.0},
    "ALS": {"factors": 2, "iterations": 3},
    "Trending": {"half_life": "12h"},
    "Transitions": {"steps": 2},
    "RecentCooccurrence": {"memory": 5.0},
    "SessionKNN": {"neighbours": 5, "candidates": 8},
}
# These need clicks in order.
ORDERED = ("Transitions", "RecentCooccurrence", "SessionKNN")
# These start at random, row by row.
RANDOM_STARTS = ("ALS", "SparkALS")


@pytest.fixture(params=[name for name in BASELINES if name not in ORDERED])
def make(request, require):
    return _maker(request, require)


@pytest.fixture(params=BASELINES)
def make_any(request, require):
    return _maker(request, require)


@pytest.fixture(params=[*ORDERED, "Trending"])
def make_ordered(request, require):
    return _maker(request, require)


def _maker(request, require):
    if request.param == "ALS":
        require("implicit")
    return lambda: getattr(baselines, request.param)(**BASELINES[request.param])


def test_every_baseline_is_held_to_the_contract():
    assert {*BASELINES, "SparkALS"} == {*baselines.__all__} - {"Baseline"}  # Spark's has a test of its own


def test_the_contract_is_kept(make):
    check_recommender(make)


def test_the_contract_is_kept_on_an_ordered_log(make_any):
    check_recommender(make_any, clicks=example_clicks(ordered=True))


def test_scikit_learns_habits_are_kept(make):
    model = make()
    assert clone(model).get_params() == model.get_params()
    assert not [name for name in vars(model) if name.endswith("_")]
    assert repr(model).startswith(f"{type(model).__name__}(")
    fitted = model.fit(example_clicks())
    assert repr(fitted).endswith("fitted to 60 users x 12 items")
    assert not hasattr(clone(fitted), "clicks_")


def test_asking_too_early_says_what_to_do(make_any):
    for ask in (make_any().recommend, lambda: make_any().recommend_for([[]])):
        with pytest.raises(NotFittedError, match="call fit"):
            ask()


def test_neither_threads_nor_the_order_of_rows_and_columns_matter(make):
    clicks = example_clicks()
    rng = np.random.default_rng(0)
    users, items = rng.permutation(clicks.n_users), rng.permutation(clicks.n_items)
    turned = Clicks.from_matrix(
        clicks.matrix.toarray()[np.ix_(users, items)], users=clicks.users[users], items=clicks.items[items]
    )
    one = make().fit(clicks, n_threads=1).recommend(4)
    pd.testing.assert_frame_equal(one, make().fit(clicks, n_threads=3).recommend(4))
    if type(make()).__name__ not in RANDOM_STARTS:
        other = make().fit(turned).recommend(4, users=clicks.users)
        pd.testing.assert_frame_equal(one, other)


def test_blocks_of_users_make_no_difference(make, monkeypatch):
    model = make().fit(example_clicks())
    together = model.recommend(3)
    monkeypatch.setattr(baselines.base, "BLOCK_SCORES", 25)
    pd.testing.assert_frame_equal(model.recommend(3), together)


def test_blocks_of_histories_make_no_difference(make_any, monkeypatch):
    clicks = example_clicks(ordered=True)
    model = make_any().fit(clicks)
    together = model.recommend_for(clicks, 3)
    monkeypatch.setattr(baselines.base, "BLOCK_SCORES", 25)
    pd.testing.assert_frame_equal(model.recommend_for(clicks, 3), together)


def test_what_was_learned_is_restored(make_any):
    clicks = example_clicks(ordered=True)
    model = make_any().fit(clicks)
    again = make_any().restore(clicks, model.packed())
    pd.testing.assert_frame_equal(again.recommend(3), model.recommend(3))


def test_methods_that_need_order_say_how_to_give_it(make_any):
    name = type(make_any()).__name__
    if name not in ORDERED:
        return
    with pytest.raises(InputError, match=rf"{name} needs clicks in order.*time_column.*order='rows'"):
        make_any().fit(example_clicks())
    model = make_any().fit(example_clicks(ordered=True))
    with pytest.raises(InputError, match="the histories have none"):
        model.recommend_for(example_clicks())


def test_users_of_the_log_get_what_their_last_session_gets(make_ordered):
    clicks = example_clicks(ordered=True)
    model = make_ordered().fit(clicks)
    scores = model._scores(np.arange(clicks.n_users))
    last = []
    for user in range(clicks.n_users):
        own = slice(clicks.starts[user], clicks.starts[user + 1])
        running = clicks.sessions[own] == clicks.sessions[own][-1]
        last.append(clicks.items[clicks.sequence[own][running]].tolist())
    alone = model.recommend_for(last, clicks.n_items)
    for user, frame in alone.groupby("user"):
        columns = clicks.columns_of(frame["item"])
        np.testing.assert_allclose(scores[user, columns], frame["score"])
    # Clicks of earlier sessions are not recommended either, and more than one session is common.
    lists = model.recommend(clicks.n_items)
    assert len(lists) == (~clicks.matrix.toarray()).sum()
    assert len(alone) > len(lists)


def test_users_and_items_without_clicks_are_no_trouble(make):
    matrix = example_clicks().matrix.toarray()
    matrix[5] = False
    matrix[:, 4] = False
    frame = make().fit(Clicks.from_matrix(matrix)).recommend(4)
    assert (frame.groupby("user").size() >= 2).all()
    assert np.isfinite(frame["score"]).all()


def test_no_users_get_an_empty_frame_with_all_columns(make):
    frame = make().fit(example_clicks()).recommend(3, users=[])
    assert frame.columns.tolist() == ["user", "item", "rank", "score"]
    assert frame.empty


def test_frames_are_clicks_too(make):
    clicks = example_clicks()
    frame = make().fit(clicks.to_frame()).recommend(2)
    assert len(frame) == 2 * clicks.n_users


def test_who_clicked_nothing_gets_what_is_popular(make):
    """Every score is then 0, and among equal scores the more popular item comes first."""
    matrix = example_clicks().matrix.toarray()
    matrix[5] = False
    clicks = Clicks.from_matrix(matrix)
    popular = np.lexsort((np.arange(clicks.n_items), -matrix.sum(axis=0)))[:3]
    assert make().fit(clicks).recommend(3, users=[5])["item"].tolist() == popular.tolist()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ItemKNN", {"neighbours": 0}),
        ("UserKNN", {"neighbours": 2.5}),
        ("EASE", {"regularization": 0.0}),
        ("EASE", {"regularization": float("nan")}),
        ("ALS", {"factors": True}),
        ("ALS", {"alpha": -1}),
        ("ALS", {"regularization": 0}),
        ("ALS", {"iterations": 0}),
        ("EASE", {"decay": 1.5}),
        ("EASE", {"most_clicked": 0}),
        ("Trending", {"half_life": "soon"}),
        ("Transitions", {"decay": -0.1}),
        ("Transitions", {"gaps": 0}),
        ("Transitions", {"smoothing": 0}),
        ("Transitions", {"steps": 3}),
        ("Transitions", {"window": 72}),
        ("RecentCooccurrence", {"memory": 0}),
        ("RecentCooccurrence", {"partners": 1.5}),
        ("SessionKNN", {"neighbours": 0}),
        ("SessionKNN", {"candidates": 0}),
        ("SessionKNN", {"half_life": "0h"}),
    ],
)
def test_settings_without_sense_are_errors_that_name_them(name, settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
        getattr(baselines, name)(**settings).fit(example_clicks())


def test_a_fit_that_fails_leaves_no_old_answers(monkeypatch):
    model = baselines.EASE().fit(example_clicks())
    with pytest.raises(ValueError, match="regularization"):
        model.set_params(regularization=-1).fit(example_clicks())
    model.recommend(1)  # settings are checked before anything is forgotten
    monkeypatch.setattr(baselines.EASE, "_learn", lambda self, clicks, seed, n_threads: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.set_params(regularization=1.0).fit(example_clicks())
    with pytest.raises(NotFittedError):
        model.recommend(1)


def test_public_names():
    for name in baselines.__all__:
        assert getattr(bmcd.baselines, name).__module__.startswith("bmcd.baselines.")


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=12), st.integers(1, 13), st.data())
def test_the_best_are_those_of_best_items(values, k, data):
    n = len(values)
    score = np.array([values]) * data.draw(st.sampled_from([0.3, 0.4e-6, 0.7e-6, 1.5e-6]))  # some nearly tied
    available = np.array([data.draw(st.lists(st.booleans(), min_size=n, max_size=n))])
    second = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), float)
    ids = np.array(data.draw(st.permutations(range(n))))
    best = np.empty((1, min(k, n)), np.int64)
    best_of_rows(score, available, np.lexsort((ids, second)), best)
    np.testing.assert_array_equal(best, best_items(score, available, k, ids, second[None]))
