"""The tables of probabilities and cut-offs: some methods with their own, every baseline through Blend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments.case_study.forecasts import KEPT_SHARES
from experiments.case_study.plan import BLEND, MAIN, TASTES, blend_name
from experiments.case_study.results import DataSetResults
from experiments.case_study.tables import UNKNOWN, in_percent, paper_results
from experiments.document import Row


def probabilities(results: DataSetResults) -> Iterator[Row]:
    """Yield predicted and observed hits of recommended items."""
    for name, result in results.forecasters.items():
        measured = result["forecasts"]["recommended"]
        yield {
            "data set": results.name,
            "method": name,
            "mean probability %": _with_interval(measured["mean_probability"], 2, 100),
            "hit rate %": _with_interval(measured["hit_rate"], 2, 100),
            "predicted minus observed, points": _with_interval(measured["excess"], 2, 100),
            **_scores(measured, "ECE, bins of 0.01"),
        }


def probabilities_of_all(results: DataSetResults) -> Iterator[Row]:
    """Yield the same for every item that a user has not clicked in training."""
    for name, result in results.forecasters.items():
        measured = result["forecasts"]["all"]
        means = {
            "mean probability %": in_percent(measured["mean_probability"][0]),
            "share clicked %": in_percent(measured["hit_rate"][0]),
        }
        yield {"data set": results.name, "method": name, **means, **_scores(measured, "ECE")}


def _scores(measured: Mapping[str, Any], ece: str) -> Row:
    rate = measured["hit_rate"][0]
    return {
        ece: f"{measured['ece'][0]:.4f}",
        f"{ece} by chance": round(measured["ece_by_chance"], 4),
        "Brier": _with_interval(measured["brier"], 4),
        "Brier of the hit rate for all": round(rate * (1 - rate), 4),
    }


def _with_interval(measured: list[float], digits: int, scale: float = 1.0) -> str:
    value, low, high = (f"{scale * number:.{digits}f}" for number in measured)
    return f"{value} ({low} to {high})"


def most_probable(results: DataSetResults) -> Iterator[Row]:
    """Yield the accuracy of each method's most probable recommendations, the same number of each method.

    Beside it stands the difference from the best baseline with its probabilities from Blend.
    """
    best = blend_name(results.best_baseline)
    for name, result in results.forecasters.items():
        row: Row = {"data set": results.name, "method": name}
        for place, share in enumerate(KEPT_SHARES):
            kept = f"{share:.0%} kept".replace("%", " %")
            row[f"{kept}: cut-off"] = round(result["forecasts"]["most_probable"][place]["cutoff"], 3)
            row[f"{kept}: accuracy %"] = _with_interval(list(results.accuracy_when_kept(name, place)), 2, 100)
            gap = results.ahead_when_kept(name, best, place)
            row[f"{kept}: minus best baseline"] = "" if name == best else _with_interval(list(gap), 2, 100)
        yield row


class Cutoff(NamedTuple):
    """A cut-off for probabilities, and what it does."""

    cutoff: float
    share: float
    """The share of the recommendations that it keeps."""
    accuracy: float
    """The share of hits among these."""


def cutoffs(results: DataSetResults) -> Iterator[Row]:
    """Yield the smallest cut-off with which BMCD, Tastes and its blend are as accurate as each baseline."""
    rows: list[tuple[str, str, str, float, Cutoff | None]] = []
    for method in (MAIN, TASTES, BLEND):
        for name in results.baselines:
            target = results.measure(name, "accuracy")
            rows.append((results.name, method, name, target, smallest_cutoff(results, method, target)))
    if (paper := paper_results(results)) and "cutoff" in paper:
        rows.append((paper["called"], MAIN, "CF", paper["CF"]["accuracy"], Cutoff(**paper["cutoff"])))
    for data_set, method, baseline, target, cutoff in rows:
        value, share, reached = cutoff or UNKNOWN
        row = {
            "data set": data_set,
            "method": method,
            "as accurate as": baseline,
            "which has %": in_percent(target),
        }
        yield {**row, "cut-off": value, "keeps %": in_percent(share), "its accuracy %": in_percent(reached)}


def smallest_cutoff(results: DataSetResults, method: str, accuracy: float) -> Cutoff | None:
    """Return the smallest cut-off, in steps of 0.01, with which a method reaches an accuracy; None if none does."""
    table = results.calibration(method).cutoff_table(np.arange(0, 100) / 100)
    for row in table.itertuples():
        if row.n > 0 and row.accuracy >= accuracy:
            return Cutoff(float(row.cutoff), float(row.share), float(row.accuracy))
    return None


def weights(results: DataSetResults) -> Iterator[Row]:
    """Yield what the blend of Tastes and EASE has learned for lists as long as those here, or for the nearest."""
    rows, k = results.blends[BLEND]["weights"], results.plan.data.remove
    nearest = min((row["k"] for row in rows), key=lambda learned: abs(np.log(learned / k)))
    for row in rows:
        if row["k"] == nearest:
            yield {"data set": results.name, **row}


TABLES: tuple[Callable[[DataSetResults], Iterator[Row]], ...] = (
    *(probabilities, probabilities_of_all, most_probable, cutoffs, weights),
)
"""All tables; their names are those of the functions."""
