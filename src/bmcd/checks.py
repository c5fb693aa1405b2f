"""Checks of numbers that users pass: one message for each kind of mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

from bmcd.errors import InputError


def check_count(name: str, value: Any, least: int = 1, *, otherwise: str = "") -> int:
    """Return a whole number as an int, or raise `InputError`; ``otherwise`` lists what else may be given.

    >>> check_count("neighbours", 20)
    20
    >>> check_count("max_users", 0, otherwise="'auto' or None")
    Traceback (most recent call last):
    bmcd.errors.InputError: max_users must be a whole number, 1 or more, 'auto' or None, but it is 0.
    """
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__") or value < least:
        others = f", {otherwise}" if otherwise else ""
        raise InputError(f"{name} must be a whole number, {least} or more{others}, but it is {value!r}.")
    return int(value)


def check_number(
    name: str, value: Any, *, above: float | None = None, low: float = 0, high: float = np.inf
) -> None:
    """Raise `InputError` unless the value is a number in [low, high], or (above, high].

    >>> check_number("mixing", 0.5, high=1)
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if number and value <= high and (value > above if above is not None else value >= low):
        return
    least = f"above {above:g}" if above is not None else f"{low:g} or more"
    most = "" if np.isinf(high) else f", and at most {high:g}"
    raise InputError(f"{name} must be a number {least}{most}, but it is {value!r}.")
