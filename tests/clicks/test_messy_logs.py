"""Logs as shops have them: ids missing or with blanks around them, other delimiters, encodings and names."""

import codecs
import gzip
import io
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.clicks.decoding import CHUNK
from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_clicks
from bmcd.errors import ClicksError, Message, Option

CLICKS = Clicks.from_matrix([[1, 1], [1, 0]], users=["zoé", "bob"], items=[7, 9])
TEXT = "user,item\nzoé,7\nbob,7\nzoé,9\n"


@pytest.fixture
def write(tmp_path):
    def written(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return written


def parquet(frame) -> bytes:
    pq.write_table(pa.Table.from_pandas(frame), sink := io.BytesIO())
    return sink.getvalue()


# Rows without ids.


def test_rows_without_ids_are_dropped_and_counted(write):
    path = write("log.csv", "user,item\nann,7\n,8\nbob, \nann,9\n , \n")
    clicks = read_clicks(path, missing="drop")
    assert clicks == Clicks.from_matrix([[1, 1]], users=["ann"], items=[7, 9])
    assert clicks.items.dtype == np.int64
    assert clicks.n_dropped == clicks.summary().n_dropped == 3
    assert clicks.history == ("dropped 3 of 5 rows: 2 without a user and 2 without an item",)
    assert "rows dropped: 3\n" in str(clicks.summary())
    with pytest.raises(ClicksError) as caught:
        read_clicks(path)
    assert (caught.value.line, caught.value.column) == (3, 1)
    assert str(caught.value).endswith("Leave out those without it with missing='drop'.")
    with pytest.raises(ClicksError, match="all 2 rows were dropped, 2 without a user, so there are no clicks"):
        read_clicks(write("none.csv", "user,item\n,1\n,2\n"), missing="drop")
    with pytest.raises(ClicksError, match="missing must be 'error' or 'drop', not 'skip'"):
        read_clicks(path, missing="skip")


cells = st.sampled_from(["", " ", "a", "b ", "7", "8", "007"])


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=12))
def test_dropping_rows_is_reading_a_log_without_them(tmp_path_factory, rows):
    folder = tmp_path_factory.getbasetemp()
    kept = [row for row in rows if row[0].strip() and row[1].strip()]
    for name, lines in (("all.csv", rows), ("kept.csv", kept)):
        (folder / name).write_text("".join(f"{user},{item}\n" for user, item in [("user", "item"), *lines]))
    frame = pd.DataFrame(rows, columns=["user", "item"]).replace("", None)
    if not kept:
        for read in (
            lambda: read_clicks(folder / "all.csv", missing="drop"),
            lambda: Clicks.from_frame(frame, missing="drop"),
        ):
            with pytest.raises(ClicksError, match="rows were dropped"):
                read()
        return
    clicks, want = read_clicks(folder / "all.csv", missing="drop"), read_clicks(folder / "kept.csv")
    assert clicks == want
    assert (clicks.users.dtype, clicks.items.dtype) == (want.users.dtype, want.items.dtype)
    assert (clicks.n_dropped, clicks.n_repeated) == (len(rows) - len(kept), want.n_repeated)
    same = Clicks.from_frame(frame, missing="drop")
    assert same == read_clicks(folder / "kept.csv", text_ids=True)
    assert same.n_dropped == clicks.n_dropped


def test_frames_drop_rows_too(require):
    pl = require("polars")
    for frame in (
        pd.DataFrame({"user": [1.0, None, 2.0], "item": ["a", "b", " "]}),
        pl.DataFrame({"user": [1, None, 2], "item": ["a", "b", ""]}),
        pa.table({"user": [1, None, 2], "item": ["a", "b", None]}),
    ):
        clicks = Clicks.from_frame(frame, missing="drop")
        assert (clicks.users.tolist(), clicks.items.tolist(), clicks.n_dropped) == ([1], ["a"], 2)
        assert clicks.history == ("dropped 2 of 3 rows: 1 without a user and 1 without an item",)


# Blanks around ids.


def test_blanks_around_ids_are_stripped_and_said(write):
    rows = [("ann", "SKU-1"), ("ann ", "SKU-1 "), (" bob", "SKU-1"), ("bob", "\tSKU-2\u00a0")]
    frame = pd.DataFrame(rows, columns=["user", "item"])
    text = "".join(f"{user},{item}\n" for user, item in [("user", "item"), *rows])
    for clicks in (
        Clicks.from_frame(frame),
        read_clicks(write("log.csv", text)),
        read_clicks(write("log.parquet", parquet(frame))),
    ):
        assert clicks.users.tolist() == ["ann", "bob"]
        assert clicks.items.tolist() == ["SKU-1", "SKU-2"]
        assert clicks.history == (
            "blanks around 2 user ids stripped: 'ann ', ' bob'",
            "blanks around 2 item ids stripped: 'SKU-1 ', '\\tSKU-2\\xa0'",
            "1 repeated clicks collapsed",
        )
    given = Clicks.from_matrix([[1, 1]], items=["a ", "a"], titles={"a ": "A", "a": "B"})
    assert given.items.tolist() == ["a ", "a"]  # one by one, they are the caller's own
    assert given.titles.tolist() == ["A", "B"]


def test_blanks_do_not_keep_a_column_from_being_numbers(write):
    clicks = read_clicks(write("log.csv", "user,item\nann, 7\nann,8 \n"))
    assert clicks.items.tolist() == [7, 8]
    assert clicks.items.dtype == np.int64


def test_blanks_do_not_keep_titles_from_items(write):
    log = write("log.csv", "user,item\nann,a \nann,b\n")
    for titles in (
        write("titles.csv", "item,title\n a,A\nb ,B\n"),
        {"a ": "A", "b": "B"},
        pd.DataFrame({"item": ["a", " b"], "title": ["A", "B"]}),
    ):
        assert read_clicks(log, titles=titles).titles.tolist() == ["A", "B"]


# Delimiters and encodings.


@pytest.mark.parametrize("mark", [";", "\t", "|", ","])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt"])
def test_a_delimiter_that_is_clearly_meant(write, mark, suffix):
    path = write(f"log.{suffix}", "\n" + TEXT.replace(",", mark))
    clicks = read_clicks(path)
    assert clicks == CLICKS
    shown = "tab" if mark == "\t" else repr(mark)
    usual = "," if suffix == "csv" else "\t"
    assert clicks.history == ((f"columns separated by {shown}, as the header shows",) if mark != usual else ())
    assert read_clicks(path, delimiter=mark).history == ()


def test_the_usual_delimiter_is_taken_where_it_will_do(write):
    path = write("log.csv", "user,item,a;b;c;d\nzoé,7,x\nbob,7,x\nzoé,9,x;y\n")
    assert read_clicks(path) == CLICKS
    assert read_clicks(path).history == ()
    quoted = write("quoted.csv", '"user";"item";"a,b"\nzoé;7;"1,2"\nbob;7;\nzoé;"9";"x;y"\n')
    assert read_clicks(quoted) == CLICKS


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("encoding", "options", "said"),
    [
        ("utf-16", {}, "utf-16-le"),
        ("utf-16", {"encoding": "latin-1"}, "utf-16-le"),  # the mark knows better
        ("utf-16-be", {"encoding": "utf-16-be"}, None),
        ("utf-16-le", {"encoding": "UTF_16_LE"}, None),
        ("utf-32", {}, "utf-32-le"),
        ("utf-8-sig", {}, None),
        ("utf-8", {"encoding": "utf-8-sig"}, None),
        ("latin-1", {"encoding": "latin-1"}, None),
        ("cp1252", {"encoding": "windows-1252"}, None),
    ],
)
def test_encodings(write, encoding, options, said, packed):
    data = TEXT.replace("\n", "\r\n").encode(encoding)
    path = write("log.csv.gz", gzip.compress(data)) if packed else write("log.csv", data)
    clicks = read_clicks(path, **options)
    assert clicks == CLICKS
    assert clicks.history == ((f"read as {said}, by the byte-order mark of the file",) if said else ())


def test_a_large_file_in_another_encoding(write):
    lines = [f"zoé{n},{n % 50}" for n in range(150_000)]
    for encoding in ("utf-16", "latin-1"):
        data = "\n".join(["user,item", *lines]).encode(encoding)
        assert len(data) > 2 * CHUNK or encoding == "latin-1"
        clicks = read_clicks(write("log.csv", data), encoding="latin-1")
        assert (clicks.n_users, clicks.n_items) == (150_000, 50)
        assert clicks.users[-1] == "zoé149999"


def test_what_is_not_in_the_encoding(write):
    good = "user,item\n" + "zoé,7\n" * 300_000
    for data, encoding, line in (
        (good.encode("utf-16-le") + b"\x00\xdc", "utf-16-le", 300_002),  # half of a pair
        (codecs.BOM_UTF16_LE + good.encode("utf-16-le") + b"x", None, 300_002),  # half of a character
        (b"user,item\nann,7\nzo\x81,7\n", "cp1252", 3),
        (good.encode(), "ascii", 2),
    ):
        with pytest.raises(ClicksError, match=r"the line is not .* Say which encoding it is") as caught:
            read_clicks(write("log.csv", data), encoding=encoding)
        assert caught.value.line == line
    for name in ("klingon", "rot13", "base64", "", "a\0b"):
        with pytest.raises(ClicksError, match=r"is not known. Common ones are utf-8, utf-16, latin-1"):
            read_clicks(write("log.csv", TEXT), encoding=name)
    with pytest.raises(ClicksError, match=r"is not UTF-8 .*, or say what it is: encoding='latin-1' is common"):
        read_clicks(write("log.csv", TEXT.encode("latin-1")))


@given(st.text(max_size=6).map(str.strip).filter(bool), st.sampled_from(["utf-16", "utf-16-be", "utf-32", "utf-7"]))
def test_ids_survive_every_encoding(tmp_path_factory, text, encoding):
    if "\0" in text:
        return
    path = tmp_path_factory.getbasetemp() / "encoded.csv"
    cell = text.replace('"', '""')
    path.write_bytes(f'user,item\n"{cell}",7\n'.encode(encoding))
    assert read_clicks(path, encoding=encoding, text_ids=True).users.tolist() == [text]


# Titles.


def test_titles_in_the_log_itself(write):
    rows = "user,item,name\nann,7,Seven\nann,8,\nbob,7,Sept\nbob,8, Eight \ncid,9,\n"
    frame = pd.read_csv(io.StringIO(rows))
    for clicks in (
        read_clicks(write("log.csv", rows), title_column="name"),
        read_clicks(write("log.parquet", parquet(frame)), title_column="name"),
        Clicks.from_frame(frame, title_column="name"),
    ):
        assert clicks.titles.tolist() == ["Seven", "Eight", "9"]
        assert clicks.titled.tolist() == [True, True, False]
        said = "1 items have several titles in the log, of which the first was kept: 7 is 'Seven'"
        assert clicks.history == (said,)
    with pytest.raises(ClicksError, match="titles and title_column are two sources of titles"):
        read_clicks(write("log.csv", rows), title_column="name", titles={7: "Seven"})
    with pytest.raises(ClicksError, match="no title belongs to a clicked item"):
        read_clicks(write("log.csv", "user,item,name\nann,7,\n"), title_column="name")
    with pytest.raises(ClicksError, match="item and title_column are both 'item'"):
        read_clicks(write("log.csv", rows), title_column="item")


@pytest.mark.parametrize(
    ("header", "options", "guessed"),
    [
        ("item,title", {}, False),
        ("sku,title", {}, True),
        ("item,name", {}, True),
        ("sku,name", {}, True),
        ("article,name", {"item": "article"}, True),
        ("item,title", {"item": "article"}, False),
        ("sku,name", {"title_item": "sku", "title": "name"}, False),
        ("sku,name,price", {"title_item": "sku", "title": "name"}, False),
        ("sku,title,price", {"title_item": "sku"}, False),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "semicolon", "parquet", "frame"])
def test_a_titles_file_names_its_columns_as_it_likes(write, header, options, guessed, kind):
    more = ",1" if "price" in header else ""
    text = f"{header}\n7,Seven{more}\n9,Nine{more}\n"
    frame = pd.read_csv(io.StringIO(text))
    titles = {
        "csv": lambda: write("titles.csv", text),
        "semicolon": lambda: write("titles.csv", text.replace(",", ";")),
        "parquet": lambda: write("titles.parquet", parquet(frame)),
        "frame": lambda: frame,
    }[kind]()
    log = write("log.csv", TEXT.replace("item", options.get("item", "item")))
    clicks = read_clicks(log, titles=titles, **options)
    assert clicks.titles.tolist() == ["Seven", "Nine"]
    first, second = header.split(",")[:2]
    said = f"titles of the column {second!r}, by the items of the column {first!r}"
    assert (said in clicks.history) == guessed


def test_columns_of_titles_that_are_not_there(write):
    log, titles = write("log.csv", TEXT), write("titles.csv", "sku,name,price\n7,Seven,1\n")
    for options, said in (
        (
            {},
            "no column 'item'; the columns are 'sku', 'name', 'price'. Say which one it is: title_item='sku'",
        ),
        ({"title_item": "sku"}, "there is no column 'title'; .* Say which one it is: title='name'"),
        ({"title_item": "id"}, "there is no column 'id'"),
    ):
        with pytest.raises(ClicksError, match=said):
            read_clicks(log, titles=titles, **options)
    two = write("two.csv", "sku,name\n7,Seven\n")
    with pytest.raises(ClicksError, match="there is no column 'id'"):  # what is named is not guessed
        read_clicks(log, titles=two, title_item="id")


# The library of the answers.


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.csv.gz", "log.parquet", "log.parquet.gz"])
def test_files_give_pandas_unless_told_otherwise(write, require, name):
    require("polars")
    frame = pd.DataFrame({"user": ["zoé", "bob", "zoé"], "item": [7, 7, 9]})
    data = parquet(frame) if "parquet" in name else TEXT.encode()
    path = write(name, gzip.compress(data) if name.endswith("gz") else data)
    assert isinstance(read_clicks(path).to_frame(), pd.DataFrame)
    for library in ("pandas", "polars", "pyarrow"):
        assert type(read_clicks(path, library=library).to_frame()).__module__.startswith(library)
    with pytest.raises(ClicksError, match="library must be one of 'pandas', 'polars', 'pyarrow', not 'dask'"):
        read_clicks(path, library="dask")


# Calls that were meant for something else.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.ones((2, 2)), "got ndarray. For a matrix of users x items: bmcd.Clicks.from_matrix(matrix)."),
        ("log.csv", "got str. For a file: bmcd.read_clicks('log.csv')."),
        ({"user": [1]}, "got dict. A dict of columns becomes one with pandas.DataFrame(...)."),
        (
            [("ann", 7)],
            "got list. It needs a column of users and one of items: bmcd.Clicks.from_frame(frame, user='",
        ),
    ],
)
def test_what_is_no_frame_is_told_the_right_call(given, said):
    with pytest.raises(ClicksError) as caught:
        Clicks.from_frame(given)
    assert said in str(caught.value)


def test_messages_know_their_options():
    inner = Message("say ", Option("unknown", "ignore"))
    error = ClicksError(Message("Leave them out, or ", inner, "."), file="log.csv", line=3)
    assert str(error) == "log.csv, line 3: Leave them out, or say unknown='ignore'."
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    for one in (error, again):
        assert [part for part in one.args[0].parts if isinstance(part, Option)] == [Option("unknown", "ignore")]
