"""Columns of csv and tsv files: parsed by pyarrow in blocks of whole rows; what it cannot parse, row by row.

Both ways give the same fields. The second one is slow but knows on which line each row begins. It reads a block
that pyarrow refuses, everything from the first block with unusual quotes, and the file again when a value is wrong.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from bmcd.clicks.decoding import CHUNK, DELIMITERS, MARKS, TextFile, n_lines
from bmcd.errors import ClicksError, Message, Option
from bmcd.utils import listed, shown

# From all columns of a file to those wanted, by the argument that names each.
Names = Callable[[list[str]], dict[str, str]]
# How many rows are converted at once where they are read one by one.
PIECE = 1 << 16
# What columns are often called.
OFTEN = {
    "user": ("user", "customer", "client", "visitor", "session", "who"),
    "item": ("item", "product", "article", "sku", "what"),
    "title": ("title", "name", "label"),
    "time": ("time", "date", "when", "stamp"),
    "session": ("session", "visit"),
}
CSV_ERRORS = {
    "unexpected end": "a quote opened in this row is never closed. Close it, or double it within an id.",
    "field larger": "a field is longer than csv.field_size_limit(). Is a quote opened here never closed?",
    "new-line": "a carriage return stands alone. Save the file with line ends \\n or \\r\\n, not \\r.",
    "expected after": "text follows a closing quote. Double quotes inside fields.",
}


class TextTable:
    """Some columns of a text file.

    `names` takes the header and returns the columns wanted, by the argument that names each. `usual` is the
    delimiter that the extension implies; another is used if it is given, or if the header shows it. Once the header
    is read, `wanted` and `positions` have the columns, and `steps` what was found out.
    """

    def __init__(
        self, file: str, names: Names, usual: str, delimiter: str | None = None, encoding: str | None = None
    ) -> None:
        self.file, self.names, self.usual, self.delimiter, self.encoding = file, names, usual, delimiter, encoding
        self.text = TextFile(file, encoding, delimiter)
        self.wanted: dict[str, str] = {}
        self.positions: list[int] = []
        self.steps: list[str] = []
        self.mark, self.width = usual, 0

    def pieces(self) -> Iterator[dict[str, pa.Array]]:
        """Give the columns wanted as text, by argument, piece by piece."""
        blocks = self._after_header()
        rest, first = b"", 1
        for line, block in blocks:
            if not rest:
                if not block.strip():
                    continue
                first = line
            data = rest + block
            end = _end_of_rows(data, self.mark)
            if end is None or len(data) - end > CHUNK:
                yield from self._slow_pieces(chain([data], (later for _, later in blocks)), first)
                return
            if end:
                columns = self._parsed(data[:end])
                yield from self._slow_pieces([data[:end]], first) if columns is None else [columns]
            if rest := data[end:]:
                first += n_lines(data[:end])
        if rest:
            yield from self._slow_pieces([rest], first)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Give the line on which each row begins, and its fields, of all columns."""
        blocks = self._after_header()
        line, block = next(blocks)
        yield from self._slow_rows(chain([block], (later for _, later in blocks)), line)

    def error(self, reason: str, row: int, which: str) -> ClicksError:
        """Say what is wrong in a row, counted from 0, and in the column that an argument names; finds the line."""
        again = TextTable(self.file, self.names, self.usual, self.delimiter, self.encoding)
        line = next((line for line, _ in islice(again.rows(), row, None)), None)
        return self.error_at(reason, line, which)

    def error_at(self, reason: str, line: int | None, which: str | None = None) -> ClicksError:
        """Say what is wrong on a line."""
        if which is None:
            return ClicksError(reason, file=self.file, line=line)
        column, name = self.positions[list(self.wanted).index(which)] + 1, self.wanted[which]
        return ClicksError(reason, file=self.file, line=line, column=column, name=name)

    def _parsed(self, data: bytes) -> dict[str, pa.Array] | None:
        """Return the columns of whole rows, or None if the slow way has to read them."""
        if data.startswith(tuple(MARKS)) or len(self.mark.encode()) > 1:  # a mark inside the file is part of an id
            return None
        names = list(map(str, range(self.width)))
        wanted = [names[place] for place in self.positions]
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
                arrow_csv.ParseOptions(delimiter=self.mark, newlines_in_values=b'"' in data),
                arrow_csv.ConvertOptions(column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted),
            )
        except pa.ArrowInvalid:  # such as a row with too few fields, or a line of spaces
            if b'"' in data:
                return None
            blank = "".join(set(" \t\r") - {self.mark}).encode()
            without = re.sub(rb"(?m)^(?:[%s]*+\n)++" % blank, b"", data)
            return self._parsed(without) if len(without) < len(data) else None
        columns = [table[name].combine_chunks() for name in wanted]
        if len(data) > csv.field_size_limit():
            longest = [pc.max(pc.binary_length(column)).as_py() or 0 for column in columns]
            if max(longest) > csv.field_size_limit():
                return None
        return dict(zip(self.wanted, columns, strict=True))

    def _slow_pieces(self, blocks: Iterable[bytes], first: int) -> Iterator[dict[str, pa.Array]]:
        rows = self._slow_rows(blocks, first)
        error: ClicksError | None = None
        while error is None:
            piece = []
            try:
                for _, row in islice(rows, PIECE):
                    piece.append(row)
            except ClicksError as found:  # the rows before it come first
                error = found
            if not piece:
                break
            columns = [pa.array([row[place] for row in piece], pa.string()) for place in self.positions]
            yield dict(zip(self.wanted, columns, strict=True))
        if error is not None:
            raise error

    def _slow_rows(self, blocks: Iterable[bytes], first: int) -> Iterator[tuple[int, list[str]]]:
        start = first

        def lines() -> Iterator[str]:
            size = 0
            for block in blocks:
                before = start
                yield from io.StringIO(block.decode(), newline="\n")
                # A row may continue over many lines inside quotes, but not without end.
                size = size + len(block) if start == before else 0
                if size > CHUNK:
                    raise self.error_at(f"a row is longer than {CHUNK} characters. Is a quote never closed?", start)

        reader = csv.reader(lines(), delimiter=self.mark, strict=True)
        try:
            for row in reader:
                if len(row) == self.width:
                    yield start, row
                elif any(cell.strip() for cell in row) or len(row) > 1:
                    said = f"there are {len(row)} fields, but the header has {self.width}."
                    raise self.error_at(f"{said} Quote fields that contain {self.mark!r}.", start)
                start = first + reader.line_num
        except csv.Error as error:
            raise self.error_at(_csv_error(error), start) from error

    def _after_header(self) -> Iterator[tuple[int, bytes]]:
        """Find the columns wanted; then give the lines after the header."""
        blocks = self.text.blocks()
        line, block = next(((line, block) for line, block in blocks if block.strip()), (1, b""))
        text = block.decode()
        self.mark = self.delimiter or self._recognised(text)
        self.text.delimiter = self.mark
        if self.text.by_mark not in (None, "utf-8"):
            self.steps.append(f"read as {self.text.by_mark}, by the byte-order mark of the file")
        reader, start = _reader(text, self.mark), line
        try:
            for row in reader:
                if len(row) > 1 or any(cell.strip() for cell in row):
                    break
                start = line + reader.line_num
            else:
                raise self.error_at("the file is empty. It needs a header and rows.", None)
        except csv.Error as error:
            raise self.error_at(_csv_error(error), start) from error
        header, n_read = [cell.strip() for cell in row], reader.line_num
        self.wanted, self.width = self.names(header), len(header)
        if wrong := wrong_header(header, self.wanted, is_text=True):
            raise self.error_at(wrong.reason, start)
        self.positions = [header.index(name) for name in self.wanted.values()]
        end = 0
        for _ in range(n_read):
            end = block.find(b"\n", end) + 1 or len(block)
        return chain([(line + n_read, block[end:])], blocks)

    def _recognised(self, text: str) -> str:
        """Return the delimiter of the header: the usual one, unless another is clearly meant."""
        headers: dict[str, list[str]] = {}
        for mark in dict.fromkeys((self.usual, *DELIMITERS)):
            with suppress(csv.Error):
                rows = ([cell.strip() for cell in row] for row in _reader(text, mark))
                if header := next((row for row in rows if any(row)), []):
                    headers[mark] = header

        def fits(header: list[str]) -> bool:
            return set(self.names(header).values()) <= set(header)

        usual = headers.get(self.usual, [])
        if not fits(usual):
            better = [mark for mark, header in headers.items() if len(header) > 1 and fits(header)]
            if not better and len(usual) < 2:  # then the error at least shows the columns
                better = [mark for mark, header in headers.items() if len(header) > 1]
            if len(better) == 1 and better[0] != self.usual:
                what = "tab" if better[0] == "\t" else repr(better[0])
                self.steps.append(f"columns separated by {what}, as the header shows")
                return better[0]
        return self.usual


def _end_of_rows(data: bytes, mark: str) -> int | None:
    """Return where the last whole row of some lines ends; None if quotes or carriage returns are unusual.

    Quotes are usual if each one begins or ends a field or is doubled inside one. Then a row ends at a line end with
    an even number of quotes before it.

    >>> _end_of_rows(b'a,"b"\\n', ","), _end_of_rows(b'a,b\\n"c\\n', ","), _end_of_rows(b'5",b\\n', ",")
    (6, 4, None)
    """
    if b'"' not in data:
        return len(data) if b"\r" not in data or data.count(b"\r") == data.count(b"\r\n") else None
    text = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    quotes = np.flatnonzero(text == ord('"'))
    outside = np.zeros(256, np.bool_)
    outside[[ord('"'), ord("\n"), *mark.encode()]] = True
    before, after = outside[text[quotes[::2] - 1]], text[quotes[1::2] + 1]
    if not (before.all() and (outside[after] | (after == ord("\r"))).all()):
        return None
    returns = np.flatnonzero(text == ord("\r"))
    alone = returns[text[returns + 1] != ord("\n")]
    if not (np.searchsorted(quotes, alone) % 2).all():
        return None
    if len(quotes) % 2 == 0:
        return len(data)
    ends = np.flatnonzero(text[: quotes[-1]] == ord("\n"))
    return int(ends[np.searchsorted(quotes, ends) % 2 == 0][-1])


def _reader(text: str, mark: str) -> Any:
    return csv.reader(io.StringIO(text, newline="\n"), delimiter=mark, strict=True)


def _csv_error(error: csv.Error) -> str:
    return next((text for key, text in CSV_ERRORS.items() if key in str(error)), f"{error}.")


class WrongColumn(NamedTuple):
    """A column that is not there exactly once, and what to do about it."""

    name: str
    reason: Message


def wrong_header(header: Sequence[str], wanted: Mapping[str, str], is_text: bool = False) -> WrongColumn | None:
    """Return the first column wanted that is missing, or that occurs several times.

    >>> print(wrong_header(["who", "item"], {"user": "user", "item": "item"}).reason)
    there is no column 'user'; the columns are 'who', 'item'. Say which one it is: user='who'.
    """
    for argument, name in wanted.items():
        n_there = header.count(name)
        if n_there > 1:
            return WrongColumn(name, Message(f"the column {name!r} occurs {n_there} times. Rename all but one."))
        if not n_there:
            said = f"there is no column {name!r}; the columns are {listed([shown(c) for c in header])}. "
            if is_text and len(header) == 1:
                advice = Message("If there are more, say what stands between them: ", Option("delimiter", "|"))
            else:
                advice = Message("Say which one it is: ", Option(argument, _likely(header, argument, wanted)))
            return WrongColumn(name, Message(said, advice, "."))
    return None


def _likely(header: Sequence[str], argument: str, wanted: Mapping[str, str]) -> str:
    """Return a column that may be the one meant, for an example."""
    left = [name for name in header if 0 < len(name) < 40 and name not in wanted.values()] or ["..."]
    role = argument.removesuffix("_column").removeprefix("title_")
    return next((name for name in left if any(word in name.lower() for word in OFTEN[role])), left[0])
