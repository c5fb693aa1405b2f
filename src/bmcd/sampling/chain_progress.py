"""How far the chains of a run are, in one line: sweeps done, speed, time left, and how the chains agree.

Or, where several numbers of clusters are tried, which of them is under way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from bmcd.sampling.record import ChainRecord
from bmcd.system.progress import clock, is_wanted, open_bar

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SECONDS_BETWEEN = 0.5
# What the sweeps of a candidate number of clusters take, in units of what one cluster adds.
WORK_OF_SWEEPS = 10


class Progress(Protocol):
    """What is told how a run goes."""

    def update(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Show how far the chains are; the time budget, if any, ends in ``seconds_left``."""


@contextmanager
def open_progress(progress: bool | Progress | None, records: Sequence[ChainRecord]) -> Iterator[Progress]:
    """Show progress if it is True, or None and standard error is a terminal; otherwise nothing at all.

    Anything that has the method `update` is told as it is: a run may be one of several under one bar.
    """
    if progress is not None and not isinstance(progress, bool):
        yield progress
        return
    if not is_wanted(progress):
        yield _Silent()
        return
    with _bar(progress) as bar:
        line = _Line(bar, records)
        yield line
        line.show(records, None)


@contextmanager
def open_candidate_progress(progress: bool | None, candidates: Sequence[int]) -> Iterator[CandidateProgress | None]:
    """Show one bar over numbers of clusters, to be told of each before its turn and to be given to its fit."""
    if not is_wanted(progress):
        yield None
        return
    with _bar(progress) as bar:
        line = CandidateProgress(bar, candidates)
        yield line
        line.finish()


class CandidateProgress:
    """Shows which number of clusters is being tried, how far its chains are, and how long all will take."""

    def __init__(self, bar: Bar, candidates: Sequence[int]) -> None:
        self.bar, self.candidates, self.position = bar, candidates, 0
        # Sweeps take about the same time whatever the number of clusters; starts and scores are linear in it.
        self.work = [WORK_OF_SWEEPS + c for c in candidates]
        self.total, self.began, self.last_shown = sum(self.work), time.monotonic(), -np.inf
        self.task = bar.add_task("starting", total=self.total, text="")

    def start(self, c: int) -> None:
        """Say that it is the turn of ``c`` clusters."""
        self.position = self.candidates.index(c)
        self._show(sum(self.work[: self.position]))

    def update(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Show how far the chains of this candidate are, unless it was shown just now."""
        if time.monotonic() - self.last_shown >= SECONDS_BETWEEN:
            share = sweeps_done(records) / sum(record.plan.n_sweeps for record in records)
            self._show(sum(self.work[: self.position]) + share * self.work[self.position])

    def finish(self) -> None:
        """Say that all are done."""
        number = len(self.candidates)
        self.bar.update(self.task, completed=self.total, description="scored", text=f"{number} candidates")
        self.bar.refresh()

    def _show(self, n_done: float) -> None:
        self.last_shown = time.monotonic()
        c = self.candidates[self.position]
        text = f"{self.position}/{len(self.candidates)} candidates"
        if n_done > 0:
            text += f" · {clock((self.last_shown - self.began) / n_done * (self.total - n_done))} left"
        name = "1 cluster" if c == 1 else f"{c} clusters"
        self.bar.update(self.task, completed=n_done, description=name, text=text)
        self.bar.refresh()


def _bar(progress: bool | None) -> Bar:
    from rich.progress import BarColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=8), TextColumn("{task.fields[text]}"))
    # Refreshed by hand: a thread of its own would take time from the chains.
    return open_bar(progress, *columns, refresh=False)


class _Silent:
    def update(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Say nothing."""


class _Line:
    def __init__(self, bar: Bar, records: Sequence[ChainRecord]) -> None:
        self.bar = bar
        self.total = sum(record.plan.n_sweeps for record in records)
        self.began, self.done_before = time.monotonic(), sweeps_done(records)
        self.last_shown = -np.inf
        self.task = bar.add_task("starting", total=self.total, text="")

    def update(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Show it, unless it was shown just now."""
        if time.monotonic() - self.last_shown >= SECONDS_BETWEEN:
            self.show(records, seconds_left)

    def show(self, records: Sequence[ChainRecord], seconds_left: float | None) -> None:
        """Show it."""
        self.last_shown = time.monotonic()
        n_done = sweeps_done(records)
        rate = (n_done - self.done_before) / max(self.last_shown - self.began, 1e-9)
        text = describe(records, rate, seconds_left)
        phase = "drawing" if all(r.next_sweep >= r.plan.warmup for r in records) else "warm-up"
        self.bar.update(self.task, completed=n_done, description=phase, text=text)
        self.bar.refresh()


def sweeps_done(records: Sequence[ChainRecord]) -> int:
    """Return the number of sweeps done, over all chains."""
    return sum(record.next_sweep for record in records)


def describe(records: Sequence[ChainRecord], rate: float, seconds_left: float | None) -> str:
    """Return sweeps done, speed, time left, and R-hat of the log joint so far, in at most 60 columns or so."""
    n_done, total = sweeps_done(records), sum(record.plan.n_sweeps for record in records)
    parts = [f"{n_done:,}/{total:,} sweeps"]
    if rate > 0:
        left = (total - n_done) / rate
        left = left if seconds_left is None else min(left, max(seconds_left, 0.0))
        parts += [f"{rate:,.1f}/s", f"{clock(left)} left"]
    kept = min(record.n_kept for record in records)
    if kept >= 8:
        log_joint = np.stack([record.traces["log_joint"][:kept] for record in records])
        parts.append(f"R-hat {rough_rhat(log_joint):.2f}")
    return " · ".join(parts)


def rough_rhat(values: NDArray[np.float64]) -> float:
    """Return split R-hat of [chain, draw], without ranks: a figure to watch, not the verdict, which is ArviZ's.

    (Importing ArviZ takes two seconds, which a run on two cores should not lose to its own display.)

    >>> rough_rhat(np.array([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]])) < 1
    True
    """
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    within, between = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1).var(ddof=1)
    if within == 0:
        return 1.0 if between == 0 else float("inf")
    return float(np.sqrt((half - 1) / half + between / within))
