"""What every module may use: types of arrays, checks of arguments, threads, optional packages, text in messages."""

from __future__ import annotations

import contextlib
import importlib
import math
import numbers
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from bmcd.errors import InputError, MissingPackageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Integers: TypeAlias = NDArray[np.int64]

THREADS = "BMCD_THREADS"
# What spreadsheets run as a formula. Plain numbers are none.
_FORMULA = re.compile(r"[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
# Marks that turn the direction of writing, and so can make a title look like something else.
_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def __getattr__(name: str) -> Any:
    """Return a type of arrays; NumPy is loaded for it and not to show the help of a command."""
    if name not in ("Floats", "Integers"):
        raise AttributeError(f"module 'bmcd.utils' has no attribute {name!r}")
    from numpy import float64, int64
    from numpy.typing import NDArray

    return NDArray[float64] if name == "Floats" else NDArray[int64]


def check_count(name: str, value: Any, least: int = 1, *, otherwise: str = "") -> int:
    """Return a whole number as an int, or raise `InputError`; ``otherwise`` lists what else may be given.

    >>> check_count("neighbours", 20)
    20
    >>> check_count("max_users", 0, otherwise="'auto' or None")
    Traceback (most recent call last):
    bmcd.errors.InputError: max_users must be a whole number, 1 or more, 'auto' or None, but it is 0.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        others = f", {otherwise}" if otherwise else ""
        raise InputError(f"{name} must be a whole number, {least} or more{others}, but it is {value!r}.")
    return int(value)


def check_number(
    name: str, value: Any, *, above: float | None = None, low: float = 0, high: float = math.inf
) -> None:
    """Raise `InputError` unless the value is a number in [low, high], or (above, high].

    >>> check_number("mixing", 0.5, high=1)
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if number and value <= high and (value > above if above is not None else value >= low):
        return
    least = f"above {above:g}" if above is not None else f"{low:g} or more"
    most = "" if math.isinf(high) else f", and at most {high:g}"
    raise InputError(f"{name} must be a number {least}{most}, but it is {value!r}.")


def thread_count(n_threads: int | None = None) -> int:
    """Return the number of threads asked for; None for one on each core that may be used.

    >>> thread_count(3)
    3
    """
    return n_cores() if n_threads is None else check_count("n_threads", n_threads)


def n_cores() -> int:
    """Return the number of cores this process may use: its affinity, its container's share, BMCD_THREADS."""
    limit = os.environ.get(THREADS, "")
    cores = _allowed_cores()
    return min(cores, int(limit)) if limit.isascii() and limit.isdigit() and int(limit) > 0 else cores


@cache
def _allowed_cores() -> int:
    from joblib import cpu_count

    return int(cpu_count())


def import_optional(module: str, *, needed_by: str, extra: str | None = None) -> Any:
    """Import an optional package, or raise `MissingPackageError` with the command that installs it.

    >>> import_optional("no_such_package.part", needed_by="ALS", extra="baselines")
    Traceback (most recent call last):
    bmcd.errors.MissingPackageError: ALS needs the package no-such-package: pip install "bmcd[baselines]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        install = f'"bmcd[{extra}]"' if extra else package  # double quotes: every shell takes them
        raise MissingPackageError(f"{needed_by} needs the package {package}: pip install {install}") from error


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those of some packages that are installed.

    >>> list(versions(["numpy", "no-such-package"]))
    ['numpy']
    """
    from importlib import metadata

    found = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def shown(value: object, width: int = 60) -> str:
    """Return the repr of a value, cut so that a huge id cannot flood a message.

    >>> shown("a" * 1000, 8)
    "'aaaaaaa..."
    """
    is_numpy_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")  # its repr names its type
    text = repr(value.item() if is_numpy_scalar else value)  # type: ignore[attr-defined]
    return text if len(text) <= width else text[:width] + "..."


def listed(words: Sequence[str], limit: int = 12) -> str:
    """Join words by commas, only the first few of many.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(words[:limit]) + (f" and {len(words) - limit} more" if len(words) > limit else "")


def and_list(words: Sequence[str]) -> str:
    """Join words as a person would: commas, and "and" before the last.

    >>> and_list(["a", "b", "c"]), and_list(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def plain(text: object) -> str:
    r"""Return text on one line, without anything that a terminal or a browser would obey.

    >>> plain("a\x1b[31m\nb") == "a\ufffd[31m b"
    True
    """
    # Spaces first: line ends and tabs are control characters too.
    return "".join(" " if c.isspace() else "\ufffd" if _is_control(c) else c for c in str(text))


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would run a cell with this text.

    >>> [is_formula(text) for text in ("=1+1", " @SUM(A1)", "-0.5", "+48 123", "A-1")]
    [True, True, False, True, False]
    """
    return _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs") or char in _DIRECTION
