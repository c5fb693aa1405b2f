"""When clicks happened: numbers or dates, out of text and out of frames. Only their order is used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.system.text import shown

FORMS = "Times are numbers, or dates such as 2024-01-31 or 2024-01-31T23:59:00+01:00"
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
