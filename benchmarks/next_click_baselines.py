"""Next clicks on a log with times and sessions: the order-aware baselines, refitted every hour.

Moments are clicks at the second or a later place of a session, on an item that the user has not clicked before,
between 9 and 23 o'clock of each day. Every model is fitted to the clicks before the full hour, and is asked for ten
items with the user's clicks of the session up to the moment. HR@10 is the share of moments whose item is listed.

    python benchmarks/next_click_baselines.py clicks.parquet --days 4 5 --moments 1500 --day-begins 3
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import bmcd
from bmcd.baselines import RecentCooccurrence, SessionKNN, Transitions, Trending
from bmcd.baselines.counting import events_of
from bmcd.baselines.ordered import OrderedBaseline

MODELS: dict[str, Callable[[], OrderedBaseline]] = {
    "Trending 1h": lambda: Trending("1h"),
    "Trending 4h": lambda: Trending("4h"),
    "Transitions": Transitions,
    "Transitions, 2 steps": lambda: Transitions(steps=2),
    "RecentCooccurrence": RecentCooccurrence,
    "SessionKNN": SessionKNN,
}
Items = list[NDArray[np.int32]]
HOUR = np.timedelta64(1, "h")
DAY = np.timedelta64(1, "D")


def moments_of(clicks: bmcd.Clicks, start: np.datetime64, size: int, seed: int) -> NDArray[np.int64]:
    """Return the places, in the log's sequence, of a random sample of a day's clicks that are asked for."""
    assert clicks.times is not None
    found, _ = clicks.by_session()
    place_in_session = np.concatenate([np.arange(n) for n in np.diff(found.starts)])
    by_session = np.argsort(clicks.sessions, kind="stable")
    later = np.zeros(len(clicks.sequence), np.bool_)
    later[by_session] = place_in_session >= 1
    in_hours = (clicks.times >= start + 9 * HOUR) & (clicks.times < start + 23 * HOUR)
    places = np.flatnonzero(later & in_hours & clicks.distinct.first)
    chosen = np.random.default_rng(seed).permutation(places)[:size]
    return chosen[np.argsort(clicks.times[chosen], kind="stable")]


def session_before(clicks: bmcd.Clicks, place: int) -> NDArray[np.int32]:
    """Return the items of the session of a click before it."""
    first = clicks.starts[np.searchsorted(clicks.starts, place, side="right") - 1]
    before = np.arange(first, place)
    return clicks.sequence[before[clicks.sessions[before] == clicks.sessions[place]]]


def ask(model: OrderedBaseline, histories: Items, own: Items) -> NDArray[np.int64]:
    """Return the ten items with the highest scores for each history, none of their own clicks."""
    starts = np.concatenate(([0], np.cumsum([len(h) for h in histories]))).astype(np.int64)
    top = np.empty((len(histories), 10), np.int64)
    scores = model._scores_of_sessions(starts, np.concatenate(histories))  # noqa: SLF001 (without ids)
    for row, clicked in enumerate(own):
        scores[row, clicked] = -np.inf
        best = np.argpartition(-scores[row], 10)[:10]
        top[row] = best[np.argsort(-scores[row, best], kind="stable")]
    return top


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--days", type=int, nargs="+", default=[4, 5])
    parser.add_argument("--moments", type=int, default=1500)
    parser.add_argument("--day-begins", type=int, default=0, help="the hour, in UTC, at which days begin")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    clicks = bmcd.read_clicks(options.log, time_column="time", session_column="session")
    assert clicks.times is not None
    first = clicks.times.min().astype("datetime64[D]") + options.day_begins * HOUR
    events = events_of(clicks)
    latest = clicks.times.max()
    for day in options.days:
        start = first + day * DAY
        places = moments_of(clicks, start, options.moments, options.seed)
        hour = (clicks.times[places] - start) // HOUR
        hits = {name: 0 for name in MODELS}
        seconds = {name: [0.0, 0.0] for name in MODELS}
        for h in np.unique(hour):
            now = start + h * HOUR
            asked = places[hour == h]
            known = events.before((latest - now) / HOUR)
            histories = [session_before(clicks, place) for place in asked]
            users = np.searchsorted(clicks.starts, asked, side="right") - 1
            own = [clicks.sequence[clicks.starts[u] : place] for u, place in zip(users, asked, strict=True)]
            for name, make in MODELS.items():
                begun = time.process_time()
                model = make().count(known)
                fitted = time.process_time()
                top = ask(model, histories, own)
                seconds[name][0] += fitted - begun
                seconds[name][1] += time.process_time() - fitted
                hits[name] += int((top == clicks.sequence[asked][:, None]).any(axis=1).sum())
        for name, n_hits in hits.items():
            fit, answer = seconds[name]
            n_fits = len(np.unique(hour))
            print(
                f"day {day}  {name:22} HR@10 {n_hits / len(places):.3f} ({len(places)} moments)   "
                f"fit {fit / n_fits:.3f} s, answer {1000 * answer / len(places):.3f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
