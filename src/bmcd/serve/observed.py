"""Calibration while serving: the lists that were returned, the clicks that followed, and their predictions.

A list is compared with the next clicks of its user, as many as its horizon, on items not clicked before. Only lists
whose clicks all came within `WATCHED` count, as in the moments that weights are learnt from. Times are those of the
clicks, so that a replay is evaluated like the log it replays.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bmcd.blend.predictor import STABLE_ERROR, STANDARD_ERRORS

MINUTE = 60_000_000
HOUR, DAY = 60, 24 * 60
WINDOWS = {"hour": HOUR, "day": DAY}
"""In minutes."""
# Time that a list waits for clicks, in microseconds; maximum number of lists that wait, and of numbers they hold.
WATCHED = HOUR * MINUTE
MOST_LISTS, MOST_NUMBERS = 50_000, 4_000_000
# Probabilities of single items are compared in these groups.
EDGES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
GROUPS = tuple(f"{low:g}-{high:g}" for low, high in zip((0, *EDGES), (*EDGES, 1), strict=True))
# Below this number of lists calibration is not reported.
FEWEST = 100
# Sums of a minute: clicks, lists, next clicks, hits predicted and observed, variance, the same two outside.
CLICKS, LISTS, NEXT, PREDICTED, OBSERVED, VARIANCE, OUT_PREDICTED, OUT_OBSERVED, FIRST_GROUP = range(9)
# Number of models whose new items are remembered.
MODELS = 1_000


class Given(NamedTuple):
    """A list that was returned. Items are hashes of their ids."""

    answer: str
    time: int
    latest: int
    """The time of the user's last click that was known."""
    horizon: int
    items: tuple[int, ...]
    probability: tuple[float, ...]
    clicked: frozenset[int]
    outside: float
    model: int
    followed: dict[int, bool]
    """The new clicks that came after it, and whether each is on an item outside the model."""

    @property
    def size(self) -> int:
        """The number of numbers it holds."""
        return 2 * len(self.items) + len(self.clicked) + 20


class Observed:
    """Lists that wait for clicks, and sums over the minutes of the last day."""

    def __init__(self) -> None:
        self._given: OrderedDict[str, Given] = OrderedDict()
        self._of_answer: dict[str, str] = {}
        self._minutes: dict[int, np.ndarray[Any, Any]] = {}
        self._shown: dict[int, int] = {}
        self._known: Mapping[str, Any] = {}
        self._new: OrderedDict[int, set[int]] = OrderedDict()
        self._model = self._numbers = self._latest = 0
        self._changed = threading.Lock()

    def use(self, items: Mapping[str, Any]) -> None:
        """Note that a model with these items, by their text, is used from now on."""
        new = {hash(item) for item in items.keys() - self._known.keys()} if self._known else set()
        with self._changed:
            self._model += 1
            self._known = items
            self._new[self._model] = new
            while len(self._new) > MODELS:
                self._new.popitem(last=False)
            oldest = self._latest - DAY
            self._shown = {item: minute for item, minute in self._shown.items() if minute > oldest}

    def gave(
        self, user: str | None, answer: str, time: int, latest: int, horizon: int, outside: float,
        listed: Sequence[tuple[str, float]], clicked: Iterable[str],
    ) -> None:  # fmt: skip
        """Note a list: its user, items with their probabilities, and what the user had clicked."""
        if not listed:
            return
        items, probability = zip(*((hash(item), value) for item, value in listed), strict=True)
        seen = frozenset(map(hash, clicked))
        given = Given(answer, time, latest, horizon, items, probability, seen, outside, self._model, {})
        key = f"answer {answer}" if user is None else f"user {user}"
        with self._changed:
            self._drop(key)
            self._given[key] = given
            self._of_answer[answer] = key
            self._numbers += given.size
            for item in items:
                self._shown[item] = max(time // MINUTE, self._shown.get(item, 0))
            while len(self._given) > MOST_LISTS or self._numbers > MOST_NUMBERS:
                self._drop(next(iter(self._given)))

    def clicked(self, user: str, item: str, time: int, answer: str | None) -> None:
        """Note a click; compare the list before it if this is the last click it waited for."""
        own = hash(item)
        with self._changed:
            minute = time // MINUTE
            self._sums(minute)[CLICKS] += 1
            key = self._of_answer.get(answer, f"user {user}") if answer is not None else f"user {user}"
            given = self._given.get(key)
            if given is None or time <= given.latest or own in given.clicked:
                return
            if time > given.time + WATCHED:
                self._drop(key)
                return
            if own in given.followed:
                return
            is_new = any(own in new for n, new in self._new.items() if n > given.model)
            given.followed[own] = is_new or item not in self._known
            if len(given.followed) == given.horizon:
                self._compare(given, minute)
                self._drop(key)

    def forget(self, user: str) -> None:
        """Drop the list of a user."""
        with self._changed:
            self._drop(f"user {user}")

    @property
    def waiting(self) -> int:
        """The number of lists that wait for clicks."""
        return len(self._given)

    def clicks_per_minute(self, n: int = HOUR) -> list[int]:
        """Return the clicks of the last minutes, the earliest first."""
        with self._changed:
            minutes = range(self._latest - n + 1, self._latest + 1)
            return [int(self._minutes[m][CLICKS]) if m in self._minutes else 0 for m in minutes]

    def summary(self, window: str) -> dict[str, Any]:
        """Return predicted and observed hits of the last hour or day, as shares of the next clicks."""
        length = WINDOWS[window]
        with self._changed:
            total = np.zeros(FIRST_GROUP + 3 * len(GROUPS))
            for minute, sums in self._minutes.items():
                if minute > self._latest - length:
                    total += sums
            shown = sum(minute > self._latest - length for minute in self._shown.values())
            n_items = len(self._known)
        n = total[NEXT]
        rates = {name: float(total[at] / n) if n else None for name, at in RATES.items()}
        error = math.sqrt(total[VARIANCE]) / n if n else None
        state = state_of(int(total[LISTS]), rates["predicted"], rates["observed"], error)
        groups = total[FIRST_GROUP:].reshape(len(GROUPS), 3)
        return {
            "clicks": int(total[CLICKS]),
            "lists": int(total[LISTS]),
            "next_clicks": int(n),
            "predicted_hits": float(total[PREDICTED]),
            "observed_hits": float(total[OBSERVED]),
            **rates,
            "standard_error": error,
            "coverage": shown / n_items if n_items else None,
            "groups": [
                {"probability": name, "n": int(row[0]), "predicted": float(row[1]), "observed": float(row[2])}
                for name, row in zip(GROUPS, groups, strict=True)
            ],
            "state": state,
            "text": text_of(window, state, rates["predicted"], rates["observed"], int(total[LISTS])),
        }

    def _sums(self, minute: int) -> np.ndarray[Any, Any]:
        """Return the sums of a minute; those of more than a day before the latest are not kept."""
        if minute > self._latest:
            self._latest = minute
            for old in [m for m in self._minutes if m <= minute - DAY]:
                del self._minutes[old]
        if minute <= self._latest - DAY:
            return np.zeros(FIRST_GROUP + 3 * len(GROUPS))
        return self._minutes.setdefault(minute, np.zeros(FIRST_GROUP + 3 * len(GROUPS)))

    def _compare(self, given: Given, minute: int) -> None:
        sums = self._sums(minute)
        predicted = sum(given.probability)
        sums[LISTS] += 1
        sums[NEXT] += given.horizon
        sums[PREDICTED] += predicted
        sums[OUT_PREDICTED] += given.outside
        sums[OUT_OBSERVED] += sum(given.followed.values())
        single = given.horizon == 1 and predicted <= 1
        sums[VARIANCE] += predicted * (1 - predicted) if single else sum(p * (1 - p) for p in given.probability)
        for item, p in zip(given.items, given.probability, strict=True):
            hit = item in given.followed
            sums[OBSERVED] += hit
            at = FIRST_GROUP + 3 * bisect_left(EDGES, p)
            sums[at : at + 3] += (1, p, hit)

    def _drop(self, key: str) -> None:
        given = self._given.pop(key, None)
        if given is not None:
            self._of_answer.pop(given.answer, None)
            self._numbers -= given.size


RATES = {
    "predicted": PREDICTED, "observed": OBSERVED, "outside_predicted": OUT_PREDICTED,
    "outside_observed": OUT_OBSERVED,
}  # fmt: skip


def state_of(n: int, predicted: float | None, observed: float | None, error: float | None) -> str:
    """Return whether the probabilities are calibrated: "too few", "calibrated" or "warning".

    It is a warning if predicted and observed differ by more than 3 points and 3 standard errors.

    >>> state_of(1000, 0.498, 0.491, 0.01), state_of(1000, 0.498, 0.401, 0.01), state_of(9, 0.4, 0.1, 0.1)
    ('calibrated', 'warning', 'too few')
    """
    if n < FEWEST or predicted is None or observed is None or error is None:
        return "too few"
    return "warning" if abs(predicted - observed) > STABLE_ERROR + STANDARD_ERRORS * error else "calibrated"


def text_of(window: str, state: str, predicted: float | None, observed: float | None, n: int) -> str:
    """Return that in words.

    >>> text_of("hour", "calibrated", 0.498, 0.491, 1000)
    'predicted 49.8 %, observed 49.1 % in the last hour'
    """
    if predicted is None or observed is None:
        return f"no list could be compared in the last {window}"
    said = f"predicted {100 * predicted:.1f} %, observed {100 * observed:.1f} % in the last {window}"
    if state == "warning":
        return f"{said}: do not rely on the probabilities"
    return f"{said} ({n} lists: too few to evaluate)" if state == "too few" else said
