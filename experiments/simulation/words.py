"""Sentences of the page of the simulation study."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bmcd.utils import and_list
from experiments.differences import against
from experiments.document import percent
from experiments.simulation import plan, tables
from experiments.simulation.measures import NEXT
from experiments.simulation.results import BY_LIKELIHOOD, LIMIT, SimulationResults
from experiments.study import read_text

QUICK_NOTE = (
    "This is a small form of the study that shows that all parts run. Its numbers are not those of the study: "
    "there are fewer users, runs and sweeps than in the paper, whose numbers stand beside them."
)
SPARK_NOTE = (
    "CF is ALS of the package implicit, tuned by cross-validation for each k. The paper used Spark's; on some runs "
    "that is tuned (for the next 10) and evaluated as well:"
)
WHY_NOT_TASTES = (
    "**Tastes** is not made for these data. They come from the very model that BMCD fits: each user belongs to one "
    "cluster, draws one ranking and clicks the top of it. In Tastes a user mixes tastes, and every click is the "
    "first item of a fresh ranking. So it looks for mixtures that no user has, and does not know that a user's "
    "clicks share a ranking; what that costs is seen here, beside the limit that no method passes. What it gains "
    "where users do mix is seen in the case study."
)


def comparison(results: SimulationResults) -> list[str]:
    """Return the section of the page that says how far the results are from the paper's."""
    limit = f"more than {tables.FAR:g} standard errors"
    if lines := tables.far_from_paper(results):
        distances = [f"{len(lines)} means differ from the paper's by {limit}:", "\n".join(f"* {s}" for s in lines)]
    else:
        distances = [f"No mean of a measure differs from the paper's by {limit}."]
    return ["## How far from the paper", *distances, read_text(__package__, "differences.md").strip()]


def on_tastes(results: SimulationResults) -> list[str]:
    """Return why Tastes cannot win here, how far behind it is, and what its prior has to do with it."""
    chosen = Counter(run["n_tastes"] for run in results.tastes(plan.AUTO).runs)
    counts = [f"{n_tastes} tastes in {n} of {results.size.runs} runs" for n_tastes, n in sorted(chosen.items())]
    numbers = [_accuracies(results, k) for k in NEXT]
    return [WHY_NOT_TASTES, " ".join([*numbers, f"`auto` chose {and_list(counts)}."])]


def _accuracies(results: SimulationResults, k: int) -> str:
    auto = results.tastes(plan.AUTO)
    gap = against(tables.ahead_of_bmcd(results, auto, k), f"BMCD (C by {BY_LIKELIHOOD})")
    mean = {m.name: percent(float(np.mean(m.values(k, "accuracy")))) for m in results.methods(k)}
    return (
        f"Next {k}: {auto.name} has {mean[auto.name]}, the true parameters {mean[LIMIT]}; it is {gap}. With three "
        f"tastes it has {mean[plan.THREE.name]}, and {mean[plan.ONE_EACH.name]} if its prior says that nearly "
        f"every user has one taste only (a = {plan.ONE_EACH.a})."
    )
