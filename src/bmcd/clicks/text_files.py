"""Tables in text files: the delimiter, the header, and the rows with the line on which each begins."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import chain

from bmcd.clicks.decoding import CHUNK, DELIMITERS, TextFile
from bmcd.clicks.headers import Names, wrong_header
from bmcd.errors import ClicksError

CSV_ERRORS = {
    "unexpected end": "a quote opened in this row is never closed. Close it, or double it within an id.",
    "field larger": "a field is longer than csv.field_size_limit(). Is a quote opened here never closed?",
    "new-line": "a carriage return stands alone. Save the file with line ends \\n or \\r\\n, not \\r.",
    "expected after": "text follows a closing quote. Double quotes inside fields.",
}


class TextTable:
    """Some columns of a text file; iteration gives the line where a row begins, and its fields.

    `names` takes the header and gives the columns wanted, by the argument that names each. `usual` is the
    delimiter that the extension promises; another is taken if it is given, or if the header shows that it is meant.
    After the header, `positions` says where the columns wanted stand, and `steps` what was found out.
    """

    def __init__(
        self, file: str, names: Names, usual: str, delimiter: str | None = None, encoding: str | None = None
    ) -> None:
        self.file, self.names, self.usual, self.delimiter = file, names, usual, delimiter
        self.text = TextFile(file, encoding, delimiter)
        self.wanted: dict[str, str] = {}
        self.positions: list[int] = []
        self.steps: list[str] = []

    def error(self, reason: str, line: int | None = None, which: str | None = None) -> ClicksError:
        """Say what is wrong, in which line, and in the column that which argument names."""
        if which is None:
            return ClicksError(reason, file=self.file, line=line)
        column, name = self.positions[list(self.wanted).index(which)] + 1, self.wanted[which]
        return ClicksError(reason, file=self.file, line=line, column=column, name=name)

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        start = 1
        blocks = self.text.blocks()
        first = list(self._until_header(blocks))
        mark = self.delimiter or self._recognised("".join(first))
        self.text.delimiter = mark
        if self.text.by_mark not in (None, "utf-8"):
            self.steps.append(f"read as {self.text.by_mark}, by the byte-order mark of the file")

        def lines() -> Iterator[str]:
            size = 0
            for text in chain(first, blocks):
                before = start
                yield from io.StringIO(text, newline="\n")
                # A row may go on over many lines inside quotes, but not for ever.
                size = size + len(text) if start == before else 0
                if size > CHUNK:
                    raise self.error(f"a row is longer than {CHUNK} characters. Is a quote never closed?", start)

        reader = csv.reader(lines(), delimiter=mark, strict=True)
        width = -1  # the header, which is yet to come, sets it
        try:
            for row in reader:
                if len(row) == width:
                    yield start, row
                elif any(cell.strip() for cell in row) or len(row) > 1:
                    if width >= 0:
                        said = f"there are {len(row)} fields, but the header has {width}."
                        raise self.error(f"{said} Quote fields that contain {mark!r}.", start)
                    width = len(row)
                    self._find([cell.strip() for cell in row], start)
                start = reader.line_num + 1
        except csv.Error as error:
            known = (text for key, text in CSV_ERRORS.items() if key in str(error))
            raise self.error(next(known, f"{error}."), start) from error
        if width < 0:
            raise self.error("the file is empty. It needs a header and rows.")

    @staticmethod
    def _until_header(blocks: Iterator[str]) -> Iterator[str]:
        """Give the first blocks, up to one that is not blank."""
        for text in blocks:
            yield text
            if text.strip():
                return

    def _recognised(self, text: str) -> str:
        """Return the delimiter of the header: the usual one, unless another is clearly meant."""
        headers: dict[str, list[str]] = {
            mark: header for mark in dict.fromkeys((self.usual, *DELIMITERS)) if (header := _header(text, mark))
        }

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

    def _find(self, header: list[str], line: int) -> None:
        self.wanted = self.names(header)
        if wrong := wrong_header(header, self.wanted):
            raise self.error(wrong.reason, line)
        self.positions = [header.index(name) for name in self.wanted.values()]


def _header(text: str, delimiter: str) -> list[str]:
    """Return the first row that is not blank, or nothing if it cannot be read with this delimiter."""
    try:
        rows = csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, strict=True)
        return next(([cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)), [])
    except csv.Error:
        return []
