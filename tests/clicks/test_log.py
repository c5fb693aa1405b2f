import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.errors import ClicksError

PAIRS = [("ann", 7), ("bob", 7), ("ann", 9), ("cid", 8), ("ann", 7)]
FRAME = pd.DataFrame(PAIRS, columns=["user", "item"])
DENSE = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]])


def pairs_of(clicks: Clicks) -> set[tuple]:
    rows, columns = clicks.matrix.nonzero()
    return {(clicks.users[u], clicks.items[i]) for u, i in zip(rows, columns, strict=True)}


def assert_sound(clicks: Clicks) -> None:
    assert isinstance(clicks.matrix, sparse.csr_array)
    assert clicks.matrix.dtype == np.bool_
    assert clicks.matrix.shape == (clicks.n_users, clicks.n_items)
    assert clicks.matrix.has_canonical_format
    assert clicks.matrix.data.all()
    for row in range(clicks.n_users):
        indices = clicks.matrix.indices[clicks.matrix.indptr[row] : clicks.matrix.indptr[row + 1]]
        assert (np.diff(indices) > 0).all()
    for ids in (clicks.users, clicks.items):
        assert ids.dtype in (np.int64, object)
        assert not ids.flags.writeable
        assert len(set(ids.tolist())) == len(ids)


matrices = st.integers(1, 8).flatmap(
    lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=8)
)
some_matrices = matrices.filter(lambda rows: any(map(any, rows)))


def test_from_frame_keeps_ids_in_order_of_appearance_and_collapses_repeats():
    clicks = Clicks.from_frame(FRAME)
    assert_sound(clicks)
    assert clicks.users.tolist() == ["ann", "bob", "cid"]
    assert clicks.items.tolist() == [7, 9, 8]
    assert clicks.items.dtype == np.int64
    assert (clicks.matrix.toarray() == DENSE).all()
    assert (clicks.n_users, clicks.n_items, clicks.n_clicks, clicks.n_repeated) == (3, 3, 4, 1)
    assert clicks.history == ("1 repeated clicks collapsed",)
    assert repr(clicks) == "Clicks(3 users x 3 items, 4 clicks)"


def test_every_kind_of_frame_gives_the_same_clicks(require):
    pl = require("polars")
    same = [
        pa.table({"user": FRAME["user"], "item": FRAME["item"]}),
        pa.record_batch({"user": FRAME["user"], "item": FRAME["item"]}),
        pl.DataFrame(PAIRS, schema=["user", "item"], orient="row"),
        pl.LazyFrame(PAIRS, schema=["user", "item"], orient="row"),
        pl.DataFrame(PAIRS, schema={"user": pl.Categorical, "item": pl.UInt8}, orient="row"),
        FRAME.astype("category"),
        FRAME.astype(object),
        FRAME.astype({"item": "Int64"}),
        FRAME.convert_dtypes(dtype_backend="pyarrow"),
        FRAME.assign(more=1.5)[["more", "item", "user"]],
    ]
    for frame in same:
        clicks = Clicks.from_frame(frame)
        assert_sound(clicks)
        assert clicks == Clicks.from_frame(FRAME)
        assert clicks.items.dtype == np.int64


def test_a_lazy_frame_is_collected_once(require):
    """Its rows may come in another order each time: here they do."""
    polars, seen = require("polars"), []

    def turned(frame):
        seen.append(len(frame))
        return frame.sample(fraction=1.0, shuffle=True, seed=len(seen))

    rows = {"user": [u for u in range(40)], "item": [f"i{u}" for u in range(40)], "time": list(range(40))}
    rows["title"] = [f"title {u}" for u in range(40)]
    lazy = polars.DataFrame(rows).lazy().map_batches(turned, schema=polars.DataFrame(rows).schema)
    clicks = Clicks.from_frame(lazy, title_column="title")
    assert len(seen) == 1
    assert clicks == Clicks.from_frame(polars.DataFrame(rows), title_column="title")
    titles = polars.DataFrame(rows).lazy().map_batches(turned, schema=polars.DataFrame(rows).schema)
    assert Clicks.from_frame(polars.DataFrame(rows), titles=titles, title="title").titles.tolist() == rows["title"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("titles", [None, {7: "Seven", 9: "Nine", 8: "Eight"}])
def test_to_frame_and_back(library, titles, require):
    require(library)
    clicks = Clicks.from_frame(FRAME, titles=titles)
    frame = clicks.to_frame(library)
    assert type(frame).__module__.startswith(library)
    assert Clicks.from_frame(frame, titles=None if titles is None else frame) == clicks


@pytest.mark.parametrize(
    "convert",
    [np.asarray, np.bool_, np.float32, np.uint8, list]
    + [getattr(sparse, f"{kind}_{what}") for kind in ("csr", "csc", "coo", "lil") for what in ("array", "matrix")],
)
def test_every_kind_of_matrix_gives_the_same_clicks(convert):
    matrix = convert(DENSE)
    before = matrix.copy()
    clicks = Clicks.from_matrix(matrix, users=["ann", "bob", "cid"], items=[7, 9, 8])
    assert_sound(clicks)
    assert clicks == Clicks.from_frame(FRAME)
    assert clicks.history == ()
    assert (
        np.asarray(matrix != before) if not sparse.issparse(matrix) else (matrix != before).toarray()
    ).sum() == 0


def test_a_sparse_matrix_with_explicit_zeros_and_repeats():
    coo = sparse.coo_array(([1, 1, 0, 2, -2], ([0, 0, 0, 1, 1], [0, 0, 1, 0, 0])), shape=(2, 2))
    clicks = Clicks.from_matrix(coo)
    assert_sound(clicks)
    assert clicks.matrix.toarray().tolist() == [[True, False], [False, False]]
    assert clicks.history == ("1 entries other than 0 and 1 were taken as one click each",)
    assert coo.nnz == 5


def test_users_with_no_clicks_and_all_clicks_are_kept():
    clicks = Clicks.from_matrix([[0, 0], [1, 1]])
    assert (clicks.users.tolist(), clicks.items.tolist()) == ([0, 1], [0, 1])
    assert clicks.users.dtype == np.int64
    assert clicks.summary().n_users_without_clicks == 1


@pytest.mark.parametrize(
    ("ids", "dtype"),
    [
        ([3, 1, 2], np.int64),
        ([2**63 - 1, -(2**63), 0], np.int64),
        ([2**63, 1, 2], object),
        ([(1, "a"), (2,), (1, "b")], object),
        ([1, "1", 2.5], object),
        ([True, False, 7], object),
        ([1.5, 2.5, 3.5], object),
        ([pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01"), pd.Timestamp("2022-01-01")], object),
        (["007", "7", "7 a"], object),
    ],
)
def test_ids_of_any_kind(ids, dtype):
    frame = pd.DataFrame({"user": pd.Series(ids), "item": pd.Series(ids[::-1])})
    for clicks in (Clicks.from_frame(frame), Clicks.from_matrix(np.fliplr(np.eye(3)), users=ids, items=ids)):
        assert clicks.users.tolist() == ids
        assert clicks.users.dtype == dtype
        assert_sound(clicks)


def test_the_frame_is_not_changed():
    frame = FRAME.copy()
    clicks = Clicks.from_frame(frame)
    pd.testing.assert_frame_equal(frame, FRAME)
    with pytest.raises(ValueError, match="read-only"):
        clicks.users[0] = "eve"
    with pytest.raises(AttributeError):
        clicks.users = np.arange(3)


MISSING = (
    "the item id is missing (rows count from 0). Every row needs a user and an item. Leave out those without it "
    "with missing='drop'."
)
EMPTY = "the user id is empty (rows count from 0)."


@pytest.mark.parametrize(
    ("frame", "text", "row", "column"),
    [
        (FRAME.assign(item=[1, 2, None, 3, None]), f"row 2, column item: {MISSING}", 2, "item"),
        (FRAME.assign(item=["a", "b", "c", None, "d"]), f"row 3, column item: {MISSING}", 3, "item"),
        (pa.table({"user": [1, 2], "item": [1, None]}), f"row 1, column item: {MISSING}", 1, "item"),
        (FRAME.assign(user=["a", "", "c", " ", "d"]), f"row 1, column user: {EMPTY}", 1, "user"),
        (FRAME.assign(user=["a", "b", "c", " \t", "d"]), f"row 3, column user: {EMPTY}", 3, "user"),
        (FRAME.assign(user=[[1]] * 5), "column user: the ids cannot be told apart (unhashable", None, "user"),
        (
            FRAME.rename(columns={"user": "who"}),
            "there is no column 'user'; the columns are 'who', 'item'. Say which one it is: user='who'.",
            None,
            "user",
        ),
        (
            pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"]),
            "the DataFrame cannot be read as a table: Expected unique column names, got: - 'item' 2 times.",
            None,
            None,
        ),
        (FRAME.iloc[:0], "there are no rows", None, None),
        ({"user": [1], "item": [2]}, "expected a pandas, polars or Arrow table, got dict", None, None),
        (FRAME["user"], "expected a pandas, polars or Arrow table, got Series", None, None),
    ],
)
def test_what_is_wrong_with_a_frame(frame, text, row, column):
    with pytest.raises(ClicksError) as caught:
        Clicks.from_frame(frame)
    assert text in str(caught.value)
    assert (caught.value.row, caught.value.column) == (row, column)
    assert (caught.value.file, caught.value.line) == (None, None)


def test_polars_ids(require):
    pl = require("polars")
    with pytest.raises(ClicksError, match="row 1, column user: the user id is missing"):
        Clicks.from_frame(pl.DataFrame({"user": ["a", None], "item": [1, 2]}))
    with pytest.raises(ClicksError, match="column user: the ids cannot be told apart"):
        Clicks.from_frame(pl.DataFrame({"user": [{"a": 1}, {"a": 2}], "item": [1, 2]}))


def test_user_and_item_must_differ():
    with pytest.raises(ClicksError, match="user and item are both 'user'"):
        Clicks.from_frame(FRAME, item="user")


@pytest.mark.parametrize(
    ("matrix", "options", "text"),
    [
        (
            [[1.0, 0.0], [0.0, np.nan]],
            {},
            "row 1, column 1: the value is NaN (rows and columns count from 0)",
        ),
        (sparse.csc_array([[0, np.nan], [np.nan, 0]]), {}, "row 0, column 1: the value is NaN"),
        ([1, 0], {}, "must have two dimensions"),
        (np.ones((1, 2, 3)), {}, "must have two dimensions"),
        (np.ones((0, 3)), {}, "be not empty: (0, 3)"),
        (np.ones((3, 0)), {}, "be not empty: (3, 0)"),
        (np.zeros((2, 2)), {}, "all zeros"),
        ([["a", "b"]], {}, "must hold booleans or numbers"),
        ([[1, 2], [3]], {}, "rows of different lengths"),
        (np.ones((2, 2)), {"users": ["a"]}, "the matrix has 2 users, but 1 user ids were given"),
        (np.ones((2, 2)), {"items": [5, 5]}, "the item id 5 is given more than once"),
        (np.ones((2, 2)), {"users": ["a", None]}, "row 1, column user: the user id is missing"),
    ],
)
def test_what_is_wrong_with_a_matrix(matrix, options, text):
    with pytest.raises(ClicksError) as caught:
        Clicks.from_matrix(matrix, **options)
    assert text in str(caught.value)


def test_titles_of_dicts_and_frames(require):
    pl = require("polars")
    frames = [
        pd.DataFrame({"item": [9, 7, 5, 7, 8], "title": ["Nine", "Seven", "Five", "Seven", None]}),
        pl.DataFrame({"item": [9, 7, 5, 8], "title": ["Nine", "Seven", "Five", " "]}),
        {9: "Nine", 7: "Seven", 5: "Five", 8: np.nan, 6: None},
    ]
    for titles in frames:
        clicks = Clicks.from_frame(FRAME, titles=titles)
        assert clicks.titles.tolist() == ["Seven", "Nine", "8"]
        assert clicks.summary().n_titles == 2
        assert clicks.history[-1] == "1 titles of items nobody clicked left out"
    kept = clicks.most_clicked(1)
    assert (kept.titles.tolist(), kept.summary().n_titles) == (["Seven"], 1)
    assert Clicks.from_matrix([[1, 1]], titles={0: 2001}).titles.tolist() == ["2001", "1"]
    numbers = Clicks.from_matrix([[1, 1]], titles=pd.DataFrame({"item": [0, 1], "title": [1984, 2001]}))
    assert numbers.titles.tolist() == ["1984", "2001"]
    assert Clicks.from_frame(FRAME).titles is None


def test_what_is_wrong_with_titles():
    twice = pd.DataFrame({"item": [7, 9, 7], "title": ["Seven", "Nine", "Sept"]})
    with pytest.raises(ClicksError, match="row 2, column title: item 7 has two titles") as caught:
        Clicks.from_frame(FRAME, titles=twice)
    assert (caught.value.row, caught.value.column) == (2, "title")
    with pytest.raises(ClicksError, match=r"no title belongs to a clicked item \('7' against 7\)"):
        Clicks.from_frame(FRAME, titles={"7": "Seven"})
    with pytest.raises(ClicksError, match="there are none"):
        Clicks.from_frame(FRAME, titles={})
    with pytest.raises(ClicksError, match="there is no column 'title'"):
        Clicks.from_frame(FRAME, titles=FRAME.assign(more=1))


@given(some_matrices, st.integers(1, 8))
def test_most_clicked_is_the_plain_way(rows, n):
    clicks = Clicks.from_matrix(rows)
    counts = [sum(column) for column in zip(*rows, strict=True)]
    if n > len(counts):
        with pytest.raises(ClicksError, match=f"cannot keep the {n} most clicked of {len(counts)} items"):
            clicks.most_clicked(n)
        return
    best = sorted(sorted(range(len(counts)), key=lambda i: (-counts[i], i))[:n])
    kept = clicks.most_clicked(n)
    assert_sound(kept)
    assert kept.items.tolist() == best
    assert kept.users.tolist() == list(range(len(rows)))
    assert kept.matrix.toarray().tolist() == [[row[i] for i in best] for row in rows]
    emptied = sum(any(row) and not any(row[i] for i in best) for row in rows)
    more = f", which left {emptied} users without clicks" if emptied else ""
    assert kept.history == (f"kept the {n} most clicked of {len(counts)} items{more}",)


@given(some_matrices, st.integers(0, 9))
def test_at_least_is_the_plain_way(rows, n):
    clicks = Clicks.from_matrix(rows)
    kept = [u for u, row in enumerate(rows) if sum(row) >= n]
    if not kept:
        most = max(map(sum, rows))
        with pytest.raises(ClicksError, match=f"at least {n} clicks; the most any user has is {most}"):
            clicks.at_least(n)
        return
    left = clicks.at_least(n)
    assert_sound(left)
    assert left.users.tolist() == kept
    assert left.n_items == clicks.n_items
    assert left.matrix.toarray().tolist() == [rows[u] for u in kept]
    gone = len(rows) - len(kept)
    assert left.history == ((f"dropped {gone} of {len(rows)} users with fewer than {n} clicks",) if gone else ())


def test_most_clicked_needs_a_number_in_range():
    for n in (0, -1, 4):
        with pytest.raises(ClicksError, match="n must be 1 to 3"):
            Clicks.from_matrix(DENSE).most_clicked(n)
    with pytest.raises(TypeError):
        Clicks.from_matrix(DENSE).most_clicked(1.5)


@given(some_matrices, st.integers(1, 3), st.integers(0, 2), st.integers(0, 2**32))
def test_hold_out_splits_each_user(rows, k, keep, seed):
    clicks = Clicks.from_matrix(rows)
    enough = [u for u, row in enumerate(rows) if sum(row) >= k + keep]
    if not enough:
        with pytest.raises(ClicksError):
            clicks.hold_out(k, seed, keep=keep, too_few="drop")
        return
    train, test = clicks.hold_out(k, seed, keep=keep, too_few="drop")
    for part in (train, test):
        assert_sound(part)
        assert part.users.tolist() == enough
        assert part.items.tolist() == clicks.items.tolist()
    assert (np.diff(test.matrix.indptr) == k).all()
    assert (np.diff(train.matrix.indptr) >= keep).all()
    assert not pairs_of(train) & pairs_of(test)
    assert pairs_of(train) | pairs_of(test) == {(u, i) for u in enough for i, on in enumerate(rows[u]) if on}
    assert (train, test) == clicks.hold_out(k, seed, keep=keep, too_few="drop")
    if len(enough) < len(rows):
        gone = f"dropped {len(rows) - len(enough)} of {len(rows)} users with fewer than {k + keep} clicks"
        assert train.history[0] == test.history[0] == gone


def test_hold_out_takes_every_click_equally_often():
    clicks = Clicks.from_matrix(np.ones((3000, 5)))
    _, test = clicks.hold_out(2, seed=3)
    # 1200 of 3000 expected for each item, standard deviation 27.
    assert abs(test.matrix.sum(axis=0) - 1200).max() < 150
    assert test != clicks.hold_out(2, seed=4)[1]
    subsets = Counter(map(tuple, test.matrix.indices.reshape(-1, 2).tolist()))
    assert len(subsets) == 10
    assert max(subsets.values()) < 400


def test_hold_out_says_who_has_too_few_clicks():
    clicks = Clicks.from_matrix(np.tri(9, dtype=int), users=[f"u{n}" for n in range(9)])
    with pytest.raises(ClicksError) as caught:
        clicks.hold_out(6, keep=2)
    assert "needs 8 clicks of each user, but user 'u0' has 1, 'u1' has 2," in str(caught.value)
    assert "'u4' has 5 and 2 more have too few. Use at_least(8) first, or too_few='drop'." in str(caught.value)
    train, test = clicks.at_least(8).hold_out(6, keep=2)
    assert train.history[-1] == "held out 6 clicks of each user (seed 0)"
    assert test.history[-1] == "kept only the 6 held-out clicks of each user (seed 0)"


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 1, "keep": -1}, {"k": 1, "too_few": "ignore"}])
def test_hold_out_refuses_senseless_numbers(options):
    with pytest.raises(ClicksError, match="k must be 1 or more"):
        Clicks.from_matrix(DENSE).hold_out(**options)


def test_summary():
    clicks = Clicks.from_frame(FRAME, titles={7: "Seven"})
    summary = clicks.summary()
    assert summary.density == pytest.approx(4 / 9)
    assert summary.clicks_per_user == (1, 1.0, 2)
    assert summary.clicks_per_item == (1, 1.0, 2)
    assert (summary.n_titles, summary.n_repeated, summary.history) == (1, 1, clicks.history)
    assert str(summary).splitlines() == [
        "3 users x 3 items, 4 clicks (44.44%)",
        "clicks per user: 1 to 2, median 1.0 (0 with none)",
        "clicks per item: 1 to 2, median 1.0 (0 with none)",
        "items with a title: 1",
        "repeated clicks collapsed: 1",
        "rows dropped: 0",
        "- 1 repeated clicks collapsed",
    ]
    assert "1,000 users x 1,000 items, 1,000,000 clicks" in str(Clicks.from_matrix(np.ones((1000, 1000))).summary())


def test_equality_is_about_content_not_history():
    clicks = Clicks.from_frame(FRAME)
    assert clicks == Clicks.from_frame(FRAME.drop_duplicates())
    assert clicks != Clicks.from_frame(FRAME, titles={7: "Seven"})
    assert clicks != Clicks.from_frame(FRAME.iloc[::-1])
    assert clicks != "clicks"
    with pytest.raises(TypeError):
        hash(clicks)


def test_clicks_and_errors_can_be_pickled():
    clicks = Clicks.from_frame(FRAME, titles={7: "Seven"})
    assert pickle.loads(pickle.dumps(clicks)) == clicks
    error = ClicksError("the item id is empty.", file="clicks.csv", line=7, column=2, name="item")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "clicks.csv, line 7, column 2 (item): the item id is empty."
    assert (again.file, again.line, again.column) == ("clicks.csv", 7, 2)


def test_messages_stay_short():
    with pytest.raises(ClicksError) as caught:
        Clicks.from_matrix([[1], [0]], users=["x" * 10**6, "b"]).hold_out(1)
    assert len(str(caught.value)) < 500
    with pytest.raises(ClicksError) as caught:
        Clicks.from_frame(pd.DataFrame([range(1000)], columns=[f"c{n}" for n in range(1000)]))
    assert "'c0', 'c1'" in str(caught.value)
    assert "and 988 more" in str(caught.value)


def test_text_that_is_not_unicode_is_a_clicks_error():
    with pytest.raises(ClicksError, match="cannot be told apart"):
        Clicks.from_matrix([[1, 1]], items=["a", "\ud800"])
    with pytest.raises(ClicksError, match="title of item 0 is not valid Unicode"):
        Clicks.from_matrix([[1, 1]], titles={0: "\ud800"})
