"""The page of the case study: words, tables and figures in the order of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.case_study import figures, tables, words
from experiments.case_study.study import CF, Study
from experiments.document import Document

RANDOM_HOLD_OUT = (
    "Where probabilities are lower than hit rates, that is no surprise. Clicks are removed at random, while the "
    "model takes those that are left for the top of the ranking and the removed ones for items ranked below: so "
    "such a test finds more hits than promised even with the true parameters (see docs/probabilities.md). "
    "Against the true next items, as in the simulation study, the two agree. The order is not affected, nor are "
    "cut-offs that are chosen by hits."
)

READ_OFF = (
    "Two things about the cut-offs. They are read off the test clicks, as in the paper, and on other clicks will "
    "do a little worse. And a rival would gain as well by leaving out what it is least sure of, had it a "
    "probability to go by."
)
MISPRINT = (
    "(The paper gives CF on its data set 2 171 rare recommendations and calls that 4.0 %; of 2,143 users with 20 "
    "each it is 0.4 %.)"
)


def write_page(studies: Sequence[Study], folder: Path, *, quick: bool) -> Path:
    """Write README.md, tables/ and figures/ into the folder, and return the path of the page."""
    page = Document("Case study")
    page.text(*words.what_was_run(studies, quick))
    page.heading("In short")
    page.text(*(words.in_short(study) for study in studies), READ_OFF)
    _data(page, studies)
    _clusters(page, studies)
    _accuracy(page, studies)
    _probabilities(page, studies)
    _diversity(page, studies)
    _rest(page, studies)
    return page.write(folder)


def _data(page: Document, studies: Sequence[Study]) -> None:
    page.heading("Data")
    caption = "Data sets; in brackets what is left for training"
    page.table("data_sets", caption, tables.data_sets(studies))
    page.text(
        "How they came about: "
        + "; ".join(f"{study.name}: {', '.join(study.description['history'])}" for study in studies)
        + "."
    )
    popular = studies[0].main["measures"]["n_popular"]
    caption = f"Training clicks of each item; the {popular} most clicked are called popular, the others rare"
    page.figure("item_popularity", caption, figures.item_popularity(studies))


def _clusters(page: Document, studies: Sequence[Study]) -> None:
    page.heading("How many clusters")
    page.text(
        "The paper reads C off the elbow of the k-means curve and prefers a slightly larger number; here the elbow "
        "is the point farthest below the chord, which depends on how far the curve goes, and the next larger "
        "number that was fitted (or else the largest) is taken. Beside it stands the exact log-likelihood of "
        "held-out users: the smallest C within one standard error of the best. The main results use the latter."
    )
    page.table("cluster_choice", "Held-out log-likelihood for each C", tables.cluster_choice(studies))
    for study in studies:
        caption = f"{study.name}: within-cluster sum of squares of k-means against C"
        page.figure(f"kmeans_{study.name}", caption, figures.kmeans_curve(study))
    page.text(
        "Do more clusters, averaging over chains, or longer chains change the accuracy? The table and figures show "
        "all that was tried, so that nothing is chosen by the test clicks."
    )
    caption = "Accuracy of single chains (mean, worst and best), and of averages over chains, for each C"
    page.table("accuracy_by_clusters", caption, tables.by_clusters(studies))
    page.text(*(words.on_clusters(study) for study in studies))
    for study in studies:
        caption = f"{study.name}: accuracy against C; thin lines are single chains or groups of chains"
        page.figure(f"accuracy_by_clusters_{study.name}", caption, figures.accuracy_by_clusters(study))


def _accuracy(page: Document, studies: Sequence[Study]) -> None:
    page.heading("Accuracy")
    caption = "Accuracy with 95 % interval, and difference from BMCD in points with 95 % interval (paired by user)"
    page.table("accuracy", caption, tables.accuracy(studies))


def _probabilities(page: Document, studies: Sequence[Study]) -> None:
    page.heading("Probabilities and cut-offs")
    page.text(*(words.on_probabilities(study) for study in studies), RANDOM_HOLD_OUT)
    caption = "What the probabilities of BMCD's recommendations promise, and what came of it"
    page.table("probabilities", caption, tables.probabilities(studies))
    for study in studies:
        page.figure(f"calibration_{study.name}", f"{study.name}: calibration", figures.calibration(study))
    caption = "The smallest cut-off (in steps of 0.01) with which BMCD is as accurate as each rival"
    page.table("cutoffs", caption, tables.cutoffs(studies))
    for study in studies:
        caption = (
            f"{study.name}: accuracy (left axis) and number of recommendations (right axis) against the cut-off"
        )
        page.figure(f"cutoff_{study.name}", caption, figures.cutoff_curve(study))


def _diversity(page: Document, studies: Sequence[Study]) -> None:
    page.heading("Diversity")
    page.table("coverage", "Coverage and correct coverage", tables.diversity(studies))
    page.table("rare", "Recommendations of rare items, and users with at least one", tables.rare(studies))
    if any(study.name == "eshop-2" and tables.papers(study) for study in studies):
        page.text(MISPRINT)
    caption = "Intra-list similarity (less is more diverse) and novelty, with 95 % intervals"
    page.table("similarity", caption, tables.similarity(studies))
    for study in studies:
        caption = (
            f"{study.name}: recommendations (light) and correct ones (dark) over items by ascending popularity, "
            f"BMCD and {CF}"
        )
        page.figure(f"exposure_{study.name}", caption, figures.exposure(study))
    caption = f"The rare items that BMCD hits with most often, and what became of them with {CF}"
    page.table("rare_hits", caption, tables.rare_hits(studies))


def _rest(page: Document, studies: Sequence[Study]) -> None:
    page.heading("Chains")
    for study in studies:
        page.text(f"**{study.name}.** {study.main['convergence']['text']}")
        caption = f"{study.name}: alpha of some clusters, by falling size, after the warm-up; a line for each chain"
        page.figure(f"alpha_{study.name}", caption, figures.alpha_traces(study))
    page.heading("Settings of the rivals")
    page.table("settings", "Chosen by cross-validation over training clicks", tables.settings(studies))
