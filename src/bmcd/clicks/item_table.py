"""What is known of items besides who clicked them: groups, numbers, links, pictures, dates; and filters by them."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.ids import is_unicode, objects, positions
from bmcd.clicks.times import BadTimeError, clocked, times_of_column
from bmcd.errors import ClicksError, InputError, InputTypeError
from bmcd.utils import listed, shown

# What columns with a known meaning may be called, the first name first.
ROLES = {
    "title": ("title",), "links": ("link", "url"), "pictures": ("image", "picture"), "dates": ("date", "published"),
}  # fmt: skip
# What stands in these arrays of a table for an item that has none.
NOTHING: dict[str, Any] = {"links": "", "pictures": "", "dates": np.datetime64("NaT")}
ADDRESSES, LONGEST = ("links", "pictures"), 2000
# In a text cell this stands between the groups of an item that is in several.
BETWEEN = "|"
# A column in which more than this share of the items has its own value is a text, and no grouping.
MOST_OWN, FEW_GROUPS = 0.5, 20
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
Bools = NDArray[np.bool_]
Filter = Mapping[str, Any]


class ItemGroups(NamedTuple):
    """The groups of one column of an item table, such as sections; an item is in none, one or several.

    >>> groups = ItemGroups.of([["news"], [], ["sports", "news"]])
    >>> groups.names, groups.of_item(2), groups.is_single
    (('news', 'sports'), ('news', 'sports'), False)
    """

    names: tuple[str, ...]
    """In alphabetical order."""
    starts: NDArray[np.int64]
    """The groups of item i are ``numbers[starts[i]:starts[i + 1]]``."""
    numbers: NDArray[np.int32]
    """Groups by their places in `names`, ascending within an item."""

    @classmethod
    def of(cls, names: Sequence[Iterable[str]]) -> ItemGroups:
        """Make groups of the names that each item has."""
        every = tuple(sorted({name for own in names for name in own}))
        place = {name: number for number, name in enumerate(every)}
        own = [sorted({place[name] for name in one}) for one in names]
        starts = np.concatenate(([0], np.cumsum([len(one) for one in own]))).astype(np.int64)
        return cls(every, starts, np.array([number for one in own for number in one], np.int32))

    @property
    def is_single(self) -> bool:
        """Whether no item is in several groups."""
        return bool((np.diff(self.starts) <= 1).all())

    @property
    def matrix(self) -> sparse.csr_array[Any]:
        """Items x groups, bool."""
        shape = (len(self.starts) - 1, len(self.names))
        return sparse.csr_array((np.ones(len(self.numbers), np.bool_), self.numbers, self.starts), shape=shape)

    def of_item(self, item: int) -> tuple[str, ...]:
        """Return the names of the groups of an item, given by its column."""
        return tuple(self.names[g] for g in self.numbers[self.starts[item] : self.starts[item + 1]])

    def take(self, items: NDArray[Any]) -> ItemGroups:
        """Return the groups of some items; names stay, also those that no item has any more."""
        taken = self.matrix[items]
        return ItemGroups(self.names, taken.indptr.astype(np.int64), taken.indices.astype(np.int32))

    def has(self, wanted: NDArray[np.int64]) -> Bools:
        """Return which items are in one of these groups."""
        return np.asarray(self.matrix[:, wanted].sum(axis=1) > 0)


@dataclass(frozen=True, eq=False, repr=False)
class ItemTable:
    """What is known of items, in the order of the items of the clicks: `Clicks.items_table`.

    >>> import pandas as pd
    >>> from bmcd import Clicks
    >>> frame = pd.DataFrame({"item": [7, 8], "section": ["news|local", "sports"], "price": [3, 4.5]})
    >>> table = Clicks.from_matrix([[1, 1]], items=[7, 8]).with_items(frame).items_table
    >>> table, table.groups["section"].of_item(0)
    (ItemTable(2 items; section: 3 groups; price: numbers), ('local', 'news'))
    """

    n_items: int
    groups: Mapping[str, ItemGroups] = field(default_factory=dict)
    """By the name of the column."""
    numbers: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Columns of numbers, NaN where there is none."""
    links: NDArray[np.object_] | None = None
    """Where to read about each item; "" for none."""
    pictures: NDArray[np.object_] | None = None
    dates: NDArray[Any] | None = None
    """datetime64[us], NaT where there is none."""
    n_refused: int = 0
    """Addresses that were left out: not http, not https, not relative."""

    def take(self, items: NDArray[Any]) -> ItemTable:
        """Return the table of some items, given by their columns, in that order; of -1 nothing is known."""
        own: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else np.append(values, nothing)[items]
            for name, nothing in NOTHING.items()
        }
        groups = {
            name: one._replace(starts=np.append(one.starts, one.starts[-1])).take(items)
            for name, one in self.groups.items()
        }
        numbers = {name: np.append(values, np.nan)[items] for name, values in self.numbers.items()}
        return replace(self, n_items=len(items), groups=groups, numbers=numbers, **own)

    def grouping(self, name: str | None) -> tuple[str, ItemGroups]:
        """Return the groups of a column; None stands for the first one."""
        if not self.groups:
            raise InputError("the item table has no column of groups, such as sections or genres.")
        if name is None:
            return next(iter(self.groups.items()))
        if name not in self.groups:
            raise InputError(f"the item table has no groups {shown(name)}; it has {listed(list(self.groups))}.")
        return name, self.groups[name]

    def __repr__(self) -> str:
        parts = [f"{name}: {len(one.names):,} groups" for name, one in self.groups.items()]
        parts += [f"{name}: numbers" for name in self.numbers]
        parts += [name for name in NOTHING if getattr(self, name) is not None]
        return f"ItemTable({'; '.join([f'{self.n_items:,} items', *parts])})"


def _roles(have: Sequence[str], title: str | None = None) -> dict[str, str]:
    """Return the columns with a known meaning: items in "item", or in the first one.

    >>> _roles(["sku", "Title", "section", "URL"])
    {'item': 'sku', 'title': 'Title', 'links': 'URL'}
    """
    if not have or (title is not None and title not in have):
        raise ClicksError(f"there is no column {title!r} in the item table, but {listed(list(have))}.")
    lower = {name.strip().lower(): name for name in reversed(have)}
    found = {"item": lower.get("item", have[0])}
    for role, usual in ROLES.items():
        named = [lower[name] for name in usual if name in lower and lower[name] != found["item"]]
        if role == "title" and title:
            named = [title]
        found |= {role: named[0]} if named else {}
    return found


def make_item_table(
    columns: Mapping[str, Sequence[Any]],
    items: NDArray[Any],
    *,
    title: str | None = None,
    groups: Iterable[str] | None = None,
) -> tuple[ItemTable, dict[Any, str], list[str]]:
    """Return a table of these items out of columns by name, their titles, and what there is to say.

    Rows of an item that is repeated are joined: groups add up, and of all else the first counts. Columns of numbers
    are kept as numbers, and texts as groups, unless most of them are different; `groups` names those wanted.

    >>> columns = {"item": ["a", "a", "b", "z"], "section": ["x", "y", "", "x"]}
    >>> table, _, steps = make_item_table(columns, np.array(["a", "b"], object))
    >>> table.groups["section"].of_item(0), steps
    (('x', 'y'), ['item table: 1 rows about items nobody clicked left out'])
    """
    roles = _roles(list(columns), title)
    wanted = [groups] if isinstance(groups, str) else None if groups is None else list(groups)
    if wrong := [name for name in wanted or () if name not in columns or name == roles["item"]]:
        has = listed([one for one in columns if one != roles["item"]])
        raise ClicksError(f"there is no column of groups {shown(wrong[0])} in the item table; it has {has}.")
    # Ids are compared as text, since those of a file may be numbers or not.
    own = items.tolist()
    place = {str(item).strip(): column for column, item in enumerate(own)}
    rows = np.array([place.get(_text(value), -1) for value in columns[roles["item"]]], np.int64)
    if not (rows >= 0).any():
        given = next((shown(_text(value)) for value in columns[roles["item"]]), "no row")
        raise ClicksError(
            f"no item of the table was clicked ({given} against {shown(own[0])}). Check the ids in the column "
            f"{roles['item']!r}.",
        )
    known = np.flatnonzero(rows >= 0)
    steps = []
    if len(known) < len(rows):
        steps.append(f"item table: {len(rows) - len(known):,} rows about items nobody clicked left out")
    if lacking := len(own) - len(np.unique(rows[known])):
        steps.append(f"item table: {lacking:,} of {len(own):,} items are not in it")

    n_refused = 0

    def first(role: str) -> NDArray[np.object_] | None:
        """Return the first text of each item in the column with this meaning."""
        nonlocal n_refused
        if role not in roles:
            return None
        texts = [""] * len(own)
        for row in known.tolist():
            text = _text(columns[roles[role]][row])
            if text and not texts[rows[row]]:
                if role in ADDRESSES and not is_safe(text):
                    n_refused += 1
                else:
                    texts[rows[row]] = _checked(text, roles[role], row)
        return objects(texts)

    titles, dates = first("title"), first("dates")
    grouped, numbers = dict[str, ItemGroups](), dict[str, NDArray[np.float64]]()
    for name, values in columns.items():
        is_wanted = wanted is not None and name in wanted
        if not is_wanted:
            if name in roles.values():
                continue
            if (found := _numbers(values, rows, len(own))) is not None:
                numbers[name] = found
            if found is not None or wanted is not None:
                continue
        names: list[list[str]] = [[] for _ in own]
        for row in known.tolist():
            names[rows[row]] += [_checked(one, name, row) for one in _several(values[row])]
        one = ItemGroups.of(names)
        if is_wanted or len(one.names) <= max(FEW_GROUPS, MOST_OWN * len(own)):
            grouped[name] = one
            continue
        steps.append(
            f"item table: the column {name!r} left out, since it has {len(one.names):,} different texts for "
            f"{len(own):,} items; groups=[{name!r}] keeps it"
        )
    table = ItemTable(len(own), grouped, numbers, first("links"), first("pictures"))
    table = replace(table, dates=None if dates is None else _dates(dates, roles["dates"]), n_refused=n_refused)
    return table, {own[column]: text for column, text in enumerate([] if titles is None else titles) if text}, steps


def is_safe(address: str) -> bool:
    """Return whether an address is http, https or relative, and nothing that a browser reads in another way.

    >>> [is_safe(text) for text in ("https://a.example/x", "img/1.png", "javascript:alert(1)", "//a.example/x")]
    [True, True, False, False]
    """
    if not address or len(address) > LONGEST or not address.isprintable() or set(address) & set("\\ <>\"'`"):
        return False
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.netloc)
    return (
        not parts.scheme
        and not parts.netloc
        and not address.startswith("//")
        and ":" not in re.split("[/?#]", address)[0]
    )


def allowed_items(
    items: NDArray[Any],
    table: ItemTable | None,
    wanted: Iterable[Any] | None = None,
    only: Filter | None = None,
    never: Filter | None = None,
) -> Bools | None:
    """Return which items may be recommended, by ids and by filters; None stands for all of them.

    Every column of `only` must hold: an item must be in one of the groups named. What is in one of the groups of
    `never` is left out. A column of numbers takes two of them, the least and the largest, None for no bound.

    >>> sections = ItemGroups.of([["news"], ["sports"], []])
    >>> table = ItemTable(3, {"section": sections}, {"price": np.array([1.0, 5, 9])})
    >>> allowed_items(np.arange(3), table, only={"price": [2, None]}, never={"section": "sports"}).tolist()
    [False, False, True]
    """
    if isinstance(wanted, np.ndarray) and wanted.dtype == np.bool_ and wanted.shape == items.shape:
        allowed = wanted  # another module has worked it out already
    elif wanted is None and not only and not never:
        return None
    else:
        allowed = np.ones(len(items), np.bool_)
        if wanted is not None:
            hint = "Leave them out: the model can recommend only items it was fitted to."
            allowed[:] = False
            allowed[positions(wanted, items, "item", hint)] = True
    for argument, given in (("only", only), ("never", never)):
        if not given:
            continue
        if not isinstance(given, Mapping):
            raise InputTypeError(
                f"{argument} must be a dict from a column of the item table to groups, such as "
                f"{{'section': ['sports']}}, not {shown(given)}."
            )
        if table is None:
            raise InputError(
                f"{argument} needs an item table, and the model was fitted without one: "
                "read_clicks(..., items='items.csv')."
            )
        for name, values in given.items():
            has = _matching(table, name, values, argument)
            allowed = allowed & (has if argument == "only" else ~has)
    if (only or never) and not allowed.any():
        said = " and ".join(f"{a}={dict(g)!r}" for a, g in (("only", only), ("never", never)) if g)
        raise InputError(f"no item is left with {said[:300]}. Allow more.")
    return allowed


def _matching(table: ItemTable, name: str, values: Any, argument: str) -> Bools:
    """Return which items a column of a filter is about."""
    if name in table.numbers:
        several = values if isinstance(values, list | tuple) else None
        if several is None or len(several) != 2 or not all(_is_end(end) for end in several):
            raise InputError(
                f"{argument}: {name!r} is a column of numbers, so give the least and the largest, such as "
                f"[10, 20] or [None, 20], not {shown(values)}."
            )
        low, high = (
            -math.inf if several[0] is None else several[0],
            math.inf if several[1] is None else several[1],
        )
        with np.errstate(invalid="ignore"):
            return np.asarray((table.numbers[name] >= low) & (table.numbers[name] <= high), np.bool_)
    if name not in table.groups:
        have = [*table.groups, *table.numbers]
        close = difflib.get_close_matches(str(name), have, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"{argument}: the item table has no column {shown(name)}; it has {listed(have)}.{hint}")
    groups = table.groups[name]
    return groups.has(group_numbers(groups, values, f"{argument}: {name}"))


def group_numbers(groups: ItemGroups, values: Any, where: str) -> NDArray[np.int64]:
    """Return the numbers of groups by their names, or an error that says where they are asked for."""
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise InputTypeError(f"{where} must be a list of groups, not {shown(values)}.")
    wanted = [values] if isinstance(values, str) else [_text(value) for value in values]
    place = {name: number for number, name in enumerate(groups.names)}
    if unknown := [name for name in wanted if name not in place]:
        close = difflib.get_close_matches(unknown[0], groups.names, 1)
        hint = (
            f"did you mean {shown(close[0])}?" if close else f"there are {listed(list(map(shown, groups.names)))}."
        )
        raise InputError(f"{where}: there is no group {listed(list(map(shown, unknown)), 3)}; {hint}")
    return np.array([place[name] for name in wanted], np.int64)


def _is_end(end: Any) -> bool:
    is_number = isinstance(end, int | float | np.number) and not isinstance(end, bool)
    return end is None or (is_number and not math.isnan(float(end)))


def _is_missing(value: Any) -> bool:
    return value is None or (not isinstance(value, list | tuple | set | np.ndarray) and bool(value != value))


def _text(value: Any) -> str:
    """Return a cell as text: whole floats, which frames make of numbers with missing values, as whole numbers."""
    if _is_missing(value):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _several(value: Any) -> list[str]:
    """Return the groups in a cell: a list, or a text with "|" between them."""
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        parts = [_text(one) for one in value]
    else:
        parts = _text(value).split(BETWEEN)
    return [part.strip() for part in parts if part.strip()]


def _checked(text: str, name: str, row: int) -> str:
    if not is_unicode(text):
        raise ClicksError(f"{shown(text)} is not valid Unicode.", row=row, column=name)
    return text


def _numbers(values: Sequence[Any], rows: NDArray[np.int64], n_items: int) -> NDArray[np.float64] | None:
    """Return the first number of each item; None if something else stands in the column, or nothing at all."""
    found, some = np.full(n_items, np.nan), False
    for row, value in zip(rows.tolist(), values, strict=True):
        if _is_missing(value):
            continue
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number | str):
            return None
        text = _text(value)
        if not text:
            continue
        if not NUMBER.fullmatch(text) or not math.isfinite(number := float(text)):
            return None
        some = True
        if row >= 0 and math.isnan(found[row]):
            found[row] = number
    return found if some else None


def _dates(texts: NDArray[np.object_], name: str) -> NDArray[Any]:
    column = pa.chunked_array([pa.array([text or None for text in texts], pa.string())])
    try:
        times, absent = clocked(*times_of_column(column, name))
    except BadTimeError as error:
        raise ClicksError(f"{error.reason} It is in the item table.", column=name) from None
    if times.dtype.kind != "M":
        raise ClicksError("the dates of the item table are numbers that are no points in time.", column=name)
    dates = times.astype("datetime64[us]", copy=True)
    if absent is not None:
        dates[absent] = np.datetime64("NaT")
    return dates
