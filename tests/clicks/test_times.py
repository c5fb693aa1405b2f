"""When clicks happened: read from everything that says so, kept with its click, used to hold out the last ones."""

import pickle
from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.clicks import text_rows
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_clicks
from bmcd.errors import ClicksError

DAYS = pd.to_datetime(
    ["2024-03-01 10:00", "2024-01-01", "2024-02-01 09:30:00.5", "2024-03-01 08:00"], format="ISO8601"
)
FRAME = pd.DataFrame({"user": ["ann", "ann", "bob", "ann"], "item": [7, 8, 7, 7], "when": DAYS})
ISO = ["2024-03-01 10:00", "2024-01-01", "2024-02-01T09:30:00.5Z", "2024-03-01T09:00:00+01:00"]


def times_of(clicks):
    rows, columns = clicks.matrix.nonzero()
    pairs = zip(clicks.users[rows].tolist(), clicks.items[columns].tolist(), strict=True)
    return dict(zip(pairs, clicks.times.tolist(), strict=True))


def first_times(rows):
    first = {}
    for user, item, time in rows:
        first[user, item] = min(first.get((user, item), time), time)
    return first


@pytest.fixture
def write(tmp_path):
    def written(name, data):
        path = tmp_path / name
        if isinstance(data, pd.DataFrame):
            pq.write_table(pa.Table.from_pandas(data), path)
        else:
            path.write_text(data, encoding="utf-8")
        return path

    return written


@pytest.mark.parametrize(
    "when",
    [
        DAYS,
        DAYS.tz_localize("UTC").tz_convert("Europe/Oslo"),
        DAYS.as_unit("ms"),
        ISO,
        pd.Series(DAYS.tz_localize("UTC").to_pydatetime(), dtype=object),
        pd.array(ISO, dtype="string"),
    ],
    ids=["dates", "zone", "unit", "text", "objects", "string"],
)
@pytest.mark.parametrize("kind", ["pandas", "parquet", "polars", "pyarrow", "csv"])
def test_dates_of_every_kind(write, require, when, kind):
    frame = FRAME.assign(when=when)
    options = {"time_column": "when"}
    if kind == "pandas":
        clicks = Clicks.from_frame(frame, **options)
    elif kind == "polars":
        clicks = Clicks.from_frame(require("polars").from_pandas(frame), **options)
    elif kind == "pyarrow":
        clicks = Clicks.from_frame(pa.Table.from_pandas(frame), **options)
    elif kind == "parquet":
        clicks = read_clicks(write("log.parquet", frame), **options)
    else:
        clicks = read_clicks(write("log.csv", frame.to_csv(index=False)), **options)
    assert clicks.times.dtype == "datetime64[us]"
    assert times_of(clicks) == {
        ("ann", 7): datetime(2024, 3, 1, 8),  # the earlier of two
        ("ann", 8): datetime(2024, 1, 1),
        ("bob", 7): datetime(2024, 2, 1, 9, 30, 0, 500_000),
    }
    assert clicks.n_repeated == 1
    assert "times: 2024-01-01 00:00:00 to 2024-03-01 08:00:00" in str(clicks.summary())


@pytest.mark.parametrize(
    ("when", "dtype"),
    [
        ([5, 3, 9, 1], np.int64),
        ([1_700_000_000_123_456_789, 3, 9, 1_700_000_000_123_456_788], np.int64),
        ([0.5, -3.25, 9.0, 0.25], np.float64),
        ([date(2024, 1, 2), date(2024, 1, 3), date(1969, 1, 1), date(2023, 1, 1)], "datetime64[us]"),
    ],
)
def test_numbers_and_days(write, when, dtype):
    frame = FRAME.assign(when=pd.Series(when))
    text = frame.to_csv(index=False)
    for clicks in (
        Clicks.from_frame(frame, time_column="when"),
        read_clicks(write("log.parquet", frame), time_column="when"),
        read_clicks(write("log.csv", text), time_column="when"),
    ):
        assert clicks.times.dtype == dtype
        want = [datetime(*t.timetuple()[:3]) if isinstance(t, date) else t for t in when]
        assert times_of(clicks) == first_times(zip(FRAME["user"], FRAME["item"], want, strict=True))


@pytest.mark.parametrize("piece", [1, 2, 1 << 16])
def test_what_is_no_time_is_named_by_its_line(write, monkeypatch, piece):
    monkeypatch.setattr(text_rows, "PIECE", piece)
    head = 'user,item,when\n"ann\nb",7,'
    for lines, line, said in (
        ("1\nbob,7,2024-01-01\n", 4, "the time '2024-01-01' is not a number, as those before it are. Times are"),
        ("2024-01-01\nbob,7,yesterday\n", 4, "the time 'yesterday' cannot be read. Times are numbers, or dates"),
        ("31/12/2024\n", 2, "the time '31/12/2024' cannot be read"),
        ("nan\n", 2, "the time 'nan' cannot be read"),
        ("2024-01-01\nbob,7, \nbob,8,x\n", 4, "the time is empty. Every row needs a time. Leave out those without"),
        ("2024-13-01\n", 2, "the time '2024-13-01' cannot be read"),
    ):
        with pytest.raises(ClicksError) as caught:
            read_clicks(write("log.csv", head + lines), time_column="when")
        assert said in str(caught.value)
        assert (caught.value.line, caught.value.column) == (line, 3)


@pytest.mark.parametrize("piece", [1, 2, 1 << 16])
@pytest.mark.parametrize("times", [["1", "", "2.5", " "], ["", "2024-01-01", "", "2024-01-02"]])
def test_rows_without_a_time_may_be_dropped(write, monkeypatch, piece, times):
    monkeypatch.setattr(text_rows, "PIECE", piece)
    text = "user,item,when\n" + "".join(f"u{n},{n},{time}\n" for n, time in enumerate(times))
    frame = pd.DataFrame({"user": ["u0", "u1", "u2", "u3"], "item": range(4), "when": times}).replace(" ", "")
    for clicks in (
        read_clicks(write("log.csv", text), time_column="when", missing="drop"),
        Clicks.from_frame(frame.replace("", None), time_column="when", missing="drop"),
    ):
        assert clicks.users.tolist() == [f"u{n}" for n, time in enumerate(times) if time.strip()]
        assert clicks.history == ("dropped 2 of 4 rows: 2 without a time",)
        assert not pd.isna(clicks.times).any()


def test_frames_with_wrong_times():
    for when, said in (
        (
            [1.0, np.nan, 2.0, 3.0],
            "row 1, column when: the time is missing (rows count from 0). Every row needs a time",
        ),
        (["2024-01-01", "x", "y", "z"], "row 1, column when: the time 'x' cannot be read"),
        ([True, False, True, True], "the column 'when' holds bool. Times are numbers, or dates"),
        ([(1,), (2,), (3,), (4,)], "the column 'when' holds mixed. Times are"),
    ):
        with pytest.raises(ClicksError) as caught:
            Clicks.from_frame(FRAME.assign(when=when), time_column="when")
        assert said in str(caught.value)
    with pytest.raises(ClicksError, match="there is no column 'then'"):
        Clicks.from_frame(FRAME, time_column="then")
    with pytest.raises(ClicksError, match="user and time_column are both 'user'"):
        Clicks.from_frame(FRAME, time_column="user")


logs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=40)


@given(logs, st.integers(1, 3), st.integers(0, 5))
def test_the_last_clicks_of_each_user_are_held_out(rows, k, seed):
    frame = pd.DataFrame(rows, columns=["user", "item", "when"])
    clicks, first = Clicks.from_frame(frame, time_column="when"), first_times(rows)
    assert times_of(clicks) == first
    if clicks.per_user.max() <= k:
        with pytest.raises(ClicksError, match="no user has at least"):
            clicks.hold_out(k, seed, by="time", too_few="drop")
        return
    train, test = clicks.hold_out(k, seed, by="time", too_few="drop")
    held, left = times_of(test), times_of(train)
    enough = set(train.users.tolist())
    assert held | left == {pair: time for pair, time in first.items() if pair[0] in enough}
    assert not set(held) & set(left)
    for user in enough:
        assert sum(pair[0] == user for pair in held) == k
        latest = max(time for pair, time in left.items() if pair[0] == user)
        assert latest <= min(time for pair, time in held.items() if pair[0] == user)
    assert test == clicks.hold_out(k, seed, by="time", too_few="drop")[1]


@given(logs, st.data())
def test_times_stay_with_their_clicks(rows, data):
    clicks = Clicks.from_frame(pd.DataFrame(rows, columns=["user", "item", "when"]), time_column="when")
    first = times_of(clicks)
    few = clicks.most_clicked(data.draw(st.integers(1, clicks.n_items)))
    some = few.of_users(data.draw(st.permutations(range(few.n_users)))[: data.draw(st.integers(1, few.n_users))])
    for part in (few, some, few.at_least(1), clicks.with_titles({clicks.items[0]: "First"})):
        assert times_of(part) == {pair: first[pair] for pair in times_of(part)}
        assert len(times_of(part)) == part.n_clicks
    again = Clicks.from_frame(clicks.to_frame(), time_column="time")
    assert times_of(again) == first
    assert clicks_of_histories(clicks, clicks).times is None


def test_ties_are_left_to_chance():
    clicks = Clicks.from_codes(
        np.repeat(np.arange(2000), 4), np.tile(np.arange(4), 2000), np.arange(2000), np.arange(4), np.ones(8000)
    )
    counts = clicks.hold_out(1, seed=2, by="time")[1].per_item
    assert abs(counts - 500).max() < 110  # standard deviation 19
    assert clicks.hold_out(1, seed=2, by="time")[1] != clicks.hold_out(1, seed=3, by="time")[1]


def test_holding_out_by_time_says_so_and_needs_times():
    clicks = Clicks.from_frame(FRAME, time_column="when").at_least(2)
    train, test = clicks.hold_out(1, by="time")
    assert train.items[train.matrix.indices].tolist() == [8]
    assert train.history[-1] == "held out the last 1 clicks of each user by time (seed 0 where times are equal)"
    assert (
        test.history[-1]
        == "kept only the last 1 held-out clicks of each user by time (seed 0 where times are equal)"
    )
    with pytest.raises(
        ClicksError, match=r"there are no times to hold out the last clicks by. .* time_column='...'"
    ):
        Clicks.from_frame(FRAME).hold_out(1, by="time")
    with pytest.raises(ClicksError, match="by 'chance' or 'time'"):
        clicks.hold_out(1, by="random")


def test_times_change_neither_fingerprint_nor_equality():
    plain, timed = Clicks.from_frame(FRAME), Clicks.from_frame(FRAME, time_column="when")
    assert plain == timed
    assert plain.fingerprint() == timed.fingerprint()
    # As it was before clicks had times.
    assert plain.fingerprint() == "6e9c0ddb455725e501d2e2b235cf12d806217d4ae5fa84822308df57ff97540a"
    assert times_of(pickle.loads(pickle.dumps(timed))) == times_of(timed)
    with pytest.raises(ValueError, match="2 times for 3 clicks"):
        Clicks(timed.users, timed.items, timed.matrix, times=timed.times[:2])


def test_a_frame_with_times_is_written_and_read(write):
    clicks = Clicks.from_frame(FRAME, time_column="when")
    path = write("again.csv", clicks.to_frame().to_csv(index=False))
    assert times_of(read_clicks(path, time_column="time")) == times_of(clicks)
