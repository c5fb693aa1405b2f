"""`bmcd fit --last --start`: the last hours of a growing log, if nothing is missing and its clock can be right."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bmcd.clicks.times import as_text, read_duration
from bmcd.errors import ClicksError, Message, Option

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

DAY = np.timedelta64(24, "h")
# Logs whose times are local ones, taken as UTC, may be this far ahead of the clock of this machine.
AHEAD = DAY
# So many of the latest clicks that lie far from all others are a mistake; smaller logs are not checked.
FEW, SMALL = 1_000, 100
# Fewer clicks than this, or a single user, are nothing to fit to.
FEWEST_CLICKS = 20


def latest(clicks: Clicks, name: str, last: str | None, start: Any, start_path: Path | None) -> Clicks:
    """Return the clicks of the last hours, all without ``last``; `ClicksError` if the log cannot be relied on.

    ``start`` is the blend that the fit begins with, or None. With either the log is one that grows and is fitted
    again and again, so what does not belong to such a log ends with an error, and the model in use stays.
    """
    if last is not None and not clicks.has_clock:
        said = (
            f"{name}: --last {last} needs points in time, and this log has none. Name the column of the times with "
        )
        raise ClicksError(Message(said, Option("time_column", "..."), "."))
    if clicks.has_clock:
        _check_clock(clicks, name, datetime.now(UTC))
    if start is not None:
        _check_grown(clicks, name, start, start_path, last)
    if last is None:
        return clicks
    found = clicks.last(last)
    if len(found.sequence) < FEWEST_CLICKS or found.n_users < 2:
        raise ClicksError(
            f"{name}: the last {last} before the last click ({as_text(_times(clicks).max())}) have "
            f"{len(found.sequence):,} of {len(clicks.sequence):,} clicks, by {found.n_users:,} users: too few to "
            "fit to. Use a longer --last, and check that the log is still being written."
        )
    return found


def _times(clicks: Clicks) -> Any:
    assert clicks.times is not None
    return clicks.times


def _check_clock(clicks: Clicks, name: str, now: datetime) -> None:
    """Refuse a last click that lies in the future, or far from all other clicks."""
    times = np.sort(_times(clicks))
    present = np.datetime64(now.replace(tzinfo=None), "us")
    if times[-1] > present + AHEAD:
        n = int((times > present + AHEAD).sum())
        raise ClicksError(
            f"{name}: the last click is at {as_text(times[-1])}, and it is {as_text(present.astype('M8[s]'))} UTC "
            f"now: {n:,} of {len(times):,} clicks lie more than a day ahead. A clock has jumped, here or where the "
            "log is written. Correct these times or leave the rows out."
        )
    if len(times) < SMALL:
        return
    tail = times[-max(len(times) // FEW, 1) - 1 :]
    widest = int(np.argmax(np.diff(tail)))
    bulk, gap, few = tail[widest], tail[widest + 1] - tail[widest], len(tail) - 1 - widest
    if gap > max(DAY, (bulk - times[0]) / 4):
        raise ClicksError(
            f"{name}: the latest {few:,} of {len(times):,} clicks, up to {as_text(times[-1])}, come "
            f"{gap / np.timedelta64(1, 'h'):,.0f} hours after all others, which run from {as_text(times[0])} to "
            f"{as_text(bulk)}. A clock has jumped, or the log was interrupted. Correct these times, leave the rows "
            "out, or wait until there are more clicks."
        )


def _check_grown(clicks: Clicks, name: str, start: Any, path: Path | None, last: str | None) -> None:
    """Refuse a log that lacks clicks which the model to begin with was fitted to."""
    remedy = f"Restore the log; or leave out --start to fit to it as it is. {path} stays."
    old = start.clicks_
    if not (clicks.has_clock and start.as_of_ is not None):
        if clicks.order == old.order and len(clicks.sequence) < len(old.sequence):
            raise ClicksError(
                f"{name}: the log has {len(clicks.sequence):,} clicks, and {path} was fitted to "
                f"{len(old.sequence):,}: it has shrunk. {remedy}"
            )
        return
    times = _times(clicks)
    if times.max() < start.as_of_:
        raise ClicksError(
            f"{name}: the last click is at {as_text(times.max())}, and {path} was fitted to clicks up to "
            f"{as_text(start.as_of_)}: the log has shrunk, or is another one. {remedy}"
        )
    if not old.n_users or old.times is None:  # a model without clicks
        return
    begin = max(times.min(), old.times.min())
    now, then = (int(((t >= begin) & (t <= start.as_of_)).sum()) for t in (times, old.times))
    if now < then:
        raise ClicksError(
            f"{name}: the log has {now:,} clicks from {as_text(begin)} to {as_text(start.as_of_)}, and {path} was "
            f"fitted to {then:,} of that time: it has shrunk. {remedy}"
        )
    covered, wanted = times.max() - times.min(), start.as_of_ - old.times.min()
    if last is not None:
        wanted = min(wanted, np.timedelta64(read_duration(last, "last"), "us"))
    if covered < wanted / 2:
        raise ClicksError(
            f"{name}: the log begins at {as_text(times.min())}, and {path} was fitted to clicks from "
            f"{as_text(old.times.min())} on: it has shrunk, or was rotated. {remedy}"
        )
