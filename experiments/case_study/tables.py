"""The tables of the case study: functions that yield the rows of a data set, ours and then the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments.case_study.plan import BLEND, MAIN, PSEUDO, TASTES
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
    """Yield the accuracy of every method in %, and differences in points, with 95 % intervals."""
    for heading, measures, intervals in method_rows(results):
        row = {**heading, "C or tastes": "", "accuracy %": in_percent(measures["accuracy"])}
        ours = heading["data set"] == results.name
        name = heading["method"] if ours else ""
        if name in results.variants:
            row["C or tastes"] = results.variants[name].n_clusters
        elif name == PSEUDO:
            row["C or tastes"] = results.variants[MAIN].n_clusters
        elif name == TASTES:
            row["C or tastes"] = results.settings[TASTES]["n_tastes"]
        row["low"], row["high"] = map(in_percent, intervals.get("accuracy", UNKNOWN[:2]))
        row["minus BMCD"], row["from"], row["to"] = map(in_percent, results.differences.get(name, UNKNOWN))
        gap = results.ahead_of_best_baseline.get(name, UNKNOWN)
        row["minus best baseline"], row["from "], row["to "] = map(in_percent, gap)
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
            row[f"{chains}, %"] = in_percent(float(np.mean(values)))
            if averaged["chains"] == 1:
                row["worst"], row["best"] = in_percent(min(values)), in_percent(max(values))
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
            "% of all": in_percent(measures["rare_share"]),
            "users with one": measures["n_users_with_rare"],
            "% of users": in_percent(measures["users_with_rare_share"]),
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
    """Yield the n rare items with which BMCD has most hits, and what became of them with others."""
    counts = {name: results.item_counts(name) for name in (MAIN, TASTES, BLEND, CF)}
    n_rare = len(counts[MAIN].item) - counts[MAIN].n_popular
    for i in np.argsort(-counts[MAIN].hits[:n_rare], kind="stable")[:n]:
        row = {"data set": results.name, "item": results["describe"]["items"][i]}
        row["clicks"] = int(counts[MAIN].clicks[i])
        for name, of_method in counts.items():
            row[f"{name} recommends"] = int(of_method.recommended[i])
            row[f"{name} hits"] = int(of_method.hits[i])
        yield row


def settings(results: DataSetResults) -> Iterator[Row]:
    """Yield the settings that were chosen on training clicks: of the baselines, and of Tastes."""
    for name, result in {**results.baselines, TASTES: results[TASTES]}.items():
        if (tuning := result["tuning"]) is not None:
            yield {
                "data set": results.name,
                "method": name,
                "chosen": ", ".join(f"{key} {value:g}" for key, value in tuning["best"].items()),
                "at the edge of the grid": ", ".join(tuning["at_the_edge"]),
                "settings tried": len(tuning["tried"]),
                "folds": tuning["folds"],
            }


def in_percent(share: float) -> float:
    """Return a share in percent with two digits.

    >>> in_percent(0.123456)
    12.35
    """
    return round(100 * share, 2)


TABLES: tuple[Callable[[DataSetResults], Iterator[Row]], ...] = (
    *(data_sets, cluster_choice, accuracy_by_clusters, accuracy, coverage, rare, similarity, rare_hits, settings),
)
"""All tables but those of probabilities; their names are those of the functions."""
