"""Text that nothing obeys, words in a row, and files that are whole or not there."""

from __future__ import annotations

import os
import secrets
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

# Marks that turn the direction of writing, and so can make a title look like something else.
_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class OutputError(Exception):
    """A file cannot be written; the message names it."""


def plain(text: object) -> str:
    r"""Text on one line without anything that a terminal or a browser would obey.

    >>> plain("a\x1b[31m\nb") == "a\ufffd[31m b"
    True
    """
    # Spaces first: line ends and tabs are control characters too.
    return "".join(" " if c.isspace() else "\ufffd" if _is_control(c) else c for c in str(text))


def joined(words: Sequence[str]) -> str:
    """As a person would list them.

    >>> joined(["a", "b", "c"]), joined(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs") or char in _DIRECTION


def check_place(path: Path) -> Path:
    """Refuse a file that cannot be written, before any work is done for it; return where to write."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path  # a link stays a link
    if target.is_dir():
        raise OutputError(f"{path}: is a folder. Give the name of a file.")
    if target.exists() and not target.is_file():
        raise OutputError(f"{path}: is not a regular file, so it cannot be replaced. Give another name.")
    if not target.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist. Make it first.")
    probe = _unfinished(target)
    try:
        probe.open("xb").close()
        probe.unlink()
    except OSError as error:
        raise OutputError(f"{path}: nothing can be written in this folder: {error.strerror or error}.") from error
    return target


def _unfinished(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A text file that takes its name only when it is whole."""
    # What UTF-8 cannot hold (half of a surrogate pair) is written as its escape, which JSON reads back.
    with _replacing(path, "x", encoding="utf-8", errors="backslashreplace", newline="") as file:
        yield file


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is whole or not there, and the folders that lead to it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path.parent}: cannot be made: {error.strerror or error}.") from error
    with _replacing(path, "xb") as file:
        file.write(content)


@contextmanager
def _replacing(path: Path, mode: str, **options: str) -> Iterator[Any]:
    unfinished = _unfinished(path)
    try:
        with unfinished.open(mode, **options) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)
