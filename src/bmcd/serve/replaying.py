"""Send a log to a live service as its users would: clicks at their pace, and requests for recommendations."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np

from bmcd.clicks.log import Clicks
from bmcd.clicks.sequences import owners
from bmcd.errors import InputError

HOUR = 3_600_000_000
# Seconds between two checks for clicks that are due, and clicks per request.
TICK, BATCH = 0.05, 500
ASKERS, PATIENCE, MOST_TRIES = 4, 60.0, 60


class Hour(NamedTuple):
    """Results of an hour of the log."""

    hour: str
    clicks: int
    """Clicks that were sent."""
    asked: int
    """Lists that were followed by a new click of their user in the same session."""
    predicted: float
    """The predicted share of these clicks that are in the lists."""
    observed: float
    """The observed share."""


class Replay:
    """A replay of a log; `run` returns its results by hour."""

    def __init__(
        self, clicks: Clicks, address: str, *, speed: float, k: int = 10, ask: float = 0.2,
        key: str | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        """Prepare it; ``ask`` is the share of clicks after which recommendations are requested."""
        if not clicks.has_clock or not len(clicks.sequence):
            raise InputError("only a log with times can be replayed: name their column, --time-column.")
        if not speed > 0 or not 0 <= ask <= 1:
            raise InputError("the speed must be more than 0, and the share that asks from 0 to 1.")
        self._address, self._speed, self._k, self._key = address, speed, k, key
        assert clicks.times is not None
        times = clicks.times.view(np.int64)
        order = np.argsort(times, kind="stable")
        user = owners(clicks.starts)
        goes_on = np.zeros(len(times), np.bool_)  # whether a new click of the same session follows
        follows = (user[1:] == user[:-1]) & (clicks.sessions[1:] == clicks.sessions[:-1])
        goes_on[:-1] = follows & clicks.distinct.first[1:] & (times[1:] > times[:-1])
        asks = np.random.default_rng(seed).random(len(times)) < ask
        self.users, self.items = ([str(one) for one in ids.tolist()] for ids in (clicks.users, clicks.items))
        self.user, self.item, self.time = user[order], clicks.sequence[order], times[order]
        self._asks = (asks & goes_on)[order]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self._next = np.append(place, -1)[order + 1]
        self._sent = -1
        self._sums: dict[int, list[float]] = {}
        self._questions: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._changed = threading.Lock()
        self._failed: list[BaseException] = []
        self.largest_lag = 0.0
        """The maximum delay of clicks in seconds."""
        self.compared: list[tuple[int, int, float, bool]] = []
        """For each list that was compared: the number of the click after which it was requested, that of the click
        with which it was compared, the predicted hits, and whether it was a hit."""
        self.n_late = 0
        """Lists that came after the click that they were to predict."""

    def run(self, told: Callable[[Hour], None] = lambda hour: None) -> list[Hour]:
        """Send all clicks, and return the results; ``told`` is called with each hour when it is over."""
        connection = self._connected()
        askers = [threading.Thread(target=self._answer, daemon=True) for _ in range(ASKERS)]
        for asker in askers:
            asker.start()
        began, first, shown = time.monotonic(), int(self.time[0]), set[int]()
        try:
            self._send_all(connection, began, first, shown, told)
        finally:
            connection.close()
            for _ in askers:
                self._questions.put(None)
            for asker in askers:
                asker.join()
        if self._failed:
            raise self._failed[0]
        for hour in sorted(self._sums):
            if hour not in shown:
                told(self._hour(hour))
        return [self._hour(hour) for hour in sorted(self._sums)]

    def _send_all(
        self, connection: http.client.HTTPConnection, began: float, first: int, shown: set[int],
        told: Callable[[Hour], None],
    ) -> None:  # fmt: skip
        at = 0
        while at < len(self.time) and not self._failed:
            now = time.monotonic() - began
            end = int(np.searchsorted(self.time, first + now * self._speed * 1e6, side="right"))
            if end <= at:
                time.sleep(TICK)
                continue
            self.largest_lag = max(self.largest_lag, now - (int(self.time[at]) - first) / self._speed / 1e6)
            end = min(end, at + BATCH)
            self._send(connection, at, end)
            with self._changed:
                over = sorted(hour for hour in self._sums if hour < int(self.time[end - 1]) // HOUR)
            for hour in [one for one in over if one not in shown]:
                shown.add(hour)
                told(self._hour(hour))
            at = end

    def _hour(self, hour: int) -> Hour:
        with self._changed:
            clicks, asked, predicted, observed = self._sums[hour]
        n = max(asked, 1)
        label = str(np.datetime64(hour * HOUR, "us"))[:16].replace("T", " ")
        return Hour(label, int(clicks), int(asked), predicted / n, observed / n)

    def _add(self, at: int, *values: float) -> None:
        with self._changed:
            sums = self._sums.setdefault(int(self.time[at]) // HOUR, [0.0, 0.0, 0.0, 0.0])
            for number, value in enumerate(values):
                sums[number] += value

    def _send(self, connection: http.client.HTTPConnection, first: int, last: int) -> None:
        body = [
            {"user": self.users[self.user[i]], "item": self.items[self.item[i]], "time": int(self.time[i])}
            for i in range(first, last)
        ]
        self._sent = last - 1
        self._ask(connection, "POST", "/v1/clicks", {"clicks": body})
        for i in range(first, last):
            self._add(i, 1)
            if self._asks[i] and self._next[i] >= last:
                self._questions.put(i)

    def _answer(self) -> None:
        """Request lists for users who have just clicked, and compare them with the click that follows."""
        with contextlib.closing(self._connected()) as connection:
            while (at := self._questions.get()) is not None:
                self._compare(connection, at)

    def _compare(self, connection: http.client.HTTPConnection, at: int) -> None:
        try:
            user, following = self.users[self.user[at]], int(self._next[at])
            path = f"/v1/users/{quote(user, safe='')}/recommendations?k={self._k}&horizon=1"
            rows = self._ask(connection, "GET", path)["recommendations"]
            if self._sent >= following:  # the service may have known the click
                self.n_late += 1
                return
            hit = self.items[self.item[following]] in {str(row["item"]) for row in rows}
            predicted = sum(row["probability"] for row in rows)
            self.compared.append((at, following, predicted, hit))
            self._add(following, 0, 1, predicted, hit)
        except BaseException as error:
            self._failed.append(error)

    def _connected(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{self._address}: is not the address of a service, such as http://127.0.0.1:8000.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname, parts.port, timeout=PATIENCE)

    def _ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
        """Return an answer; wait and try again while the service is busy or cannot be reached."""
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        content = None
        if body is not None:
            content = json.dumps(body)
            headers["Content-Type"] = "application/json"
        for _ in range(MOST_TRIES):
            try:
                connection.request(method, path, content, headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                said, wait = f"{self._address}: cannot be reached: {error}.", 1.0
            else:
                if answer.status == 200:
                    return json.loads(text)
                said = f"{self._address}: {_detail(text) or answer.reason}"
                if answer.status not in (429, 503, 507):
                    break
                wait = float(answer.headers.get("Retry-After") or 1)
            time.sleep(min(wait, 5.0))
        raise InputError(said)


def _detail(text: bytes) -> str:
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, KeyError, TypeError):
        return ""
