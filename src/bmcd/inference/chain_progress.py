"""How far the chains of a run are, in one line: sweeps done, speed, time left.

Or, where several numbers of clusters are tried, which of them is under way. Whether the chains agree is for the
verdict alone to say: R-hat of one quantity in the middle of a run is another figure than the largest of all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from bmcd.inference.record import ChainRecord
from bmcd.progress import Display, clock, open_display

SECONDS_BETWEEN = 0.5
# What the sweeps of a candidate number of clusters take, in units of what one cluster adds.
WORK_OF_SWEEPS = 10


class Progress(Protocol):
    """What is told how a run goes."""

    def update(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Show how far the chains are; the time budget, if any, ends in ``seconds_left``."""


@contextmanager
def open_progress(progress: bool | Progress | None, records: Sequence[ChainRecord]) -> Iterator[Progress]:
    """Show progress where `bmcd.progress` says.

    Anything that has the method `update` is told as it is: a run may be one of several under one bar.
    """
    if progress is not None and not isinstance(progress, bool):
        yield progress
        return
    with open_display(progress) as display:
        line = _Line(display, records)
        yield line
        line.show(records, None)


@contextmanager
def open_candidate_progress(progress: bool | None, candidates: Sequence[int]) -> Iterator[CandidateProgress]:
    """Show one bar over numbers of clusters, to be told of each before its turn and to be given to its fit."""
    with open_display(progress) as display:
        line = CandidateProgress(display, candidates)
        yield line
        line.finish()


class CandidateProgress:
    """Shows which number of clusters is being tried, how far its chains are, and how long all will take."""

    def __init__(self, display: Display, candidates: Sequence[int]) -> None:
        self.display, self.candidates, self.position = display, list(candidates), 0
        self.began, self.last_shown = time.monotonic(), -np.inf

    def start(self, c: int) -> None:
        """Say that it is the turn of ``c`` clusters, which may be one more than was known at first."""
        if c not in self.candidates:
            self.candidates.append(c)
        self.position = self.candidates.index(c)
        self._show(0.0)

    def update(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Show how far the chains of this candidate are, unless it was shown just now."""
        if time.monotonic() - self.last_shown >= SECONDS_BETWEEN:
            self._show(sweeps_done(records) / sum(record.plan.n_sweeps for record in records))

    def finish(self) -> None:
        """Say that all are done."""
        total = self._work(len(self.candidates))
        self.display.show("scored", total, total, f"{len(self.candidates)} candidates")

    def _work(self, number: int) -> int:
        """Return the work of the first so many candidates.

        Sweeps take about the same time whatever the number of clusters; starts and scores are linear in it.
        """
        return sum(WORK_OF_SWEEPS + c for c in self.candidates[:number])

    def _show(self, share: float) -> None:
        """Show it, when this share of the present candidate is done."""
        self.last_shown = time.monotonic()
        c, number = self.candidates[self.position], len(self.candidates)
        before, total = self._work(self.position), self._work(number)
        n_done = before + share * (WORK_OF_SWEEPS + c)
        text = f"{self.position}/{number} candidates"
        if n_done > 0:
            text += f" · {clock((self.last_shown - self.began) / n_done * (total - n_done))} left"
        self.display.show("1 cluster" if c == 1 else f"{c} clusters", n_done, total, text)


class _Line:
    def __init__(self, display: Display, records: Sequence[ChainRecord]) -> None:
        self.display = display
        self.total = sum(record.plan.n_sweeps for record in records)
        self.began, self.done_before = time.monotonic(), sweeps_done(records)
        self.last_shown = -np.inf

    def update(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Show it, unless it was shown just now."""
        if time.monotonic() - self.last_shown >= SECONDS_BETWEEN:
            self.show(records, seconds_left)

    def show(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Show it."""
        self.last_shown = time.monotonic()
        n_done = sweeps_done(records)
        rate = (n_done - self.done_before) / max(self.last_shown - self.began, 1e-9)
        phase = "drawing" if all(r.next_sweep >= r.plan.warmup for r in records) else "warm-up"
        self.display.show(phase, n_done, self.total, describe(n_done, self.total, rate, seconds_left))


def sweeps_done(records: Sequence[ChainRecord]) -> int:
    """Return the number of sweeps done, over all chains."""
    return sum(record.next_sweep for record in records)


def describe(n_done: int, total: int, rate: float, seconds_left: float | None) -> str:
    """Return sweeps done, speed and time left, in at most 60 columns or so.

    >>> describe(10, 10_010, 2.0, None)
    '10/10,010 sweeps · 2.0/s · 1:23:20 left'
    """
    parts = [f"{n_done:,}/{total:,} sweeps"]
    if rate > 0:
        left = (total - n_done) / rate
        left = left if seconds_left is None else min(left, max(seconds_left, 0.0))
        parts += [f"{rate:,.1f}/s", f"{clock(left)} left"]
    return " · ".join(parts)
