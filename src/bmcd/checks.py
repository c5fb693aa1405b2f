"""Checks of arguments that several packages share."""

from __future__ import annotations

import operator
from typing import Any

from bmcd.errors import InputError


def check_count(value: Any, name: str, least: int = 1, *, otherwise: str = "") -> int:
    """Return a whole number as an int, or raise `InputError`; ``otherwise`` lists what else may be given.

    >>> check_count(3, "k")
    3
    >>> check_count(0, "max_users", otherwise="'auto' or None")
    Traceback (most recent call last):
    bmcd.errors.InputError: max_users must be a whole number, 1 or more, 'auto' or None, but it is 0.
    """
    whole = hasattr(value, "__index__") and type(value).__name__ not in ("bool", "bool_")
    if not whole or operator.index(value) < least:
        rest = f", {otherwise}" if otherwise else ""
        raise InputError(f"{name} must be a whole number, {least} or more{rest}, but it is {value!r}.")
    return operator.index(value)
