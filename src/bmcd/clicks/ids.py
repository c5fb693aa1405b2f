"""Ids: told apart, numbered in order of appearance, freed of the blanks around them, and found again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import ClicksError, InputTypeError, Message, Option, UnknownIdError
from bmcd.system.text import listed, shown

Missing = Literal["error", "drop"]


class Coded(NamedTuple):
    """A column as a code for each row, -1 where there is nothing, and what the codes stand for."""

    codes: NDArray[Any]
    ids: NDArray[Any]
    stripped: tuple[str, ...] = ()
    """Every spelling that had blanks around it."""


def objects(values: list[Any]) -> NDArray[np.object_]:
    """Return a 1-d object array also when the values are tuples, which np.array would unpack."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def check_missing(missing: str) -> None:
    """Refuse anything but "error" and "drop"."""
    if missing not in ("error", "drop"):
        raise ClicksError(f"missing must be 'error' or 'drop', not {shown(missing)}.")


def encode(values: NDArray[Any], column: str, missing: Missing = "error", advice: str = "") -> Coded:
    """Number the values of a column; one that is missing or blank is an error, or -1 with `missing="drop"`.

    The ids are int64 if all are whole numbers.
    """
    import pandas as pd

    try:
        codes, found = pd.factorize(values)
        ids = pd.Series(found).astype(object).to_numpy()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError, for text that is not Unicode, is a ValueError
        reason = f"the ids cannot be told apart ({error}). Use text, numbers or tuples."
        raise ClicksError(reason, column=column) from error
    blank = np.array([isinstance(value, str) and not value.strip() for value in ids], np.bool_)
    if missing == "error" and (bad := np.flatnonzero(np.isin(codes, [-1, *np.flatnonzero(blank)]))).size:
        what = "missing" if codes[bad[0]] == -1 else "empty"
        reason = Message(f"the {column} id is {what} (rows count from 0).", " " if advice else "", advice)
        raise ClicksError(reason, row=int(bad[0]), column=column)
    if blank.any():
        codes = np.append(np.where(blank, -1, np.cumsum(~blank) - 1), -1)[codes]
    return Coded(codes, whole_numbers(ids[~blank]))


def whole_numbers(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids as int64 if all are whole numbers, else as they are."""
    whole = all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) and -(2**63) <= v < 2**63 for v in ids)
    return ids.astype(np.int64) if whole else ids


def strip(column: Coded) -> Coded:
    """Take away the blanks around text ids, which may make two of them one.

    >>> strip(Coded(np.array([0, 1, 2]), objects(["a", "b", "a "])))
    Coded(codes=array([0, 1, 0]), ids=array(['a', 'b'], dtype=object), stripped=('a ',))
    """
    if column.ids.dtype != object:
        return column
    texts = [value.strip() if isinstance(value, str) else value for value in column.ids]
    changed = tuple(old for old, new in zip(column.ids, texts, strict=True) if old is not new and old != new)
    if not changed:
        return column
    code = {value: number for number, value in enumerate(dict.fromkeys(texts))}
    return Coded(np.array([*map(code.get, texts), -1])[column.codes], objects(list(code)), changed)


def renumbered(column: Coded, kept: NDArray[np.bool_]) -> Coded:
    """Keep some rows, and the ids they have, in order of first appearance."""
    codes = column.codes[kept]
    own, first = np.unique(codes[codes >= 0], return_index=True)
    order = own[np.argsort(first)]
    new = np.full(len(column.ids) + 1, -1, np.int64)
    new[order] = np.arange(len(order))
    return Coded(new[codes], column.ids[order], column.stripped)


def distinct(values: list[Any], what: str, length: int) -> Coded:
    """Return the ids given for one side of a matrix, which must be as many and all different."""
    if len(values) != length:
        raise ClicksError(f"the matrix has {length} {what}s, but {len(values)} {what} ids were given.")
    column = encode(objects(values), what, advice=f"Every {what} of the matrix needs an id.")
    if len(column.ids) < length:
        twice = column.ids[np.bincount(column.codes).argmax()]
        raise ClicksError(f"the {what} id {shown(twice)} is given more than once. Ids must differ.", column=what)
    return column


def id_ranks(ids: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each id when they are sorted; ids that cannot be compared are sorted by type and text.

    >>> id_ranks(np.array(["b", "a", 3], dtype=object)).tolist()
    [2, 1, 0]
    """
    if ids.dtype != object:
        order: Any = np.argsort(ids, kind="stable")
    else:
        own = ids.tolist()
        try:
            order = sorted(range(len(own)), key=own.__getitem__)
        except TypeError:
            order = sorted(range(len(own)), key=lambda i: (type(own[i]).__name__, repr(own[i])))
    ranks = np.empty(len(ids), np.int64)
    ranks[order] = np.arange(len(ids))
    return ranks


def places_of(known: NDArray[Any]) -> dict[Any, int]:
    """Return where each id stands."""
    return {value: number for number, value in enumerate(known.tolist())}


def positions(
    wanted: Iterable[Any], known: NDArray[Any], what: str, hint: str = "", place: Mapping[Any, int] | None = None
) -> NDArray[np.int64]:
    """Return where each id wanted stands among those known; `UnknownIdError` lists those that are not there.

    ``place`` are the `places_of` those known, if somebody has kept them.
    """
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise InputTypeError(f"{what}s must be a list of ids, such as [{shown(wanted)}], not {shown(wanted)}.")
    place = places_of(known) if place is None else place
    ids = [value.item() if isinstance(value, np.generic) else value for value in wanted]
    if unknown := [value for value in ids if value not in place]:
        count = f"{len(unknown)} of {len(ids)} {what}s are" if len(ids) > 1 else f"the {what} is"
        said = (
            f"{count} not known: {listed([shown(value) for value in unknown])}. The {what} ids look like "
            f"{listed([shown(value) for value in known[:3]])}. "
        )
        raise UnknownIdError(Message(said, hint))
    return np.array([place[value] for value in ids], np.int64)


def texts_of(known: NDArray[Any]) -> dict[str, Any]:
    """Return each id by its text; where 7 and "7" are both ids, "7" means the text."""
    own = known.tolist()
    return {str(value): value for value in own} | {value: value for value in own if isinstance(value, str)}


def how_to_drop(needed: str = "a user and an item") -> Message:
    """Say what every row needs, and what to do about those that lack it."""
    return Message(f"Every row needs {needed}. Leave out those without it with ", Option("missing", "drop"), ".")
