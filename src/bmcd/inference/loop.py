"""The loop around the sweep: chains, threads, checkpoints, progress, time budget, Ctrl-C.

`sweeps` is one chain; everything else here loops over it. A sweep depends on the state of its chain
and on its number, nothing else, so neither the number of threads, nor a stop and a resume, nor how many sweeps are
done in one call changes a draw.

The progress line shows sweeps done, speed and time left. It shows no R-hat: only the verdict does, over all
quantities.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from bmcd import __version__
from bmcd.errors import Interrupted, Message, Option, TimeBudgetError
from bmcd.inference.checkpoint import Checkpoint
from bmcd.inference.draws import Stopped
from bmcd.inference.record import ChainRecord, Recording, draws_of
from bmcd.inference.run import Run
from bmcd.progress import LOG, Display, clock, open_display
from bmcd.utils import thread_count

SECONDS_BETWEEN = 0.5


class _Line:
    """The line that shows the progress of a run."""

    def __init__(self, display: Display, records: Sequence[ChainRecord]) -> None:
        self.display = display
        self.total = sum(record.plan.n_sweeps for record in records)
        self.began, self.done_before = time.monotonic(), sweeps_done(records)
        self.last_shown = -math.inf

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


# A thread continues with a chain for this long before it takes up the one that is furthest behind.
SECONDS_PER_TURN = 0.2
# Several sweeps in one call grow in number while they take less than this, so that Ctrl-C takes effect soon.
SECONDS_PER_STRETCH = 0.05


class Sampler(Protocol):
    """Whatever can do one sweep of a chain, changing its state in place.

    A sampler that is faster if it does several sweeps in one call has a method ``stretch(state, chain, first_sweep,
    n_sweeps, warmup)``, which leaves state and infos as that many calls of `sweep` would, to the bit.
    """

    def sweep(self, state: Any, chain: int, sweep: int, warmup: bool) -> Any:
        """Do it. What is random may depend on the seed, the chain and the number of the sweep only."""


def sweeps(sampler: Sampler, record: ChainRecord) -> Iterator[Any]:
    """Sweep one chain from where its record stands to the end of the plan; stop whenever you like.

    Yields after every sweep, or after several done in one call: never more than to the next draw that is kept, as
    it takes the state as it is then, and never beyond the warm-up.
    """
    stretch = getattr(sampler, "stretch", None)
    plan, longest = record.plan, 1
    while (number := record.next_sweep) < plan.n_sweeps:
        began, warmup = time.monotonic(), number < plan.warmup
        if stretch is None:
            infos: Sequence[Any] = (sampler.sweep(record.state, record.chain, number, warmup),)
        else:
            infos = stretch(record.state, record.chain, number, min(longest, plan.sweeps_to_draw(number)), warmup)
        for info in infos:
            record.add(info)
        if time.monotonic() - began < SECONDS_PER_STRETCH:
            longest *= 2
        yield info


def run_chains(
    sampler_for_chain: Callable[[int], Sampler], start: Callable[[int], Any], recording: Recording, run: Run
) -> Any:
    """Run all chains and return their draws, of the kind that the schema of the recording names.

    ``sampler_for_chain`` and ``start`` give the sampler and the first state of chain 0, 1, ...; ``start`` is asked
    only if there is no checkpoint. A checkpoint of another problem is refused. One that was made for fewer draws
    is continued, and ends as if all draws had been asked for from the beginning.

    Ctrl-C stops after the present sweeps, writes the checkpoint and returns what was drawn; `stopped` and `note` of
    the draws say so. A second Ctrl-C aborts at once.
    """
    began, plan = time.monotonic(), run.plan
    file = None if run.checkpoint is None else Checkpoint(Path(run.checkpoint), recording, plan, run.seed)
    records = None if file is None else file.resumed()
    if records is None:
        records = [ChainRecord(chain, start(chain), recording, plan) for chain in range(plan.n_chains)]
        if file is not None:
            file.write(records)  # finds out now, and not after an hour, whether it can be written
    deadline = math.inf if run.max_time is None else began + run.max_time
    chains = _Chains(records, sampler_for_chain, min(plan.n_chains, thread_count(run.n_threads)))
    with open_display(run.progress) as display, _interrupts(chains):
        line = _Line(display, records)
        while not (chains.finished or chains.interrupted) and time.monotonic() < deadline:
            due = deadline if file is None else min(deadline, time.monotonic() + run.checkpoint_every)
            chains.run_until(due, line, deadline)
            if file is not None and due < deadline and not (chains.finished or chains.interrupted):
                file.write_or_warn(records)
        if file is not None and chains.n_done > 0:
            file.write_or_warn(records)
        line.show(records, None)
    if chains.finished and chains.interrupted:
        LOG.warning("Ctrl-C came with the last sweep: all is drawn, and nothing was stopped.")
    stopped: Stopped = "finished" if chains.finished else "interrupted" if chains.interrupted else "time"
    return _result(records, run, stopped, chains.n_done / (time.monotonic() - began), file)


def _result(records: list[ChainRecord], run: Run, stopped: Stopped, rate: float, file: Checkpoint | None) -> Any:
    if stopped == "finished":
        return draws_of(records, run.seed, __version__)
    plan, kept = records[0].plan, [record.n_kept for record in records]
    why = "stopped by Ctrl-C" if stopped == "interrupted" else f"stopped by the time budget of {run.max_time:g} s"
    is_kept = file is not None and file.up_to_date
    resume = (
        f"To resume, run the same again: the checkpoint {file.path} has all results." if file and is_kept else ""
    )
    if min(kept) == 0:
        behind = min(records, key=lambda record: record.next_sweep)
        needed = sum(max(0, plan.warmup + plan.thin - record.next_sweep) for record in records)
        how_long = f", about {needed / rate:.0f} s more at {rate:.3g} sweeps a second" if rate > 0 else ""
        text = (
            f"{why} before the first draw of every chain: chain {behind.chain} has done {behind.next_sweep} sweeps,"
            f" and the first draw comes after {plan.warmup} of warm-up and {plan.thin} more{how_long}."
        )
        if stopped == "interrupted":
            raise Interrupted(text, resume)
        advice = Message("Give ", Option("max_time"), " more, or less warm-up; a checkpoint keeps the results.")
        raise TimeBudgetError(Message(f"{text} ", resume or advice))
    note = f"{why} after {min(kept)} of {plan.draws} draws of each chain."
    if cut := sum(kept) - min(kept) * len(kept):
        note += f" {cut} draws were cut so that all chains are equally long."
    return draws_of(records, run.seed, __version__, stopped, note, resume)


class _Chains:
    """Threads that always take up the chain that is furthest behind.

    So all chains are about equally long when the time is up, however few threads there are. Sweeps never run in the
    main thread: there Ctrl-C could stop one half-way and leave a state that no sweep has made.
    """

    def __init__(
        self, records: list[ChainRecord], sampler_for_chain: Callable[[int], Sampler], n_threads: int
    ) -> None:
        self.records, self.n_threads = records, n_threads
        self.samplers = {r.chain: sampler_for_chain(r.chain) for r in records if r.next_sweep < r.plan.n_sweeps}
        self.interrupted = False
        self.error: BaseException | None = None
        self._sweeps_before = sweeps_done(records)
        self._lock = threading.Lock()
        self._idle: list[ChainRecord] = []
        self._working = 0
        self._all_idle = threading.Event()

    @property
    def finished(self) -> bool:
        return all(record.next_sweep == record.plan.n_sweeps for record in self.records)

    @property
    def n_done(self) -> int:
        return sweeps_done(self.records) - self._sweeps_before

    def run_until(self, due: float, line: _Line, deadline: float) -> None:
        """Sweep until the clock shows ``due``, all is done, or Ctrl-C; no thread is running afterwards."""
        self._idle = [record for record in self.records if record.next_sweep < record.plan.n_sweeps]
        self._working = min(self.n_threads, len(self._idle))
        self._all_idle.clear()
        for _ in range(self._working):
            # Daemons, so that a second Ctrl-C need not wait for them.
            threading.Thread(target=self._work, args=(due,), daemon=True).start()
        while not self._all_idle.wait(0.1):
            line.update(self.records, None if deadline == math.inf else deadline - time.monotonic())
        if self.error is not None:
            raise self.error

    def _work(self, due: float) -> None:
        try:
            record = self._furthest_behind(math.inf)  # at least one sweep, however short the time
            while record is not None:
                self._take_turn(record, due)
                with self._lock:
                    if record.next_sweep < record.plan.n_sweeps:
                        self._idle.append(record)
                record = self._furthest_behind(due)
        finally:
            with self._lock:
                self._working -= 1
                if self._working == 0:
                    self._all_idle.set()

    def _furthest_behind(self, due: float) -> ChainRecord | None:
        with self._lock:
            if not self._idle or self._must_stop(due):
                return None
            record = min(self._idle, key=lambda idle: (idle.next_sweep, idle.chain))
            self._idle.remove(record)
            return record

    def _take_turn(self, record: ChainRecord, due: float) -> None:
        until = min(due, time.monotonic() + SECONDS_PER_TURN)
        try:
            for _ in sweeps(self.samplers[record.chain], record):
                if self._must_stop(until):
                    break
        except BaseException as error:
            # The state may be half-way through the sweep, so no checkpoint is written of it.
            error.add_note(f"bmcd: this was sweep {record.next_sweep} of chain {record.chain}")
            self.error = error

    def _must_stop(self, due: float) -> bool:
        return self.interrupted or self.error is not None or time.monotonic() >= due


@contextmanager
def _interrupts(chains: _Chains) -> Iterator[None]:
    """Let the first Ctrl-C stop the run cleanly, and the second abort it."""
    main = threading.current_thread() is threading.main_thread()
    # Where someone else decides what Ctrl-C does, leave it to them.
    ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def note(*_: Any) -> None:
        if chains.interrupted:
            raise KeyboardInterrupt
        chains.interrupted = True

    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    except BaseException:
        chains.interrupted = True  # the threads end with their present sweep
        raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
