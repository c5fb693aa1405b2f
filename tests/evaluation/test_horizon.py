"""evaluate, compare and tune with a horizon, on clicks that followed and on random ones."""

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd import Clicks
from bmcd.errors import ClicksError, InputError

from .markov import Oracle, simulate

DAY = 86_400
ROWS = [
    *[("ann", item, day) for day, item in enumerate("abcx")],
    *[("bob", item, day) for day, item in enumerate("bae")],
    *[("cem", item, day) for day, item in enumerate("cd")],
    ("dot", "a", 3),
]


def lists(**by_user):
    rows = [(user, item, rank, 0.5) for user, own in by_user.items() for rank, item in enumerate(own, start=1)]
    return pd.DataFrame(rows, columns=["user", "item", "rank", "probability"])


@pytest.fixture
def split():
    frame = pd.DataFrame(ROWS, columns=["user", "item", "time"])
    clicks = Clicks.from_frame(frame.assign(time=1_700_000_000 + DAY * frame["time"]))
    return clicks.split_at(1_700_000_000 + int(1.5 * DAY), k=2)  # ann: c, x; bob: e; cem: nothing; dot is new


def test_the_first_clicks_count_and_only_users_with_enough_of_them(split):
    train, test = split
    assert (test.n_outside, test.n_new_users) == (2, 1)
    frame = lists(ann="cd", bob="cd", cem="ab")
    two = bmcd.evaluate(frame, train, test, horizon=2)
    assert (two.n_users, two.n_recommendations, two.n_hits, two.n_with_fewer) == (1, 2, 1, 2)  # x is outside
    assert (two.horizon, two.n_outside, two.n_new_users, two.recall) == (2, 2, 1, 0.5)
    assert "new clicks from" in two.split
    one = bmcd.evaluate(frame, train, test, horizon=1)
    assert (one.n_users, one.n_recommendations, one.n_hits, one.n_with_fewer) == (2, 4, 1, 1)
    assert bmcd.evaluate(frame, train, test).n_users == 1  # by default k, the length of the lists
    text = repr(two)
    for part in ("first 2 new clicks from", "2 users with fewer than 2 test clicks", "1 users without training"):
        assert part in text
        assert part in two._repr_html_()
    assert two.to_dict()["n_with_fewer"] == 2


def test_nobody_has_as_many_clicks(split):
    with pytest.raises(InputError, match="no user has 3 test clicks; the most any user has is 2"):
        bmcd.evaluate(lists(ann="cd"), *split, horizon=3)
    with pytest.raises(InputError, match="none of the 1 users with 2 test clicks has recommendations"):
        bmcd.evaluate(lists(bob="cd"), *split, horizon=2)
    with pytest.raises(ValueError, match="horizon, a number of next clicks, must be"):
        bmcd.evaluate(lists(ann="cd"), *split, horizon=0)


def test_random_clicks_have_no_first():
    clicks = Clicks.from_matrix(np.ones((4, 6))).of_items(range(6))
    train, test = clicks.hold_out(2, seed=1)
    frame = pd.DataFrame({"user": test.users, "item": test.items[test.matrix.indices[::2]], "rank": 1})
    both = bmcd.evaluate(frame, train, test)
    assert both.horizon is None
    assert both.split == "2 random clicks of each user (seed 1)"
    assert both.accuracy == 1 == bmcd.evaluate(frame, train, test, horizon=2).accuracy
    with pytest.raises(InputError, match="in no order, so none of them are the next 1"):
        bmcd.evaluate(frame, train, test, horizon=1)


def test_random_clicks_of_an_ordered_log_are_all_counted(split):
    clicks = bmcd.load_dataset("eshop").at_least(13).of_users(range(50))
    train, test = clicks.hold_out(10)
    frame = bmcd.baselines.Popularity().fit(train).recommend(5)
    found = bmcd.evaluate(frame, train, test)
    assert found.horizon is None
    assert found.n_users == 50
    assert found.n_relevant.tolist() == [10] * 50
    train, test = clicks.hold_out(10, by="time")
    last = bmcd.evaluate(bmcd.baselines.Popularity().fit(train).recommend(5), train, test)
    assert last.horizon == 5
    assert last.n_relevant.tolist() == [5] * 50


def test_histories_of_users_who_are_not_in_train():
    clicks = simulate(n_users=200)
    earlier, later = clicks.split_users(0.7)
    histories, test = later.moments(2, seed=1)
    model = Oracle().fit(earlier)
    frame = model.recommend_for(histories, 3, horizon=2)
    found = bmcd.evaluate(frame, earlier, test, horizon=2, histories=histories)
    assert found.n_users == test.n_users
    assert found.horizon == 2
    assert 0.2 < found.accuracy < 0.8
    assert found.split == "2 new clicks after a random moment of each user (seed 1)"
    as_dict = {u: [histories.items[c] for c in histories.sequence[a:b]] for u, a, b in
               zip(histories.users, histories.starts[:-1], histories.starts[1:], strict=True)}  # fmt: skip
    again = bmcd.evaluate(frame, earlier, test, horizon=2, histories=as_dict)
    assert again.to_dict() == found.to_dict()
    comparison = bmcd.compare(
        {"one": model, "two": Oracle()}, earlier, test, 3, horizon=2, histories=histories, resamples=50
    )
    assert comparison.value("one", "accuracy") == found.accuracy == comparison.value("two", "accuracy")
    assert "after a random moment of each user (seed 1); the next 2" in str(comparison)
    assert comparison.to_dict()["n_with_fewer"] == 0
    assert comparison.about_the_test
    with pytest.raises(ClicksError, match="is not in train"):
        bmcd.evaluate(frame, earlier, test)


def test_repeated_clicks_are_hits_only_if_that_is_said():
    rows = pd.DataFrame({"user": "u", "item": list("abab"), "time": [1.7e9, 1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3]})
    clicks = Clicks.from_frame(pd.concat([rows, rows.assign(user="v")]))
    train, test = clicks.split_at(1.7e9 + 2, k=2, repeats=True)
    frame = lists(u="ab", v="ab")
    assert bmcd.evaluate(frame, train, test, repeats=True).n_hits == 4
    assert bmcd.evaluate(lists(u="a", v="a"), train, test, repeats=True).n_hits == 2
    with pytest.raises(ClicksError, match="already clicked"):
        bmcd.evaluate(frame, train, test)


def test_evaluations_of_different_horizons_do_not_compare(split):
    one, two = (bmcd.evaluate(lists(ann="cd"), *split, horizon=h) for h in (1, 2))
    with pytest.raises(InputError, match="different horizons, 1 and 2"):
        bmcd.evaluation.paired_difference(one, two)


def test_settings_are_chosen_on_later_clicks():
    clicks = simulate(n_users=400)
    seen = []

    class Good(Oracle):
        def __init__(self, skill=1):
            self.skill = skill

        def fit(self, clicks, *, seed=0, n_threads=None):
            seen.append(clicks)
            return super().fit(clicks)

        def recommend_for(self, histories, k=10, items=None, *, unknown="error", horizon=None):
            found = super().recommend_for(histories, 8, unknown=unknown, horizon=horizon)
            best = found.groupby("user", sort=False)
            found = best.head(k) if self.skill else best.tail(k)
            return found.assign(rank=found.groupby("user").cumcount() + 1)

    tuning = bmcd.tune(Good, clicks, {"skill": [0, 1]}, folds=3, k=2, horizon=1, n_threads=1)
    assert tuning.best == {"skill": 1}
    assert tuning.horizon == 1
    assert "folds of later clicks" in repr(tuning)
    latest = np.sort(clicks.times)[int(0.79 * len(clicks.times))]
    assert all(latest <= one.times.max() < clicks.times.max() for one in seen)
    ordered = Clicks.from_frame(clicks.to_frame().drop(columns="time"), order="rows")
    tuning = bmcd.tune(Good, ordered, {"skill": [0, 1]}, folds=3, k=2, n_threads=1)
    assert tuning.best == {"skill": 1}
    assert tuning.horizon == 2
    assert tuning.split == "later users"
    with pytest.raises(InputError, match="no order"):
        bmcd.tune(Good, Clicks.from_matrix(np.eye(4)), {"skill": [1]}, folds=2, horizon=1)
