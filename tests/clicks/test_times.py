"""Times of clicks: read from every kind of column, kept with the click, used to hold out the last clicks."""

import pickle
from dataclasses import replace
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.clicks import decoding
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_clicks
from bmcd.clicks.sequences import owners
from bmcd.clicks.times import read_time
from bmcd.errors import ClicksError, InputError

DAYS = pd.to_datetime(
    ["2024-03-01 10:00", "2024-01-01", "2024-02-01 09:30:00.5", "2024-03-01 08:00"], format="ISO8601"
)
FRAME = pd.DataFrame({"user": ["ann", "ann", "bob", "ann"], "item": [7, 8, 7, 7], "when": DAYS})
ISO = ["2024-03-01 10:00", "2024-01-01", "2024-02-01T09:30:00.5Z", "2024-03-01T09:00:00+01:00"]


def rows_of(clicks):
    users = clicks.users[owners(clicks.starts)].tolist()
    return list(zip(users, clicks.items[clicks.sequence].tolist(), clicks.times.tolist(), strict=True))


def times_of(clicks):
    return first_times(rows_of(clicks))


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
    assert "times: 2024-01-01 00:00:00 to 2024-03-01 10:00:00" in str(clicks.summary())


@pytest.mark.parametrize(
    ("when", "dtype"),
    [
        ([5, 3, 9, 1], np.int64),
        ([99_999_999, -3, 0, 99_999_998], np.int64),
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


@pytest.mark.parametrize("chunk", [64, decoding.CHUNK])
def test_what_is_no_time_is_named_by_its_line(write, monkeypatch, chunk):
    monkeypatch.setattr(decoding, "CHUNK", chunk)
    head = 'user,item,when\n"ann\nb",7,'
    for lines, line, said in (
        ("1\nbob,7,2024-01-01\n", 4, "the time '2024-01-01' is not a number, as those before it are. Times are"),
        ("2024-01-01\nbob,7,yesterday\n", 4, "the time 'yesterday' cannot be read. Times are numbers, or dates"),
        ("31/12/2024\n", 2, "the time '31/12/2024' cannot be read"),
        ("nan\n", 2, "the time 'nan' cannot be read"),
        ("1\nbob,7,1_0\n", 4, "the time '1_0' is not a number, as those before it are"),
        ("1_0\n", 2, "the time '1_0' cannot be read"),
        ("2024-01-01\nbob,7,now\n", 4, "the time 'now' cannot be read"),
        ("2024-01-01\nbob,7,today\n", 4, "the time 'today' cannot be read"),
        ("-0044-03-15\n", 2, "the time -044-03-15 00:00:00 is not in the years 1 to 9999"),
        ("1\nbob,7,0x1F\n", 4, "the time '0x1F' is not a number"),
        ("1\nbob,7,inf\n", 4, "the time 'inf' is not a number"),
        ("1\nbob,7,\u0661\n", 4, "the time '\u0661' is not a number"),
        ("2024-01-01\nbob,7,2024-02-30\n", 4, "the time '2024-02-30' cannot be read"),
        (
            "1700000000\nbob,7,1700000000000\n",
            4,
            "would be milliseconds since 1970, but 1700000000 before it is sec",
        ),
        ("1700000000\nbob,7,0\n", 4, "the time 0 would be a number without a clock, but 1700000000 before it"),
        ("2024-01-01\nbob,7, \nbob,8,x\n", 4, "the time is empty. Every row needs a time. Leave out those without"),
        ("2024-13-01\n", 2, "the time '2024-13-01' cannot be read"),
    ):
        with pytest.raises(ClicksError) as caught:
            read_clicks(write("log.csv", head + lines), time_column="when")
        assert said in str(caught.value)
        assert (caught.value.line, caught.value.column) == (line, 3)


@pytest.mark.parametrize("chunk", [64, decoding.CHUNK])
@pytest.mark.parametrize("times", [["1", "", "2.5", " "], ["", "2024-01-01", "", "2024-01-02"]])
def test_rows_without_a_time_may_be_dropped(write, monkeypatch, chunk, times):
    monkeypatch.setattr(decoding, "CHUNK", chunk)
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
    assert rows_of(clicks_of_histories(clicks, clicks)) == rows_of(clicks)


def test_ties_are_left_to_chance():
    clicks = Clicks.from_codes(
        *(np.repeat(np.arange(2000), 4), np.tile(np.arange(4), 2000), np.arange(2000), np.arange(4)),
        times=np.ones(8000),
        order="time",
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
        ClicksError, match=r"the log has no order, so it has no last clicks.* time_column='...' or order='rows'"
    ):
        Clicks.from_frame(FRAME).hold_out(1, by="time")
    with pytest.raises(ClicksError, match="by 'chance' or 'time'"):
        clicks.hold_out(1, by="random")


def test_times_are_part_of_fingerprint_and_equality():
    plain, timed = Clicks.from_frame(FRAME), Clicks.from_frame(FRAME, time_column="when")
    assert plain != timed
    assert plain.fingerprint() != timed.fingerprint()
    assert (plain.matrix != timed.matrix[:, [1, 0]]).nnz == 0  # items are numbered by their first click
    assert rows_of(pickle.loads(pickle.dumps(timed))) == rows_of(timed)
    with pytest.raises(ValueError, match="2 times for 4 clicks"):
        replace(timed, times=timed.times[:2])


def test_a_frame_with_times_is_written_and_read(write):
    clicks = Clicks.from_frame(FRAME, time_column="when")
    path = write("again.csv", clicks.to_frame().to_csv(index=False))
    assert times_of(read_clicks(path, time_column="time")) == times_of(clicks)


UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", ["pandas", "float", "Int64", "polars", "pyarrow", "parquet", "csv"])
def test_numbers_are_points_in_time_by_their_size(write, require, unit, missing, kind):
    seconds = [1_700_000_003, 1_700_000_001, -2_000_000_000, 4_500_000_000]  # of 1906 and 2112
    when = [second * UNITS[unit] for second in seconds] + [None] * missing
    users = ["a"] * len(when)
    pandas = pd.DataFrame({"user": users, "item": range(len(when)), "time": pd.array(when, dtype="Int64")})
    frame: object = pandas
    if kind == "float" or (kind == "pandas" and missing):
        frame = pandas.astype({"time": "float64"})
    elif kind == "polars":
        frame = require("polars").DataFrame({"user": users, "item": range(len(when)), "time": when})
    elif kind in ("pyarrow", "parquet"):
        frame = pa.table({"user": users, "item": range(len(when)), "time": pa.array(when, pa.int64())})
    if kind == "csv":
        clicks = read_clicks(write("log.csv", pandas.to_csv(index=False)), missing="drop")
    elif kind == "parquet":
        clicks = read_clicks(write("log.parquet", frame.to_pandas(integer_object_nulls=True)), missing="drop")
    else:
        clicks = Clicks.from_frame(frame, missing="drop")
    assert clicks.order == "time"
    assert clicks.has_clock
    assert clicks.times.tolist() == [datetime(1970, 1, 1) + timedelta(seconds=s) for s in sorted(seconds)]
    assert clicks.n_dropped == missing


def test_times_that_give_order_but_no_clock():
    frame = pd.DataFrame({"user": ["a"] * 4, "item": list("wxyz"), "time": [3, -1, 0, 99_999_999]})
    clicks = Clicks.from_frame(frame)
    assert clicks.items[clicks.sequence].tolist() == ["x", "y", "w", "z"]
    assert (clicks.has_clock, clicks.times.tolist()) == (False, [-1, 0, 3, 99_999_999])


@pytest.mark.parametrize(
    ("when", "row", "said"),
    [
        (
            [1_700_000_000, 1_700_000_000_000],
            1,
            "the time 1700000000000 would be milliseconds since 1970, but 17000",
        ),
        ([5, 1_700_000_000], 1, "would be seconds since 1970, but 5 before it is a number without a clock"),
        ([1.7e9, np.inf], 1, "the time inf cannot be read"),
        ([1.7e9, -1.7e12], 1, "would be milliseconds since 1970"),
        ([1e300, 1e300], 0, "the time 1e+300 is too far from 1970"),
        ([-(2**63), 5], 1, "the time 5 would be a number without a clock"),
        ([1.7e18, 1e21], 1, "the time 33658-09-27 01:46:40 is not in the years 1 to 9999"),
        (np.array(["2026-01-01", "-044-03-15"], "datetime64[s]"), 1, "the time -044-03-15 00:00:00 is not in the"),
        ([None, None], 0, "the column 'time' has no times"),
    ],
)
def test_times_that_are_refused(when, row, said):
    with pytest.raises(ClicksError) as caught:
        Clicks.from_frame(pd.DataFrame({"user": 1, "item": [1, 2], "time": when}))
    assert said in str(caught.value)
    assert (caught.value.row, caught.value.column) == (row, "time")


def test_whole_numbers_that_floats_do_not_hold():
    seconds = [datetime(1970, 1, 1) + timedelta(seconds=s) for s in (1_600_000_000, 1_600_000_001)]
    exact = [1_600_000_000 * 10**9, 1_600_000_001 * 10**9 + 1]
    for kind in (pa.uint64(), pa.decimal128(38, 0)):
        table = pa.table({"user": [1, 1], "item": [1, 2], "time": pa.array(exact, kind)})
        assert Clicks.from_frame(table).times.tolist() == seconds
    table = pa.table({"user": [1, 1], "item": [1, 2], "time": pa.array([2**63, 2**63 + 10**12], pa.uint64())})
    assert [time.year for time in Clicks.from_frame(table).times.tolist()] == [2262, 2262]


def test_a_column_of_times_that_nobody_named(write):
    """An error about it says how to read the log without it."""
    text = "user,item,time\nann,a,morning\nbob,a,evening\n"
    path, advice = write("log.csv", text), "to read the log without an order, say order='none'"
    for read in (read_clicks, lambda path, **options: Clicks.from_frame(pd.read_csv(path), **options)):
        with pytest.raises(ClicksError, match=advice):
            read(path)
        assert read(path, order="none").n_clicks == 2
        with pytest.raises(ClicksError, match="'morning' cannot be read") as caught:
            read(path, time_column="time")
        assert advice not in str(caught.value)
    path = write("log.csv", "user,item,time\nann,a,2026-05-01\nbob,a,\n")
    with pytest.raises(ClicksError, match=rf"the time is empty\. .* missing='drop'\. .*{advice}"):
        read_clicks(path)


@pytest.mark.parametrize("when", ["now", "today", "10:00", "May 2026", "5/1/2026", "1600000000", "", -np.inf])
def test_a_point_in_time_is_a_date_or_a_number(when):
    with pytest.raises(InputError, match="cannot be read"):
        read_time(when, clock=True)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcde"), st.integers(0, 9)), min_size=1, unique=True),
    st.randoms(),
)
def test_the_order_of_the_rows_changes_nothing_in_a_log_with_sessions(rows, random):
    """Names of sessions may be those of several users; they come back from a frame."""

    def read(rows, session):
        frame = pd.DataFrame(rows, columns=["user", "item", "time"])
        return Clicks.from_frame(frame.assign(visit=session), session_column="visit")

    sessions = {(user, time): f"visit {(time + user) // 3}" for user, _, time in rows}
    clicks = read(rows, [sessions[user, time] for user, _, time in rows])
    turned = random.sample(rows, len(rows))
    other = read(turned, [sessions[user, time] for user, _, time in turned])
    assert other == clicks
    assert other.fingerprint() == clicks.fingerprint()
    assert Clicks.from_frame(clicks.to_frame(), session_column="session") == clicks
    own = list(zip(clicks.users[owners(clicks.starts)].tolist(), clicks.times.tolist(), strict=True))
    named = [(user, sessions[user, time]) for user, time in own]
    assert len(set(zip(named, clicks.sessions.tolist(), strict=True))) == len(set(named))
    assert len(np.unique(clicks.sessions)) == len(set(named))


@pytest.mark.parametrize("order", [None, "time"])
def test_the_order_of_the_rows_changes_nothing_in_a_timed_log(order):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.integers(0, [6, 9, 40], (300, 3)), columns=["user", "item", "time"])
    frame["user"] = "u" + frame["user"].astype(str)
    clicks = Clicks.from_frame(frame, order=order)
    for seed in range(5):
        assert Clicks.from_frame(frame.sample(frac=1, random_state=seed), order=order) == clicks
    # The order is that of a plain sort; ties by item, equal rows counted once.
    for row, user in enumerate(clicks.users.tolist()):
        own = frame[frame["user"] == user].drop_duplicates().sort_values(["time", "item"])
        part = slice(clicks.starts[row], clicks.starts[row + 1])
        assert clicks.items[clicks.sequence[part]].tolist() == own["item"].tolist()
        assert clicks.times[part].tolist() == own["time"].tolist()


def test_where_the_order_comes_from(write):
    text = "user,item,time\nann,b,2\nann,a,1\nbob,b,1\nann,b,3\n"
    path = write("log.csv", text)
    for read in (
        lambda **options: read_clicks(path, **options),
        lambda **options: Clicks.from_frame(pd.read_csv(path), **options),
    ):
        names = {}
        for order in (None, "time", "rows", "none"):
            clicks = read(order=order)
            names[order] = clicks.order, clicks.items[clicks.sequence].tolist(), clicks.users.tolist()
        assert names[None] == names["time"] == ("time", ["a", "b", "b", "b"], ["ann", "bob"])
        assert names["rows"] == ("rows", ["b", "a", "b", "b"], ["ann", "bob"])
        assert names["none"] == (None, ["b", "a", "b"], ["ann", "bob"])
        assert read(user="time", item="item").order is None  # the column has another use
        with pytest.raises(ClicksError, match="order='rows' and a time column contradict each other"):
            read(order="rows", time_column="time")
        with pytest.raises(ClicksError, match="order must be 'time', 'rows' or 'none', not 'random'"):
            read(order="random")
    with pytest.raises(ClicksError, match=r"order='time' needs a column of times. Name it: time_column='...'"):
        read_clicks(write("none.csv", "user,item\nann,b\n"), order="time")


def test_sessions_from_a_column_and_from_gaps(write):
    text = "user,item,time,visit\n" + "".join(
        f"ann,{item},2026-05-01 10:{minute:02}:00,{visit}\n"
        for item, minute, visit in (("a", 0, "x"), ("b", 20, "x"), ("c", 59, "x"), ("d", 59, "y"))
    )
    path = write("log.csv", text)
    assert read_clicks(path).sessions.tolist() == [0, 0, 1, 1]
    assert read_clicks(path, session_gap="10min").sessions.tolist() == [0, 1, 2, 2]
    assert read_clicks(path, session_column="visit").sessions.tolist() == [0, 0, 0, 1]
    assert read_clicks(path, session_column="visit", order="rows").sessions.tolist() == [0, 0, 0, 1]
    with pytest.raises(InputError, match="session_gap must be a duration such as '30min'"):
        read_clicks(path, session_gap="soon")
    with pytest.raises(ClicksError, match="item and session_column are both 'item'"):
        read_clicks(path, session_column="item")
    said = r"the sessions in 'visit' need a log with an order. Say where it is: time_column='...' or order='rows'"
    with pytest.raises(ClicksError, match=said):
        read_clicks(path, session_column="visit", order="none")
    with pytest.raises(ClicksError, match=said):
        Clicks.from_frame(pd.read_csv(path).drop(columns="time"), session_column="visit")


@pytest.mark.parametrize("head", ["", "\n\n", "bob,,2026-05-01,v\n"])
def test_a_session_that_changes_within_a_click(write, head):
    rows = "ann,a,2026-05-01,x\nann,b,2026-05-01,x\nbob,a,2026-05-01,x\nann,a,2026-05-01,y\n"
    path = write("log.csv", "user,item,time,visit\n" + head + rows)
    said = r"the same click \(user, item and time\) is in the log twice, with two sessions"
    with pytest.raises(ClicksError, match=said) as caught:
        read_clicks(path, session_column="visit", missing="drop")
    assert (caught.value.line, caught.value.column) == (5 + head.count("\n"), 4)
    with pytest.raises(ClicksError, match=said) as caught:
        Clicks.from_frame(pd.read_csv(path), session_column="visit", missing="drop")
    assert caught.value.row == 3 + head.count("bob")


def test_a_row_without_a_session(write):
    path = write("log.csv", "user,item,visit\nann,a,x\nann,b, \n")
    with pytest.raises(
        ClicksError, match=r"line 3, column 3 \(visit\): the session is empty. Every row needs a ses"
    ):
        read_clicks(path, session_column="visit", order="rows")
    clicks = read_clicks(path, session_column="visit", order="rows", missing="drop")
    assert clicks.history == ("dropped 1 of 2 rows: 1 without a session",)
