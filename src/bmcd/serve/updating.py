"""The process that counts recorded clicks, and the one that learns weights again; both run beside the service.

`python -m bmcd.serve.updating count FOLDER MODEL` counts whenever it reads a line, and answers with a line of JSON;
it ends with its input. The file it writes can be made again from the given model and the recorded clicks.
`python -m bmcd.serve.updating learn FOLDER LENGTH` learns the weights of that file again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bmcd.blend.blend import Blend
from bmcd.blend.moments import MICROSECONDS_PER_HOUR
from bmcd.clicks.log import Clicks
from bmcd.clicks.times import duration_text, read_duration
from bmcd.errors import BmcdError, InputError, StoreError
from bmcd.models.persistence import load
from bmcd.serve.served_model import hash_of
from bmcd.serve.store import DATABASE, Reader, digest

MODEL, LEARNT, COUNTING_LOCK = "model.bmcd", "learnt.bmcd", "counting.lock"
# Clicks later than now by more than this are refused; those recorded while the clock was ahead wait.
FUTURE = 300_000_000
# How far back counts look, in units of the longest half-life; older clicks are removed by default.
LONGEST = 6
# Number of clicks in a window from which weights are learnt.
WINDOW_CLICKS = 2_000
LENGTHS = tuple(int(minutes * 60_000_000) for minutes in (1, 2, 5, 10, 15, 30, 60, 180, 360, 720, 1440))
NICE = 5


class Counted(NamedTuple):
    """What a model file has counted."""

    n: int
    """The number of the last click."""
    forgotten: int
    """The number of the last user who was forgotten."""
    hash: str
    until: int
    """The time of the last click."""
    keep: int
    """How long clicks are kept, in microseconds."""
    length: int
    """The minimum length of the windows from which weights should be learnt."""
    learnt_for: int
    """The length from which they were learnt; 0 if it is not known."""
    changed: bool
    seconds: float


class Counter:
    """A model that counts the clicks of a database as they come."""

    def __init__(self, folder: Path, model: Blend, keep: str | None) -> None:
        self.folder, self.model = folder, check_live(model)
        self.keep = usual_keep(model) if keep is None else read_duration(keep, "keep")
        self.reader = Reader(folder / DATABASE)
        self.n = self.forgotten = 0
        self._held: list[tuple[int, str, str, int]] = []
        self._hash = ""

    def count(self) -> Counted:
        """Count what is new, and write the model file if anything has changed."""
        began = time.monotonic()
        rows, gone = self.reader.since(self.n, self.forgotten)
        changed = self._take_learnt() or not self._hash
        if rows:
            self.n = rows[-1][0]
        if gone:
            self.forgotten = gone[-1][0]
            changed |= self._forget({value for _, value in gone})
        latest = time.time_ns() // 1000 + FUTURE
        waiting = [*self._held, *rows]
        self._held = [row for row in waiting if row[3] > latest]
        rows = [row for row in waiting if row[3] <= latest] if self._held else waiting
        if rows:
            more = clicks_of(rows, self.model.clicks_)
            self.model.update(more, keep=duration_text(self.keep))
            changed = True
        if changed:
            path = self.folder / MODEL
            self.model.save(path)
            self._hash = hash_of(path)
        until = self.model.fitted_.until
        return Counted(
            self.n, self.forgotten, self._hash, until, self.keep, self._length(), self.model.fitted_.refresh or 0,
            changed, time.monotonic() - began,
        )  # fmt: skip

    def _length(self) -> int:
        """Return the length of a window with enough clicks to learn weights."""
        times = self.model.clicks_.times
        assert times is not None
        latest = np.sort(times.view(np.int64))[-WINDOW_CLICKS:]
        return rung(int(latest[-1] - latest[0]), self.model)

    def _forget(self, digests: set[bytes]) -> bool:
        """Remove users from the log; those of their clicks that are recorded came later, and are counted next."""
        clicks = self.model.clicks_
        stays = [digest(self.reader.key, str(user)) not in digests for user in clicks.users.tolist()]
        self._held = [row for row in self._held if digest(self.reader.key, row[1]) not in digests]
        if all(stays):
            return False
        if not any(stays):
            raise StoreError("all users of the model were forgotten, so there is nothing to count. Fit a new one.")
        left = clicks.of_users(np.array(stays))
        used = left.of_items(left.per_item > 0)
        self.model.recount(used.add(used))  # numbered by first clicks, as without the removed users
        return True

    def _take_learnt(self) -> bool:
        """Use weights that were learnt meanwhile, if any."""
        path = self.folder / LEARNT
        if not path.exists():
            return False
        try:
            learnt = load(path)
            self.model.recount(self.model.clicks_, learnt=learnt)
            self.model.refresh = learnt.refresh
            return True
        except BmcdError as error:
            say({"error": f"the weights that were learnt are not used: {error}"})
            return False
        finally:
            path.unlink(missing_ok=True)


def rung(length: int, model: Blend) -> int:
    """Return one of a few lengths, at least ``length``, so that it seldom changes.

    It is at most the length for which the half-lives of the model were made.
    """
    longest = int(model.fitted_.settings.half_lives[1] * MICROSECONDS_PER_HOUR)
    return next((one for one in LENGTHS if length <= one < longest), longest)


def check_live(model: Any) -> Blend:
    """Return the model; raise `InputError` if it cannot follow clicks."""
    if not isinstance(model, Blend) or model.fitted_.dense.models or not model.clicks_.has_clock:
        raise InputError(
            "live use needs a Blend of counts, fitted to clicks with times: bmcd fit clicks.csv -o model.bmcd "
            "--time-column time."
        )
    if not model.clicks_.n_users:
        raise InputError("live use needs a model that was saved with its clicks: leave out --no-clicks.")
    if model.clicks_.session_ids is not None:
        raise InputError(
            "the model was fitted to sessions of a column, which recorded clicks do not have: fit it without "
            "--session-column, so that sessions end after --session-gap."
        )
    return model


def usual_keep(model: Blend) -> int:
    """Return how far back, in microseconds, any count of a model looks."""
    settings = model.fitted_.settings
    return int(max(settings.window, LONGEST * settings.half_lives[-1]) * MICROSECONDS_PER_HOUR)


def clicks_of(rows: list[tuple[int, str, str, int]], known: Clicks) -> Clicks:
    """Return rows of the database as a log."""
    import pandas as pd

    _, users, items, times = zip(*rows, strict=True)
    user, user_ids = pd.factorize(np.array(users, dtype=object))
    item, item_ids = pd.factorize(np.array(items, dtype=object))
    when = np.array(times, np.int64).view("datetime64[us]")
    return Clicks.from_codes(user, item, user_ids, item_ids, times=when, order=known.order)


def start_model(folder: Path, given: Path) -> Blend:
    """Return the model to start from: that of the folder, unless another one is given now or it cannot be used."""
    reader = Reader(folder / DATABASE)
    same = reader.about("base") == hash_of(given)
    reader.close()
    if same:
        with contextlib.suppress(BmcdError):  # the given model has everything except recorded clicks
            return check_live(load(folder / MODEL))
    return check_live(load(given))


def count(folder: Path, given: Path, keep: str | None) -> None:
    """Count at the start and then whenever a line is read; print what was counted."""
    import fcntl

    with open(folder / COUNTING_LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the process of an earlier service has ended
        counter = Counter(folder, start_model(folder, given), keep)
        say(counter.count()._asdict())
        for _ in sys.stdin:
            try:
                say(counter.count()._asdict())
            except BmcdError as error:
                say({"error": str(error)})


def learn(folder: Path, length: int) -> None:
    """Learn the weights of the folder's model again, from windows of this length, starting from it."""
    model = load(folder / MODEL)
    again = Blend(refresh=duration_text(rung(length, model)), repeats=model.repeats)
    again.fit(model.clicks_, start=model, n_threads=1, progress=False).save(folder / LEARNT)


def say(what: dict[str, Any]) -> None:
    """Write a line for the service."""
    print(json.dumps(what), flush=True)


def main(arguments: list[str]) -> None:
    """Run the work given by the arguments; errors go to the service as lines."""
    with contextlib.suppress(OSError):
        os.nice(NICE)  # answers go before counts
    work, folder, *more = arguments
    try:
        if work == "count":
            count(Path(folder), Path(more[0]), more[1] or None)
        else:
            learn(Path(folder), int(more[0]))
    except BmcdError as error:
        say({"error": str(error)})
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(sys.argv[1:])
