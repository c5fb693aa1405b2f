"""The fast way of reading text files gives what the slow one gives; files that would fill memory are refused."""

import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.clicks import decoding, text_files
from bmcd.clicks.reading import read_clicks
from bmcd.clicks.text_files import TextTable
from bmcd.errors import ClicksError

CHUNK = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


def table(path, delimiter=","):
    return TextTable(str(path), lambda _: {"user": "user", "item": "item"}, delimiter, delimiter)


def outcome(read):
    """Return the rows, and the error after them."""
    rows = []
    try:
        for found in read():
            rows += found
    except ClicksError as error:
        return rows, str(error)
    return rows, None


def fast(path, delimiter):
    own = table(path, delimiter)

    def read():
        for piece in own.pieces():
            yield list(zip(piece["user"].to_pylist(), piece["item"].to_pylist(), strict=True))

    return outcome(read)


def slow(path, delimiter):
    own = table(path, delimiter)
    return outcome(lambda: ([tuple(row[place] for place in own.positions)] for _, row in own.rows()))


fields = st.text(st.sampled_from('ab"7,;\r \né\u2028\ufeff'), max_size=5)
quoted = fields.map(lambda text: '"{}"'.format(text.replace('"', '""')))
plain = st.text(st.sampled_from("ab7é "), max_size=5)
rows = st.lists(
    st.tuples(
        plain | quoted | quoted | fields, plain | quoted, st.sampled_from(["\n", "\n", "\r\n", "\n\n", "\n \n"])
    ),
    max_size=14,
)


@pytest.mark.parametrize("chunk", [CHUNK, decoding.CHUNK])
@given(rows, st.sampled_from([",", ";", "é"]), st.booleans(), st.booleans())
def test_both_ways_of_reading_give_the_same(folder, chunk, rows, delimiter, crlf, cut):
    text = f"user{delimiter}item\n" + "".join(f"{a}{delimiter}{b}{end}" for a, b, end in rows)
    text = text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text
    path = folder / "log.csv"
    path.write_bytes(text[: -1 if cut else None].encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "CHUNK", chunk)
        patch.setattr(text_files, "CHUNK", max(chunk, 200))
        patch.setattr(text_files, "PIECE", 3)
        assert fast(path, delimiter) == slow(path, delimiter)


@pytest.mark.parametrize("chunk", [CHUNK, decoding.CHUNK])
@given(rows=st.lists(st.tuples(fields, fields), max_size=20), ends=st.sampled_from(["\n", "\r\n"]))
def test_usual_quotes_take_the_fast_way(folder, chunk, rows, ends):
    path = folder / "log.csv"
    lines = ['"user","item"', *('"{}","{}"'.format(*(f.replace('"', '""') for f in row)) for row in rows)]
    path.write_bytes((ends.join(lines) + ends).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "CHUNK", chunk)
        patch.setattr(text_files, "CHUNK", 200)
        patch.setattr(TextTable, "_slow_rows", None)
        assert fast(path, ",") == (rows, None)


def test_fields_around_a_byte_order_mark_and_a_carriage_return(folder):
    path = folder / "log.csv"
    path.write_bytes('\ufeffuser,item\n\ufeff1,7\n"a\rb",7\n'.encode())
    assert read_clicks(path).users.tolist() == ["\ufeff1", "a\rb"]


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n", b" " * 1000 + b"\n", b"\t \n"])
@pytest.mark.parametrize("head", [b"", b"user,item\n", b"user,item\na,1\n"])
def test_a_bomb_of_blank_lines_is_refused(folder, blank, head):
    size = 20_000_000
    path = folder / "bomb.csv.gz"
    path.write_bytes(gzip.compress(head + blank * (size // len(blank)) + b"a,1\n", 1))
    tracemalloc.start()
    with pytest.raises(ClicksError, match=r"more than 1048576 characters of blank lines before this line. Remove"):
        read_clicks(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_blank_lines_between_rows_are_skipped(folder):
    path = folder / "blank.csv.gz"
    rows = b"".join(b"u%d,7%s" % (n, b"\n \n" * 5 if n % 1000 == 0 else b"\n" * (n % 4 + 1)) for n in range(50_000))
    path.write_bytes(gzip.compress(b"user,item\n" + rows, 1))
    assert read_clicks(path).n_users == 50_000


def test_the_line_of_an_error_is_found_after_quoted_line_ends(folder):
    path = folder / "lines.csv"
    many = b'"two\nlines","a\r\nb"\n\nx,7\n' * 30_000
    path.write_bytes(b"user,item\n" + many + b'ann," "\n' + many)
    with pytest.raises(ClicksError, match="the item id is empty") as caught:
        read_clicks(path)
    assert (caught.value.line, caught.value.column) == (1 + 5 * 30_000 + 1, 2)


def test_the_first_error_of_a_file_is_reported(folder):
    path = folder / "first.csv"
    for text, line, said in (
        ("a,1\n,2\nb\n", 3, "the user id is empty"),
        ("a,1\nb\n,2\n", 3, "there are 1 fields"),
        ("a,\n,2\n", 2, "the item id is empty"),
    ):
        path.write_text("user,item\n" + text)
        with pytest.raises(ClicksError, match=said) as caught:
            read_clicks(path)
        assert caught.value.line == line
