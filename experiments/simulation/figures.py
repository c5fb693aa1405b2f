"""The study's figures, as in the paper and its supplement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bmcd import plots
from bmcd.evaluation import Calibration
from bmcd.simulation import paper_consensuses
from experiments.simulation.measure import N_POPULAR, NEXT
from experiments.simulation.plan import BOX_RUNS, CALIBRATION_RUN, POPULARITY_RUNS, TRACE_RUN, shown_runs
from experiments.simulation.tables import BY_LIKELIHOOD, Study, rare_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.document import Document

# The scale with which the paper simulates.
TRUE_ALPHA = 3.0


def add_accuracy_by_clusters(page: Document, study: Study) -> None:
    """Accuracy against the number of clusters, all runs."""
    for k in NEXT:
        rows = [
            {"n_clusters": c, "accuracy": study[run, f"bmcd-{c}"][str(k)]["accuracy"], "run": run}
            for run in study.runs
            for c in study.size.candidates
        ]
        title = f"BMCD, next {k}, {study.size.runs} runs"
        figure = plots.accuracy_by_clusters(pd.DataFrame(rows), title)
        page.figure(f"accuracy-by-clusters-{k}", f"Accuracy against the number of clusters, next {k}", figure)


def add_calibration(page: Document, study: Study) -> None:
    """Hit rate against probability in one run, with CF's accuracy as a line."""
    (run,) = shown_runs(study.size, [CALIBRATION_RUN])
    c = study.chosen(run)[BY_LIKELIHOOD]
    for k in NEXT:
        found = study[run, f"bmcd-{c}"][str(k)]
        calibration = Calibration.of(found["probability"], np.array(found["hit"], bool), bin_width=0.01)
        rivals = {"CF": study[run, f"als-{k}"][str(k)]["accuracy"]}
        figure = plots.calibration(calibration, rivals=rivals, title=f"Run {run}, next {k}, C = {c}")
        page.figure(f"calibration-{k}", f"Hit rate against probability, run {run}, next {k}", figure)


def add_popularity(page: Document, study: Study) -> None:
    """How the clicks are spread over the items."""
    runs = shown_runs(study.size, POPULARITY_RUNS)
    clicks = {f"Run {run}": study[run, "limit"]["items"] for run in runs}
    caption = f"Clicks by item; the {N_POPULAR} most clicked are called popular"
    page.figure("item-popularity", caption, plots.item_popularity(clicks, N_POPULAR))


def add_rare_items(page: Document, study: Study) -> None:
    """Rare recommendations, and users with at least one, over the runs."""
    for k in NEXT:
        figure = plots.rare_items(rare_rows(study, k), title=f"Next {k}, {study.size.runs} runs")
        page.figure(f"rare-items-{k}", f"Recommendations of rare items, next {k}", figure)


def add_within_distance(page: Document, study: Study) -> None:
    """The paper's boxplots, by which it chooses the number of clusters."""
    boxes = {f"Run {run}": pd.DataFrame(_boxes(study, run)) for run in shown_runs(study.size, BOX_RUNS)}
    page.figure("mwcd", "Posterior within-cluster distance against C", plots.within_distance(boxes, across=3))


def add_traces(page: Document, study: Study) -> None:
    """Traces of alpha after warm-up, two chains."""
    found = study[TRACE_RUN, "traces"]
    # Clusters are in the order of the first item's rank in their consensus: 1, 39 and 50 of the paper's three.
    place = np.argsort(np.argsort(paper_consensuses()[:, 0]))
    names = [f"alpha {c + 1}" for c in range(len(place))]
    figure = plots.alpha_traces(
        np.array(found["alpha"])[:, :, place],
        clusters=names,
        truth=[TRUE_ALPHA] * len(names),
        title=f"Run {TRACE_RUN}",
        across=3,
    )
    page.figure("alpha-traces", f"Traces of alpha after warm-up, run {TRACE_RUN}", figure)


def _boxes(study: Study, run: int) -> Iterator[dict[str, float]]:
    for c in study.size.candidates:
        yield {"n_clusters": c, **study[run, f"bmcd-{c}"]["box"]}
