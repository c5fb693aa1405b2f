"""Live use: recorded clicks count for their user at once, and for all users after the next count."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bmcd.errors import BmcdError, StoreError
from bmcd.serve.messages import Id, Problem, Wanted
from bmcd.serve.observed import Observed
from bmcd.serve.served_model import CurrentModel, ServedModel, hash_of
from bmcd.serve.settings import LiveSettings
from bmcd.serve.store import Click, FullError, NotRecordedError, Recorded, Store
from bmcd.serve.updating import MODEL, Counted

log = logging.getLogger("bmcd.serve")

# Weights are learnt again after this time of the clicks, in microseconds.
LEARNING = 3_600_000_000
# Time for the other processes to end.
END_SECONDS = 10.0
# Number of counts whose ages give the length of the windows from which weights are learnt.
AGES = 20
# Number of the latest models whose counted clicks are remembered; sweeps of old clicks after one count.
MODELS, SWEEPS = 8, 20
# Maximum number of clicks that are remembered between two counts: of one user, and of all.
MOST_RECENT, MOST_OPEN = 5_000, 500_000


class Recent:
    """Clicks that no model in use has counted yet, by user."""

    def __init__(self) -> None:
        self._of: dict[str, deque[tuple[int, int, str]]] = {}
        self._order: deque[tuple[int, str]] = deque()
        self._changed = threading.Lock()
        self.latest = 0
        """The time of the latest click so far: the present of the clicks."""

    def __len__(self) -> int:
        return len(self._order)

    def add(self, recorded: Sequence[Recorded]) -> None:
        """Remember clicks."""
        with self._changed:
            for n, click in recorded:
                own = self._of.setdefault(click.user, deque(maxlen=MOST_RECENT))
                own.append((n, click.time, click.item))
                self._order.append((n, click.user))
                self.latest = max(self.latest, click.time)
            while len(self._order) > MOST_OPEN:  # nothing has been counted for a long time
                self._leave()

    def of(self, user: str, counted: int) -> list[tuple[int, str]]:
        """Return time and item of the clicks of a user that a model has not counted."""
        with self._changed:
            return [(time, item) for n, time, item in self._of.get(user, ()) if n > counted]

    def drop(self, counted: int) -> None:
        """Forget clicks that every model in use has counted."""
        with self._changed:
            while self._order and self._order[0][0] <= counted:
                self._leave()

    def _leave(self) -> None:
        n, user = self._order.popleft()
        own = self._of.get(user)
        while own and own[0][0] <= n:
            own.popleft()
        if not own:
            self._of.pop(user, None)

    def forget(self, user: str) -> None:
        """Forget the clicks of a user."""
        with self._changed:
            self._of.pop(user, None)


class Counting:
    """The process that counts, one count per line."""

    def __init__(self, settings: LiveSettings, given: Path) -> None:
        self._process = _started("count", settings.folder, given, settings.keep or "")

    def next(self) -> Counted:
        """Return its next count; `StoreError` if it failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise StoreError(f"the process that counts has ended with code {self._process.wait()}.")
        said = json.loads(line)
        if "error" in said:
            raise StoreError(said["error"])
        return Counted(**said)

    def count(self) -> Counted:
        """Start a count, and return its result."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except OSError as error:
            raise StoreError(f"the process that counts has ended: {error}.") from error
        return self.next()

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the process."""
        _end(self._process)


class Live:
    """The state of a live service besides its model."""

    def __init__(self, settings: LiveSettings, given: Path) -> None:
        """Open the folder and count everything that is recorded; raise an error if that fails."""
        self.settings, self.given = settings, given
        self.path = settings.folder / MODEL
        self.recent, self.observed = Recent(), Observed()
        own = hash_of(given)
        self.store = Store(settings.folder, settings.queue, self._recorded)
        self._counting: Counting | None = None
        self._learning: subprocess.Popen[str] | None = None
        self._n_of: OrderedDict[str, int] = OrderedDict()
        self._hidden: dict[str, int] = {}
        self._ages: deque[int] = deque(maxlen=AGES)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            self._counting = Counting(settings, given)
            self.counted = self._counting.next()
            self.store.set_about("base", own).result()
        except BaseException:
            self.close()
            raise
        self.recent.latest = max(self.recent.latest, self.counted.until)
        # Weights that were learnt for windows of the right length are good for a while.
        self._learnt_until = self.counted.until if self.counted.learnt_for == self.counted.length else 0
        self._remember(self.counted)

    def follow(self, current: CurrentModel) -> None:
        """Start to count regularly, and to use what was counted."""
        loop = asyncio.get_running_loop()
        self.observed.use(current.get().columns)
        self._thread = threading.Thread(
            target=self._follow, args=(loop, current), name="bmcd-following", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End all processes and threads; what was acknowledged is on the disk."""
        self._stop.set()
        if self._counting is not None:
            self._counting.close()
        if self._learning is not None:
            _end(self._learning)
        if self._thread is not None:
            self._thread.join(END_SECONDS)
        self.store.close()

    # ---- for callers ----

    async def record(self, clicks: Sequence[Click]) -> dict[str, int]:
        """Record clicks, and return how many are new, once they are durable."""
        try:
            new = await asyncio.wrap_future(self.store.record(clicks))
        except FullError:
            said = f"{self.store.waiting:,} clicks wait to be written; the limit is {self.settings.queue:,}."
            raise Problem(429, f"{said} None of these was recorded. Try again in 1 s.", retry=1) from None
        except NotRecordedError as error:
            raise Problem(507, f"{error} None of these was recorded.", retry=5) from error
        return {"recorded": new, "duplicates": len(clicks) - new}

    async def forget(self, user: str) -> dict[str, int]:
        """Remove the clicks of a user: those recorded now, those counted with the next count."""
        self._hidden[user] = sys.maxsize
        try:
            removed = await asyncio.wrap_future(self.store.forget(user))
        except NotRecordedError as error:
            self._hidden.pop(user, None)
            raise Problem(507, f"{error} Try again.", retry=5) from error
        self.recent.forget(user)
        self.observed.forget(user)
        self._hidden[user] = removed.id
        return {"removed": removed.n}

    def is_hidden(self, user: Id) -> bool:
        """Whether the model's data of a user must not be returned, since the user is being forgotten."""
        return str(user) in self._hidden

    def recommend_to(self, model: ServedModel, user: Id, wanted: Wanted) -> dict[str, Any]:
        """Return recommendations to a user, by counted and recorded clicks."""
        own = str(user)
        recent = self.recent.of(own, self._n_of.get(model.hash, 0))
        answer, clicked, latest, outside = model.recommend_live(
            own, recent, self.recent.latest, wanted, hidden=self.is_hidden(own)
        )
        self.note(own, answer, clicked, answer["horizon"], outside, latest)
        return answer

    def note(
        self, user: Id | None, answer: dict[str, Any], clicked: Sequence[Id], horizon: int, outside: float,
        latest: int = 0,
    ) -> None:  # fmt: skip
        """Give an answer for one person an id, and wait for the clicks that follow."""
        answer["answer"] = secrets.token_hex(8)
        rows = [(str(row["item"]), row["probability"]) for row in answer["recommendations"]]
        own = None if user is None else str(user)
        present = self.recent.latest
        self.observed.gave(own, answer["answer"], present, latest, horizon, outside, rows, map(str, clicked))

    def about(self) -> dict[str, Any]:
        """Return the part of `GET /v1/model` about live use."""
        hour = self.observed.summary("hour")
        return {
            "counted_until": _date(self.counted.until),
            "latest_click": _date(self.recent.latest),
            "not_counted": len(self.recent),
            "waiting_to_be_written": self.store.waiting,
            "refresh": self.settings.refresh,
            "state": hour["state"],
            "text": hour["text"],
        }

    def view(self, model: ServedModel) -> dict[str, Any]:
        """Return the answer of `GET /v1/live`, which the page shows."""
        return {
            **self.about(),
            "clicks_per_minute": self.observed.clicks_per_minute(),
            "hour": self.observed.summary("hour"),
            "day": self.observed.summary("day"),
            "trending": model.trending,
        }

    # ---- in the background ----

    def _recorded(self, recorded: list[Recorded]) -> None:
        self.recent.add(recorded)
        for _, click in recorded:
            self.observed.clicked(click.user, click.item, click.time, click.answer)

    def _remember(self, counted: Counted) -> None:
        self._n_of[counted.hash] = counted.n
        self._n_of.move_to_end(counted.hash)
        while len(self._n_of) > MODELS:
            self._n_of.popitem(last=False)

    def _follow(self, loop: asyncio.AbstractEventLoop, current: CurrentModel) -> None:
        took = 0.0
        while not self._stop.wait(max(self.settings.refresh - took, took)):
            began = time.monotonic()
            try:
                self._use(self._count(), loop, current)
                self._learn()
            except Exception as error:
                if self._stop.is_set():
                    return
                log.error("recorded clicks were not counted: %s", error)
                if not isinstance(error, BmcdError | Problem):
                    log.exception("a bug while clicks were counted")
            took = time.monotonic() - began

    def _count(self) -> Counted:
        assert self._counting is not None
        if not self._counting.has_ended:
            return self._counting.count()
        self._counting.close()
        log.error("the process that counts has ended and is started again")
        self._counting = Counting(self.settings, self.given)
        return self._counting.next()

    def _use(self, counted: Counted, loop: asyncio.AbstractEventLoop, current: CurrentModel) -> None:
        """Use what was counted, and forget what is no longer needed."""
        self._remember(counted)
        if counted.hash != current.get().hash:
            self._reload(loop, current)
        # Between this and the next swap counts grow from one age to the other: on average half of the sum.
        self._ages.append(2 * self.recent.latest - self.counted.until - counted.until)
        self.counted = counted
        self.recent.drop(counted.n)
        self._hidden = {user: number for user, number in self._hidden.items() if number > counted.forgotten}
        for _ in range(SWEEPS):
            if not self.store.sweep(counted.until - counted.keep).result():
                break

    def _reload(self, loop: asyncio.AbstractEventLoop, current: CurrentModel) -> None:
        reloaded = asyncio.run_coroutine_threadsafe(current.reload(), loop)
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                reloaded.result(0.5)
                self.observed.use(current.get().columns)
                return

    def _learn(self) -> None:
        """Start to learn the weights again if it is time, or note that it has ended."""
        if self._learning is not None:
            if self._learning.poll() is None:
                return
            said = self._learning.communicate()[0].strip()
            if self._learning.returncode:
                log.error("weights were not learnt again: %s", said or f"code {self._learning.returncode}")
            self._learning = None
        counted = self.counted
        if counted.until - self._learnt_until >= LEARNING:
            self._learnt_until = counted.until
            length = max(counted.length, sorted(self._ages)[len(self._ages) // 2])
            self._learning = _started("learn", self.settings.folder, str(length))


def _started(work: str, folder: Path, *more: object) -> subprocess.Popen[str]:
    """Start a process that Ctrl-C at the terminal does not reach."""
    command = [sys.executable, "-m", "bmcd.serve.updating", work, str(folder), *map(str, more)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def _end(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _date(microseconds: int) -> str:
    return str(np.datetime64(microseconds, "us"))
