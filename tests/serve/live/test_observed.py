"""Predicted and observed hits of the lists that a service gave: which clicks count, sums, states, bounds."""

import numpy as np
import pytest

from bmcd.serve import observed as module
from bmcd.serve.observed import FEWEST, GROUPS, MINUTE, WATCHED, Observed

T = 1_700_000_000_000_000 // MINUTE * MINUTE
KNOWN = {f"i{n}": n for n in range(50)}


def made():
    watch = Observed()
    watch.use(KNOWN)
    return watch


def gave(
    watch, user="ann", answer="a1", *, time=T, latest=T, horizon=1, listed=(("i1", 0.3), ("i2", 0.1)), clicked=()
):
    watch.gave(user, answer, time, latest, horizon, 0.05 * horizon, listed, clicked)


def hour(watch):
    return watch.summary("hour")


def test_a_hit_and_a_miss():
    watch = made()
    gave(watch)
    watch.clicked("ann", "i2", T + 1, None)
    gave(watch, "bob", "a2")
    watch.clicked("bob", "i9", T + 2, None)
    found = hour(watch)
    assert (found["lists"], found["next_clicks"], found["clicks"]) == (2, 2, 2)
    assert found["predicted"] == pytest.approx(0.4)
    assert found["observed"] == 0.5
    assert found["outside_predicted"] == pytest.approx(0.05)
    assert found["outside_observed"] == 0
    assert found["standard_error"] == pytest.approx(np.sqrt(2 * 0.4 * 0.6) / 2)
    assert found["coverage"] == 2 / 50
    groups = {row["probability"]: (row["n"], row["observed"]) for row in found["groups"] if row["n"]}
    assert groups == {"0.05-0.1": (2, 1), "0.2-0.5": (2, 0)}
    assert sum(row["predicted"] for row in found["groups"]) == pytest.approx(0.8)
    assert len(GROUPS) == 10
    assert hour(watch) == {**watch.summary("day"), "text": found["text"]}


@pytest.mark.parametrize(
    ("item", "time", "lists"),
    [
        ("i7", T + 1, 1),
        ("i3", T + 1, 0),  # clicked before: no next click
        ("i7", T, 0),  # not later than what was known
        ("i7", T - 5, 0),  # late
        ("i7", T + WATCHED + 1, 0),  # too long after
    ],
)
def test_which_clicks_follow_a_list(item, time, lists):
    watch = made()
    gave(watch, clicked=["i3"])
    watch.clicked("somebody else", "i7", T + 1, None)
    watch.clicked("ann", item, time, None)
    assert hour(watch)["lists"] == lists
    assert watch.waiting == (1 if lists == 0 and time <= T + WATCHED else 0)


def test_a_list_is_compared_with_as_many_clicks_as_its_horizon():
    watch = made()
    gave(watch, horizon=3, listed=[("i1", 0.5), ("i2", 0.4), ("i3", 0.2)])
    for n, item in enumerate(["i2", "i2", "i8", "i1", "i3"]):
        watch.clicked("ann", item, T + 1 + n, None)
        assert hour(watch)["lists"] == int(n >= 3)
    found = hour(watch)
    assert (found["next_clicks"], found["observed_hits"]) == (3, 2)
    assert found["predicted"] == pytest.approx(1.1 / 3)
    assert found["outside_predicted"] == pytest.approx(0.05)


def test_only_the_last_list_of_a_user_waits_and_an_answer_can_be_named():
    watch = made()
    gave(watch, listed=[("i1", 0.5)])
    gave(watch, answer="a2", listed=[("i2", 0.5)])
    watch.clicked("ann", "i1", T + 1, None)
    assert (hour(watch)["lists"], hour(watch)["observed_hits"]) == (1, 0)
    gave(watch, None, "a3", listed=[("i4", 0.5)])
    gave(watch, None, "a4", listed=[("i5", 0.5)])
    watch.clicked("unknown", "i4", T + 2, "a3")
    watch.clicked("unknown", "i4", T + 3, "a4")
    watch.clicked("unknown", "i4", T + 4, "no such answer")
    assert (hour(watch)["lists"], hour(watch)["observed_hits"]) == (3, 1)


def test_items_outside_the_model_that_gave_the_list():
    watch = made()
    gave(watch)
    watch.use({**KNOWN, "new": 50})  # known by the time it is clicked, not when the list was given
    watch.clicked("ann", "new", T + 1, None)
    gave(watch, "bob", "a2")
    watch.clicked("bob", "new", T + 2, None)
    gave(watch, "cat", "a3")
    watch.clicked("cat", "newer", T + 3, None)
    assert hour(watch)["outside_observed"] == pytest.approx(2 / 3)


def test_windows_follow_the_clicks():
    watch = made()
    for user, time in (("ann", T), ("bob", T + 90 * MINUTE), ("cat", T + 91 * MINUTE)):
        gave(watch, user, f"of {user}", time=time, latest=time, listed=[("i1", 0.5)])
        watch.clicked(user, "i1", time + 1, None)
    assert (hour(watch)["lists"], watch.summary("day")["lists"]) == (2, 3)
    assert watch.clicks_per_minute(3) == [0, 1, 1]
    watch.clicked("late", "i1", T - 30 * 24 * 60 * MINUTE, None)
    watch.clicked("dan", "i1", T + 24 * 60 * MINUTE + 90 * MINUTE, None)
    assert watch.summary("day")["lists"] == 1  # that of the minute 91
    assert hour(watch)["lists"] == 0
    assert hour(watch)["text"] == "no list could be compared in the last hour"


@pytest.mark.chance(1e-4)
def test_states_are_right_where_the_truth_is_known(rotating_seed):
    """Hits are drawn with the probabilities predicted, or with 0.8 of them."""
    rng = np.random.default_rng(rotating_seed)
    for truth, state in ((1.0, "calibrated"), (0.6, "warning")):
        watch = made()
        for n in range(3000):
            p = rng.dirichlet(np.ones(4))[:3] * 0.8
            gave(watch, f"u{n}", f"a{n}", listed=[(f"i{i}", float(p[i])) for i in range(3)])
            choice = rng.choice(4, p=[*(truth * p), 1 - truth * p.sum()])
            watch.clicked(f"u{n}", f"i{choice}" if choice < 3 else "i40", T + 1, None)
        found = hour(watch)
        # A false alarm needs 3 points and 3 standard errors of 0.9 points: less than once in 10^8 runs.
        assert found["state"] == state
        for row in found["groups"]:
            if row["n"] > 300 and truth == 1.0:
                assert abs(row["predicted"] - row["observed"]) < 5.5 * np.sqrt(row["predicted"])
        assert ("do not rely" in found["text"]) == (state == "warning")


def test_few_lists_say_nothing():
    watch = made()
    for n in range(FEWEST - 1):
        gave(watch, f"u{n}", f"a{n}", listed=[("i1", 0.9)])
        watch.clicked(f"u{n}", "i2", T + 1, None)
    assert hour(watch)["state"] == "too few"
    assert "too few to evaluate" in hour(watch)["text"]
    gave(watch, "one more", "b", listed=[("i1", 0.9)])
    watch.clicked("one more", "i2", T + 1, None)
    assert hour(watch)["state"] == "warning"


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_LISTS", 50)
    watch = made()
    for n in range(200):
        gave(watch, f"u{n}", f"a{n}")
    assert watch.waiting == 50
    watch.clicked("u199", "i1", T + 1, None)
    watch.clicked("u0", "i1", T + 1, None)  # dropped long ago
    assert hour(watch)["lists"] == 1
    monkeypatch.setattr(module, "MOST_NUMBERS", 1000)
    gave(watch, "long", "long", clicked=[f"c{n}" for n in range(900)])
    assert watch.waiting < 5
    for minute in range(3 * 24 * 60):
        watch.clicked("x", "i1", T + minute * MINUTE, None)
    assert len(watch._minutes) == 24 * 60
    assert not watch._of_answer.keys() - {given.answer for given in watch._given.values()}
    for _ in range(module.MODELS + 5):
        watch.use(KNOWN)
    assert len(watch._new) == module.MODELS


def test_a_user_who_is_forgotten_has_no_list():
    watch = made()
    gave(watch)
    watch.forget("ann")
    watch.clicked("ann", "i1", T + 1, None)
    assert (watch.waiting, hour(watch)["lists"]) == (0, 0)
