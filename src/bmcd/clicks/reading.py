"""Clicks out of csv, tsv and parquet files, plain or gzip, with the exact place of whatever is wrong."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.frames import columns, objects
from bmcd.clicks.table import Clicks
from bmcd.errors import ClicksError
from bmcd.system.text import listed, shown

__all__ = ["read_clicks"]

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")
# How much is read at a time, and the longest line and row there may be: text without line ends must not
# fill the memory.
CHUNK = 1 << 20
# Only these are turned into numbers: writing the number down gives the very same text again.
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
CSV_ERRORS = {
    "unexpected end": "a quote opened in this row is never closed. Close it, or double it within an id.",
    "field larger": "a field is longer than csv.field_size_limit(). Is a quote opened here never closed?",
    "new-line": "a carriage return stands alone. Save the file with line ends \\n or \\r\\n, not \\r.",
    "expected after": "text follows a closing quote. Double quotes inside fields, or pass a delimiter.",
}


def read_clicks(
    path: str | os.PathLike[str],
    user: str = "user",
    item: str = "item",
    titles: Any = None,
    *,
    title: str = "title",
    delimiter: str | None = None,
    text_ids: bool = False,
) -> Clicks:
    r"""Read a csv, tsv or parquet file, each also as .gz, with one row a click.

    `user` and `item` name the two columns; others are left alone. `titles` is another such file with the
    columns `item` and `title`, or a frame, or a dict. The delimiter follows from the extension of a file;
    one given here holds for both. In text files a column of ids becomes int64 if every id in it is a whole
    number in its plain form (so "007" stays text), unless `text_ids=True`. Text must be UTF-8; blank lines
    are skipped. Anything that cannot be read is a `ClicksError` with file, line and column.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "clicks.csv")
    ...     _ = file.write_text("user,item\nann,7\nbob,7\nann,9\n")
    ...     clicks = read_clicks(file)
    >>> clicks, clicks.items.tolist()
    (Clicks(2 users x 2 items, 3 clicks), [7, 9])
    """
    file = os.fsdecode(path)
    with _located(file):
        if user == item:
            raise ClicksError(f"user and item are both {user!r}; they must be two different columns.")
        if (mark := _delimiter(file, delimiter)) is None:
            clicks = Clicks.from_frame(_parquet(file, user, item), user, item)
        else:
            clicks = _clicks_of_text(_Table(file, mark, user, item), text_ids)
    if not isinstance(titles, (str, os.PathLike)):
        return clicks if titles is None else clicks.with_titles(titles, item=item, title=title)
    file = os.fsdecode(titles)
    with _located(file):
        if (mark := _delimiter(file, delimiter)) is None:
            return clicks.with_titles(_parquet(file, item, title), item=item, title=title)
        found = _titles_of_text(_Table(file, mark, item, title), whole=clicks.items.dtype != object)
        return clicks.with_titles(found)


def _clicks_of_text(table: _Table, text_ids: bool) -> Clicks:
    users, items = _Codes(), _Codes()
    user_codes, item_codes = array("i"), array("i")
    line, user, item = 0, "", ""
    try:
        for line, user, item in table:  # noqa: B007 (used when a code is refused)
            user_codes.append(users[user])
            item_codes.append(items[item])
    except KeyError:
        raise table.empty(line, 1 if user.strip() else 0, "Every row needs a user and an item.") from None
    codes = (np.frombuffer(column, dtype=np.int32) for column in (user_codes, item_codes))
    return Clicks.from_codes(*codes, *(_ids(list(known), text_ids) for known in (users, items)))


def _titles_of_text(table: _Table, whole: bool) -> dict[Any, str]:
    found: dict[Any, str] = {}
    for line, item, title in table:
        if not item.strip():
            raise table.empty(line, 0, "Every title needs an item.")
        key = int(item) if whole and WHOLE.fullmatch(item) else item
        if title.strip() and found.setdefault(key, title) != title:
            raise table.error(f"item {shown(item)} has two titles. Keep one of them.", line, 1)
    return found


class _Codes(dict[str, int]):
    """Numbers ids as they come, so that the text of each is kept, and looked at, only once."""

    def __missing__(self, text: str) -> int:
        if not text.strip():
            raise KeyError(text)
        code = self[text] = len(self)
        return code


def _ids(known: list[str], text_ids: bool) -> NDArray[Any]:
    if known and not text_ids and all(map(WHOLE.fullmatch, known)):
        numbers = list(map(int, known))
        if min(numbers) >= -(2**63) and max(numbers) < 2**63:
            return np.array(numbers, dtype=np.int64)
    return objects(known)


class _Table:
    """Two columns of a text file; iteration gives the line where a row begins, and its two fields."""

    def __init__(self, file: str, delimiter: str, *names: str) -> None:
        self.file, self.delimiter, self.names = file, delimiter, names
        self.positions: list[int] = []

    def error(self, reason: str, line: int | None = None, which: int | None = None) -> ClicksError:
        if which is None:
            return ClicksError(reason, file=self.file, line=line)
        column, name = self.positions[which] + 1, self.names[which]
        return ClicksError(reason, file=self.file, line=line, column=column, name=name)

    def empty(self, line: int, which: int, advice: str) -> ClicksError:
        return self.error(f"the {self.names[which]} id is empty. {advice}", line, which)

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        start = 1

        def lines() -> Iterator[str]:
            size = 0
            for text in _blocks(self.file, self.delimiter):
                before = start
                yield from io.StringIO(text, newline="\n")
                # A row may go on over many lines inside quotes, but not for ever.
                size = size + len(text) if start == before else 0
                if size > CHUNK:
                    raise self.error(f"a row is longer than {CHUNK} characters. Is a quote never closed?", start)

        reader = csv.reader(lines(), delimiter=self.delimiter, strict=True)
        width, first, second = -1, 0, 0  # the header, which is yet to come, sets them
        try:
            for row in reader:
                if len(row) == width:
                    yield start, row[first], row[second]
                elif any(cell.strip() for cell in row) or len(row) > 1:
                    if width >= 0:
                        reason = f"there are {len(row)} fields, but the header has {width}."
                        raise self.error(f"{reason} Quote fields that contain {self.delimiter!r}.", start)
                    width, (first, second) = len(row), self._find([cell.strip() for cell in row], start)
                start = reader.line_num + 1
        except csv.Error as error:
            known = (text for key, text in CSV_ERRORS.items() if key in str(error))
            raise self.error(next(known, f"{error}."), start) from error
        if width < 0:
            raise self.error("the file is empty. It needs a header and rows.")

    def _find(self, header: list[str], line: int) -> list[int]:
        for name in self.names:
            if header.count(name) > 1:
                raise self.error(
                    f"the column {name!r} occurs {header.count(name)} times. Rename all but one.", line
                )
            if name not in header:
                reason = f"there is no column {name!r}; the columns are {listed([shown(c) for c in header])}."
                for other in ",;\t|":
                    cells = self.delimiter.join(header).split(other)
                    if set(self.names) <= {cell.strip(' "') for cell in cells}:
                        reason += f" The file looks delimited by {other!r}: pass delimiter={other!r}."
                        break
                raise self.error(reason, line)
        self.positions = [header.index(name) for name in self.names]
        return self.positions


def _blocks(file: str, delimiter: str) -> Iterator[str]:
    """Give the text of a file in pieces of whole lines."""
    done, rest, chunk = 0, b"", b"-"
    with _opened(file) as source:
        while chunk:
            try:
                # read1 gives what there is before damage is met, so that all readable lines are read.
                chunk = source.read1(CHUNK)
            except (OSError, EOFError, zlib.error) as error:
                reason = f"the file is damaged or cut off ({error}); {done} lines were readable. Get it anew."
                raise ClicksError(reason, file=file) from error
            data = rest + chunk
            # Only the first line can be the rest of earlier chunks, so no other can be too long.
            if max(data.find(b"\n"), len(data) if b"\n" not in data else 0) > CHUNK:
                reason = f"the line is longer than {CHUNK} bytes. Are the line ends \\n or \\r\\n?"
                raise ClicksError(reason, file=file, line=done + 1)
            end = data.rfind(b"\n") + 1 if chunk else len(data)
            block, rest = data[:end], data[end:]
            if block:
                yield _decoded(block, file, delimiter, done)
                done += block.count(b"\n")


def _decoded(block: bytes, file: str, delimiter: str, done: int) -> str:
    if not done:
        if block[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise ClicksError("the file is UTF-16. Save it as UTF-8.", file=file, line=1, column=1)
        block = block.removeprefix(b"\xef\xbb\xbf")
    try:
        text, at = block.decode(), block.find(b"\0")
        reason = "holds a NUL character. Is the file really text, saved as UTF-8?"
    except UnicodeDecodeError as error:
        text, at = "", error.start
        reason = f"is not UTF-8 ({block[at]:#04x}). Save the file as UTF-8."
    if at < 0:
        return text
    begin = block.rfind(b"\n", 0, at) + 1
    # Delimiters inside quotes do not count.
    before = re.sub('"[^"]*"?', "", block[begin:at].decode(errors="replace"))
    line, column = done + block.count(b"\n", 0, at) + 1, before.count(delimiter) + 1
    raise ClicksError(f"byte {at - begin + 1} of the line {reason}", file=file, line=line, column=column)


@contextmanager
def _opened(file: str) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open a file and, whatever its name, look through gzip."""
    try:
        raw = open(file, "rb")  # noqa: SIM115 (closed below)
    except FileNotFoundError as error:
        raise ClicksError("there is no such file. Check the path.", file=file) from error
    except (OSError, ValueError) as error:
        why = "it is a directory" if os.path.isdir(file) else str(error)
        raise ClicksError(f"the file cannot be opened: {why}.", file=file) from error
    with raw:
        start = raw.peek(2)[:2]
        if start == b"\x1f\x8b":
            yield gzip.GzipFile(fileobj=raw)
        elif file.lower().endswith(".gz") and start:
            raise ClicksError("the name ends in .gz, but it is not gzip data. Rename the file.", file=file)
        else:
            yield raw


def _delimiter(file: str, given: str | None) -> str | None:
    """Return what delimits the fields of a text file, or None for parquet."""
    if given is not None and (len(given) != 1 or given in '"\r\n\0'):
        raise ClicksError(f"the delimiter must be one character, not {given!r}.")
    name = PurePath(file).name.lower().removesuffix(".gz")
    suffix = PurePath(name).suffix
    if suffix in PARQUET:
        return None
    if given is None and suffix not in DELIMITERS:
        known = listed([*DELIMITERS, *PARQUET])
        reason = f"cannot tell the format from the extension {suffix!r}; it can be {known}, each also with .gz."
        raise ClicksError(f"{reason} For other text files pass delimiter=.")
    return given or DELIMITERS[suffix]


def _parquet(file: str, *names: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _opened(file) as source:
        try:
            whole = pa.BufferReader(source.read()) if isinstance(source, gzip.GzipFile) else source
            with pq.ParquetFile(whole, page_checksum_verification=True) as parquet:
                columns(parquet.schema_arrow.empty_table(), *names)
                table = parquet.read(columns=list(names))
                table.validate(full=True)
                return table
        except ClicksError:
            raise
        except Exception as error:  # damaged files make pyarrow raise errors of many kinds
            raise ClicksError(
                f"the parquet file is damaged or is none ({str(error)[:200]}). Write it anew."
            ) from error


@contextmanager
def _located(file: str) -> Iterator[None]:
    """Name the file in errors that do not know it."""
    try:
        yield
    except ClicksError as error:
        if error.file is not None:
            raise
        raise ClicksError(error.reason, file=file, row=error.row, column=error.column) from error.__cause__
