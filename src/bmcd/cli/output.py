"""What the commands print and write: text that no terminal obeys, JSON, and files that are whole or not there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TextIO

import typer

from bmcd.files import check_writable, json_ready, open_replacement, write_csv
from bmcd.utils import plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "MODELS",
    "TABLES",
    "RawCells",
    "bytes_in_words",
    "check_output",
    "complain",
    "console",
    "file_size",
    "open_table",
    "plain",
    "print_json",
    "rows_of",
    "say",
    "write_frame",
    "write_frames",
]

TABLES = (".csv", ".parquet", ".json")
MODELS = (".bmcd",)
RawCells = Annotated[
    bool,
    typer.Option("--raw", help="Write csv cells that a spreadsheet would run as a formula without an apostrophe."),
]


def console() -> Console:
    """Standard output for tables. (Colour only at a terminal, and never with NO_COLOR: rich sees to it.)"""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            raise  # the BrokenPipeError in hand, for errors.py; rich would end the process

    return Pipe(highlight=False)


def say(text: object = "", *, style: str | None = None) -> None:
    """Print lines as they are: no markup, no wrapping, so that a path can be copied."""
    from rich.text import Text

    lines = "\n".join(map(plain, str(text).split("\n")))
    console().print(Text(lines, style=style or ""), soft_wrap=True)


def complain(text: str, kind: str = "error: ") -> None:
    """One line on standard error."""
    with suppress(BrokenPipeError):
        print(f"bmcd: {kind}{plain(text)}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """One JSON object on standard output; other letters than ASCII are escaped, so any terminal can show it."""
    print(json.dumps(json_ready(value), allow_nan=False, indent=2), flush=True)


def check_output(path: Path, kinds: Sequence[str], but_not: Iterable[Path | str | None] = ()) -> Path:
    """Refuse a file that cannot be written, before any work is done for it; return where to write.

    The kind follows from the extension; ``but_not`` are files that must not be overwritten.
    """
    if path.suffix.lower() not in kinds:
        has = f"not {path.suffix!r}" if path.suffix else "but it has no extension"
        raise typer.BadParameter(f"{plain(path)}: the name must end in {' or '.join(kinds)}, {has}.")
    for other in but_not:
        if other is not None and _same_file(path, Path(other)):
            raise typer.BadParameter(f"{plain(path)}: would overwrite a file it is made from. Give another name.")
    return check_writable(path)


def _same_file(one: Path, two: Path) -> bool:
    try:
        return os.path.samefile(one, two)
    except OSError:  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(two)


def write_frame(frame: Any, path: Path, *, raw: bool = False) -> None:
    """Write a pandas, polars or Arrow table as csv, parquet or JSON (a list of rows), by the extension."""
    write_frames({path: frame}, raw=raw)


def write_frames(frames: Mapping[Path, Any], *, raw: bool = False) -> None:
    """Write several tables; either all files are there in the end, or none has changed."""
    with ExitStack() as stack:
        for path, frame in frames.items():
            stack.enter_context(open_table(path, raw=raw))(frame)


@contextmanager
def open_table(path: Path, text: Iterable[str] = (), *, raw: bool = False) -> Iterator[Callable[[Any], None]]:
    """Open a table to be written frame by frame, of which one at a time is in memory; it is whole or not there.

    ``text`` names columns that hold ids of several kinds, which are written as text in every frame. In csv an
    apostrophe is put before what a spreadsheet would run as a formula, unless ``raw``.
    """
    import narwhals as nw

    with open_replacement(path) as file:
        sink = _Csv(file, raw) if path.suffix.lower() == ".csv" else _SINKS[path.suffix.lower()](file)

        def write(frame: Any) -> None:
            table = nw.from_native(frame).to_pandas().copy()
            for name in table.columns:
                mixed = table[name].dtype == object and not all(isinstance(value, str) for value in table[name])
                if mixed or name in text:
                    table[name] = [str(value) for value in table[name]]
            sink.write(table)

        try:
            yield write
        finally:
            sink.close()


class _Csv:
    def __init__(self, file: IO[str], raw: bool) -> None:
        self.file, self.raw, self.is_first = file, raw, True

    def write(self, table: Any) -> None:
        write_csv(self.file, table, raw=self.raw, header=self.is_first)
        self.is_first = False

    def close(self) -> None:
        """Nothing is left to write."""


class _Json:
    def __init__(self, file: TextIO) -> None:
        self.file, self.before = file, "\n"
        file.write("[")

    def write(self, table: Any) -> None:
        for row in rows_of(table):
            self.file.write(self.before + json.dumps(row, allow_nan=False, ensure_ascii=False))
            self.before = ",\n"

    def close(self) -> None:
        self.file.write("\n]\n")


class _Parquet:
    def __init__(self, file: TextIO) -> None:
        self.file = file.buffer
        self.writer: Any = None

    def write(self, table: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = pa.Table.from_pandas(table, schema=self.writer and self.writer.schema, preserve_index=False)
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.file, rows.schema)
        self.writer.write_table(rows)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


_SINKS: dict[str, Any] = {".json": _Json, ".parquet": _Parquet}


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame, as JSON can have them."""
    import narwhals as nw

    return [json_ready(row) for row in nw.from_native(frame).rows(named=True)]


def file_size(path: Path) -> str:
    """How large a file is, for a person.

    >>> import pathlib
    >>> file_size(pathlib.Path(__file__)).split()[1]
    'kB'
    """
    return bytes_in_words(path.stat().st_size)


def bytes_in_words(size: float) -> str:
    """A number of bytes for a person.

    >>> bytes_in_words(1_250_000)
    '1.2 MB'
    """
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
