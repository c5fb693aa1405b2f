"""Add clicks to a log that is there already: ids that read the same are the same, and old clicks may leave."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.ids import WHOLE, objects, places_of, whole_numbers
from bmcd.clicks.sequences import owners
from bmcd.clicks.times import read_duration
from bmcd.errors import ClicksError
from bmcd.utils import shown

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

Ints = NDArray[np.int64]
KINDS = {"time": "has times", "rows": "has the order of its rows", None: "has no order"}


def add(log: Clicks, more: Clicks, keep: str | None = None) -> Clicks:
    """Return the log with more clicks; see `Clicks.add`."""
    _check(log, more, keep)
    users, own_users = joined_ids(log.users, more.users)
    items, own_items = joined_ids(log.items, more.items)
    user = np.concatenate([owners(log.starts), own_users[owners(more.starts)]])
    item = np.concatenate([log.sequence.astype(np.int64), own_items[more.sequence]])
    times, sessions = (_joined(getattr(log, name), getattr(more, name)) for name in ("times", "session_ids"))
    if keep is not None:
        recent = times >= times.max() - np.timedelta64(read_duration(keep, "keep"), "us")
        user, item, times = user[recent], item[recent], times[recent]
        sessions = None if sessions is None else sessions[recent]
        user, users = _used(user, users)
        item, items = _used(item, items)
    found = type(log).from_codes(user, item, users, items, times=times, sessions=sessions, order=log.order)
    found = replace(
        found, library=log.library, session_gap=log.session_gap, history=log.history,
        n_dropped=log.n_dropped + more.n_dropped,
    )  # fmt: skip
    if log.items_table is not None:
        place = joined_ids(log.items, found.items)[1]
        known = np.where(place < log.n_items, place, -1)
        found = replace(found, items_table=log.items_table.take(known))
    return _with_titles(found, log, more)


def joined_ids(known: NDArray[Any], more: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """Return the ids known and then the new ones among more, and where each of more stands in them.

    Ids that read the same are the same: "12" is 12 if the log has whole numbers. New ids become whole numbers or
    text as those known are, where they can be.

    >>> joined_ids(np.array([12, 7]), objects(["7", "9", "a"]))
    (array([12, 7, 9, 'a'], dtype=object), array([1, 2, 3]))
    """
    if known.dtype.kind == "i" and more.dtype.kind == "i":
        order = np.argsort(known, kind="stable")
        at = np.searchsorted(known, more, sorter=order)
        place = order[np.minimum(at, len(known) - 1)] if len(known) else np.zeros(len(more), np.int64)
        new = known[place] != more if len(known) else np.ones(len(more), np.bool_)
        place = np.where(new, len(known) + np.cumsum(new) - 1, place)
        return np.concatenate([known, more[new]]), place.astype(np.int64)
    there, own = places_of(known), more.tolist()
    if any(value not in there for value in own):  # perhaps only their kinds differ
        numbers = any(isinstance(value, int) for value in there)
        by_text = {str(value): value for value in there} if numbers else {}
        own = [value if value in there else _as_known(value, numbers, by_text) for value in own]
    added = list(dict.fromkeys(value for value in own if value not in there))
    for number, value in enumerate(added):
        there[value] = len(known) + number
    places = np.array([there[value] for value in own], np.int64)
    ids = objects([*known.tolist(), *added]) if added else known
    return (whole_numbers(ids) if known.dtype.kind == "i" else ids), places


def _as_known(value: Any, numbers: bool, by_text: dict[str, Any]) -> Any:
    """Return an id as one of those known if it reads like it, else in their kind if it has a form of that kind."""
    if not numbers:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if str(value) in by_text:
        return by_text[str(value)]
    is_whole = isinstance(value, str) and WHOLE.fullmatch(value) and -(2**63) <= int(value) < 2**63
    return int(value) if is_whole else value


def _check(log: Clicks, more: Clicks, keep: str | None) -> None:
    for clicks in (log, more):
        if (clicks.sequence < 0).any():
            raise ClicksError("test clicks on items outside the catalogue cannot be added to a log, or it to them.")
    if log.order != more.order:
        raise ClicksError(
            f"the log {KINDS[log.order]}, but the clicks to add are such that it {KINDS[more.order]}: read both in "
            "the same way."
        )
    if log.has_clock != more.has_clock:
        kinds = [f"{'points in time' if c.has_clock else 'numbers'} such as {c.times[0]}" for c in (log, more)]  # type: ignore[index]
        raise ClicksError(f"the times of the log are {kinds[0]}, but those of the clicks to add are {kinds[1]}.")
    if (log.session_ids is None) != (more.session_ids is None):
        has, lacks = (
            ("log has", "clicks to add have") if more.session_ids is None else ("clicks to add have", "log has")
        )
        raise ClicksError(f"the {has} a column of sessions, but the {lacks} none: read both in the same way.")
    if keep is not None and not log.has_clock:
        raise ClicksError(f"keep={shown(keep)} needs a log with times, and this one has no clock.")


def _joined(first: NDArray[Any] | None, second: NDArray[Any] | None) -> Any:
    return None if first is None or second is None else np.concatenate([first, second])


def _used(codes: Ints, ids: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Return codes and ids without the ids that no code stands for."""
    used = np.bincount(codes, minlength=len(ids)) > 0
    return (np.cumsum(used) - 1)[codes], ids[used]


def _with_titles(found: Clicks, log: Clicks, more: Clicks) -> Clicks:
    """Give items their titles; those of the log go before those of the clicks that were added."""
    if log.titles is None and more.titles is None:
        return found
    titles, titled = objects([str(item) for item in found.items.tolist()]), np.zeros(found.n_items, np.bool_)
    for clicks in (more, log):
        if clicks.titles is not None and clicks.titled is not None:
            place = joined_ids(found.items, clicks.items)[1]
            known = clicks.titled & (place < found.n_items)
            titles[place[known]], titled[place[known]] = clicks.titles[known], True
    return replace(found, titles=titles, titled=titled)
