import csv
import gzip
import io
import tracemalloc
from itertools import count

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
from bmcd.errors import ClicksError

GOOD = b"user,item\nann,7\nbob,7\nann,9\n"
CLICKS = Clicks.from_matrix([[1, 1], [1, 0]], users=["ann", "bob"], items=[7, 9])
FRAME = pd.DataFrame({"user": ["ann", "bob", "ann"], "item": [7, 7, 9]})


@pytest.fixture
def write(tmp_path):
    def written(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return written


def parquet(frame) -> bytes:
    pq.write_table(pa.Table.from_pandas(frame), sink := io.BytesIO())
    return sink.getvalue()


def refused(path, text, line=None, column=None, **options) -> ClicksError:
    with pytest.raises(ClicksError) as caught:
        read_clicks(path, **options)
    error = caught.value
    assert str(error).startswith(str(path))
    assert text in str(error)
    assert (error.file, error.line, error.column) == (str(path), line, column)
    return error


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("clicks.csv", GOOD, {}),
        ("clicks.CSV", GOOD, {}),
        ("clicks.csv.gz", gzip.compress(GOOD), {}),
        ("clicks.csv.gz", gzip.compress(GOOD[:13]) + gzip.compress(GOOD[13:]) + bytes(5), {}),
        ("zipped.csv", gzip.compress(GOOD), {}),
        ("clicks.tsv", GOOD.replace(b",", b"\t"), {}),
        ("clicks.tab.gz", gzip.compress(GOOD.replace(b",", b"\t")), {}),
        ("clicks.csv", GOOD.replace(b",", b";"), {"delimiter": ";"}),
        ("clicks.log", GOOD.replace(b",", b"|"), {"delimiter": "|"}),
        ("clicks.parquet", parquet(FRAME), {}),
        ("clicks.pq", parquet(FRAME.assign(more=1.5)), {}),
        ("clicks.parquet.gz", gzip.compress(parquet(FRAME)), {}),
        ("bom.csv", b"\xef\xbb\xbf" + GOOD, {}),
        ("crlf.csv", GOOD.replace(b"\n", b"\r\n"), {}),
        ("noend.csv", GOOD.rstrip(), {}),
        ("blank.csv", b"\n \n" + GOOD.replace(b"\n", b"\n\n\r\n   \n"), {}),
        ("quoted.csv", b'"user","item"\n"ann","7"\nbob,"7"\nann,9\n', {}),
        ("spaced.csv", GOOD.replace(b"user,item", b" user , item"), {}),
        ("more.csv", b"day,item,user\n1,7,ann\n1,7,bob\n2,9,ann\n", {}),
        ("named.csv", GOOD.replace(b"user", b"who"), {"user": "who"}),
        ("repeated.csv", GOOD + b"ann,7\n", {}),
    ],
    ids=map(str, count()),
)
def test_what_can_be_read(write, name, data, options):
    clicks = read_clicks(write(name, data), **options)
    assert clicks == CLICKS
    assert clicks.items.dtype == np.int64
    assert clicks.n_repeated == (name == "repeated.csv")


def test_a_path_may_be_text(write):
    assert read_clicks(str(write("clicks.csv", GOOD))) == CLICKS


@pytest.mark.parametrize(
    ("ids", "read"),
    [
        (["7", "0", "-3"], [7, 0, -3]),
        ([str(2**63 - 1), str(-(2**63))], [2**63 - 1, -(2**63)]),
        ([str(2**63), "1"], None),
        (["9" * 5000, "1"], None),
        (["007", "7"], None),
        (["7 a", "7"], None),
        (["+7", "8"], None),
        (["-0", "0"], None),
        (["7", "x"], None),
        (["1.0", "2"], None),
        (["1_0", "2"], None),
        (["\u0667", "7"], None),
    ],
)
def test_ids_become_numbers_only_when_nothing_is_lost(write, ids, read):
    path = write("clicks.csv", "".join(f"{line}\n" for line in ["user,item", *(f"u,{i}" for i in ids)]).encode())
    clicks = read_clicks(path)
    assert clicks.items.tolist() == (read or ids)
    assert clicks.items.dtype == (np.int64 if read else object)
    assert read_clicks(path, text_ids=True).items.tolist() == ids


@pytest.mark.parametrize(
    ("data", "text", "line", "column"),
    [
        (
            b"user,item\nann,7\nbob,\n",
            "line 3, column 2 (item): the item id is empty. Every row needs a user",
            3,
            2,
        ),
        (b"x,user,item\n1, ,7\n", "line 2, column 2 (user): the user id is empty.", 2, 2),
        (b'user,item\n"a\nb",7\n\nbob,""\n', "line 5, column 2 (item): the item id is empty.", 5, 2),
        (b"user,item\nann,7\nbob\n", "line 3: there are 1 fields, but the header has 2.", 3, None),
        (
            b"user,item\nann,7,8\n",
            "line 2: there are 3 fields, but the header has 2. Quote fields that",
            2,
            None,
        ),
        (b'user,item\n"a\n\nb",7\nann\n', "line 5: there are 1 fields", 5, None),
        (b'user,item\nann,7\nbob,"7\nann,9\n', "line 3: a quote opened in this row is never closed", 3, None),
        (b'user,item\nann,"7"x\n', "line 2: text follows a closing quote", 2, None),
        (b"user,item\nann,7\rbob,7\n", "line 2: a carriage return stands alone", 2, None),
        (GOOD.replace(b"\n", b"\r"), "line 1: a carriage return stands alone", 1, None),
        (b"user,item\nann,7\nb\0b,7\n", "line 3, column 1: byte 2 of the line holds a NUL character.", 3, 1),
        (b"user,item\nann,7\nb,\xff\n", "line 3, column 2: byte 3 of the line is not UTF-8 (0xff).", 3, 2),
        (b'user,item\n"a,b",\xe9t\xe9\n', "line 2, column 2: byte 7 of the line is not UTF-8 (0xe9)", 2, 2),
        (b"user,item\nann,\xc3", "line 2, column 2: byte 5 of the line is not UTF-8 (0xc3)", 2, 2),
        (
            GOOD.decode().encode("utf-16-be"),
            "byte 1 of the line holds a NUL character. The file looks like UTF-16: encoding='utf-16-be'.",
            1,
            1,
        ),
        (
            GOOD.decode().encode("utf-16-le"),
            "byte 2 of the line holds a NUL character. The file looks like UTF-16: encoding='utf-16-le'.",
            1,
            1,
        ),
        (b"", "the file is empty. It needs a header and rows.", None, None),
        (b"\n \n\r\n", "the file is empty.", None, None),
        (b"\xef\xbb\xbf", "the file is empty.", None, None),
        (b"user,item\n", "there are no rows", None, None),
        (b"user,item", "there are no rows", None, None),
        (b"who,item\na,b\n", "line 1: there is no column 'user'; the columns are 'who', 'item'.", 1, None),
        (
            b"\nitem,item,user\na,b,c\n",
            "line 2: the column 'item' occurs 2 times. Rename all but one.",
            2,
            None,
        ),
        (b"who;what;when\na;b;c\n", "no column 'user'; the columns are 'who', 'what', 'when'. Say which", 1, None),
        (b"user item\na b\n", "the columns are 'user item'. If there are more, say what stands between", 1, None),
        (b'"user":"item"\na\tb\n', "text follows a closing quote. Double quotes inside fields.", 1, None),
        (b"u,i\n" + b"x" * 10, "there is no column 'user'; the columns are 'u', 'i'.", 1, None),
        (
            b"user,item\nann,%s\n" % (b"x" * 200_000),
            "line 2: a field is longer than csv.field_size_limit()",
            2,
            None,
        ),
        (b'user,item\nann,"%s\n' % (b"x,y\n" * 50_000), "line 2: a field is longer than", 2, None),
        (
            b"user,item\nann,7\n" + b"x" * (CHUNK + 1),
            f"line 3: the line is longer than {CHUNK} bytes.",
            3,
            None,
        ),
        (
            b"user,item\nann,7\n" + b"," * 2 * CHUNK + b"\n",
            f"line 3: the line is longer than {CHUNK} bytes",
            3,
            None,
        ),
        (b"user,item\n" + b'"\n",' * CHUNK, f"line 2: a row is longer than {CHUNK} characters.", 2, None),
    ],
    ids=map(str, count()),
)
def test_what_is_wrong_with_a_text_file(write, data, text, line, column):
    refused(write("clicks.csv", data), text, line, column)
    if data:
        refused(write("clicks.csv.gz", gzip.compress(data)), text, line, column)


def test_a_wrong_line_is_found_beyond_the_first_chunk(write):
    many = b"user,item\n" + b"someone,something\n" * 100_000
    for data, text, column in (
        (b"ann, \n", "the item id is empty", 2),
        (b"ann\0,1\n", "NUL", 1),
        (b"ann,\xf1\n", "not UTF-8", 2),
        (b"ann\n", "1 fields", None),
    ):
        refused(write("clicks.csv", many + data + many), text, 100_002, column)
    # What spans two chunks is whole again.
    accents = "".join(f"é{n},ö\n" for n in range(200_000)).encode()
    assert len(accents) > 2 * CHUNK
    assert read_clicks(write("clicks.csv", b"user,item\n" + accents)).n_users == 200_000


def test_missing_files_and_directories(tmp_path):
    refused(tmp_path / "no.csv", "there is no such file. Check the path.")
    refused(tmp_path / "no.parquet", "there is no such file. Check the path.")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", "the file cannot be opened: it is a directory.")
    (tmp_path / "folder.parquet").mkdir()
    refused(tmp_path / "folder.parquet", "the file cannot be opened: it is a directory.")
    with pytest.raises(ClicksError, match="cannot be opened"):
        read_clicks("nul\0.csv")


def test_formats_and_delimiters(write):
    known = "it can be .csv, .tsv, .tab, .txt, .parquet, .pq, each also with .gz."
    refused(write("clicks.xlsx", GOOD), f"cannot tell the format from the extension '.xlsx'; {known}")
    refused(write("clicks.gz", gzip.compress(GOOD)), "cannot tell the format from the extension ''")
    for delimiter in ("", ",,", '"', "\n"):
        refused(write("clicks.csv", GOOD), "the delimiter must be one character", delimiter=delimiter)
    refused(write("clicks.csv", GOOD), "user and item are both 'item'", user="item")


def test_damaged_gzip(write):
    rows = b"user,item\n" + b"".join(b"u%d,%d\n" % (n, n * n) for n in range(50_000))
    packed = gzip.compress(rows)
    error = refused(write("cut.csv.gz", packed[: len(packed) // 2]), "the file is damaged or cut off")
    assert 10_000 < int(str(error).split("; ")[1].split()[0]) < 40_000
    refused(write("end.csv.gz", packed[:-4]), "lines were readable")
    refused(write("trailing.csv.gz", packed + b"garbage"), "50001 lines were readable. Get it again.")
    refused(write("crc.csv.gz", packed[:-8] + b"12345678"), "50001 lines were readable")
    refused(write("head.csv.gz", packed[:5]), "0 lines were readable")
    middle = len(packed) // 2
    refused(write("flipped.csv.gz", packed[:middle] + b"\xff" * 50 + packed[middle + 50 :]), "lines were readable")
    refused(write("plain.csv.gz", GOOD), "the name ends in .gz, but it is not gzip data. Rename the file.")
    refused(write("empty.csv.gz", b""), "the file is empty")


def test_what_is_wrong_with_a_parquet_file(write):
    data = parquet(FRAME)
    for broken in (b"", b"PAR1", data[: len(data) // 2], GOOD):
        refused(write("broken.parquet", broken), "not a valid parquet file")
    refused(write("cut.parquet.gz", gzip.compress(data)[:50]), "not a valid parquet file")
    error = refused(
        write("null.parquet", parquet(FRAME.assign(user=["a", None, "b"]))),
        "row 1, column user: the user id",
        column="user",
    )
    assert error.row == 1
    missing = "there is no column 'who'; the columns are 'user', 'item'."
    refused(write("clicks.parquet", data), missing, column="who", user="who")
    refused(write("none.parquet", parquet(FRAME.iloc[:0])), "there are no rows")


TITLES = b"item,title\n9,Nine\n7,Seven\n5,Five\n9,Nine\n"


@pytest.mark.parametrize("clicks", ["csv", "parquet"])
@pytest.mark.parametrize("titles", ["csv", "tsv.gz", "parquet", "dict", "frame"])
def test_titles(write, clicks, titles):
    path = write(f"clicks.{clicks}", GOOD if clicks == "csv" else parquet(FRAME))
    frame = pd.read_csv(io.BytesIO(TITLES))
    table = {
        "csv": lambda: write("titles.csv", TITLES),
        "tsv.gz": lambda: str(write("titles.tsv.gz", gzip.compress(TITLES.replace(b",", b"\t")))),
        "parquet": lambda: write("titles.parquet", parquet(frame)),
        "dict": lambda: dict(zip(frame["item"], frame["title"], strict=True)),
        "frame": lambda: frame,
    }[titles]()
    read = read_clicks(path, titles=table)
    assert read.titles.tolist() == ["Seven", "Nine"]
    assert read.summary().n_titles == 2
    assert read.history == ("1 titles of items nobody clicked left out",)


def test_titles_follow_the_ids_of_the_clicks(write):
    titles = write("titles.csv", b"item,title\n7,Seven\n007,Bond\nx,\n")
    assert read_clicks(write("a.csv", GOOD), titles=titles).titles.tolist() == ["Seven", "9"]
    text = write("b.csv", b"user,item\na,7\na,007\na,x\n")
    assert read_clicks(text, titles=titles).titles.tolist() == ["Seven", "Bond", "x"]
    assert read_clicks(write("c.csv", GOOD), titles=titles, text_ids=True).titles.tolist() == ["Seven", "9"]
    other = write("other.csv", b"item;name\n7;Seven\n")
    semi = write("semi.csv", GOOD.replace(b",", b";"))
    assert read_clicks(semi, titles=other, title="name", delimiter=";").titles.tolist() == ["Seven", "9"]


@pytest.mark.parametrize(
    ("name", "data", "text", "line", "column"),
    [
        ("t.csv", b"item,title\n7,A\n9,B\n7,C\n", "line 4, column 2 (title): item '7' has two titles.", 4, 2),
        ("t.csv", b"title,item\nA,7\nB,\n", "line 3, column 2 (item): the item id is empty.", 3, 2),
        (
            "t.csv",
            b"item,name,more\n7,A,B\n",
            "line 1: there is no column 'title'; the columns are 'item', 'name', 'more'. Say which one it is: ",
            1,
            None,
        ),
        ("t.csv", b"item,title\n8,A\n", "no title belongs to a clicked item (8 against 7).", None, None),
        ("t.csv", b"", "the file is empty", None, None),
        ("t.doc", b"", "cannot tell the format from the extension '.doc'", None, None),
    ],
    ids=map(str, count()),
)
def test_what_is_wrong_with_a_title_file(write, name, data, text, line, column):
    path = write(name, data)
    with pytest.raises(ClicksError) as caught:
        read_clicks(write("clicks.csv", GOOD), titles=path)
    error = caught.value
    assert str(error).startswith(str(path))
    assert text in str(error)
    assert (error.file, error.line, error.column) == (str(path), line, column)


def test_two_titles_in_a_parquet_file(write):
    path = write("t.parquet", parquet(pd.DataFrame({"item": [7, 7], "title": ["A", "B"]})))
    with pytest.raises(ClicksError, match="row 1, column title: item 7 has two titles") as caught:
        read_clicks(write("clicks.csv", GOOD), titles=path)
    assert (caught.value.file, caught.value.row) == (str(path), 1)


# csv.writer cannot write NUL in all versions, and an id of blanks only is refused.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
plain_ids = st.one_of(
    texts.filter(str.strip),
    st.sampled_from(
        ['"', ",", '""', "a,b", 'say "hi"', "two\nlines", "cr\rlf\r\n", "\u2028x", "\ufeff1", "7", "007"]
    ),
    st.integers(-(2**70), 2**70).map(str),
)
huge_ids = st.builds(lambda text, n: text * n, st.sampled_from(["x", "é", '"', "\n."]), st.integers(1, 60_000))


@pytest.mark.parametrize("delimiter", [",", "\t"])
@given(st.lists(st.tuples(plain_ids | huge_ids, plain_ids), min_size=1, max_size=20), st.booleans())
def test_what_csv_writes_is_read_again(tmp_path_factory, delimiter, rows, zipped):
    rows = [row for row in rows if row[0].strip()]
    sink = io.StringIO(newline="")
    csv.writer(sink, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("user", "item"), *rows])
    spellings = [set(column) for column in zip(*rows, strict=True)]
    rows = [(user.strip(), item.strip()) for user, item in rows]
    data = sink.getvalue().encode()
    path = tmp_path_factory.getbasetemp() / f"round.{'csv' if delimiter == ',' else 'tsv'}{'.gz' if zipped else ''}"
    path.write_bytes(gzip.compress(data, 1) if zipped else data)
    if not rows:
        refused(path, "there are no rows")
        return
    clicks = read_clicks(path)
    frame = clicks.to_frame()
    read = list(zip(map(str, frame["user"].tolist()), map(str, frame["item"].tolist()), strict=True))
    assert sorted(read) == sorted(set(rows))
    assert list(map(str, clicks.users.tolist())) == list(dict.fromkeys(user for user, _ in rows))
    assert list(map(str, clicks.items.tolist())) == list(dict.fromkeys(item for _, item in rows))
    assert clicks.n_repeated == len(rows) - len(set(rows))
    blanks = [sum(text != text.strip() for text in texts) for texts in spellings]
    said = " ".join(clicks.history)
    for what, number in zip(("user", "item"), blanks, strict=True):
        assert (f"blanks around {number} {what} ids stripped" in said) == (number > 0)


def test_memory_grows_with_the_clicks_not_with_the_text(write):
    wide = b"user,item,note\n" + b"".join(b"%d,%d,%s\n" % (n % 100, n % 70, b"x" * 1000) for n in range(30_000))
    path = write("wide.csv", wide)
    tracemalloc.start()
    read_clicks(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(wide) > 30_000_000
    assert peak < 15_000_000
