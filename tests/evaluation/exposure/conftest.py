from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from bmcd import Clicks
from bmcd.clicks.ids import id_ranks
from bmcd.models.top_k import Lists, best_items, recommendation_frame


@pytest.fixture(autouse=True)
def _need_the_solver(require):
    require("ortools.graph.python.min_cost_flow")


class RandomProblem(NamedTuple):
    """Clicks, scores and limits of a small problem, at random."""

    clicks: Clicks
    score: np.ndarray
    low: np.ndarray
    high: np.ndarray
    k: int

    def limits(self):
        ids = self.clicks.items.tolist()
        return {
            "min_exposure": dict(zip(ids, self.low.tolist(), strict=True)),
            "max_exposure": dict(zip(ids, self.high.tolist(), strict=True)),
        }

    def demand(self):
        return np.minimum((~self.clicks.matrix.toarray()).sum(axis=1), self.k)


def random_problem(rng, n_users, n_items, k, *, spread=2, ties=False) -> RandomProblem:
    clicked = rng.random((n_users, n_items)) < 0.25
    clicked[0, 0] = True  # clicks need at least one
    score = rng.random((n_users, n_items))
    if ties:
        score = np.round(score * 3) / 3
    even = n_users * k / n_items
    low = np.maximum(rng.integers(-spread, spread + 1, n_items) + int(even) - 1, 0)
    high = np.maximum(low, rng.integers(0, 2 * spread + 1, n_items) + int(even))
    users = [f"u{(7 * u) % 101:03d}" for u in range(n_users)]
    clicks = Clicks.from_matrix(clicked, users, [f"i{(5 * i) % 97:02d}" for i in range(n_items)])
    return RandomProblem(clicks, score, np.minimum(low, n_users), np.minimum(high, n_users), k)


@pytest.fixture
def make_problem():
    return random_problem


class FixedScores:
    """A rival under the contract, with the scores it is given."""

    def __init__(self, score, keeps_clicks=True):
        self.score, self.keeps_clicks = np.asarray(score, float), keeps_clicks

    def fit(self, clicks):
        self.fitted_to = clicks
        if self.keeps_clicks:
            self.clicks_ = clicks
        return self

    def recommend(self, k=10):
        clicks = self.fitted_to
        items = best_items(self.score, ~clicks.matrix.toarray(), k, id_ranks(clicks.items))
        values = {"score": np.take_along_axis(self.score, items, axis=1)}
        return recommendation_frame(clicks.users, Lists(items, values), clicks)


@pytest.fixture
def fixed_scores():
    return FixedScores


def shown_by(frame: pd.DataFrame, clicks: Clicks) -> np.ndarray:
    return frame["item"].value_counts().reindex(clicks.items, fill_value=0).to_numpy()


@pytest.fixture
def exposure_of():
    return shown_by
