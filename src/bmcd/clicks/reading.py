"""Clicks out of csv, tsv and parquet files, plain or gzip, with the exact place of whatever is wrong."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Literal

from bmcd.clicks.decoding import opened
from bmcd.clicks.frames import Library
from bmcd.clicks.ids import Missing
from bmcd.clicks.log import Clicks
from bmcd.clicks.rows import LogColumns, rows_of_frame, rows_of_text
from bmcd.clicks.text_files import Names, TextTable, wrong_header
from bmcd.clicks.times import read_duration
from bmcd.clicks.titles import title_columns, titles_of_text
from bmcd.errors import ClicksError, Message, Option
from bmcd.utils import import_optional, listed, shown

__all__ = ["read_clicks", "read_items"]

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")
LIBRARIES = ("pandas", "polars", "pyarrow")


def read_clicks(
    path: str | os.PathLike[str],
    user: str = "user",
    item: str = "item",
    titles: Any = None,
    *,
    title: str | None = None,
    title_item: str | None = None,
    title_column: str | None = None,
    items: Any = None,
    groups: Iterable[str] | None = None,
    time_column: str | None = None,
    order: Literal["time", "rows", "none"] | None = None,
    session_column: str | None = None,
    session_gap: str = "30min",
    missing: Missing = "error",
    delimiter: str | None = None,
    encoding: str | None = None,
    text_ids: bool = False,
    library: Library = "pandas",
) -> Clicks:
    r"""Read a csv, tsv or parquet file, each also as .gz, with one row a click.

    Anything that cannot be read is a `ClicksError` with file, line and column. What was found out or put right on
    the way is in the `history` of the clicks.

    Parameters
    ----------
    path
        The file. Blank lines are skipped.
    user, item
        Its two columns; others are left alone. Blanks around ids are stripped. In text files a column of ids
        becomes int64 if every id in it is a whole number in its plain form (so "007" stays text).
    titles
        Titles of the items: another such file, a frame, or a dict from item to title.
    title, title_item
        The columns of `titles` with the titles and with the items. By default "title", and the name of `item` or
        "item"; of a file with two columns, what is not called so is the other one, and items come first.
    title_column
        The column of the log itself that has the titles, if there are no others.
    items
        What is known of the items: a csv, tsv or parquet file, or a frame, with a row for each item; see
        `Clicks.with_items`. It has the titles too, unless there are others.
    groups
        The columns of `items` with the groups; by default all that are not numbers, links, pictures or dates.
    time_column
        The column with the time of each click; by default a column named "time", if there is one. Dates as in
        2024-01-31 or 2024-01-31T23:59:00+01:00 (UTC unless they say otherwise), or numbers: seconds since 1970, or
        milliseconds, microseconds or nanoseconds by their size. Numbers below 1e8 give an order but no clock.
    order
        "rows": the rows are in the order of the clicks, and users in order of appearance. "none": the log has no
        order, even if it has a column named "time". By default the order is that of the times, if there are any.
    session_column
        The column that identifies the sessions of a user. Without it a new session begins after a gap of more than
        `session_gap`; without a clock every user is one session.
    session_gap
        A duration such as "30min" or "1h".
    missing
        A row without a user, an item or a time is an error; with "drop" it is left out, and counted.
    delimiter
        What stands between columns, in both files. By default it follows from the extension, unless the header
        shows that another of , ; | and tab is meant.
    encoding
        That of text files without a byte-order mark; by default UTF-8.
    text_ids
        Keep whole numbers in text files as text.
    library
        That of the frames in which answers are given: "pandas", "polars" or "pyarrow".

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "clicks.csv")
    ...     _ = file.write_text("user;item\nann;7\nbob;7\nann ;9\n")
    ...     clicks = read_clicks(file)
    >>> clicks, clicks.items.tolist()
    (Clicks(2 users x 2 items, 3 clicks), [7, 9])
    >>> clicks.history
    ("columns separated by ';', as the header shows", "blanks around 1 user ids stripped: 'ann '")
    """
    if library not in LIBRARIES:
        raise ClicksError(f"library must be one of {listed(list(map(repr, LIBRARIES)))}, not {shown(library)}.")
    if library == "polars":  # the others are always there
        import_optional(library, needed_by="library='polars'")
    gap = read_duration(session_gap, "session_gap")
    asked = LogColumns(user, item, title_column, time_column, session_column, order, missing)
    file = os.fsdecode(path)
    with located(file):
        asked.check(titles)
        if (usual := usual_delimiter(file, delimiter)) is None:
            clicks = Clicks.from_rows(rows_of_frame(read_parquet(file, asked.among), asked), gap)
        else:
            table = TextTable(file, asked.among, usual, delimiter, encoding)
            rows = rows_of_text(table, asked, text_ids)
            try:
                clicks = Clicks.from_rows(rows, gap)
            except ClicksError as error:
                if error.row is None:
                    raise
                raise table.error(error.reason, error.row, "session_column") from None
            clicks = replace(clicks, history=(*table.steps, *clicks.history))
        clicks = replace(clicks, library=library)
    if titles is not None:
        clicks = _titled(clicks, titles, item, title, title_item, delimiter, encoding)
    if items is None:
        if groups is not None:
            raise ClicksError("groups are columns of an item table. Give it: items='items.csv'.")
        return clicks
    return read_items(clicks, items, title if titles is None else None, groups, delimiter, encoding)


def read_items(
    clicks: Clicks,
    items: Any,
    title: str | None = None,
    groups: Iterable[str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Clicks:
    """Return the clicks with an item table out of a file or a frame; see `Clicks.with_items`.

    >>> import pathlib
    >>> _ = pathlib.Path("items.csv").write_text("item,section\\n0,news\\n1,news|local\\n")
    >>> read_items(Clicks.from_matrix([[1, 1]]), "items.csv").items_table
    ItemTable(2 items; section: 2 groups)
    """
    if not isinstance(items, (str, os.PathLike)):
        return clicks.with_items(items, title=title, groups=groups)
    file = os.fsdecode(items)
    with located(file):

        def every(have: list[str]) -> dict[str, str]:
            # One column alone says that another delimiter is meant, or that there is nothing but items.
            lacking = [title] if title is not None and title not in have else []
            lacking += ["section"] if len(have) < 2 else []
            return {name: name for name in [*have, *lacking]}

        if (usual := usual_delimiter(file, delimiter)) is None:
            return clicks.with_items(read_parquet(file, every), title=title, groups=groups)
        table = TextTable(file, every, usual, delimiter, encoding)
        found: dict[str, list[str]] = {}
        for piece in table.pieces():
            for name, column in piece.items():
                found.setdefault(name, []).extend(column.to_pylist())
        if not found:
            raise ClicksError("the item table has no rows.")
        steps = [f"item table: {step}" for step in table.steps]
        return clicks.with_steps(*steps).with_items(found, title=title, groups=groups)


def _titled(
    clicks: Clicks,
    titles: Any,
    item: str,
    title: str | None,
    title_item: str | None,
    delimiter: str | None,
    encoding: str | None,
) -> Clicks:
    """Return the clicks with titles out of a file, a frame or a dict."""
    if not isinstance(titles, (str, os.PathLike)):
        return clicks.with_titles(titles, item=title_item, title=title, usual=item)
    file = os.fsdecode(titles)
    with located(file):
        steps = list[str]()

        def columns(have: list[str]) -> dict[str, str]:
            own, text, found = title_columns(have, title_item, title, item)
            steps[:] = found
            return {"title_item": own, "title": text}

        if (usual := usual_delimiter(file, delimiter)) is None:
            frame = read_parquet(file, columns)
            own, text = frame.column_names
            return clicks.with_titles(frame, item=own, title=text).with_steps(*steps)
        table = TextTable(file, columns, usual, delimiter, encoding)
        found = titles_of_text(table, whole=clicks.items.dtype != object)
        return clicks.with_steps(*(f"titles: {step}" for step in table.steps), *steps).with_titles(found)


def read_parquet(file: str, names: Names) -> Any:
    """Return an Arrow table of the columns that `names` chooses from all, by the argument that names each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with opened(file) as source:
        try:
            whole = pa.BufferReader(source.read()) if isinstance(source, gzip.GzipFile) else source
            with pq.ParquetFile(whole, page_checksum_verification=True) as parquet:
                have = parquet.schema_arrow.names
                wanted = names(have)
                if wrong := wrong_header(have, wanted):
                    raise ClicksError(wrong.reason, column=wrong.name)
                table = parquet.read(columns=list(wanted.values()))
                table.validate(full=True)
                return table
        except ClicksError:
            raise
        except Exception as error:  # damaged files make pyarrow raise errors of many kinds
            raise ClicksError(f"not a valid parquet file ({str(error)[:200]}). Export it again.") from error


def usual_delimiter(file: str, given: str | None) -> str | None:
    """Return what the extension of a text file says to be its delimiter, or None for parquet."""
    if given is not None and (len(given) != 1 or given in '"\r\n\0'):
        raise ClicksError(f"the delimiter must be one character, not {given!r}.")
    name = PurePath(file).name.lower().removesuffix(".gz")
    suffix = PurePath(name).suffix
    if suffix in PARQUET:
        return None
    if given is None and suffix not in DELIMITERS:
        known = listed([*DELIMITERS, *PARQUET])
        reason = f"cannot tell the format from the extension {suffix!r}; it can be {known}, each also with .gz."
        raise ClicksError(Message(f"{reason} For other text files say ", Option("delimiter", ","), "."))
    return given or DELIMITERS[suffix]


@contextmanager
def located(file: str) -> Iterator[None]:
    """Name the file in errors that do not know it."""
    try:
        yield
    except ClicksError as error:
        if error.file is not None:
            raise
        raise ClicksError(error.reason, file=file, row=error.row, column=error.column) from error.__cause__
