"""The tables of the case study: functions that yield the rows of a data set, ours and then the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments.case_study.plan import MAIN
from experiments.case_study.results import CF, DataSetResults
from experiments.document import Row
from experiments.study import paper_numbers

# What stands in the cells of numbers that are not known.
UNKNOWN = (float("nan"),) * 3


class MethodRow(NamedTuple):
    """A row of a table of methods: of ours, or of the paper's."""

    heading: Row
    """Data set and method."""
    measures: Mapping[str, Any]
    intervals: Mapping[str, list[float]]
    """Empty for the paper, which has none."""


def paper_results(results: DataSetResults) -> Mapping[str, Any] | None:
    """Return the paper's results on the NRK data set that this one stands for; None for others."""
    numbers = paper_numbers(__package__).get(results.name)
    return numbers if isinstance(numbers, dict) and not results.plan.data.is_own else None


def method_rows(results: DataSetResults) -> Iterator[MethodRow]:
    """Yield every method, and after them the paper's two."""
    for name, result in results.methods.items():
        heading = {"data set": results.name, "method": name}
        yield MethodRow(heading, result["measures"], result["intervals"])
    if paper := paper_results(results):
        for name in ("BMCD", "CF"):
            heading = {"data set": paper["called"], "method": name}
            yield MethodRow(heading, {**paper["description"], **paper[name]}, {})


def data_sets(results: DataSetResults) -> Iterator[Row]:
    """Yield a description of the data set; in brackets what is left for training."""
    counts, names = results["describe"], ("min", "median", "max")
    before, after = counts["all"], counts["train"]
    yield {
        "data set": results.name,
        "items": counts["n_items"],
        "users": counts["n_users"],
        **{f"{name} clicks": f"{before[name]:g} ({after[name]:g})" for name in names},
        "clicks": f"{before['n_clicks']:,} ({after['n_clicks']:,})",
        "next k": results.plan.data.remove,
    }
    if paper := paper_results(results):
        counts = paper["description"]
        row = {"data set": paper["called"], "items": counts["n_items"], "users": counts["n_users"]}
        row |= {f"{name} clicks": "{} ({})".format(*counts[name]) for name in names}
        yield {**row, "clicks": "", "next k": counts["k"]}


def cluster_choice(results: DataSetResults) -> Iterator[Row]:
    """Yield the held-out log-likelihood a user for each number of clusters, and which number was chosen."""
    names = {
        "held_out": "log-likelihood a user",
        "held_out_se": "standard error",
        "behind": "behind the best",
        "behind_se": "its standard error",
        "chain_gap": "chains differ by",
    }
    choice = results.choice
    for c, row in choice.held_out.iterrows():
        numbers = {shown: round(float(row[name]), 4) for name, shown in names.items()}
        verdict = "chosen" if c == choice.recommended else "best" if c == choice.best else ""
        yield {"data set": results.name, "C": c, **numbers, "": verdict}


def accuracy(results: DataSetResults) -> Iterator[Row]:
    """Yield the accuracy of every method in %, and its difference from BMCD in points, with 95 % intervals."""
    for heading, measures, intervals in method_rows(results):
        row = {**heading, "C": "", "accuracy %": _percent(measures["accuracy"])}
        ours = heading["data set"] == results.name
        name = heading["method"] if ours else ""
        if name in results.variants:
            row["C"] = results.variants[name].n_clusters
        row["low"], row["high"] = map(_percent, intervals.get("accuracy", UNKNOWN[:2]))
        row["minus BMCD"], row["from"], row["to"] = map(_percent, results.differences.get(name, UNKNOWN))
        yield {**row, "hits": measures["n_hits"] if ours else ""}


def accuracy_by_clusters(results: DataSetResults) -> Iterator[Row]:
    """Yield the accuracy of each number of clusters, and of each number of chains averaged."""
    longer_or_more = [fit for fit in results.fits if fit.longer or fit.more]
    for fit in results.fits_over_clusters + longer_or_more:
        result = results[fit.name]
        row: Row = {"data set": results.name, "C": fit.n_clusters}
        row["chains are"] = "longer" if fit.longer else "more" if fit.more else "as planned"
        for averaged in result["averaged"]:
            values = [group["accuracy"] for group in averaged["groups"]]
            chains = "1 chain" if averaged["chains"] == 1 else f"{averaged['chains']} chains"
            row[f"{chains}, %"] = _percent(float(np.mean(values)))
            if averaged["chains"] == 1:
                row["worst"], row["best"] = _percent(min(values)), _percent(max(values))
        row["coverage"] = result["measures"]["coverage"]
        row["largest R-hat"] = result["convergence"]["largest_rhat"]
        row["median R-hat of probabilities"] = result["convergence"]["median_rhat_of_probabilities"]
        yield row


def coverage(results: DataSetResults) -> Iterator[Row]:
    """Yield coverage and correct coverage of every method, as shares and as numbers of items."""
    for heading, measures, _ in method_rows(results):
        row = dict(heading)
        for measure in ("coverage", "correct_coverage"):
            share, shown = measures[measure], measure.replace("_", " ")
            row |= {shown: round(share, 4), f"{shown}, items": round(share * measures["n_items"])}
        yield row


def rare(results: DataSetResults) -> Iterator[Row]:
    """Yield recommendations of rare items, and users with at least one."""
    for heading, measures, _ in method_rows(results):
        yield {
            **heading,
            "rare recommendations": measures["n_rare"],
            "% of all": _percent(measures["rare_share"]),
            "users with one": measures["n_users_with_rare"],
            "% of users": _percent(measures["users_with_rare_share"]),
        }


def similarity(results: DataSetResults) -> Iterator[Row]:
    """Yield intra-list similarity and novelty, with 95 % intervals."""
    for heading, measures, intervals in method_rows(results):
        row = dict(heading)
        for measure, shown in (("intra_list_similarity", "intra-list similarity"), ("novelty", "novelty")):
            ends = (f"{end:.2f}" for end in intervals.get(measure, []))
            row |= {shown: measures[measure], f"{shown}, 95 %": " to ".join(ends)}
        yield row


def rare_hits(results: DataSetResults, n: int = 5) -> Iterator[Row]:
    """Yield the n rare items with which BMCD has most hits, and what became of them with CF."""
    counts = {name: results.item_counts(name) for name in (MAIN, CF)}
    n_rare = len(counts[MAIN].item) - counts[MAIN].n_popular
    for i in np.argsort(-counts[MAIN].hits[:n_rare], kind="stable")[:n]:
        row = {"data set": results.name, "item": results["describe"]["items"][i]}
        row["clicks"] = int(counts[MAIN].clicks[i])
        for name, of_method in counts.items():
            row[f"{name} recommends"] = int(of_method.recommended[i])
            row[f"{name} hits"] = int(of_method.hits[i])
        yield row


def probabilities(results: DataSetResults) -> Iterator[Row]:
    """Yield what BMCD's probabilities promise, and what came of it."""
    calibration = results.calibration
    yield {
        "data set": results.name,
        "mean probability %": _percent(calibration.mean_probability),
        "hit rate %": _percent(calibration.hit_rate),
        "ECE": round(calibration.expected_calibration_error, 4),
        "Brier": round(calibration.brier, 4),
        "Brier of the hit rate for all": round(calibration.uncertainty, 4),
    }


class Cutoff(NamedTuple):
    """A cut-off for probabilities, and what it does."""

    cutoff: float
    share: float
    """The share of the recommendations that it keeps."""
    accuracy: float
    """The share of hits among these."""


def cutoffs(results: DataSetResults) -> Iterator[Row]:
    """Yield the smallest cut-off with which BMCD is as accurate as each rival, and what it keeps."""
    rows: list[tuple[str, str, float, Cutoff | None]] = []
    for name in results.rivals:
        target = results.measure(name, "accuracy")
        rows.append((results.name, name, target, smallest_cutoff(results, target)))
    if (paper := paper_results(results)) and "cutoff" in paper:
        rows.append((paper["called"], "CF", paper["CF"]["accuracy"], Cutoff(**paper["cutoff"])))
    for data_set, rival, target, cutoff in rows:
        value, share, reached = cutoff or UNKNOWN
        row = {"data set": data_set, "as accurate as": rival, "which has %": _percent(target)}
        yield {**row, "cut-off": value, "keeps %": _percent(share), "BMCD's accuracy %": _percent(reached)}


def smallest_cutoff(results: DataSetResults, accuracy: float) -> Cutoff | None:
    """Return the smallest cut-off, in steps of 0.01, with which BMCD reaches an accuracy; None if none does."""
    table = results.calibration.cutoff_table(np.arange(0, 100) / 100)
    for row in table.itertuples():
        if row.n > 0 and row.accuracy >= accuracy:
            return Cutoff(float(row.cutoff), float(row.share), float(row.accuracy))
    return None


def settings(results: DataSetResults) -> Iterator[Row]:
    """Yield the settings of the rivals that cross-validation chose."""
    for name, result in results.rivals.items():
        if (tuning := result["tuning"]) is not None:
            yield {
                "data set": results.name,
                "method": name,
                "chosen": ", ".join(f"{key} {value:g}" for key, value in tuning["best"].items()),
                "at the edge of the grid": ", ".join(tuning["at_the_edge"]),
                "settings tried": len(tuning["tried"]),
                "folds": tuning["folds"],
            }


def _percent(share: float) -> float:
    return round(100 * share, 2)


TABLES: tuple[Callable[[DataSetResults], Iterator[Row]], ...] = (
    *(data_sets, cluster_choice, accuracy_by_clusters, accuracy, probabilities, cutoffs, coverage),
    *(rare, similarity, rare_hits, settings),
)
"""All tables; their names are those of the functions."""
