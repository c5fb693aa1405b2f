"""Times of clicks: points in time or numbers, from text and from frames; durations such as "30min"."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bmcd.clicks.ids import arrow_column
from bmcd.errors import InputError
from bmcd.utils import shown

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
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# pandas also reads "now" and "today" as dates.
DATE = re.compile(r"[+-]?[0-9]")
# Those that the datetime of Python can hold.
FIRST, LAST = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59.999999", "us")


class BadTimeError(Exception):
    """The time in a row cannot be read, or is missing."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place, self.reason = place, reason


class TimeReader:
    """Reads a column of text as times, piece by piece; all must be numbers, or all dates, as the first one is.

    Dates are kept in UTC, to the microsecond; one without an offset is taken as UTC. Blank texts are no times; with
    ``empty`` they are an error with that reason.

    >>> reader = TimeReader()
    >>> reader.read(pa.array(["2024-01-31", "2024-01-31T01:00+02:00", ""]))
    >>> reader.times()[0][:2].astype(str).tolist(), reader.times()[1].tolist()
    (['2024-01-31T00:00:00.000000', '2024-01-30T23:00:00.000000'], [False, False, True])
    """

    def __init__(self, empty: str | None = None) -> None:
        self.empty, self.kind, self.n = empty, "", 0
        self.pieces: list[tuple[Any, NDArray[np.bool_] | None]] = []

    def read(self, texts: pa.Array) -> None:
        """Read one piece. `BadTimeError` has the row of the first text that is not a time."""
        if not self.kind and (first := next((t for t in (one.as_py() for one in texts) if t and t.strip()), None)):
            self.kind = "number" if _number(first) is not None else "date"
        try:
            values = _parsed(texts, self.kind)
        except pa.ArrowInvalid:
            values = self._one_by_one(texts)
        untimed = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        raw = values.fill_null(0).to_numpy()
        self.pieces.append((raw.view("datetime64[us]") if self.kind == "date" else raw, untimed))
        self.n += len(texts)

    def _one_by_one(self, texts: pa.Array) -> pa.Array:
        """Read a piece that has blank texts or others that pyarrow does not parse."""
        own = [(text or "").strip() for text in texts.to_pylist()]
        try:
            values = _parsed(pa.array([text or None for text in own], pa.string()), self.kind)
        except pa.ArrowInvalid:
            values = _numbers(own) if self.kind == "number" else _dates(own)
        for place in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
            if own[place]:
                what = "is not a number, as those before it are" if self.kind == "number" else "cannot be read"
                raise BadTimeError(self.n + place, f"the time {shown(own[place])} {what}. {FORMS}.")
            if self.empty is not None:
                raise BadTimeError(self.n + place, self.empty)
        return values

    def times(self) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Return all times, int64, float64 or datetime64, and where there is none (None: nowhere)."""
        if not self.pieces:
            return np.empty(0), None
        # Pieces without any time, before the first one, are numbers.
        kinds = [values.dtype for values, mask in self.pieces if mask is None or not mask.all()]
        kind = np.result_type(*kinds) if kinds else np.dtype(np.float64)
        times = np.concatenate([values.astype(kind, copy=False) for values, _ in self.pieces])
        if all(mask is None for _, mask in self.pieces):
            return times, None
        masks = [np.zeros(len(values), np.bool_) if mask is None else mask for values, mask in self.pieces]
        return times, np.concatenate(masks)


def _parsed(texts: pa.Array, kind: str) -> pa.Array:
    """Return numbers, or dates in microseconds, as pyarrow parses them; `ArrowInvalid` if it cannot parse all."""
    if kind == "number":
        data = texts.buffers()[2]
        # Arrow also reads 0x1F.
        if data is not None and (b"x" in (own := data.to_pybytes()) or b"X" in own):
            raise pa.ArrowInvalid("hexadecimal")
        try:
            return texts.cast(pa.int64())
        except pa.ArrowInvalid:
            values = texts.cast(pa.float64())
            if pc.all(pc.is_finite(values)).as_py() is False:
                raise
            return values
    try:
        return texts.cast(pa.timestamp("us")).cast(pa.int64())
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def _numbers(texts: list[str]) -> pa.Array:
    values = [_number(text) for text in texts]
    if all(value is None or isinstance(value, int) for value in values):
        return pa.array(values, pa.int64())
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _dates(texts: list[str]) -> pa.Array:
    import pandas as pd

    dates = pd.Series([text if DATE.match(text) else None for text in texts], dtype=object)
    read = pd.to_datetime(dates, format="ISO8601", utc=True, errors="coerce").dt.tz_convert(None)
    values = np.asarray(read, dtype="datetime64[us]")
    return pa.array(values.view(np.int64), pa.int64(), mask=np.isnat(values))


def _number(text: str) -> float | int | None:
    """Return a number, an integer if int64 can hold it; None if the text is no finite number.

    >>> _number("7"), _number("-2.5e1"), _number("1_0"), _number("nan"), _number("0x1F")
    (7, -25.0, None, None, None)
    """
    if not NUMBER.fullmatch(text.strip()):
        return None
    with suppress(ValueError):
        if -(2**63) <= (whole := int(text)) < 2**63:
            return whole
    value = float(text)
    return value if np.isfinite(value) else None


def times_of_column(values: Any, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return the times of an Arrow or pandas column, and where there is none (None: nowhere)."""
    column = arrow_column(values)
    if isinstance(column, np.ndarray):
        return _times_of_objects(column, name)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return times_of_column(column.cast(kind.value_type), name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view":
        reader = TimeReader()
        for piece in column.cast(pa.large_string()).chunks:
            reader.read(piece)
        return reader.times()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if pa.types.is_date(kind):
            column, kind = column.cast(pa.timestamp("ms")), pa.timestamp("ms")
        times = column.cast(pa.int64()).fill_null(0).to_numpy().view(f"datetime64[{kind.unit}]")
        if kind.unit == "ns":  # which cannot hold the years 1 and 9999
            times = times.astype("datetime64[us]")
        return _in_calendar(times).astype("datetime64[us]", copy=False), _nulls(column)
    if pa.types.is_integer(kind) and (kind != pa.uint64() or (pc.max(column).as_py() or 0) < 2**63):
        return column.cast(pa.int64()).fill_null(0).to_numpy(), _nulls(column)
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    if any(is_kind(kind) for is_kind in numeric):
        floats = column.cast(pa.float64(), safe=False)  # whole numbers of 2**53 and more are rounded
        floats = pc.if_else(pc.is_nan(floats), pa.scalar(None, pa.float64()), floats)
        times, untimed = floats.fill_null(0.0).to_numpy(), _nulls(floats)
        if (bad := np.isinf(times)).any():
            place = int(bad.argmax())
            raise BadTimeError(place, f"the time {shown(times[place])} cannot be read. {FORMS}.")
        return times, untimed
    raise BadTimeError(0, f"the column {name!r} holds {kind}. {FORMS}.")


def _nulls(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    return column.is_null().to_numpy() if column.null_count else None


def _times_of_objects(values: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    import pandas as pd

    kind = pd.api.types.infer_dtype(values, skipna=True)
    absent: NDArray[np.bool_] | None = np.asarray(pd.isna(pd.Series(values)))
    absent = absent if absent is not None and absent.any() else None
    if kind in ("datetime64", "datetime", "date"):
        dates = pd.to_datetime(pd.Series(values), utc=True).dt.tz_convert(None)
        return np.asarray(dates, dtype="datetime64[us]"), absent
    if kind in ("integer", "mixed-integer-float", "decimal"):
        return pd.Series(values).astype(float).to_numpy(), absent
    if kind == "empty":
        raise BadTimeError(0, f"the column {name!r} has no times. {FORMS}.")
    raise BadTimeError(0, f"the column {name!r} holds {'bool' if kind == 'boolean' else kind}. {FORMS}.")


def clocked(
    times: NDArray[Any], untimed: NDArray[np.bool_] | None
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Apply `to_clock` to the times that are there.

    >>> clocked(np.array([1_500_000_000, 0]), np.array([False, True]))[0].astype(str).tolist()
    ['2017-07-14T02:40:00.000000', '1970-01-01T00:00:00.000000']
    """
    if untimed is None or not untimed.any():
        return to_clock(times), None
    known = np.flatnonzero(~untimed)
    try:
        found = to_clock(times[known])
    except BadTimeError as error:
        raise BadTimeError(int(known[error.place]), error.reason) from None
    full = np.zeros(len(times), found.dtype)
    full[known] = found
    return full, untimed


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
        return _in_calendar(times)
    bounds = [CLOCK_FROM, *(bound for _, bound in CLOCK_UNITS[:-1])]

    def unit_of(values: Any) -> Any:
        return np.searchsorted(bounds, np.abs(np.asarray(values, np.float64)), side="right")

    low, high = times.min(), times.max()
    first, *others = unit_of([times[0], low, high]).tolist()
    if low <= 0 or others != [first, first]:
        unit = unit_of(times)
        if (other := np.flatnonzero(unit != first)).size:
            names = ["a number without a clock", *(f"{name} since 1970" for name, _ in CLOCK_UNITS)]
            place = int(other[0])
            raise BadTimeError(
                place,
                f"the time {shown(times[place])} would be {names[unit[place]]}, but {shown(times[0])} before it is "
                f"{names[first]}. Use one unit in the whole column.",
            )
    if first == 0:
        return times
    if times.dtype.kind == "f":
        factor = (1e6, 1e3, 1.0, 1e-3)[first - 1]
        micro = np.round(times * factor)
        if (far := np.abs(micro) >= 2**63).any():
            place = int(far.argmax())
            raise BadTimeError(place, f"the time {shown(times[place])} is too far from 1970. {FORMS}.")
        return _in_calendar(micro.astype(np.int64).view("datetime64[us]"))
    numerator, denominator = ((1_000_000, 1), (1_000, 1), (1, 1), (1, 1_000))[first - 1]
    return (times * numerator if denominator == 1 else times // denominator).view("datetime64[us]")


def _in_calendar(times: NDArray[Any]) -> NDArray[Any]:
    """Return the times, or raise `BadTimeError` for the first point in time that is not in the years 1 to 9999."""
    if times.dtype.kind == "M" and len(times):
        first, last = FIRST.astype(times.dtype), LAST.astype(times.dtype)
        if not (times.min() >= first and times.max() <= last):
            place = int((~((times >= first) & (times <= last))).argmax())
            raise BadTimeError(place, f"the time {as_text(times[place])} is not in the years 1 to 9999. {FORMS}.")
    return times


def read_time(value: Any, clock: bool) -> Any:
    """Return a point in time given by a caller: a date as text or object, or a number as in the log.

    >>> read_time("2026-05-01", clock=True)
    np.datetime64('2026-05-01T00:00:00.000000')
    """
    if (found := _point(value)) is None:
        raise InputError(f"the time {shown(value)} cannot be read. {FORMS}.")
    if (found.dtype.kind == "M") != clock:
        has = "dates" if clock else "numbers without a clock"
        raise InputError(f"the time {shown(value)} does not fit the log, whose times are {has}.")
    return found


def _point(value: Any) -> Any:
    """Return a time as it would stand in a log, or None if it cannot be read."""
    import pandas as pd

    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int | float | np.integer | np.floating):
        return to_clock(np.array([value]))[0] if abs(float(value)) < 2**63 else None
    try:
        stamp: Any = pd.to_datetime(value, format="ISO8601") if isinstance(value, str) else pd.Timestamp(value)
    except (ValueError, TypeError):
        return None
    if stamp is pd.NaT or (isinstance(value, str) and not DATE.match(value.strip())):
        return None
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
