"""Files that are written completely or not at all; values that JSON can hold."""

from __future__ import annotations

import contextlib
import csv
import glob
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import IO, Any

from bmcd.errors import OutputError
from bmcd.utils import is_formula

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]


def check_writable(path: Path) -> Path:
    """Return where to write; raise an error, before any work is done, if the file cannot be written."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path  # a link stays a link
    if target.is_dir():
        raise OutputError(f"{path}: is a folder. Give the name of a file.")
    if target.exists() and not target.is_file():
        raise OutputError(f"{path}: is not a regular file, so it cannot be replaced. Give another name.")
    if not target.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist. Make it first.")
    probe = temporary_name(target)
    try:
        probe.open("xb").close()
        probe.unlink()
    except OSError as error:
        raise OutputError(f"{path}: nothing can be written in this folder: {error.strerror or error}.") from error
    return target


@contextmanager
def open_replacement(path: Path) -> Iterator[IO[str]]:
    """Open a text file that takes its name only when it is complete."""
    # Text that UTF-8 cannot hold (half of a surrogate pair) is written as its escape, which JSON reads back.
    with _output_errors(path), replacement(path, encoding="utf-8", errors="backslashreplace", newline="") as file:
        yield file


def write_file(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, and create its folders."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path.parent}: cannot be made: {error.strerror or error}.") from error
    with _output_errors(path), replacement(path) as file:
        file.write(content)


def write_json(path: Path, value: Any, *, indent: int | None = None) -> None:
    """Write one value as JSON, completely or not at all; see `json_ready`."""
    with open_replacement(path) as file:
        json.dump(json_ready(value), file, allow_nan=False, ensure_ascii=False, indent=indent)
        file.write("\n")


def write_csv(file: IO[str], table: Any, *, raw: bool = False, header: bool = True) -> None:
    """Write a pandas frame without its index, so that every reader finds the same rows.

    An apostrophe is put before text that a spreadsheet would run as a formula, unless ``raw``.
    """
    quoting, safe_table = csv.QUOTE_MINIMAL, table.copy(deep=False)
    for name in table.select_dtypes(exclude="number").columns:
        texts = [value for value in table[name].unique() if isinstance(value, str)]
        if not raw and (safe := {text: f"'{text}" for text in texts if is_formula(text)}):
            safe_table[name] = [safe.get(value, value) for value in table[name]]
        if any("\r" in text for text in texts):  # which Python before 3.13 does not quote by itself
            quoting = csv.QUOTE_NONNUMERIC
    safe_table.to_csv(file, index=False, header=header, lineterminator="\n", quoting=quoting)


def json_ready(value: Any) -> Any:
    """Return a value that JSON can hold: numbers that are not finite become null, unknown objects their text.

    >>> json_ready({"a": (1, float("nan")), 2: Path("x")})
    {'a': [1, None], '2': 'x'}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return json_ready(asdict(value))
    if isinstance(value, dict):
        return {str(key): json_ready(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(part) for part in value]
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return json_ready(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


@contextmanager
def replacement(
    path: Path, *, private: bool = False, before_rename: Callable[[], None] | None = None, **text: str
) -> Iterator[IO[Any]]:
    """Open a file that replaces ``path`` when it is complete; OSError if that fails, and then nothing has changed.

    It is written under a temporary name in the same folder, synced to the disk and renamed. Temporary files that
    killed processes have left there are removed. Only its owner can read a ``private`` file; otherwise the mode of
    the replaced file is kept. ``text`` are the options of a text file; without them the file takes bytes.
    ``before_rename`` is called when the file is complete.
    """
    remove_leftovers(path)
    temporary, file = _opened(path, private, text)
    try:
        with file:
            if not private and path.exists():
                os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
            if before_rename is not None:
                before_rename()
            if os.name == "nt":  # a file that is open cannot be renamed there
                file.close()
            os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def temporary_name(path: Path) -> Path:
    """Return an unused name beside ``path``, which `remove_leftovers` recognises."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files that killed processes have left beside ``path``; those in use are locked."""
    for found in path.parent.glob(f"{glob.escape(path.name)}.*.tmp"):
        if not re.fullmatch(r"[0-9a-f]{16}", found.name.removeprefix(f"{path.name}.").removesuffix(".tmp")):
            continue
        with contextlib.suppress(OSError), found.open("rb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.unlink()


def _opened(path: Path, private: bool, text: dict[str, str]) -> tuple[Path, IO[Any]]:
    """Open a new file beside ``path``, locked as long as it is open."""
    while True:
        temporary = temporary_name(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o600 if private else 0o666)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not os.fstat(descriptor).st_nlink:  # taken for a leftover before it was locked
                os.close(descriptor)
                continue
        return temporary, open(descriptor, "w" if text else "wb", **text)  # type: ignore[call-overload]


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there, and renames are durable without
        return
    with contextlib.suppress(OSError):  # some network file systems refuse; the file itself is safe
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _output_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}.") from error
