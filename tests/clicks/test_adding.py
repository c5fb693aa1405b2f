"""Clicks that are added to a log: it is the log of all rows, whatever the order in which they came."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd import Clicks
from bmcd.clicks.adding import joined_ids
from bmcd.clicks.ids import objects
from bmcd.errors import ClicksError, InputError

START = 1_700_000_000
ROW = st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(0, 12))


def log(rows, kind="numbers"):
    """Rows of (user, item, hour) as a log."""
    user, item, hour = (list(column) for column in zip(*rows, strict=True))
    if kind == "text":
        user, item = [f"u{one}" for one in user], [f"i{one}" for one in item]
    frame = pd.DataFrame({"user": user, "item": item, "time": [START + 3600 * one for one in hour]})
    return Clicks.from_frame(frame)


@pytest.mark.parametrize("kind", ["numbers", "text"])
@given(st.lists(ROW, min_size=1, max_size=30), st.data())
def test_any_parts_in_any_order_give_the_whole_log(kind, rows, data):
    shuffled = data.draw(st.permutations(rows))
    ends = sorted(data.draw(st.sets(st.integers(1, len(rows)), max_size=4)) | {len(rows)})
    parts = [shuffled[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    found = log(parts[0], kind)
    for part in parts[1:]:
        found = found.add(log(part, kind))
    assert found == log(rows, kind)


@given(st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=5), st.integers(1, 12))
def test_with_keep_only_the_last_hours_are_left(parts, hours):
    found = log(parts[0])
    for part in parts[1:]:
        found = found.add(log(part), keep=f"{hours}h")
    found = found.add(log(parts[0]), keep=f"{hours}h")
    rows = [row for part in parts for row in part]
    last = max(hour for *_, hour in rows)
    assert found == log([row for row in rows if row[2] >= last - hours])


def test_a_window_drops_users_and_items_that_are_gone():
    found = log([(1, 1, 0), (2, 2, 10)]).add(log([(3, 3, 11)]), keep="2h")
    assert (found.users.tolist(), found.items.tolist()) == ([2, 3], [2, 3])
    assert log([(1, 1, 0)]).add(log([(1, 1, 0)])).users.tolist() == [1]


@pytest.mark.parametrize(
    ("known", "more", "ids", "places"),
    [
        (np.array([12, 7]), np.array([9, 7, 12]), [12, 7, 9], [2, 1, 0]),
        (np.array([12, 7]), objects(["7", "9"]), [12, 7, 9], [1, 2]),
        (np.array([12, 7]), objects(["07", "a", "7"]), [12, 7, "07", "a"], [2, 3, 1]),
        (objects(["12", "a"]), np.array([12, 13]), ["12", "a", "13"], [0, 2]),
        (objects([12, "a"]), objects(["12", "13"]), [12, "a", 13], [0, 2]),
        (objects([(1, 2), "a"]), objects([(1, 2)]), [(1, 2), "a"], [0]),
        (objects(["a"]), objects(["99999999999999999999"]), ["a", "99999999999999999999"], [1]),
        (np.array([1]), objects(["99999999999999999999"]), [1, "99999999999999999999"], [1]),
    ],
)
def test_ids_that_read_the_same_are_the_same(known, more, ids, places):
    found, own = joined_ids(known, more)
    assert (found.tolist(), own.tolist()) == (ids, places)
    assert (found.dtype.kind == "i") == all(isinstance(one, int) for one in ids)


def test_titles_of_the_log_stay_and_new_items_bring_theirs():
    first, second = log([(1, 1, 0), (1, 2, 1)]), log([(2, 2, 2), (2, 3, 3), (2, 4, 3)])
    found = first.with_titles({1: "one", 2: "two"}).add(second.with_titles({2: "zwei", 3: "drei"}))
    assert dict(zip(found.items.tolist(), found.titles.tolist(), strict=True)) == {
        1: "one", 2: "two", 3: "drei", 4: "4",
    }  # fmt: skip
    assert found.titled.tolist() == [True, True, True, False]
    assert first.add(second).titles is None


def test_a_log_without_times_goes_on_where_each_user_was():
    def rows(*pairs):
        return Clicks.from_frame(pd.DataFrame(pairs, columns=["user", "item"]), order="rows")

    found = rows(("ann", "a"), ("bob", "b"), ("ann", "c")).add(rows(("cat", "a"), ("ann", "d"), ("bob", "b")))
    assert found == rows(("ann", "a"), ("bob", "b"), ("ann", "c"), ("cat", "a"), ("ann", "d"), ("bob", "b"))
    plain = Clicks.from_matrix([[1, 0], [0, 1]]).add(Clicks.from_matrix([[1, 1]], users=[1], items=[0, 7]))
    assert plain.to_frame().to_numpy().tolist() == [[0, 0], [1, 0], [1, 1], [1, 7]]


@pytest.mark.parametrize(
    ("more", "keep", "said"),
    [
        (Clicks.from_matrix([[1]]), None, "the log has times, but the clicks to add are such that it has no order"),
        (Clicks.from_frame(pd.DataFrame({"user": [1], "item": [1], "time": [7]})), None, "but those of the clicks"),
        (
            Clicks.from_frame(
                pd.DataFrame({"user": [1], "item": [1], "time": [1.8e9], "s": [1]}), session_column="s"
            ),
            None,
            "the clicks to add have a column of sessions, but the log has none",
        ),
        (log([(1, 1, 0)]), "soon", "keep must be a duration"),
    ],
)
def test_what_does_not_fit_together_is_refused(more, keep, said):
    with pytest.raises(InputError, match=said):
        log([(1, 1, 0)]).add(more, keep)


def test_other_refusals():
    numbers = Clicks.from_frame(pd.DataFrame({"user": [1], "item": [1], "time": [7]}))
    with pytest.raises(ClicksError, match="has no clock"):
        numbers.add(numbers, keep="1h")
    _, test = log([(1, 1, 0), (1, 2, 5)]).split_at(START + 3600, k=1)
    with pytest.raises(ClicksError, match="test clicks on items outside"):
        log([(1, 1, 0)]).add(test)


def test_what_is_known_of_items_stays():
    table = pd.DataFrame({"item": [1, 2], "section": ["news|local", "sports"], "price": [3.0, 4.5]})
    first = log([(1, 2, 5), (1, 1, 6)]).with_items(table)
    found = first.add(log([(2, 0, 1), (2, 3, 7)]))
    assert found.items.tolist() == [0, 2, 1, 3]
    sections = found.items_table.groups["section"]
    assert [sections.of_item(column) for column in range(4)] == [(), ("sports",), ("local", "news"), ()]
    np.testing.assert_array_equal(found.items_table.numbers["price"], [np.nan, 4.5, 3.0, np.nan])
    kept = found.add(log([(2, 3, 9)]), keep="3h")
    assert kept.items.tolist() == [1, 3]
    assert kept.items_table.groups["section"].of_item(0) == ("local", "news")
