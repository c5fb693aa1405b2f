"""Users who follow a known Markov chain over items they have not clicked, and a recommender that knows it."""

from functools import lru_cache
from typing import ClassVar

import numpy as np
import pandas as pd

from bmcd import Clicks
from bmcd.clicks.histories import clicks_of_histories

DAY = 86_400
START = 1_700_000_000
CHAIN = np.random.default_rng(7).dirichlet(np.full(8, 0.4), size=9)  # [last item or none (8), next item]


def next_law(last, clicked):
    """Return the distribution of the next new click."""
    law = CHAIN[last] * [item not in clicked for item in range(8)]
    return law / law.sum()


@lru_cache(maxsize=100_000)
def next_within(last, clicked, g):
    """Return P(item among the next g new clicks), by enumeration of all paths."""
    if g == 0 or len(clicked) == 8:
        return np.zeros(8)
    law, found = next_law(last, clicked), np.zeros(8)
    for item in np.flatnonzero(law):
        rest = next_within(int(item), clicked | {int(item)}, g - 1).copy()
        rest[item] = 1.0
        found += law[item] * rest
    return found


def simulate(n_users=400, n_days=6, seed=0, planted=None):
    """Return clicks of users who visit once and click 1 to 6 items; from a day on all click the planted one."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        time = START + int(rng.integers(n_days * DAY))
        last, clicked = 8, frozenset()
        for _ in range(rng.integers(1, 7)):
            item = int(rng.choice(8, p=next_law(last, clicked)))
            rows.append((f"u{user}", f"i{item}", time))
            last, clicked, time = item, clicked | {item}, time + 1 + int(rng.integers(100))
        if planted is not None and time >= START + planted * DAY:
            rows.append((f"u{user}", "planted", time))
    return Clicks.from_frame(pd.DataFrame(rows, columns=["user", "item", "time"]))


class Oracle:
    """Predicts with the true chain; remembers what it was fitted to and asked."""

    log: ClassVar = []

    def __init__(self, name="oracle"):
        self.name = name

    def get_params(self, deep=True):
        return {"name": self.name}

    def set_params(self, **params):
        self.name = params["name"]
        return self

    def fit(self, clicks, *, seed=0):
        self.clicks_ = clicks
        Oracle.log.append(("fit", clicks))
        return self

    def recommend_for(self, histories, k=10, items=None, *, unknown="error", horizon=None):
        known = clicks_of_histories(histories, self.clicks_, unknown)
        Oracle.log.append(("ask", known, horizon))
        numbers = [int(str(item)[1:]) if str(item) != "planted" else None for item in self.clicks_.items.tolist()]
        rows = []
        for row, user in enumerate(known.users.tolist()):
            own = [numbers[c] for c in known.sequence[known.starts[row] : known.starts[row + 1]] if c >= 0]
            own = [item for item in own if item is not None]
            p = next_within(own[-1] if own else 8, frozenset(own), horizon or k)
            there = [(-p[item], f"i{item}") for item in numbers if item is not None and item not in own]
            rows += [(user, item, place + 1, -minus) for place, (minus, item) in enumerate(sorted(there)[:k])]
        return pd.DataFrame(rows, columns=["user", "item", "rank", "probability"])


class Scores(Oracle):
    """The same without probabilities."""

    def recommend_for(self, histories, k=10, items=None, unknown="error"):
        found = super().recommend_for(histories, k, unknown=unknown)
        return found.rename(columns={"probability": "score"})
