"""Whether a method's probabilities are right: those of what it recommends, and those of all that it could."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.ids import positions
from bmcd.evaluation import Calibration
from bmcd.evaluation.intervals import bootstrap, percentiles
from bmcd.evaluation.metrics import PerUser
from bmcd.models.top_k import clicked_mask, was_clicked
from experiments.case_study.data import DataSet, prepare
from experiments.tasks import Result

LEVEL, RESAMPLES = 0.95, 2000
BIN_WIDTH = 0.01
# Of a method's recommendations so many are kept, the most probable: the same number for every method.
KEPT_SHARES = (0.5, 0.25, 0.1)


class Forecasts(NamedTuple):
    """Probabilities of (user, item) pairs, and which of them were hits."""

    user: NDArray[np.int64]
    probability: NDArray[np.float64]
    hit: NDArray[np.bool_]
    n_users: int

    def by_user(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sum of some values over the pairs of each user."""
        sums: NDArray[np.float64] = np.bincount(self.user, weights=values, minlength=self.n_users).astype(
            np.float64
        )
        return sums


def measure_forecasts(probability: NDArray[np.float64], recommendations: Any, data: DataSet) -> Result:
    """Measure probabilities, users x items, and those of the recommended items among them."""
    _, train, test = prepare(data)
    user = positions(recommendations["user"], train.users, "user")
    item = positions(recommendations["item"], train.items, "item")
    shown = np.asarray(recommendations["probability"], np.float64)
    recommended = Forecasts(user, shown, was_clicked(test.matrix, user, item), train.n_users)
    user, item = np.nonzero(~clicked_mask(train.matrix, np.arange(train.n_users)))
    # Rounding may have left a hair above 1.
    given = np.clip(probability[user, item], 0.0, 1.0)
    everything = Forecasts(user, given, was_clicked(test.matrix, user, item), train.n_users)
    return {
        "recommended": reliability(recommended, data.seed),
        "all": reliability(everything, data.seed),
        "most_probable": [_most_probable(recommended, share) for share in KEPT_SHARES],
        "counts": _counts_by_probability(recommended),
    }


def reliability(forecasts: Forecasts, seed: int) -> Result:
    """Return predicted and observed hits, ECE and Brier score, each as [value, low, high] over users.

    Chance makes the ECE of right probabilities larger than 0, and that of a resample larger still. So its interval
    is the bootstrap's turned around the value, and ``ece_by_chance`` says what right probabilities would have.
    """
    p, hit = forecasts.probability, forecasts.hit
    n = forecasts.by_user(np.ones(p.size))
    # As in `Calibration`: the calibration error is the sum over bins of |sum of p - hit| / n.
    calibration = Calibration.of(p, hit, BIN_WIDTH)
    code = np.searchsorted(calibration.lower, p, side="right") - 1
    n_bins = calibration.lower.size
    place = forecasts.user * n_bins + code
    errors = np.bincount(place, weights=p - hit, minlength=forecasts.n_users * n_bins)
    columns = [*errors.reshape(-1, n_bins).T, *map(forecasts.by_user, (p, hit, p - hit, (p - hit) ** 2))]
    measures = [PerUser(sums, n) for sums in columns]
    draws = bootstrap(measures, RESAMPLES, seed)
    result: Result = {}
    for column, name in enumerate(("mean_probability", "hit_rate", "excess", "brier"), start=n_bins):
        result[name] = [measures[column].value, *percentiles(draws[:, column], LEVEL)[:2]]
    ece = calibration.expected_calibration_error
    low, high, _ = percentiles(np.abs(draws[:, :n_bins]).sum(axis=1), LEVEL)
    result["ece"] = [ece, max(2 * ece - high, 0.0), max(2 * ece - low, 0.0)]
    variance = np.bincount(code, weights=p * (1 - p))
    return result | {"ece_by_chance": float(np.sqrt(2 / np.pi * variance).sum() / p.size)}


def _most_probable(recommended: Forecasts, share: float) -> Result:
    """Return the hits by user among the most probable recommendations, and how many a user keeps."""
    order = np.argsort(-recommended.probability, kind="stable")
    last = max(round(share * order.size), 1) - 1
    kept = np.zeros(order.size, np.bool_)
    kept[order[: last + 1]] = True
    hits, lengths = (recommended.by_user(values).astype(int).tolist() for values in (kept & recommended.hit, kept))
    cutoff = float(recommended.probability[order[last]])
    return {"share": share, "cutoff": cutoff, "user_hits": hits, "user_lengths": lengths}


def _counts_by_probability(recommended: Forecasts) -> Result:
    """Return recommendations and hits at each probability, in four digits: all that figures need."""
    value, code = np.unique(recommended.probability.round(4), return_inverse=True)
    hits = np.bincount(code, weights=recommended.hit)
    return {"value": value.tolist(), "n": np.bincount(code).tolist(), "hits": hits.astype(int).tolist()}
