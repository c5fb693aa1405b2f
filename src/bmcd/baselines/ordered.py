"""OrderedBaseline: what baselines that use the order of clicks share, with the running session of each user."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numba
import numpy as np
from numpy.typing import NDArray

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.baselines.base import Baseline
from bmcd.baselines.counting import HOUR, Events, events_of
from bmcd.clicks.frames import column_names
from bmcd.clicks.log import Clicks
from bmcd.clicks.times import read_duration
from bmcd.errors import InputError, Message, Option
from bmcd.utils import Floats

LEAST_WEIGHT = 1e-9
"""Clicks with smaller weights are ignored, so that a long session costs no more than its last clicks."""


class OrderedBaseline(Baseline):
    """A baseline that learns from events by `count`, and recommends from the running session of each user.

    The running session of a user is the last one of the log or of the given history, and empty in the histories of
    `Clicks.moments` and `bmcd.backtest` if the next click begins another session. Items of earlier sessions are not
    recommended either.
    """

    _needs_order: ClassVar[bool] = True

    @abstractmethod
    def count(self, events: Events) -> Self:
        """Learn from events alone, without keeping the clicks as `fit` does, and return self."""

    def update(self, clicks: Any, keep: str | None = None) -> Self:
        """Count more clicks and return self: the same model as after a fit to all clicks so far.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item (and time). New users and items, late clicks, and
            clicks that were counted before are allowed; see `Clicks.add`.
        keep
            Drop clicks older than this at the last click, such as "72h"; by default none.
        """
        self._check_fitted()
        return self.fit(more_clicks(self.clicks_, clicks, keep))

    @abstractmethod
    def _scores_of_sessions(self, starts: NDArray[np.int64], items: NDArray[np.int32]) -> Floats:
        """Return the scores after each of these sessions, [session, item]."""

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        self._refuse_unordered(clicks, "the log has")
        self.count(events_of(clicks))

    def _scores_for(self, people: Clicks, rows: NDArray[np.int64]) -> Floats:
        self._refuse_unordered(people, "the histories have")
        return self._scores_of_sessions(*running_sessions(people, rows))

    def _refuse_unordered(self, clicks: Clicks, what: str) -> None:
        if self._needs_order and clicks.order is None:
            said = f"{type(self).__name__} needs clicks in order, but {what} none. When reading, name the column "
            times = Message("of times with ", Option("time_column", "..."))
            rows = Message("if the rows are in click order, set ", Option("order", "rows"))
            raise InputError(Message(said, times, ", or, ", rows, "."))


def more_clicks(known: Clicks, clicks: Any, keep: str | None) -> Clicks:
    """Return the clicks of a fit with more added, a `Clicks` or a frame; `InputError` if it was saved without."""
    if not known.n_users:
        raise InputError(
            "this model was saved without the clicks it was fitted to, so none can be added: its counts would be "
            "lost. Update a model that was saved with its clicks."
        )
    if not isinstance(clicks, Clicks):
        timed = "time" in column_names(clicks)
        clicks = Clicks.from_frame(clicks, order="rows" if known.order == "rows" and not timed else None)
    return known.add(clicks, keep)


def running_sessions(people: Clicks, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the last sessions of the users in these rows, concatenated: starts and items.

    Clicks on items outside the catalogue are left out. A session that is marked as over is empty.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": 1, "item": list("abc")})
    >>> frame["time"] = ["2026-05-01 10:00", "2026-05-01 11:00", "2026-05-01 11:05"]
    >>> starts, items = running_sessions(Clicks.from_frame(frame), np.array([0]))
    >>> starts.tolist(), items.tolist()
    ([0, 2], [1, 2])
    """
    lengths = np.diff(people.starts)[rows]
    first = np.cumsum(lengths) - lengths
    places = np.arange(lengths.sum()) + np.repeat(people.starts[rows] - first, lengths)
    items, session = people.sequence[places], people.sessions[places]
    last = session[np.maximum(first + lengths - 1, 0)] if len(session) else np.zeros(len(rows), np.int64)
    kept = (session == np.repeat(last, lengths)) & (items >= 0)
    if people.session_over is not None:
        kept &= ~np.repeat(people.session_over[rows], lengths)
    starts = np.concatenate(([0], np.cumsum(kept)))[np.concatenate((first, [len(places)]))]
    return starts.astype(np.int64), items[kept]


def hours(duration: Any, name: str) -> float | None:
    """Return a duration such as "12h" in hours; None stays None.

    >>> hours("90min", "window"), hours(None, "window")
    (1.5, None)
    """
    return None if duration is None else read_duration(duration, name) / HOUR


@numba.njit(cache=True, nogil=True)
def mix_rows(starts, items, decay, smoothing, rows, columns, values, totals, share, scores):
    """Write the next-click distribution after each session: that after each of its clicks, weighted by recency.

    After a click on a it is (values[a, j] + smoothing share[j]) / (totals[a] + smoothing), and its weight is
    decay ** (clicks after it). An empty session has ``share`` itself.
    """
    for s in range(starts.size - 1):
        weight, sum_of_weights, of_share = 1.0, 0.0, 0.0
        scores[s, :] = 0.0
        for place in range(starts[s + 1] - 1, starts[s] - 1, -1):
            a = items[place]
            factor = weight / (totals[a] + smoothing)
            of_share += factor * smoothing
            for e in range(rows[a], rows[a + 1]):
                scores[s, columns[e]] += factor * values[e]
            sum_of_weights += weight
            weight *= decay
            if weight < LEAST_WEIGHT:
                break
        if sum_of_weights == 0.0:
            of_share = sum_of_weights = 1.0
        for j in range(share.size):
            scores[s, j] = (scores[s, j] + of_share * share[j]) / sum_of_weights
