"""The figures of the simulation study, as in the paper and its supplement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import bmcd
from bmcd.evaluation import Calibration
from bmcd.simulation import paper_consensuses
from experiments import figures
from experiments.simulation.measures import N_POPULAR
from experiments.simulation.plan import AUTO, BOX_RUNS, POPULARITY_RUNS, TRACE_RUN, shown_runs
from experiments.simulation.results import BY_LIKELIHOOD, SimulationResults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The scale with which the paper simulates.
TRUE_ALPHA = 3.0


def accuracy_by_clusters(results: SimulationResults, k: int) -> Figure:
    """Draw accuracy against the number of clusters, all runs."""
    rows = [
        {"n_clusters": c, "accuracy": results[run, f"bmcd-{c}"][str(k)]["accuracy"], "run": run}
        for run in results.runs
        for c in results.size.candidates
    ]
    return figures.accuracy_by_clusters(pd.DataFrame(rows), f"BMCD, next {k}, {results.size.runs} runs")


def calibration(results: SimulationResults, run: int, k: int) -> Figure:
    """Draw hit rate against probability in one run for BMCD and Tastes, with CF's accuracy as a line."""
    c = results.chosen(run)[BY_LIKELIHOOD]
    counts = {}
    for name, part in ((f"BMCD, C = {c}", f"bmcd-{c}"), (AUTO.name, AUTO.part)):
        shown = results[run, part][str(k)]
        counts[name] = Calibration.of(shown["probability"], np.array(shown["hit"], bool), bin_width=0.02)
    baselines = {"CF": results[run, f"als-{k}"][str(k)]["accuracy"]}
    return bmcd.plots.calibration(counts, rivals=baselines, title=f"Run {run}, next {k}")


def item_popularity(results: SimulationResults) -> Figure:
    """Draw how the clicks are spread over the items."""
    runs = shown_runs(results.size, POPULARITY_RUNS)
    return bmcd.plots.item_popularity({f"Run {run}": results[run, "limit"]["items"] for run in runs}, N_POPULAR)


def rare_items(results: SimulationResults, k: int) -> Figure:
    """Draw rare recommendations, and users with at least one, over the runs."""
    shown = {
        "BMCD": results.bmcd(BY_LIKELIHOOD),
        AUTO.name: results.tastes(AUTO),
        "CF": results.als(k),
        "limit": results.limit(),
    }
    counts = ("n_rare", "n_users_with_rare")
    rows = [
        {"method": name, **{count: run[str(k)][count] for count in counts}}
        for name, method in shown.items()
        for run in method.runs
    ]
    return figures.rare_items(pd.DataFrame(rows), title=f"Next {k}, {results.size.runs} runs")


def within_distance(results: SimulationResults) -> Figure:
    """Draw the paper's boxplots, by which it chooses the number of clusters."""
    boxes = {
        f"Run {run}": pd.DataFrame(
            [{"n_clusters": c, **results[run, f"bmcd-{c}"]["box"]} for c in results.size.candidates]
        )
        for run in shown_runs(results.size, BOX_RUNS)
    }
    return figures.within_distance(boxes, across=3)


def alpha_traces(results: SimulationResults) -> Figure:
    """Draw traces of alpha after warm-up, a line for each chain."""
    # Clusters are in the order of the first item's rank in their consensus: 1, 39 and 50 of the paper's three.
    order = np.argsort(np.argsort(paper_consensuses()[:, 0]))
    return bmcd.plots.alpha_traces(
        np.array(results[TRACE_RUN, "traces"]["alpha"])[:, :, order],
        clusters=[f"alpha {c + 1}" for c in range(len(order))],
        truth=[TRUE_ALPHA] * len(order),
        title=f"Run {TRACE_RUN}",
        across=3,
    )
