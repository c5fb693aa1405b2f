"""Text files as blocks of whole lines: plain or gzip, in any encoding, with the place of what is not text."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain

import numpy as np

from bmcd.errors import ClicksError, Message, Option

# How many bytes are read at a time, and the longest line, row and run of blank lines: text without line ends or
# rows must not fill the memory.
CHUNK = 1 << 20
# The longer ones first: that of UTF-32 begins with that of UTF-16.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
LONGEST_MARK = 4
DELIMITERS = ",;\t|"


class TextFile:
    """A text file whose encoding is that of its byte-order mark, or else the one given, or else UTF-8.

    `delimiter` is used only for the column in errors; until it is known, the most frequent one is taken.
    `by_mark` is the encoding that the byte-order mark shows, once it is read.
    """

    def __init__(self, file: str, encoding: str | None = None, delimiter: str | None = None) -> None:
        self.file, self.encoding, self.delimiter = file, _checked(encoding), delimiter
        self.by_mark: str | None = None

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Give the text in pieces of whole lines, as valid UTF-8, with the number of the first line of each."""
        done, rest, n_blank = 0, b"", 0
        damage: Exception | None = None
        with opened(self.file) as source:
            chunks = self._chunks(source)
            more = True
            while more:
                pieces, size = [rest], 0
                try:
                    while size < CHUNK and (chunk := next(chunks, b"")):
                        pieces.append(chunk)
                        size += len(chunk)
                except (OSError, EOFError, zlib.error) as error:
                    damage = error
                more = size >= CHUNK and damage is None
                data = b"".join(pieces)
                # Only the first line can be the rest of earlier chunks, so no other can be too long.
                if max(data.find(b"\n"), len(data) if b"\n" not in data else 0) > CHUNK:
                    reason = f"the line is longer than {CHUNK} bytes. Are the line ends \\n or \\r\\n?"
                    raise ClicksError(reason, file=self.file, line=done + 1)
                n_blank = 0 if data.strip() else n_blank + len(data)
                if n_blank > CHUNK:
                    reason = f"more than {CHUNK} characters of blank lines before this line. Remove them."
                    raise ClicksError(reason, file=self.file, line=done + 1)
                end = data.rfind(b"\n") + 1 if more or damage else len(data)
                block, rest = data[:end], data[end:]
                if block:
                    self._check(block, done)
                    yield done + 1, block
                    done += n_lines(block)
            if damage is not None:
                reason = f"the file is damaged or cut off ({damage}); {done} lines were readable. Get it again."
                raise ClicksError(reason, file=self.file) from damage

    def _chunks(self, source: io.BufferedReader | gzip.GzipFile) -> Iterator[bytes]:
        """Give the bytes in UTF-8, without a byte-order mark."""
        # read1 gives what there is before damage is met, so that all readable lines are read.
        chunk = start = source.read1(CHUNK)
        while start and len(chunk) < LONGEST_MARK:
            chunk += (start := source.read1(CHUNK))
        mark = next((mark for mark in MARKS if chunk.startswith(mark)), b"")
        self.by_mark = MARKS.get(mark)
        self.encoding = self.by_mark or self.encoding
        # An empty chunk would mean the end.
        chunks = filter(None, chain([chunk[len(mark) :]], iter(lambda: source.read1(CHUNK), b"")))
        yield from chunks if self.encoding == "utf-8" else self._recoded(chunks)

    def _recoded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Convert another encoding to UTF-8; errors name the line that is not in that encoding."""
        done = 0
        try:
            for text in codecs.iterdecode(chunks, self.encoding):
                data = text.encode()
                yield data
                done += data.count(b"\n")
        except UnicodeError as error:
            if isinstance(error, UnicodeDecodeError):
                readable = error.object[: error.start].decode(self.encoding, "ignore")
                done += readable.count("\n")
            reason = f"the line is not {self.encoding} ({error}). Say which encoding it is: "
            said = Message(reason, Option("encoding", "utf-8"), ".")
            raise ClicksError(said, file=self.file, line=done + 1) from error

    def _check(self, block: bytes, done: int) -> None:
        try:
            at = block.find(b"\0")
            if not block.isascii():
                block.decode()
            is_text = True
        except UnicodeDecodeError as error:
            at, is_text = error.start, False
        if at < 0:
            return
        begin = block.rfind(b"\n", 0, at) + 1
        # Delimiters inside quotes do not count.
        before = re.sub('"[^"]*"?', "", block[begin:at].decode(errors="replace"))
        mark = self.delimiter or max(DELIMITERS, key=block[:at].decode(errors="replace").count)
        line, column = done + block.count(b"\n", 0, at) + 1, before.count(mark) + 1
        where = f"byte {at - begin + 1} of the line "
        reason = _no_text(block) if is_text else _not_utf8(block[at])
        raise ClicksError(Message(where, reason), file=self.file, line=line, column=column)


def n_lines(block: bytes) -> int:
    """Return the number of line ends; faster than `bytes.count` where lines are short.

    >>> n_lines(b"a\\n\\nb")
    2
    """
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))


def _not_utf8(byte: int) -> Message:
    said = f"is not UTF-8 ({byte:#04x}). Save the file as UTF-8, or say what it is: "
    return Message(said, Option("encoding", "latin-1"), " is common.")


def _no_text(block: bytes) -> Message:
    said = "holds a NUL character. "
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if not any(block[start:20:2]):
            return Message(said, "The file looks like UTF-16: ", Option("encoding", encoding), ".")
    return Message(said, "Is the file really text?")


def _checked(encoding: str | None) -> str:
    try:
        name = codecs.lookup("utf-8" if encoding is None else encoding).name
        codecs.getincrementaldecoder(name)
        with suppress(UnicodeDecodeError):  # of half a character of UTF-16
            b" ".decode(name)  # refuses what turns bytes into bytes
    except (LookupError, ValueError) as error:
        known = "Common ones are utf-8, utf-16, latin-1 and cp1252."
        raise ClicksError(f"the encoding {encoding!r} is not known. {known}") from error
    return "utf-8" if name == "utf-8-sig" else name


@contextmanager
def opened(file: str) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open a file; gzip data are decompressed, whatever the name of the file."""
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
