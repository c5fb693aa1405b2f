"""The item table: found in frames and files, kept by every step and in files, and filters by it."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bmcd
from bmcd.clicks.item_table import ItemGroups, allowed_items, is_safe
from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_items
from bmcd.errors import ClicksError, InputError, InputTypeError
from bmcd.models.persistence import pack_clicks, unpack_clicks

ROWS = {
    "item": [1, 2, 2, 3, 9],
    "title": ["One", "Two", "Two", "Three", "Nine"],
    "URL": ["https://shop.example/1", "pages/2.html", "pages/other.html", "javascript:alert(1)", "pages/9.html"],
    "image": ["img/1.png", None, "http://shop.example/2.png", "data:image/png;base64,AA", "img/9.png"],
    "section": ["news | local", "sports", "news", None, "never seen"],
    "price": [1.5, None, 3, None, 8],
    "date": ["2026-05-01", "2026-05-02T10:00:00+02:00", None, None, "2026-05-03"],
}


@pytest.fixture
def clicks():
    return Clicks.from_matrix([[1, 1, 1]], items=[1, 2, 3])


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "arrow", "csv", "tsv", "parquet"])
def test_every_kind_of_source(clicks, kind, tmp_path):
    frame, path = pd.DataFrame(ROWS), tmp_path / f"items.{kind}"
    arrow = pa.table(ROWS)
    source = {"dict": ROWS, "pandas": frame, "polars": pl.DataFrame(ROWS), "arrow": arrow}.get(kind, path)
    if kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    elif kind == "parquet":
        pq.write_table(arrow, path)
    read = read_items(clicks, source)
    table = read.items_table
    assert table.links.tolist() == ["https://shop.example/1", "pages/2.html", ""]
    assert table.pictures.tolist() == ["img/1.png", "http://shop.example/2.png", ""]
    assert table.n_refused == 2
    assert list(table.groups) == ["section"]
    groups = table.groups["section"]
    assert groups.names == ("local", "news", "sports")
    assert [groups.of_item(i) for i in range(3)] == [("local", "news"), ("news", "sports"), ()]
    assert not groups.is_single
    np.testing.assert_array_equal(table.numbers["price"], [1.5, 3, np.nan])
    assert table.dates.astype(str).tolist() == ["2026-05-01T00:00:00.000000", "2026-05-02T08:00:00.000000", "NaT"]
    assert read.titles.tolist() == ["One", "Two", "Three"]
    assert "item table: 1 rows about items nobody clicked left out" in read.history


def test_lists_in_cells(clicks):
    sections = [["news", "local"], ["sports"], []]
    for frame in (
        pl.DataFrame({"item": [1, 2, 3], "section": sections}),
        pa.table({"i": [1, 2, 3], "s": sections}),
    ):
        (groups,) = clicks.with_items(frame).items_table.groups.values()
        assert [groups.of_item(i) for i in range(3)] == [("local", "news"), ("sports",), ()]


def test_read_clicks_reads_it_too(tmp_path):
    (tmp_path / "clicks.csv").write_text("user,item\nann,a\nbob,b\n")
    (tmp_path / "items.csv").write_text("item;name;section\na;Tea;drinks\nb;Milk;drinks|dairy\n")
    read = bmcd.read_clicks(tmp_path / "clicks.csv", items=tmp_path / "items.csv", title="name")
    assert read.titles.tolist() == ["Tea", "Milk"]
    assert list(read.items_table.groups) == ["section"]
    frame = read.items_frame()
    assert frame["section"].tolist() == ["drinks", "dairy|drinks"]
    with pytest.raises(ClicksError, match="groups are columns of an item table"):
        bmcd.read_clicks(tmp_path / "clicks.csv", groups=["section"])


def test_columns_of_texts_are_no_groups_unless_named(clicks):
    n = 50
    many = Clicks.from_matrix(np.ones((1, n)))
    frame = {"item": range(n), "text": [f"text {i}" for i in range(n)], "code": [i % 3 for i in range(n)]}
    read = many.with_items(frame)
    assert not read.items_table.groups
    assert list(read.items_table.numbers) == ["code"]
    assert "item table: the column 'text' left out, since it has 50 different texts for 50 items" in read.history[0]
    named = many.with_items(frame, groups=["code", "text"]).items_table
    assert named.groups["code"].names == ("0", "1", "2")
    assert len(named.groups["text"].names) == n


def test_every_step_keeps_the_table_with_its_items():
    shop = bmcd.load_dataset("eshop")
    category = dict(zip(shop.items_frame()["item"], shop.items_frame()["category"], strict=True))
    fewer = shop.most_clicked(50)
    train, test = fewer.at_least(6).hold_out(2, seed=1)
    earlier, later = fewer.split_users(0.8)
    histories, after = later.moments(k=2, seed=1)
    for one in (fewer, train, test, earlier, later, histories, after):
        groups = one.items_table.groups["category"]
        assert [groups.of_item(i) for i in range(50)] == [(category[item],) for item in one.items.tolist()]
        assert set(groups.names) == set(category.values())  # also where none of its items is left
    assert set(shop.items_table.groups) == {"category", "colour"}
    assert shop.items_table.numbers["price_usd"].min() == 18


def test_what_is_wrong_is_told(clicks, tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,section\n77,news\n")
    with pytest.raises(ClicksError, match=r"items\.csv.*no item of the table was clicked \('77' against 1\)"):
        read_items(clicks, path)
    path.write_text("item,section\n")
    with pytest.raises(ClicksError, match="no rows"):
        read_items(clicks, path)
    with pytest.raises(ClicksError, match="no column of groups 'genre' in the item table; it has title, URL"):
        clicks.with_items(ROWS, groups=["genre"])
    with pytest.raises(ClicksError, match="no column 'label' in the item table"):
        clicks.with_items(ROWS, title="label")
    with pytest.raises(ClicksError, match="different lengths"):
        clicks.with_items({"item": [1, 2], "section": ["x"]})
    with pytest.raises(ClicksError, match="not valid Unicode"):
        clicks.with_items({"item": [1], "section": ["\ud800"]})
    with pytest.raises(ClicksError, match="cannot be read"):
        clicks.with_items({"item": [1], "date": ["May"]})
    assert "item table: 2 of 3 items are not in it" in clicks.with_items({"item": [1], "section": ["x"]}).history


def test_a_file_brings_it_back(clicks):
    read = clicks.with_items(ROWS)
    header, arrays = pack_clicks(read)
    table, again = read.items_table, unpack_clicks(header, arrays).items_table
    assert again.groups["section"].names == table.groups["section"].names
    for name in ("links", "pictures"):
        assert getattr(again, name).tolist() == getattr(table, name).tolist()
    np.testing.assert_array_equal(again.dates, table.dates)
    np.testing.assert_array_equal(again.numbers["price"], table.numbers["price"])
    assert again.n_refused == 2
    assert unpack_clicks(*pack_clicks(clicks)).items_table is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clicks/table/groups_0/numbers", np.array([0, 1, 1, 7], np.int32)),
        ("clicks/table/groups_0/numbers", np.array([1, 0, 1, 2], np.int32)),
        ("clicks/table/groups_0/starts", np.array([0, 3, 2, 4])),
        ("clicks/table/numbers_0", np.array([1.0, np.inf, 2.0])),
        ("clicks/table/dates", np.zeros(2, np.int64)),
    ],
)
def test_a_damaged_table_is_refused(clicks, name, value):
    header, arrays = pack_clicks(clicks.with_items(ROWS))
    with pytest.raises(ValueError, match=r".+"):
        unpack_clicks(header, {**arrays, name: value})


def test_a_hostile_link_in_a_file_is_refused(clicks):
    from bmcd.models.persistence import pack_texts

    header, arrays = pack_clicks(clicks.with_items(ROWS))
    bad = pack_texts("clicks/table/links", ["javascript:alert(1)", "", ""])
    with pytest.raises(ValueError, match="addresses"):
        unpack_clicks(header, {**arrays, **bad})


def test_filters_are_those_of_plain_sets():
    """Every filter over two columns gives what sets of names give."""
    names = [{"x"}, {"x", "y"}, {"y"}, set(), {"z"}]
    kinds = [{"p"}, {"q"}, {"p", "q"}, {"p"}, set()]
    clicks = Clicks.from_matrix(np.ones((1, 5)))
    table = clicks.with_items(
        {"item": range(5), "a": [list(n) for n in names], "b": [list(n) for n in kinds]}
    ).items_table
    some_a = [None, *(list(c) for n in (1, 2) for c in itertools.combinations("xyz", n))]
    some_b = [None, ["p"], ["q"], ["p", "q"]]
    for only_a, only_b, never_a in itertools.product(some_a, some_b, some_a):
        only = {n: v for n, v in (("a", only_a), ("b", only_b)) if v}
        never = {"a": never_a} if never_a else None
        expected = [
            (not only_a or bool(set(only_a) & names[i]))
            and (not only_b or bool(set(only_b) & kinds[i]))
            and not (never_a and set(never_a) & names[i])
            for i in range(5)
        ]
        if not any(expected):
            with pytest.raises(InputError, match="no item is left"):
                allowed_items(clicks.items, table, None, only, never)
            continue
        found = allowed_items(clicks.items, table, None, only, never)
        assert (found is None and all(expected)) or found.tolist() == expected
        within = allowed_items(clicks.items, table, [0, 1, 2], only, never) if any(expected[:3]) else None
        assert within is None or within.tolist() == [*expected[:3], False, False]


def test_filters_that_cannot_be(clicks):
    table = clicks.with_items(ROWS).items_table
    for only, text in [
        ({"sections": ["news"]}, "no column 'sections'; it has section, price. Did you mean 'section'"),
        ({"section": ["sport"]}, "only: section: there is no group 'sport'; did you mean 'sports'"),
        ({"section": ["<b>"]}, "there is no group '<b>'; there are 'local', 'news', 'sports'"),
        ({"price": ["cheap"]}, "is a column of numbers, so give the least and the largest"),
        ({"price": [50, 60]}, "no item is left with only="),
    ]:
        with pytest.raises(InputError, match=text.replace("(", r"\(")):
            allowed_items(clicks.items, table, None, only)
    with pytest.raises(InputTypeError, match="must be a dict"):
        allowed_items(clicks.items, table, None, ["news"])
    with pytest.raises(InputTypeError, match="must be a list of groups, not 5"):
        allowed_items(clicks.items, table, None, {"section": 5})
    with pytest.raises(InputError, match="fitted without one"):
        allowed_items(clicks.items, None, None, {"section": ["news"]})


def test_groups_by_column():
    groups = ItemGroups.of([["b"], [], ["a", "b"], ["a"]])
    assert groups.matrix.toarray().tolist() == [[False, True], [False, False], [True, True], [True, False]]
    assert groups.take(np.array([2, 0])).matrix.toarray().tolist() == [[True, True], [False, True]]
    assert groups.has(np.array([0])).tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:alert(1)", " javascript:alert(1)",
        "\x01javascript:x", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "mailto:a@b.example", "1:2",
        "http:", "https:///x",
        "//evil.example/x", "\\\\evil.example\\x", "/\\evil.example", 'x" onerror="y', "a b", "", "x" * 2001,
        "http://[",
    ],
)  # fmt: skip
def test_what_is_no_safe_address(address):
    assert not is_safe(address)


@pytest.mark.parametrize(
    "address",
    ["http://a.example", "HTTPS://a.example/x?y=1&z=2#f", "a.png", "../a/b.png", "/a", "#x", "?q=a:b", "a/b:c"],
)
def test_what_is_a_safe_address(address):
    assert is_safe(address)
