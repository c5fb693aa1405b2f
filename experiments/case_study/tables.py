"""The tables of the case study, each a frame: ours, and the paper's own numbers where there are some."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from experiments.case_study.plan import Fit
from experiments.case_study.study import CF, MAIN, Study

CHAINS = re.compile(r"\d+ chains?, %")


@cache
def expected() -> dict[str, Any]:
    """The paper's own numbers, and where they stand in it."""
    text = (resources.files(__package__) / "expected.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def papers(study: Study) -> Mapping[str, Any] | None:
    """What the paper found on the NRK data set that this one stands for; None for others."""
    found = expected().get(study.name)
    return found if isinstance(found, dict) and not study.data.is_own else None


def data_sets(studies: Sequence[Study]) -> pd.DataFrame:
    """Description of the data sets; in brackets what is left for training."""
    rows = []
    for study in studies:
        of = study.description
        spread = {
            f"{name} clicks": f"{of['all'][name]:g} ({of['train'][name]:g})" for name in ("min", "median", "max")
        }
        clicks = f"{of['all']['n_clicks']:,} ({of['train']['n_clicks']:,})"
        sizes = {"items": of["n_items"], "users": of["n_users"]}
        rows.append({"data set": study.name, **sizes, **spread, "clicks": clicks, "next k": study.k})
        if paper := papers(study):
            told = paper["description"]
            spread = {f"{name} clicks": "{} ({})".format(*told[name]) for name in ("min", "median", "max")}
            sizes = {"items": told["n_items"], "users": told["n_users"]}
            rows.append({"data set": paper["called"], **sizes, **spread, "clicks": "", "next k": told["k"]})
    return pd.DataFrame(rows)


def cluster_choice(studies: Sequence[Study]) -> pd.DataFrame:
    """Held-out log-likelihood a user for each number of clusters, and what was chosen."""
    rows = []
    for study in studies:
        for c, row in study.choice.held_out.iterrows():
            names = {"held_out": "log-likelihood a user", "held_out_se": "standard error"}
            names |= {
                "behind": "behind the best",
                "behind_se": "its standard error",
                "chain_gap": "chains differ by",
            }
            numbers = {shown: round(float(row[name]), 4) for name, shown in names.items()}
            chosen = "chosen" if c == study.choice.recommended else "best" if c == study.choice.best else ""
            rows.append({"data set": study.name, "C": c, **numbers, "": chosen})
    return pd.DataFrame(rows)


def accuracy(studies: Sequence[Study]) -> pd.DataFrame:
    """Accuracy of every method in %, and its difference from BMCD in points, both with 95 % intervals."""
    rows: list[dict[str, Any]] = []
    for study in studies:
        for name, result in study.methods.items():
            low, high = result["intervals"]["accuracy"]
            row: dict[str, Any] = {"data set": study.name, "method": name, "C": _clusters(study, name)}
            row |= {"accuracy %": _percent(study.accuracy_of(result)), "low": _percent(low), "high": _percent(high)}
            if name in study.differences:
                gap = study.differences[name]
                row |= {"minus BMCD": _percent(gap.value), "from": _percent(gap.low), "to": _percent(gap.high)}
            rows.append(row | {"hits": result["measures"]["n_hits"]})
        rows += [
            {"data set": called, "method": name, "C": "", "accuracy %": _percent(of["accuracy"]), "hits": ""}
            for called, name, of in _paper_rows(study)
        ]
    columns = ["data set", "method", "C", "accuracy %", "low", "high", "minus BMCD", "from", "to", "hits"]
    return pd.DataFrame(rows, columns=columns)


def by_clusters(studies: Sequence[Study]) -> pd.DataFrame:
    """Accuracy against the number of clusters, and how many chains are averaged."""
    rows = []
    for study in studies:
        rows += [_fit_row(study, fit) for fit in over_clusters(study)]
        of = study.roles
        others = dict.fromkeys(fit for fit in (of.longer, of.more, of.more_largest) if fit is not None)
        rows += [_fit_row(study, fit) | {"chains are": "longer" if fit.longer else "more"} for fit in others]
    table = pd.DataFrame(rows)
    sizes = sorted((name for name in table if CHAINS.match(str(name))), key=lambda name: int(str(name).split()[0]))
    ends = ["coverage", "largest R-hat", "median R-hat of probabilities"]
    return table[["data set", "C", "chains are", sizes[0], "worst", "best", *sizes[1:], *ends]]


def over_clusters(study: Study) -> list[Fit]:
    """The fits that differ in the number of clusters alone."""
    return sorted((fit for fit in study.fits if fit == Fit(fit.n_clusters)), key=lambda fit: fit.n_clusters)


def _fit_row(study: Study, fit: Fit) -> dict[str, Any]:
    result = study.fits[fit]
    row: dict[str, Any] = {"data set": study.name, "C": fit.n_clusters, "chains are": "as planned"}
    for averaged in result["averaged"]:
        values = [group["accuracy"] for group in averaged["groups"]]
        words = "1 chain" if averaged["chains"] == 1 else f"{averaged['chains']} chains"
        row[f"{words}, %"] = _percent(float(np.mean(values)))
        if averaged["chains"] == 1:
            row["worst"], row["best"] = _percent(min(values)), _percent(max(values))
    told = result["convergence"]
    row["coverage"] = result["measures"]["coverage"]
    row["largest R-hat"] = told["largest_rhat"]
    row["median R-hat of probabilities"] = told["median_rhat_of_probabilities"]
    return row


def diversity(studies: Sequence[Study]) -> pd.DataFrame:
    """Coverage and correct coverage of every method."""
    rows = []
    for study in studies:
        for name in study.methods:
            row: dict[str, Any] = {"data set": study.name, "method": name}
            for measure in ("coverage", "correct_coverage"):
                row |= _of_items(study.measure(name, measure), measure, study.description["n_items"])
            rows.append(row)
        for called, name, of in _paper_rows(study):
            row = {"data set": called, "method": name}
            for measure in ("coverage", "correct_coverage"):
                row |= _of_items(of[measure], measure, expected()[study.name]["description"]["n_items"])
            rows.append(row)
    return pd.DataFrame(rows)


def _of_items(share: float, measure: str, n_items: int) -> dict[str, Any]:
    shown = measure.replace("_", " ")
    return {shown: round(share, 4), f"{shown}, items": round(share * n_items)}


def rare(studies: Sequence[Study]) -> pd.DataFrame:
    """Recommendations of rare items, and users with at least one."""
    names = {"n_rare": "rare recommendations", "rare_share": "% of all"}
    names |= {"n_users_with_rare": "users with one", "users_with_rare_share": "% of users"}
    return _measures(studies, names, shares=("rare_share", "users_with_rare_share"))


def similarity(studies: Sequence[Study]) -> pd.DataFrame:
    """Intra-list similarity and novelty."""
    names = {"intra_list_similarity": "intra-list similarity", "novelty": "novelty"}
    table = _measures(studies, names)
    for name, shown in names.items():
        ends = [
            [f"{end:.2f}" for end in study.methods[method]["intervals"][name]] if study is not None else []
            for study, method in _rows(studies)
        ]
        at = list(table.columns).index(shown) + 1
        table.insert(at, f"{shown}, 95 %", [" to ".join(pair) for pair in ends])
    return table


def _rows(studies: Sequence[Study]) -> list[tuple[Study | None, str]]:
    """In the order of all tables of methods; None for the paper's rows."""
    rows: list[tuple[Study | None, str]] = []
    for study in studies:
        rows += [(study, name) for name in study.methods]
        rows += [(None, name) for _, name, _ in _paper_rows(study)]
    return rows


def _measures(studies: Sequence[Study], names: Mapping[str, str], shares: Sequence[str] = ()) -> pd.DataFrame:
    rows = []
    for study in studies:
        own = [(study.name, name, result["measures"]) for name, result in study.methods.items()]
        for called, name, of in [*own, *_paper_rows(study)]:
            values = {shown: _percent(of[key]) if key in shares else of[key] for key, shown in names.items()}
            rows.append({"data set": called, "method": name, **values})
    return pd.DataFrame(rows)


def rare_hits(studies: Sequence[Study], n: int = 5) -> pd.DataFrame:
    """The rare items with which BMCD has most hits."""
    rows = []
    for study in studies:
        own, other = study.item_counts(MAIN), study.item_counts(CF)
        n_rare = len(own.item) - own.n_popular
        for at in np.argsort(-own.hits[:n_rare], kind="stable")[:n]:
            row = {"data set": study.name, "item": study.description["items"][at], "clicks": int(own.clicks[at])}
            for name, counts in ((MAIN, own), (CF, other)):
                row |= {f"{name} recommends": int(counts.recommended[at]), f"{name} hits": int(counts.hits[at])}
            rows.append(row)
    return pd.DataFrame(rows)


def probabilities(studies: Sequence[Study]) -> pd.DataFrame:
    """What BMCD's probabilities promise and what came of it."""
    rows = []
    for study in studies:
        found = study.calibration
        row = {"data set": study.name, "mean probability %": _percent(found.mean_probability)}
        row |= {"hit rate %": _percent(found.hit_rate), "ECE": round(found.expected_calibration_error, 4)}
        row |= {"Brier": round(found.brier, 4), "Brier of the hit rate for all": round(found.uncertainty, 4)}
        rows.append(row)
    return pd.DataFrame(rows)


def cutoffs(studies: Sequence[Study]) -> pd.DataFrame:
    """The smallest cut-off with which BMCD is as accurate as each rival, and what it keeps."""
    rows: list[dict[str, Any]] = []
    for study in studies:
        for name in study.rivals:
            target = study.measure(name, "accuracy")
            found = reaching(study, target)
            row = {"data set": study.name, "as accurate as": name, "which has %": _percent(target)}
            if found is not None:
                cut, share, hit_rate = found
                row |= {"cut-off": cut, "keeps %": _percent(share), "BMCD's accuracy %": _percent(hit_rate)}
            rows.append(row)
        if (paper := papers(study)) and "cutoff" in paper:
            told = paper["cutoff"]
            row = {"data set": paper["called"], "as accurate as": "CF"}
            row |= {"which has %": _percent(paper["CF"]["accuracy"]), "cut-off": told["cutoff"]}
            rows.append(row | {"keeps %": _percent(told["share"]), "BMCD's accuracy %": _percent(told["accuracy"])})
    return pd.DataFrame(rows)


def reaching(study: Study, accuracy: float) -> tuple[float, float, float] | None:
    """The smallest cut-off, in steps of 0.01, that reaches an accuracy; the share it keeps, and its accuracy."""
    table = study.calibration.cutoff_table(np.arange(0, 100) / 100)
    for row in table.itertuples():
        if row.n > 0 and row.accuracy >= accuracy:
            return float(row.cutoff), float(row.share), float(row.accuracy)
    return None


def settings(studies: Sequence[Study]) -> pd.DataFrame:
    """The settings of the rivals that cross-validation chose."""
    rows = []
    for study in studies:
        for name, result in study.rivals.items():
            if (tuned := result["tuning"]) is None:
                continue
            best = ", ".join(f"{key} {value:g}" for key, value in tuned["best"].items())
            edge = ", ".join(tuned["at_the_edge"])
            row = {"data set": study.name, "method": name, "chosen": best, "at the edge of the grid": edge}
            rows.append(row | {"settings tried": len(tuned["tried"]), "folds": tuned["folds"]})
    return pd.DataFrame(rows)


def _paper_rows(study: Study) -> list[tuple[str, str, Mapping[str, Any]]]:
    paper = papers(study)
    return [] if paper is None else [(paper["called"], name, paper[name]) for name in ("BMCD", "CF")]


def _clusters(study: Study, method: str) -> int | str:
    return study.variants[method].n_clusters if method in study.variants else ""


def _percent(share: float) -> float:
    return round(100 * share, 2)
