"""Files nobody wants: each is read as a plain parser reads it, or refused by name and line."""

import csv
import gzip
import io
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_clicks
from bmcd.errors import ClicksError

BATCHES = 10
FILES, FILES_DEEP = 500, 100_000
# Generous, because other work may hold up the machine; what is looked for is a hang.


def valid_rows(rng: random.Random) -> list[tuple[str, str]]:
    users, items = rng.choice([(1, 9), (9, 1), (1, 1), (4, 5), (30, 20)])
    if rng.random() < 0.2:
        return [(f"u{u}", str(i)) for u in range(users) for i in range(items)]
    name = rng.choice([str, "u{}".format, "né {}".format, 'say "{}", twice'.format, "two\nlines {}".format])
    return [(name(rng.randrange(users)), str(rng.randrange(items))) for _ in range(rng.randint(1, 40))]


def as_text(rows: list[tuple[str, str]], delimiter: str, rng: random.Random) -> bytes:
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, delimiter=delimiter, lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writerows([("user", "item"), *rows])
    return sink.getvalue().encode()


def flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def cut_out(data: bytes, rng: random.Random) -> bytes:
    begin, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:begin] + data[end:]


def insert(data: bytes, rng: random.Random) -> bytes:
    odd = [
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\r",
        b"\n",
        b"\n\n \n",
        b'"',
        b'""',
        b",",
        b";",
        b"\t",
        b"|",
        b" ",
    ]
    odd += [
        b"\xe9",
        b"\xc3",
        b"\xed\xa0\x80",
        "\u2028".encode(),
        b"\x0b",
        b"\x0c",
        b"\x1c",
        b"\x85",
        b"\x1a",
        b"\x1f\x8b",
    ]
    at = rng.randrange(len(data) + 1) if rng.random() < 0.9 else 0
    return data[:at] + rng.choice(odd) * rng.choice([1, 1, 1, 2, 7]) + data[at:]


def insert_huge(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return (
        data[:at] + rng.choice([b"9", b"x", b'"', b",", b"\n"]) * rng.choice([19, 20, 5_000, 200_000]) + data[at:]
    )


def shuffle_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(rng.choices(lines, k=rng.randint(1, 2 * len(lines))))


def repeat_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(lines[: at + 1] + lines[at:])


def header_only(data: bytes, rng: random.Random) -> bytes:
    return data.split(b"\n")[0] + rng.choice([b"", b"\n", b"\r\n\r\n"])


def other_delimiter(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b",", rng.choice([b";", b"\t", b"|", b", "]))


def other_line_ends(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice([b"\r", b"\r\n", b"\n\r", b"\r\r\n"]))


def other_encoding(data: bytes, rng: random.Random) -> bytes:
    encoding = rng.choice(["utf-16", "utf-16-le", "utf-8-sig", "latin-1", "utf-32"])
    return data.decode(errors="replace").encode(encoding, errors="replace")


def same(data: bytes, rng: random.Random) -> bytes:
    return data


BYTES: list[Callable[[bytes, random.Random], bytes]] = [flip, cut, cut_out, insert]
TEXT = [*BYTES, insert_huge, shuffle_lines, repeat_line, header_only, other_delimiter, other_line_ends]
TEXT += [other_encoding, same]


def mutated(data: bytes, how: list[Callable[[bytes, random.Random], bytes]], rng: random.Random) -> bytes:
    for change in rng.choices(how, k=rng.choice([1, 1, 1, 2, 3])):
        data = change(data, rng)
    return data


def hostile(rng: random.Random) -> tuple[str, bytes]:
    kind = rng.choice([".csv", ".csv", ".tsv", ".csv.gz", ".csv.gz", ".parquet", ".parquet.gz"])
    rows = valid_rows(rng)
    if kind.startswith(".parquet"):
        names = rng.choice([["user", "item"], ["user", "item", "more"], ["user"]])
        columns = [pa.array([row[0] for row in rows]), pa.array([int(row[1]) for row in rows])]
        table = pa.table([columns[n % 2] for n in range(len(names))], names=names)
        sink = io.BytesIO()
        compression = rng.choice(["none", "snappy", "zstd"])
        pq.write_table(table, sink, compression=compression, write_page_checksum=rng.random() < 0.5)
        data = sink.getvalue()
        if kind == ".parquet":
            return kind, mutated(data, BYTES, rng)
        return kind, gzip.compress(data) if rng.random() < 0.2 else mutated(gzip.compress(data), BYTES, rng)
    data = mutated(as_text(rows, "\t" if kind == ".tsv" else ",", rng), TEXT, rng)
    if kind != ".csv.gz":
        return kind, data
    half = rng.randrange(len(data) + 1)
    packed = rng.choice([gzip.compress(data), gzip.compress(data[:half]) + gzip.compress(data[half:])])
    return rng.choice([kind, kind, ".csv"]), packed if rng.random() < 0.4 else mutated(packed, BYTES, rng)


def plain_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str] | None]]:
    """Give rows and the lines where they begin, character by character; None is a row that is no csv."""
    fields, field, state, start, line = [], [], "start", 1, 1
    for at, char in enumerate(text):
        line += char == "\n"
        if state == "quoted":
            if char == '"':
                state = "closed"
            else:
                field.append(char)
        elif char == '"' and state in ("start", "closed"):
            field += ['"'] * (state == "closed")
            state = "quoted"
        elif char == "\r":
            if text[at:].lstrip("\r")[:1] not in ("", "\n"):
                yield start, None
                return
        elif char in (delimiter, "\n"):
            fields.append("".join(field))
            field, state = [], "start"
            if char == "\n":
                yield start, fields
                fields, start = [], line
        elif state == "closed":
            yield start, None
            return
        else:
            field.append(char)
            state = "plain"
    if state == "quoted":
        yield start, None
    elif fields or field or state == "closed":
        yield start, [*fields, "".join(field)]


def plain_clicks(text: str, delimiter: str) -> list[tuple[str, str]] | int | None:
    """Give the rows, or the line that is wrong, or None if it is wrong as a whole."""
    header: list[str] | None = None
    clicks: list[tuple[str, str]] = []
    for line, fields in plain_rows(text, delimiter):
        if fields is None or max(map(len, fields)) > csv.field_size_limit():
            return line
        if len(fields) == 1 and not fields[0].strip():
            continue
        if header is None:
            header = [name.strip() for name in fields]
            if header.count("user") != 1 or header.count("item") != 1:
                return line
        elif len(fields) != len(header):
            return line
        else:
            click = (fields[header.index("user")].strip(), fields[header.index("item")].strip())
            if not all(click):
                return line
            clicks.append(click)
    return clicks or None


def plain_delimiter(text: str, usual: str) -> str:
    """Give the delimiter with which the header has both columns or, if it is none of them, more than one."""
    headers = {}
    for mark in ",;\t|":
        rows = (fields for _, fields in plain_rows(text, mark))
        first = next((row for row in rows if row is None or any(map(str.strip, row))), None) or [""]
        headers[mark] = [name.strip() for name in first] if max(map(len, first)) <= csv.field_size_limit() else [""]
    having = [mark for mark, header in headers.items() if {"user", "item"} <= set(header)]
    if usual in having:
        return usual
    if not having and len(headers[usual]) == 1:
        having = [mark for mark, header in headers.items() if len(header) > 1]
    return having[0] if len(having) == 1 else usual


def plain_text(data: bytes) -> str:
    for mark, encoding in ((b"\xff\xfe\0\0", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding)
    return data.decode("utf-8-sig")


def unpacked(kind: str, data: bytes) -> bytes | None:
    if data[:2] != b"\x1f\x8b":
        return None if kind.endswith(".gz") and data else data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return None


def check(path: Path, kind: str, data: bytes) -> bool:
    path.write_bytes(data)
    clicks: Clicks | None = None
    error: ClicksError | None = None
    try:
        clicks = read_clicks(path)
    except ClicksError as refusal:
        error = refusal
    if error is not None:
        assert error.file == str(path)
        assert str(error).startswith(str(path))
        assert len(str(error)) < len(str(path)) + 1500
    if clicks is not None:
        assert clicks.n_clicks > 0
        assert clicks.matrix.has_canonical_format
        assert (np.diff(clicks.matrix.indptr) > 0).all()
        assert len(set(clicks.users.tolist())) == clicks.n_users
        assert len(set(clicks.items.tolist())) == clicks.n_items
    if kind.startswith(".parquet"):
        return clicks is not None
    whole = unpacked(kind, data)
    if whole is None:
        assert error is not None
        return False
    try:
        text = plain_text(whole)
        if "\0" in text:
            raise UnicodeDecodeError("utf-8", whole, 0, 1, "NUL")
        expected = plain_clicks(text, plain_delimiter(text, "\t" if kind == ".tsv" else ","))
    except UnicodeDecodeError:
        assert error is not None
        assert error.line is not None
    else:
        if isinstance(expected, list):
            assert clicks is not None
            frame = clicks.to_frame().astype(str)
            assert set(zip(frame["user"], frame["item"], strict=True)) == set(expected)
            assert list(map(str, clicks.users.tolist())) == list(dict.fromkeys(user for user, _ in expected))
            assert list(map(str, clicks.items.tolist())) == list(dict.fromkeys(item for _, item in expected))
            assert clicks.n_repeated == len(expected) - len(set(expected))
        else:
            assert error is not None
            assert error.line == expected
    return clicks is not None


@pytest.mark.chance(0)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_hostile_files(batch: int, tmp_path: Path, deep: bool, rotating_seed: int) -> None:
    seed = rotating_seed
    number = (FILES_DEEP if deep else FILES) // BATCHES
    read = 0
    for n in range(number):
        kind, data = hostile(random.Random(f"{seed} {batch} {n}"))
        try:
            read += check(tmp_path / f"clicks{kind}", kind, data)
        except Exception as error:
            beginning = data[:300]
            pytest.fail(f"BMCD_SEED={seed} batch {batch} file {n} ({kind}): {error!r} for {beginning!r}")
    # Were all files refused, or none, nothing would have been tried.
    assert 0 < read < number


def test_the_plain_parser_knows_the_rules() -> None:
    rows = [(1, ["user", "item"]), (2, ["a\nb", 'c"d']), (4, ['e"f', ""])]
    assert list(plain_rows('user,item\r\n"a\nb","c""d"\ne"f,', ",")) == rows
    assert plain_clicks("user,item\na,b\n\n \na,b\nc,d", ",") == [("a", "b"), ("a", "b"), ("c", "d")]
    assert plain_clicks('user,item\na,b\nc,"d\n', ",") == 3
    assert [plain_delimiter(text, ",") for text in ("user;item", "user,item;x", "a;b", "a;b\tc")] == [*";,;,"]
    assert plain_clicks("user,item\na,b\nc, \n", ",") == 3
    assert plain_clicks("user,item\n", ",") is None
    assert plain_clicks("user,item\na\rb,c", ",") == 2
