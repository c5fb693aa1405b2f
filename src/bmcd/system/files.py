"""Files that are written whole or not at all, and values as JSON can hold them."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TextIO

from bmcd.errors import OutputError


def check_writable(path: Path) -> Path:
    """Return where to write; refuse a file that cannot be written, before any work is done for it."""
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
def open_replacement(path: Path) -> Iterator[TextIO]:
    """Open a text file that takes its name only when it is complete."""
    # What UTF-8 cannot hold (half of a surrogate pair) is written as its escape, which JSON reads back.
    with _replacement(path, "x", encoding="utf-8", errors="backslashreplace", newline="") as file:
        yield file


def write_file(path: Path, content: bytes) -> None:
    """Write a file that is complete or not there, and the folders that lead to it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path.parent}: cannot be made: {error.strerror or error}.") from error
    with _replacement(path, "xb") as file:
        file.write(content)


def write_json(path: Path, value: Any, *, indent: int | None = None) -> None:
    """Write one value as JSON, complete or not at all; see `json_ready`."""
    with open_replacement(path) as file:
        json.dump(json_ready(value), file, allow_nan=False, ensure_ascii=False, indent=indent)
        file.write("\n")


def json_ready(value: Any) -> Any:
    """Return a value as JSON can hold it: numbers that are not finite become null, unknown things their text.

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
def _replacement(path: Path, mode: str, **options: str) -> Iterator[Any]:
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
