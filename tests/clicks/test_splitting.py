"""Splits of an ordered log, against slow and obvious ones in plain Python."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcd import Clicks
from bmcd.clicks import splitting
from bmcd.errors import ClicksError, InputError

DAY = 86_400
START = 1_700_000_000


def log(rows, **options):
    return Clicks.from_frame(pd.DataFrame(rows, columns=["user", "item", "time"]), **options)


def by_user(clicks):
    """Each user's items in order, None for an item outside."""
    ids = [*clicks.items.tolist(), None]  # -1 is the last
    return {
        user: [ids[item] for item in clicks.sequence[clicks.starts[row] : clicks.starts[row + 1]].tolist()]
        for row, user in enumerate(clicks.users.tolist())
    }


# Every click has a time of its own, so that there is one order.
@st.composite
def logs(draw):
    n = draw(st.integers(4, 40))
    users = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    items = draw(st.lists(st.sampled_from("abcdef"), min_size=n, max_size=n))
    times = draw(st.permutations(range(n)))
    return [(u, i, START + t * 600) for u, i, t in zip(users, items, times, strict=True)]


def sequences(rows):
    found = {}
    for user, item, _ in sorted(rows, key=lambda row: row[2]):
        found.setdefault(user, []).append(item)
    return found


@given(logs(), st.integers(1, 39), st.integers(1, 4), st.booleans(), st.randoms())
@settings(deadline=None, max_examples=80)
def test_split_at_is_the_slow_one_whatever_the_order_of_the_rows(rows, at, k, repeats, random):
    cut = START + at * 600
    random.shuffle(rows)
    before = [row for row in rows if row[2] < cut]
    if not before or len(before) == len(rows):
        with pytest.raises(ClicksError, match="Choose a time in between"):
            log(rows).split_at(cut, k, repeats=repeats)
        return
    train, test = log(rows).split_at(cut, k, repeats=repeats)
    assert by_user(train) == sequences(before)
    known, expected, n_new = {item for _, item, _ in before}, {}, 0
    for user, own in sequences(rows).items():
        n_before = len(sequences(before).get(user, []))
        later = [
            item for place, item in enumerate(own) if place >= n_before and (repeats or item not in own[:place])
        ][:k]
        if user in sequences(before):
            expected[user] = [item if item in known else None for item in later]
        else:
            n_new += bool(later)
    assert by_user(test) == expected
    assert test.n_outside == sum(own.count(None) for own in expected.values())
    assert test.n_new_users == n_new
    assert train.items.tolist() == test.items.tolist()
    assert set(train.items.tolist()) == known


FILTERS = {
    "at_least": lambda clicks: clicks.at_least(2),
    "most_clicked": lambda clicks: clicks.most_clicked(min(4, clicks.n_items)),
    "of_users": lambda clicks: clicks.of_users(clicks.users.astype(int) % 2 == 0),
    "of_items": lambda clicks: clicks.of_items(np.array([item < "e" for item in clicks.items], bool)),
}


@given(logs(), st.permutations(sorted(FILTERS)), st.integers(1, 4), st.integers(1, 39))
@settings(deadline=None, max_examples=80)
def test_filters_and_splits_in_any_order_keep_every_sequence_as_it_was(rows, names, n_filters, at):
    clicks = log(rows)
    whole = by_user(clicks)
    try:
        for name in names[:n_filters]:
            clicks = FILTERS[name](clicks)
            if not len(clicks.sequence):
                return
        kept = set(clicks.items.tolist())
        filtered = by_user(clicks)
        assert all(own == [item for item in whole[user] if item in kept] for user, own in filtered.items())
        train, test = clicks.split_at(START + at * 600, k=100, repeats=True)
    except ClicksError:  # a filter or the split leaves nothing
        return
    inside = set(train.items.tolist())
    for user, own in by_user(train).items():
        later = [item if item in inside else None for item in filtered[user][len(own) :]]
        assert filtered[user][: len(own)] == own
        assert by_user(test)[user] == later


@given(logs(), st.integers(1, 39), st.integers(1, 3), st.booleans())
@settings(deadline=None, max_examples=60)
def test_users_and_splits_commute(rows, at, k, repeats):
    clicks = log(rows)
    some = clicks.users.astype(int) % 2 == 0
    cut = START + at * 600
    try:
        first, last = (
            clicks.of_users(some).split_at(cut, k, repeats=repeats),
            clicks.split_at(cut, k, repeats=repeats),
        )
    except ClicksError:
        return
    few, many = by_user(first[0]), by_user(last[0])
    assert few == {user: many[user] for user in few}
    inside = set(first[0].items.tolist())  # items that only others clicked are outside for these users alone
    many = by_user(last[1])
    assert by_user(first[1]) == {
        user: [item if item in inside else None for item in many[user]] for user in by_user(first[1])
    }


@given(logs(), st.integers(1, 3), st.integers(0, 5), st.booleans())
@settings(deadline=None, max_examples=60)
def test_moments_cut_each_user_between_two_clicks_and_do_not_depend_on_other_users(rows, k, seed, repeats):
    clicks = log(rows)
    whole = by_user(clicks)
    n_next = {user: len(own) if repeats else len(set(own)) for user, own in whole.items()}
    if max(n_next.values()) <= k:
        with pytest.raises(ClicksError, match="no user has more than"):
            clicks.moments(k, seed, repeats=repeats)
        return
    histories, test = clicks.moments(k, seed, repeats=repeats)
    assert sorted(histories.users.tolist()) == sorted(user for user, n in n_next.items() if n > k)
    for user, own in by_user(histories).items():
        rest = whole[user][len(own) :]
        new = rest if repeats else [item for place, item in enumerate(rest) if item not in own + rest[:place]]
        assert own == whole[user][: len(own)]
        assert own
        assert by_user(test)[user] == new[:k]
        assert len(new) >= k
    alone = clicks.of_users([clicks.rows_of(histories.users[:1].tolist())[0]]).moments(k, seed, repeats=repeats)
    assert by_user(alone[0]) == dict(list(by_user(histories).items())[:1])


def test_every_moment_is_equally_likely():
    """300 users with 4 clicks, k=1: three moments; |z| < 5, false alarm 2e-6."""
    rows = [(u, item, START + 9 * u + n) for u in range(300) for n, item in enumerate("abcd")]
    lengths = np.diff(log(rows).moments(1, seed=4)[0].starts)
    for length in (1, 2, 3):
        assert abs((lengths == length).sum() - 100) < 5 * np.sqrt(300 * 2 / 9)


def days(n_days=6, n_users=20, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (int(u), f"i{rng.integers(15)}", START + d * DAY + int(rng.integers(DAY)))
        for d in range(n_days)
        for u in rng.integers(n_users, size=30)
    ]


@pytest.mark.parametrize("at", ["moment", "cut"])
@pytest.mark.parametrize("repeats", [False, True])
def test_a_window_is_what_a_slow_reading_of_the_log_gives(at, repeats):
    rows = days()
    clicks = log(rows)
    whole = {}
    for user, item, time in sorted(set(rows), key=lambda row: row[2]):
        whole.setdefault(user, []).append((item, time))
    windows = list(splitting.time_windows(clicks, 3, "1d", 2, at, seed=1, repeats=repeats))
    assert len(windows) == 3
    last = max(row[2] for row in rows)
    for number, window in enumerate(windows):
        begin = last - (3 - number) * DAY  # the end is a microsecond after the last click
        known = {item for _, item, time in rows if time <= begin}
        assert set(window.train.items.tolist()) == known
        assert by_user(window.train) == {
            user: found for user, own in whole.items() if (found := [item for item, time in own if time <= begin])
        }
        assert window.histories.users.tolist() == window.test.users.tolist()
        histories, tests = by_user(window.histories), by_user(window.test)
        for user, own in whole.items():
            items = [item for item, _ in own]
            inside = [
                place
                for place, (item, time) in enumerate(own)
                if begin < time <= begin + DAY and (repeats or item not in items[:place])
            ]
            if not inside:
                assert user not in tests
                continue
            n_known = len(histories[user])
            mask = [item if item in known else None for item in items]
            assert histories[user] == mask[:n_known]
            following = [place for place in inside if place >= n_known][:2]
            assert tests[user] == [mask[place] for place in following]
            assert tests[user]
            if at == "cut":
                assert n_known == sum(time <= begin for _, time in own)
                assert window.histories.session_over is None
            else:
                over = window.histories.session_over[window.histories.users.tolist().index(user)]
                assert over == (n_known > 0 and own[n_known][1] - own[n_known - 1][1] > 30 * 60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cuts": 0}, "cuts must be a whole number"),
        ({"cuts": 6}, "Use at most 5 cuts"),
        ({"window": "7d"}, "longer than the log"),
        ({"window": "0d"}, "must be a duration"),
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"at": "noon"}, "at must be 'moment' or 'cut'"),
        ({"cuts": ["2020-01-01"]}, "outside the log"),
        ({"cuts": ["2030-01-01"]}, "outside the log"),
        ({"cuts": []}, "cuts must be a number"),
        ({"cuts": "2023-11-16"}, "cuts must be a number"),
    ],
)
def test_windows_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        splitting.time_windows(log(days()), **{"cuts": 2, "window": "1d", "horizon": 2, **options})


def test_cuts_at_given_times():
    windows = splitting.time_windows(log(days()), ["2023-11-17", "2023-11-16 12:00"], "6h", 1)
    assert [window.label for window in windows] == ["2023-11-16 12:00:00", "2023-11-17 00:00:00"]


def test_times_without_a_clock_have_no_windows():
    clicks = log([(u, i, 10 * u + n) for u in range(8) for n, i in enumerate("abc")])
    with pytest.raises(ClicksError, match="no clock"):
        splitting.time_windows(clicks, 2, "1d", 1)
    with pytest.raises(ClicksError, match="no order"):
        splitting.user_windows(Clicks.from_matrix(np.eye(4)), 2, 1)


@pytest.mark.parametrize("cuts", [2, [0.5, 0.75]])
def test_cuts_between_users(cuts):
    rows = [(u, item, 0) for u in range(8) for item in ("abc" if u < 6 else "bcd")]
    clicks = log(rows, order="rows")
    windows = list(splitting.user_windows(clicks, cuts, 2, seed=3))
    assert [window.label for window in windows] == ["50% of users", "75% of users"]
    assert [window.train.users.tolist() for window in windows] == [list(range(4)), list(range(6))]
    assert [window.test.users.tolist() for window in windows] == [[4, 5], [6, 7]]
    for user, own in by_user(windows[1].histories).items():
        followed = by_user(windows[1].test)[user]
        assert (own + followed)[:3] == ["b", "c", None][: len(own + followed)]
        assert 1 <= len(followed) <= 2
    with pytest.raises(InputError, match="Use at most 4 cuts"):
        splitting.user_windows(clicks, 9, 1)
    with pytest.raises(InputError, match="share"):
        splitting.user_windows(clicks, [0.5, 1.5], 1)


def test_it_is_known_which_clicks_followed():
    clicks = log(days(seed=3)).at_least(6)

    def follows(train, test):
        return splitting.are_next_clicks(test, train, train.rows_of(test.users))

    assert not follows(*clicks.hold_out(2))
    assert follows(*clicks.hold_out(2, by="time"))
    assert follows(*clicks.split_at("2023-11-18", 2))
    assert follows(*clicks.moments(2))
    # Read from files, their times tell.
    random, last = (tuple(part.as_test("") for part in clicks.hold_out(2, by=by)) for by in ("chance", "time"))
    assert not follows(*random)
    assert follows(*last)
    assert not follows(*Clicks.from_matrix(np.ones((3, 4))).hold_out(1))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdef"), st.integers(0, 4)), min_size=4, max_size=40)
)
@settings(deadline=None, max_examples=80)
def test_no_moment_lies_between_clicks_at_the_same_time(rows):
    """Days instead of times: what was clicked on the day of the first test click was not known before it."""
    clicks = log([(user, item, START + day * DAY) for user, item, day in rows])
    firsts = {}
    for user, item, day in sorted(set(rows), key=lambda row: row[2]):
        firsts.setdefault(user, {}).setdefault(item, day)
    n_days = {user: len({day for other, _, day in rows if other == user}) for user in firsts}
    try:
        histories, test = clicks.moments(1, seed=1)
    except ClicksError:
        assert all(len(own) < 2 or len(set(own.values())) < 2 for own in firsts.values())
        return
    parts = [(histories, test)]
    if (clicks.times > clicks.times.min()).any():
        parts += [(window.histories, window.test) for window in splitting.time_windows(clicks, 1, "1d", 2, seed=2)]
    for known, after in parts:
        assert known.users.tolist() == after.users.tolist()
        for row, user in enumerate(after.users.tolist()):
            own = known.times[known.starts[row] : known.starts[row + 1]]
            next_one = after.times[after.starts[row] : after.starts[row + 1]]
            assert not len(own) or own.max() < next_one.min()
            everything = clicks.times[clicks.starts[(at := clicks.rows_of([user])[0])] : clicks.starts[at + 1]]
            assert len(own) == (everything < next_one.min()).sum()
    assert set(histories.users.tolist()) <= {user for user, n in n_days.items() if n > 1}
    assert np.diff(histories.starts).min() > 0


def test_a_log_that_filters_have_emptied_cannot_be_split():
    nobody = log([(1, "a", START), (1, "b", START + 5)]).of_users([])
    for split in (lambda: nobody.split_at(START, 1), lambda: list(splitting.time_windows(nobody, 1, "1d", 1))):
        with pytest.raises(ClicksError, match="needs clicks, but the log has none"):
            split()
    with pytest.raises(ClicksError, match="the most any user has is 0"):
        nobody.at_least(1)
    with pytest.raises(ClicksError, match="the most any user has is 0"):
        nobody.moments(1)
    with pytest.raises(InputError, match="of 0 users leaves no users on one side"):
        nobody.split_users()
