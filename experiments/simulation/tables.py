"""The study's tables, each beside the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bmcd.clusters.curves import end_of_fall
from experiments.document import percent, plus_minus
from experiments.simulation.measure import NEXT
from experiments.simulation.plan import Size
from experiments.simulation.summary import STATISTICS, differences, in_errors, summarize

Result = dict[str, Any]

# What is shown as far from the paper.
FAR = 3.0
# A 95 % interval reaches this many standard errors from the mean.
REACH = 1.96
DIVERSITY = {
    "coverage": "coverage",
    "correct_coverage": "correct coverage",
    "intra_list_similarity": "intra-list similarity",
    "novelty": "novelty",
}
BY_LEAST, BY_BEND, BY_LIKELIHOOD = "smallest MWCD (paper)", "where MWCD stops falling", "held-out likelihood"
# For which the paper's table of diversity must have been made.
DIVERSITY_K = 5
LIMIT = "limit (true parameters)"


@cache
def paper() -> Result:
    """The paper's own numbers."""
    text = resources.files("experiments.simulation").joinpath("expected.json").read_text(encoding="utf-8")
    found: Result = json.loads(text)
    return found


class Method(NamedTuple):
    """What was run, and which row of the paper it stands beside."""

    name: str
    paper: str | None
    runs: dict[int, Result]
    """For each run, by k as text: the measures."""


class Study:
    """The results of all tasks, by run."""

    def __init__(self, size: Size, results: Mapping[str, Result]) -> None:
        self.size, self.results = size, results
        self.runs = range(1, size.runs + 1)

    def __getitem__(self, key: tuple[int, str]) -> Result:
        run, what = key
        return self.results[f"run-{run:02}/{what}"]

    @property
    def spark_runs(self) -> list[int]:
        """The runs with results of Spark."""
        return [run for run in self.runs if f"run-{run:02}/spark" in self.results]

    def mwcd(self, run: int) -> dict[int, float]:
        """Posterior mean of the within-cluster distance by number of clusters."""
        return {c: self[run, f"bmcd-{c}"]["mwcd"] for c in self.size.candidates}

    def chosen(self, run: int) -> dict[str, int]:
        """The number of clusters by each rule."""
        mwcd = self.mwcd(run)
        return {
            BY_LEAST: min(mwcd, key=lambda c: mwcd[c]),
            BY_BEND: end_of_fall(mwcd),
            BY_LIKELIHOOD: self[run, "held-out"]["recommended"],
        }

    def methods(self, k: int) -> list[Method]:
        """Everything that recommends, the limit last; Spark, which has fewer runs, is not among them."""
        found = [
            Method(
                f"BMCD, C by {rule}",
                "BMCD",
                {run: self[run, f"bmcd-{self.chosen(run)[rule]}"] for run in self.runs},
            )
            for rule in (BY_LEAST, BY_BEND, BY_LIKELIHOOD)
        ]
        found.append(Method("CF (ALS)", "CF", {run: self[run, f"als-{k}"] for run in self.runs}))
        found.append(Method("popularity", None, {run: self[run, "popularity"] for run in self.runs}))
        found.append(Method(LIMIT, None, {run: self[run, "limit"] for run in self.runs}))
        return found

    def values(self, method: Method, k: int, measure: str) -> list[float]:
        """One measure in all runs."""
        return [result[str(k)][measure] for result in method.runs.values()]


def clusters_table(study: Study) -> pd.DataFrame:
    """How many runs chose how many clusters, by rule, beside the paper's."""
    chosen = pd.DataFrame([study.chosen(run) for run in study.runs])
    rows = [
        {"C": c, **{rule: int((chosen[rule] == c).sum()) for rule in chosen}, "paper": paper_count(c)}
        for c in study.size.candidates
    ]
    return pd.DataFrame(rows)


def paper_count(n_clusters: int) -> int:
    """In how many of the paper's 20 runs this number of clusters was chosen."""
    return int(paper()["n_clusters"]["chosen"].get(str(n_clusters), 0))


def accuracy_table(study: Study) -> pd.DataFrame:
    """Minimum, quartiles, maximum, mean and standard deviation of the accuracy over the runs."""
    rows: list[dict[str, Any]] = []
    for k in NEXT:
        for method in study.methods(k):
            ours = summarize(study.values(method, k, "accuracy"))
            rows += _beside(
                f"next {k}: {method.name}", ours, study.size.runs, _expected("accuracy", k, method), _percent
            )
    return pd.DataFrame(rows)


def diversity_table(study: Study, k: int) -> pd.DataFrame:
    """The same for coverage, correct coverage, intra-list similarity and novelty of lists of k."""
    rows: list[dict[str, Any]] = []
    for measure, words in DIVERSITY.items():
        for method in study.methods(k):
            ours = summarize(study.values(method, k, measure))
            theirs = None if method.paper is None else paper()["diversity"][measure][method.paper]
            rows += _beside(f"{words}: {method.name}", ours, study.size.runs, theirs, "{:.3f}".format)
    return pd.DataFrame(rows)


def cutoff_table(study: Study, k: int, rule: str) -> pd.DataFrame:
    """Volume and accuracy with each of the paper's cut-offs, mean and standard deviation over the runs."""
    rows = []
    ours = _cutoffs(study, k, rule)
    best = _cutoffs(study, k, LIMIT)
    # Numbers of recommendations can be compared between as many users only.
    comparable = study.size.n_users == paper()["n_users"]
    for expected, (n, accuracy), (n_best, accuracy_best) in zip(
        paper()["cutoffs"][str(k)], ours, best, strict=True
    ):
        rows.append(
            {
                "cut-off": f"{expected['cutoff']:.2f}",
                "recommendations": _mean_sd(n, 1, 1.0),
                "paper (±)": plus_minus(expected["n"], expected["n_pm"], 1),
                "difference in s.e.": _from_paper(n, expected["n"], expected["n_pm"]) if comparable else "",
                "accuracy in %": _mean_sd(accuracy, 2, 100.0),
                "paper in % (±)": plus_minus(100 * expected["accuracy"], 100 * expected["accuracy_pm"], 1),
                "difference in s.e. ": _from_paper(accuracy, expected["accuracy"], expected["accuracy_pm"]),
                "limit: recommendations": _mean_sd(n_best, 1, 1.0),
                "limit: accuracy in %": _mean_sd(accuracy_best, 2, 100.0),
            }
        )
    return pd.DataFrame(rows)


def rare_table(study: Study) -> pd.DataFrame:
    """Recommendations of rare items, and users who get at least one, mean and standard deviation over the runs."""
    rows = []
    for k in NEXT:
        for method in study.methods(k):
            found = {name: study.values(method, k, name) for name in ("n_rare", "n_users_with_rare")}
            rows.append(
                {
                    "method": f"next {k}: {method.name}",
                    "rare recommendations": _mean_sd(found["n_rare"], 1, 1.0),
                    "users with one or more": _mean_sd(found["n_users_with_rare"], 1, 1.0),
                    "smallest over the runs": int(min(found["n_users_with_rare"])),
                }
            )
    return pd.DataFrame(rows)


def rare_rows(study: Study, k: int) -> pd.DataFrame:
    """The same, a row for each method and run, for the figure."""
    rows = []
    for method in study.methods(k):
        if method.name.endswith((BY_LIKELIHOOD, "(ALS)")) or method.name == LIMIT:
            for result in method.runs.values():
                counts = {name: result[str(k)][name] for name in ("n_rare", "n_users_with_rare")}
                rows.append({"method": short_name(method.name), **counts})
    return pd.DataFrame(rows)


def short_name(name: str) -> str:
    """For a figure, where only one BMCD is shown."""
    return "BMCD" if name.startswith("BMCD") else "CF" if name.startswith("CF") else name.partition(" ")[0]


def spark_table(study: Study) -> pd.DataFrame:
    """The two programs for the same method, on the same data."""
    rows = []
    for k in NEXT:
        for run in study.spark_runs:
            ours, spark = study[run, f"als-{k}"][str(k)], study[run, "spark"][str(k)]
            row = {"k": k, "run": run}
            for name in ("accuracy", "coverage", "novelty"):
                row |= {f"{name}, ALS": ours[name], f"{name}, SparkALS": spark[name]}
            rows.append(row)
    return pd.DataFrame(rows)


def far_from_paper(study: Study) -> list[str]:
    """Means of runs that differ from the paper's by more than three standard errors, in words.

    Diversity of lists of 5 only: the paper's intra-list similarity cannot be that of longer lists.
    """
    found = []
    for k in NEXT:
        for measure in ("accuracy", *DIVERSITY) if k == DIVERSITY_K else ("accuracy",):
            for method in study.methods(k):
                theirs = _expected(measure, k, method)
                if theirs is None:
                    continue
                ours = summarize(study.values(method, k, measure))
                far = differences(ours, study.size.runs, theirs, paper()["runs"])["mean"]
                if abs(far) > FAR:
                    found.append(
                        f"{DIVERSITY.get(measure, measure)}, next {k}, {method.name}: {ours['mean']:.4f} against "
                        f"{theirs['mean']:.4f}, {far:+.1f} standard errors"
                    )
    return found


def _expected(measure: str, k: int, method: Method) -> Mapping[str, float] | None:
    if method.paper is None:
        return None
    table = paper()["accuracy"][str(k)] if measure == "accuracy" else paper()["diversity"][measure]
    expected: Mapping[str, float] = table[method.paper]
    return expected


def _beside(
    name: str, ours: Mapping[str, float], n_ours: int, theirs: Mapping[str, float] | None, show: Any
) -> Iterator[dict[str, Any]]:
    """Up to three rows: what was measured, what the paper has, and the difference in standard errors."""
    yield {"": name, **{statistic: show(ours[statistic]) for statistic in STATISTICS}}
    if theirs is not None:
        far = differences(ours, n_ours, theirs, paper()["runs"])
        yield {"": "- paper", **{s: show(theirs[s]) if s in theirs else "" for s in STATISTICS}}
        yield {"": "- difference in s.e.", **{s: f"{far[s]:+.1f}" if s in far else "" for s in STATISTICS}}


def _cutoffs(study: Study, k: int, rule: str) -> list[tuple[list[float], list[float]]]:
    """For each cut-off: the numbers of recommendations, and the accuracies of the runs that kept any."""
    (method,) = [one for one in study.methods(k) if one.name in (rule, f"BMCD, C by {rule}")]
    tables = [result[str(k)]["cutoffs"] for result in method.runs.values()]
    return [
        ([table["n"][i] for table in tables], [a for table in tables if (a := table["accuracy"][i]) is not None])
        for i in range(len(tables[0]["cutoff"]))
    ]


def _from_paper(values: Sequence[float], mean: float, plus_minus: float) -> str:
    """The difference in standard errors; the paper's ± is taken for a 95 % interval of its mean."""
    if len(values) < 2:
        return ""
    ours = np.std(values, ddof=1) / np.sqrt(len(values))
    far = in_errors(float(np.mean(values)) - mean, float(np.hypot(ours, plus_minus / REACH)))
    return f"{far:+.1f}" if far == far else "exactly known"


def _mean_sd(values: Sequence[float], digits: int, scale: float) -> str:
    if not values:
        return "none"
    if len(values) == 1:
        return f"{scale * values[0]:.{digits}f} (one run)"
    return plus_minus(scale * float(np.mean(values)), scale * float(np.std(values, ddof=1)), digits)


def _percent(value: float) -> str:
    return percent(value)
