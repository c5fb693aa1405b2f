"""Moments: what came next is inside the window, and nothing of it, nor of its time, is in a history."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcd import Clicks
from bmcd.blend import moments
from bmcd.blend.moments import Cut, cuts_between_users, cuts_in_time, moments_in, random_turns, share_outside
from bmcd.errors import InputError

HOUR = 3_600_000_000
START = pd.Timestamp("2026-03-01")


def timed(rng, n=120, n_users=8, n_items=9, minutes=4000):
    """A log with a clock, in which clicks often share a minute and items are clicked again."""
    frame = pd.DataFrame(
        {
            "user": rng.integers(0, n_users, n),
            "item": rng.integers(0, n_items, n),
            "time": START + pd.to_timedelta(rng.integers(0, minutes, n) // 10 * 10, unit="min"),
        }
    )
    return Clicks.from_frame(frame)


def owner_of(clicks):
    return np.repeat(np.arange(clicks.n_users), np.diff(clicks.starts))


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 4), st.booleans())
@settings(max_examples=60)
def test_histories_end_before_their_targets(seed, h, repeats):
    clicks = timed(np.random.default_rng(seed))
    times, owner = clicks.times.view(np.int64), owner_of(clicks)
    for cut in cuts_in_time(clicks, 12 * HOUR):
        found = moments_in(clicks, cut, h, 1000, seed, repeats)
        for m in range(found.n):
            user, (seen, running, end) = found.user[m], found.histories[m].tolist()
            targets = found.targets[found.target_start[m] : found.target_start[m + 1]].tolist()
            assert seen == clicks.starts[user]
            assert seen <= running <= end <= clicks.starts[user + 1]
            assert len(targets) == h
            own = np.flatnonzero((owner == user) & cut.inside)
            earlier = {int(item) for item in clicks.sequence[seen:end]}
            if not repeats:
                assert not earlier & {*targets}
                assert len({*targets}) == len(targets)
            # All that the history leaves out, down to the first target, has the time of the first target.
            new = [
                int(place)
                for place in own
                if repeats or clicks.sequence[place] not in clicks.sequence[seen:place].tolist()
            ]
            runs = [new[a : a + len(targets)] for a in range(len(new) - len(targets) + 1)]
            plain = [clicks.sequence[run].tolist() for run in runs]
            masked = [[x if x not in run[:i] else -1 for i, x in enumerate(run)] for run in plain]
            fitting = [
                run for run, items in zip(runs, masked if repeats else plain, strict=True) if items == targets
            ]
            assert fitting
            assert any(
                (times[seen:end] < times[run[0]]).all() and (times[end : run[0] + 1] == times[run[0]]).all()
                for run in fitting
            )
            sessions = clicks.sessions
            assert len({*sessions[running:end].tolist()}) <= 1
            assert running in (seen, end) or sessions[running - 1] != sessions[min(running, len(sessions) - 1)]


@given(seeds, st.integers(1, 4))
@settings(max_examples=40)
def test_users_with_enough_clicks_have_a_moment(seed, h):
    clicks = timed(np.random.default_rng(seed))
    cut = cuts_in_time(clicks, 24 * HOUR)[-1]
    found = moments_in(clicks, cut, h, 1000, seed, False)
    owner = owner_of(clicks)
    n_new = np.zeros(clicks.n_users, int)
    for user in range(clicks.n_users):
        seen = set()
        for place in range(clicks.starts[user], clicks.starts[user + 1]):
            item = int(clicks.sequence[place])
            n_new[user] += item not in seen and bool(cut.inside[place])
            seen.add(item)
    assert set(found.user.tolist()) == set(np.flatnonzero(n_new >= h).tolist())
    assert np.diff(found.target_start).tolist() == [h] * found.n
    assert (owner[found.histories[:, 0].clip(max=len(owner) - 1)] == found.user).all()
    assert moments.n_eligible(clicks, cut, h, False) == (n_new >= h).sum()


@given(seeds, st.integers(1, 60))
@settings(max_examples=60)
def test_cuts_of_a_log_with_a_clock(seed, hours):
    clicks = timed(np.random.default_rng(seed))
    times = clicks.times.view(np.int64)
    length = hours * HOUR
    if length > times.max() - times.min():
        with pytest.raises(InputError, match="is longer than the log"):
            cuts_in_time(clicks, length)
        return
    cuts = cuts_in_time(clicks, length)
    assert 1 <= len(cuts) <= moments.MOST_CUTS
    assert cuts[-1].inside[times == times.max()].all()
    ages = [cut.hours for cut in cuts]
    assert ages == sorted(ages, reverse=True)
    for cut in cuts:
        assert not (cut.before & cut.inside).any()
        assert cut.before.any()
        assert cut.inside.any()
        assert times[cut.before].max() < times[cut.inside].min()
        assert np.ptp(times[cut.inside]) < length
        at = times.max() - cut.hours * HOUR  # members are asked at the cut
        assert (times[cut.before] < at + 1e-3).all()
        assert (times[cut.inside] >= at - 1e-3).all()
    for one, other in pairwise(cuts):  # no click is counted twice
        assert not (one.inside & other.inside).any()
    thirds = times.min() + (times.max() - times.min()) / 3
    for cut in cuts[:-1]:
        assert times[cut.inside].max() >= thirds - length


def test_short_windows_are_spread_over_the_last_day():
    rng = np.random.default_rng(0)
    clicks = timed(rng, 3000, minutes=6 * 1440)
    ages = [round(cut.hours, 1) for cut in cuts_in_time(clicks, HOUR)]
    assert len(ages) == moments.MOST_CUTS
    assert ages[-3:] == [3.0, 2.0, 1.0]
    assert ages[0] == pytest.approx(25, abs=0.1)


@given(seeds, st.sampled_from([1, 5, 24, 40]))
@settings(max_examples=40)
def test_the_share_outside_by_a_loop(seed, hours):
    clicks = timed(np.random.default_rng(seed), n_items=40)
    times = clicks.times.view(np.int64)
    for cut in cuts_in_time(clicks, hours * HOUR, 3):
        end = int(times.max()) - int(cut.hours * HOUR)
        first = {}
        for item, time in zip(clicks.sequence.tolist(), times.tolist(), strict=True):
            first[item] = min(first.get(item, time), time)
        outside, n = 0, 0
        for item, time in zip(clicks.sequence.tolist(), times.tolist(), strict=True):
            if end - max(24, hours) * HOUR <= time < end:
                begin = end
                while begin > time:
                    begin -= hours * HOUR
                n += 1
                outside += first[item] >= begin
        assert share_outside(clicks, cut, float(hours)) == pytest.approx(outside / n if n else 1e-4)


def test_order_only():
    """Members see all clicks of the earlier users, and weights come from random points of the later fifth."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"user": np.repeat(np.arange(500), 4), "item": rng.integers(0, 30, 2000)})
    clicks = Clicks.from_frame(frame, order="rows")
    cuts = cuts_between_users(clicks)
    owner = owner_of(clicks)
    assert [cut.label for cut in cuts] == ["later users 1/2", "later users 2/2"]
    inside = [set(owner[cut.inside].tolist()) for cut in cuts]
    assert not inside[0] & inside[1]
    assert inside[0] | inside[1] == set(range(400, 500))
    ends = []
    for cut in cuts:
        assert set(owner[cut.before].tolist()) == set(range(400))
        found = moments_in(clicks, cut, 1, 1000, 0, False)
        assert found.n >= 50
        ends += (found.histories[:, 2] - found.histories[:, 0]).tolist()
        assert (found.histories[:, 0] == found.histories[:, 1]).all()  # the user is one session
    assert {0, 1, 2, 3} == set(ends)  # first clicks too
    with pytest.raises(InputError, match="a single user"):
        cuts_between_users(Clicks.from_frame(frame[:4], order="rows"))


@pytest.mark.chance(1e-5)
def test_points_are_uniform(rotating_seed, times):
    """Every point of a history is as probable: chi-square with 4 degrees of freedom, one failure in 200,000."""
    n_users = 4000 * times
    frame = pd.DataFrame({"user": np.repeat(np.arange(n_users), 5), "item": np.tile(np.arange(5), n_users)})
    clicks = Clicks.from_frame(frame, order="rows")
    cut = Cut(np.zeros(5 * n_users, bool), np.ones(5 * n_users, bool), None, "")
    found = moments_in(clicks, cut, 1, n_users, rotating_seed, False)
    counts = np.bincount(found.histories[:, 2] - found.histories[:, 0], minlength=5)
    assert counts.sum() == n_users
    assert ((counts - n_users / 5) ** 2 / (n_users / 5)).sum() < 30


def test_a_second_click_on_a_target_counts_as_outside():
    frame = pd.DataFrame({"user": [1, 1, 1, 1, 2, 2], "item": [*"abbaab"]})
    clicks = Clicks.from_frame(frame, order="rows")
    cut = Cut(np.zeros(6, bool), np.ones(6, bool), None, "")
    found = moments_in(clicks, cut, 4, 1, 0, True)
    assert found.targets.tolist() == [0, 1, -1, -1]


def test_clicks_at_the_same_time_are_not_known():
    rows = [("u", "a", 0), ("u", "b", 5), ("u", "c", 5), ("u", "d", 9), ("v", "a", 1), ("v", "b", 9)]
    frame = pd.DataFrame(rows, columns=["user", "item", "time"])
    frame["time"] = START + pd.to_timedelta(frame["time"], unit="min")
    clicks = Clicks.from_frame(frame)
    until = moments.histories_until(clicks, np.arange(4), np.zeros(4, np.int64))
    assert until.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 3]]


def test_sessions_that_are_over():
    """Recommendations are those of the last click of the log: who clicked an hour ago has no running session."""
    rows = [
        ("old", "a", 0),
        ("old", "b", 1),
        ("new", "a", 0),
        ("new", "b", 100),
        ("new", "c", 101),
        ("none", "a", 200),
    ]
    frame = pd.DataFrame(rows[:5], columns=["user", "item", "time"])
    frame["time"] = START + pd.to_timedelta(frame["time"], unit="min")
    clicks = Clicks.from_frame(frame)
    users = np.array([clicks.users.tolist().index(user) for user in ("old", "new")])
    for as_of, wanted in ((True, [(0, 2, 2), (0, 1, 3)]), (False, [(0, 0, 2), (0, 1, 3)])):
        found = moments.histories_now(clicks, users, as_of)
        assert [tuple(row) for row in (found - found[:, :1]).tolist()] == wanted
    marked = replace(clicks, session_over=np.arange(clicks.n_users) == users[1])
    found = moments.histories_now(marked, users, False)
    assert [tuple(row) for row in (found - found[:, :1]).tolist()] == [(0, 0, 2), (0, 3, 3)]
    assert marked.of_users(users).session_over.tolist() == [False, True]


@given(seeds)
@settings(max_examples=40)
def test_random_turns(seed):
    """Each click that is held out is held out once, and everybody keeps two."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((60, 12)) < rng.uniform(0.1, 0.9)
    matrix[:5, :3] = True
    clicks = Clicks.from_matrix(matrix)
    whole = clicks.matrix.toarray()
    turns = random_turns(clicks, seed)
    assert len(turns) <= 2
    out = np.zeros(whole.shape, int)
    for turn in turns:
        left, train = turn.moments, turn.train.matrix.toarray()
        taken = np.zeros(whole.shape, bool)
        for m in range(left.n):
            seen, running, end = left.histories[m].tolist()
            assert seen == running
            assert set(turn.train.sequence[seen:end]) == set(np.flatnonzero(train[left.user[m]]))
            taken[left.user[m], left.targets[left.target_start[m] : left.target_start[m + 1]]] = True
        assert (taken == (whole & ~train)).all()
        assert (taken | train == whole).all()
        out += taken
        assert (train.sum(axis=1)[left.user] >= 2).all()
    assert out.max(initial=0) <= 1
    again = random_turns(clicks, seed)
    assert [turn.train for turn in again] == [turn.train for turn in turns]


def test_some_of_the_moments():
    matrix = np.random.default_rng(0).random((200, 30)) < 0.4
    turn = random_turns(Clicks.from_matrix(matrix), 0)[0]
    some = moments.some_of(turn.moments, 13)
    assert some.n == 13
    every = {
        int(u): turn.moments.targets[a:b].tolist()
        for u, a, b in zip(
            turn.moments.user, turn.moments.target_start, turn.moments.target_start[1:], strict=False
        )
    }
    for m, user in enumerate(some.user.tolist()):
        assert some.targets[some.target_start[m] : some.target_start[m + 1]].tolist() == every[user]
    assert moments.some_of(turn.moments, 10**6) is turn.moments
