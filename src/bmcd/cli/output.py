"""What commands print and write: text without control characters, JSON, tables in complete files."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bmcd.errors import OutputError
from bmcd.files import check_writable, json_ready, open_replacement, write_csv, write_json
from bmcd.progress import counting
from bmcd.utils import plain

if TYPE_CHECKING:
    from rich.console import Console

TABLES = (".csv", ".parquet", ".json")
MODELS = (".bmcd",)


def console() -> Console:
    """Return standard output for tables; rich uses colour only at a terminal, and never with NO_COLOR."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            raise  # the BrokenPipeError in hand, for errors.py; rich would end the process

    return Pipe(highlight=False)


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], left: Sequence[str] = (), title: str | None = None
) -> None:
    """Print a table of texts, aligned right except for the columns in ``left``."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console().print(table)


def say(text: object = "", *, style: str | None = None) -> None:
    """Print lines without markup and wrapping, so that a path can be copied."""
    from rich.text import Text

    lines = "\n".join(map(plain, str(text).split("\n")))
    console().print(Text(lines, style=style or ""), soft_wrap=True)


def complain(text: str, kind: str = "error: ") -> None:
    """Print one line on standard error."""
    with suppress(BrokenPipeError):
        print(f"bmcd: {kind}{plain(text)}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print one JSON object on standard output, in ASCII, which any terminal can show."""
    print(json.dumps(json_ready(value), allow_nan=False, indent=2), flush=True)


def check_output(path: Path, kinds: Sequence[str], but_not: Iterable[Path | str | None] = ()) -> Path:
    """Return where to write; raise an error, before any work is done, if the file cannot be written.

    The kind follows from the extension; ``but_not`` are files that must not be overwritten.
    """
    if path.suffix.lower() not in kinds:
        has = f"not {path.suffix!r}" if path.suffix else "but it has no extension"
        raise typer.BadParameter(f"{plain(path)}: the name must end in {' or '.join(kinds)}, {has}.")
    for other in but_not:
        if other is not None and _same_file(path, Path(other)):
            raise typer.BadParameter(f"{plain(path)}: would overwrite one of its inputs. Give another name.")
    return check_writable(path)


def _same_file(one: Path, two: Path) -> bool:
    try:
        return os.path.samefile(one, two)
    except OSError:  # one of them does not exist yet
        return os.path.realpath(one) == os.path.realpath(two)


def write_frame(frame: Any, path: Path, *, raw: bool = False) -> None:
    """Write a pandas, polars or Arrow table as csv, parquet or JSON (a list of rows), by the extension."""
    write_frames({path: frame}, raw=raw)


def write_frames(frames: Mapping[Path, Any], *, raw: bool = False) -> None:
    """Write several tables; either all of them, or no file has changed."""
    with ExitStack() as stack:
        for path, frame in frames.items():
            stack.enter_context(open_table(path, raw=raw))(frame)


@contextmanager
def open_table(path: Path, text: Iterable[str] = (), *, raw: bool = False) -> Iterator[Callable[[Any], None]]:
    """Open a table to be written frame by frame; an incomplete file is removed.

    ``text`` names columns that hold ids of several kinds, which are written as text in every frame. In csv an
    apostrophe is put before what a spreadsheet would run as a formula, unless ``raw``.
    """
    import narwhals as nw

    kind, started, writer = path.suffix.lower(), False, None
    with open_replacement(path) as file, ExitStack() as stack:

        def write(frame: Any) -> None:
            nonlocal started, writer
            table = nw.from_native(frame).to_pandas().copy(deep=False)
            for name in table.columns:
                mixed = table[name].dtype == object and not all(isinstance(value, str) for value in table[name])
                if mixed or name in text:
                    table[name] = [str(value) for value in table[name]]
            if kind == ".csv":
                write_csv(file, table, raw=raw, header=not started)
            elif kind == ".parquet":
                import pyarrow as pa
                import pyarrow.parquet as pq

                rows = pa.Table.from_pandas(table, schema=writer and writer.schema, preserve_index=False)
                writer = writer or stack.enter_context(pq.ParquetWriter(file.buffer, rows.schema))  # type: ignore[attr-defined]
                writer.write_table(rows)
            else:
                lines = [json.dumps(row, allow_nan=False, ensure_ascii=False) for row in rows_of(table)]
                if not lines:
                    return
                file.write((",\n" if started else "[\n") + ",\n".join(lines))
            started = True

        yield write
        if kind == ".json":
            file.write("\n]\n" if started else "[]\n")


def write_in_parts(
    target: Path, made: Callable[[int, int], Any], n_users: int, size: int, of: str, text: Iterable[str], *,
    raw: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """Write the rows of all users, ``size`` of them at a time; return the rows, and users of an earlier run.

    Each part is a parquet file in a folder beside the target, which stays if the run is stopped: the next run with
    the same ``of`` resumes from it. When all parts are complete they are joined, and the folder is removed.
    """
    import pandas as pd

    folder = target.with_name(target.name + ".parts")
    facts = folder / "what.json"
    if folder.exists() and not facts.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder}: is not a folder of bmcd. Move it, or give another output.")
    try:
        is_same = json.loads(facts.read_text(encoding="utf-8"))["of"] == of
    except (OSError, ValueError, KeyError, TypeError):
        is_same = False
    if not is_same:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        write_json(facts, {"of": of})
    parts = {first: folder / f"{first:012}.parquet" for first in range(0, n_users, size)}
    n_found = sum(min(size, n_users - first) for first, path in parts.items() if path.exists())
    try:
        with counting(None, "users", n_users) as show:
            for first, path in parts.items():
                last = min(first + size, n_users)
                if not path.exists():
                    with open_table(path, text) as write:
                        write(made(first, last))
                show(last)
    except KeyboardInterrupt as stop:
        said = f"stopped by Ctrl-C. {folder} has what was done; run the same command again to resume."
        raise KeyboardInterrupt(said) from stop
    n_rows = 0
    with open_table(target, text, raw=raw) as write:
        for path in parts.values():
            part = pd.read_parquet(path)
            n_rows += len(part)
            write(part)
    shutil.rmtree(folder)
    return n_rows, n_found


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame as values that JSON can hold."""
    import narwhals as nw

    return [json_ready(row) for row in nw.from_native(frame).rows(named=True)]


def file_size(path: Path) -> str:
    """Return the size of a file in readable units.

    >>> import pathlib
    >>> file_size(pathlib.Path(__file__)).split()[1]
    'kB'
    """
    return bytes_in_words(path.stat().st_size)


def bytes_in_words(size: float) -> str:
    """Return a number of bytes in readable units.

    >>> bytes_in_words(1_250_000)
    '1.2 MB'
    """
    from rich.filesize import decimal

    return decimal(round(size))
