"""Times of clicks: points in time or numbers, from text and from frames; durations such as "30min"."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import InputError
from bmcd.system.text import shown

Order = Literal["time", "rows"]
FORMS = "Times are numbers, or dates such as 2024-01-31 or 2024-01-31T23:59:00+01:00"
SESSION_GAP = 30 * 60 * 1_000_000
"""After how many microseconds without a click a new session begins."""
UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
"""Microseconds by unit; "w" for weeks is not needed."""
# A number is seconds, ms, us or ns since 1970 by its size: below the first bound it is no point in time, the others
# are 1973 and 5138 in each unit. Microseconds are value * numerator // denominator.
CLOCK_FROM = 1e8
CLOCK_UNITS = (("seconds", 1e11), ("milliseconds", 1e14), ("microseconds", 1e17), ("nanoseconds", np.inf))
# Where there is no time, by the kind of the others.
NONE = {"number": np.float64("nan"), "date": np.datetime64("NaT", "us")}


class BadTimeError(Exception):
    """The text at a place cannot be read as a time, or there is none."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place, self.reason = place, reason


class TimeReader:
    """Reads the times of a column piece by piece; all must be numbers, or all dates.

    Dates are kept in UTC, to the microsecond; one without an offset is taken as UTC.

    >>> reader = TimeReader()
    >>> reader.read(["2024-01-31", "2024-01-31T01:00+02:00", ""])
    >>> reader.times().astype(str).tolist()
    ['2024-01-31T00:00:00.000000', '2024-01-30T23:00:00.000000', 'NaT']
    """

    def __init__(self) -> None:
        self.kind: str | None = None
        self.pieces: list[NDArray[Any] | int] = []  # times, or how many rows in a row have none

    def read(self, texts: list[str]) -> None:
        """Read one piece; blank texts are no times. `BadTimeError` has the place of the first that is none."""
        first = next((text for text in texts if text.strip()), None)
        if first is None:
            self.pieces.append(len(texts))
            return
        if self.kind is None:
            self.kind = "number" if _is_number(first) else "date"
        self.pieces.append(_dates(texts) if self.kind == "date" else self._numbers(texts))

    def _numbers(self, texts: list[str]) -> NDArray[Any]:
        try:
            return _numbers(texts)
        except ValueError:
            place = next(i for i, text in enumerate(texts) if not _is_number(text))
            reason = f"the time {shown(texts[place])} is not a number, as those before it are. {FORMS}."
            raise BadTimeError(place, reason) from None

    def times(self) -> NDArray[Any]:
        """Return all times: int64, float64 with NaN for none, or datetime64 with NaT for none."""
        none = NONE[self.kind or "number"]
        pieces = [np.full(piece, none) if isinstance(piece, int) else piece for piece in self.pieces]
        return np.concatenate(pieces) if pieces else np.empty(0)


def times_of_column(column: Any, name: str) -> NDArray[Any]:
    """Return the times of a pandas column; NaN or NaT where there is none, an error where there is no telling."""
    import pandas as pd

    absent = column.isna().to_numpy()
    if pd.api.types.is_bool_dtype(column.dtype):
        raise BadTimeError(0, f"the column {name!r} holds {column.dtype}. {FORMS}.")
    if pd.api.types.is_integer_dtype(column.dtype) and not absent.any():
        return np.asarray(column.to_numpy(dtype=np.int64))
    if pd.api.types.is_numeric_dtype(column.dtype):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind in ("datetime64", "datetime", "date"):
        return _utc(pd.to_datetime(column, utc=True))
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return np.asarray(column.astype(float))
    if kind in ("string", "empty"):
        reader = TimeReader()
        reader.read(["" if none else str(text) for none, text in zip(absent, column, strict=True)])
        return reader.times()
    raise BadTimeError(0, f"the column {name!r} holds {kind}. {FORMS}.")


def absent_times(times: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where there is no time.

    >>> absent_times(np.array([1.0, np.nan])).tolist()
    [False, True]
    """
    return np.asarray(times != times)  # as NaN and NaT have it


def _numbers(texts: list[str]) -> NDArray[Any]:
    try:
        return np.array(list(map(int, texts)), dtype=np.int64)
    except (ValueError, OverflowError):
        values = np.array([float(text) if text.strip() else np.nan for text in texts])
    if np.isinf(values).any() or np.isnan(values).sum() != sum(not text.strip() for text in texts):
        raise ValueError("inf and nan are no times")
    return values


def _is_number(text: str) -> bool:
    try:
        _numbers([text])
    except ValueError:
        return False
    return True


def _dates(texts: list[str]) -> NDArray[Any]:
    import pandas as pd

    stripped = pd.Series([text.strip() or None for text in texts], dtype=object)
    read = pd.to_datetime(stripped, format="ISO8601", utc=True, errors="coerce")
    if (bad := np.flatnonzero(read.isna() & stripped.notna())).size:
        place = int(bad[0])
        raise BadTimeError(place, f"the time {shown(texts[place])} cannot be read. {FORMS}.")
    return _utc(read)


def _utc(column: Any) -> NDArray[Any]:
    return np.asarray(column.dt.tz_convert(None), dtype="datetime64[us]")


def to_clock(times: NDArray[Any]) -> NDArray[Any]:
    """Return times as datetime64[us]: dates as they are, numbers as seconds, ms, us or ns since 1970 by their size.

    Numbers below 1e8 stay as they are: they give an order but are no points in time. `BadTimeError` has the place
    of the first number of another unit than the first one.

    >>> to_clock(np.array([1_500_000_000, 1_500_000_001])).astype(str).tolist()
    ['2017-07-14T02:40:00.000000', '2017-07-14T02:40:01.000000']
    >>> to_clock(np.array([3, 1, 2])).tolist()
    [3, 1, 2]
    """
    if times.dtype.kind == "M" or not len(times):
        return times
    size = np.abs(times.astype(np.float64))
    bounds = [CLOCK_FROM, *(bound for _, bound in CLOCK_UNITS[:-1])]
    unit = np.searchsorted(bounds, size, side="right")
    known = ~absent_times(times)
    if not known.any():
        return times
    first = int(np.argmax(known))
    if (other := np.flatnonzero(known & (unit != unit[first]))).size:
        names = ["a number without a clock", *(f"{name} since 1970" for name, _ in CLOCK_UNITS)]
        place = int(other[0])
        raise BadTimeError(
            place,
            f"the time {shown(times[place])} would be {names[unit[place]]}, but {shown(times[first])} before it is "
            f"{names[unit[first]]}. Use one unit in the whole column.",
        )
    if unit[first] == 0:
        return times
    if times.dtype.kind == "f":
        factor = (1e6, 1e3, 1.0, 1e-3)[unit[first] - 1]
        micro = np.full(len(times), np.iinfo(np.int64).min)  # NaT
        micro[known] = np.round(times[known] * factor).astype(np.int64)
        return micro.view("datetime64[us]")
    numerator, denominator = ((1_000_000, 1), (1_000, 1), (1, 1), (1, 1_000))[unit[first] - 1]
    return (times * numerator // denominator).astype(np.int64).view("datetime64[us]")


def read_time(value: Any, clock: bool) -> Any:
    """Return a point in time given by a caller: a date as text or object, or a number as in the log.

    >>> read_time("2026-05-01", clock=True)
    np.datetime64('2026-05-01T00:00:00.000000')
    """
    import pandas as pd

    if isinstance(value, bool) or value is None:
        raise InputError(f"the time {shown(value)} cannot be read. {FORMS}.")
    if isinstance(value, int | float | np.integer | np.floating):
        if not np.isfinite(value):
            raise InputError(f"the time {shown(value)} cannot be read. {FORMS}.")
        found = to_clock(np.array([value]))
        if (found.dtype.kind == "M") == clock:
            return found[0]
        has = "dates" if clock else "numbers that are no points in time"
        raise InputError(f"the time {shown(value)} does not fit the log, whose times are {has}.")
    try:
        stamp: Any = pd.Timestamp(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"the time {shown(value)} cannot be read. {FORMS}.") from error
    if not clock or stamp is pd.NaT:
        raise InputError(f"the time {shown(value)} does not fit the log, whose times are numbers without a clock.")
    stamp = stamp if stamp.tzinfo is None else stamp.tz_convert("UTC").tz_localize(None)
    return stamp.to_datetime64().astype("datetime64[us]")


def read_duration(text: Any, name: str) -> int:
    """Return a duration such as "30min", "1h" or "72h" in microseconds.

    >>> read_duration("30min", "session_gap"), read_duration("1.5h", "window")
    (1800000000, 5400000000)
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", text) if isinstance(text, str) else None
    unit = match.group(2) if match else ""
    if match is None or unit not in UNITS or not (length := round(float(match.group(1)) * UNITS[unit])):
        raise InputError(
            f"{name} must be a duration such as '30min', '1h' or '7d' (ms, s, min, h, d), not {shown(text)}."
        )
    if length >= 2**62:
        raise InputError(f"{name} is {shown(text)}, which is longer than any log.")
    return length


def duration_text(length: int) -> str:
    """Return microseconds as a duration that `read_duration` reads.

    >>> duration_text(1_800_000_000), duration_text(90_000_000)
    ('30min', '90s')
    """
    unit = next(unit for unit in reversed(UNITS) if length % UNITS[unit] == 0)
    return f"{length // UNITS[unit]}{unit}"


def as_text(time: Any) -> str:
    """Return a time for a sentence: a date without zeros at its end, or a number.

    >>> as_text(np.datetime64("2026-05-01T10:00:00.000000")), as_text(np.int64(7))
    ('2026-05-01 10:00:00', '7')
    """
    if isinstance(time, np.datetime64):
        return str(time).replace("T", " ").removesuffix(".000000")
    return str(time)
