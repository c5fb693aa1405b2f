"""The tables of the simulation study, each beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from experiments.differences import Difference
from experiments.document import Row, percent, plus_minus
from experiments.simulation.measures import NEXT
from experiments.simulation.results import BY_LIKELIHOOD, Method, SimulationResults
from experiments.simulation.summary import STATISTICS, differences, in_errors, mean_difference, summarize
from experiments.study import paper_numbers
from experiments.tasks import Result

# Means that differ from the paper's by more standard errors are called far from it.
FAR = 3.0
# A 95 % interval reaches this many standard errors from the mean.
REACH = 1.96
DIVERSITY = {
    "coverage": "coverage",
    "correct_coverage": "correct coverage",
    "intra_list_similarity": "intra-list similarity",
    "novelty": "novelty",
}
# The paper's table of diversity must be that of lists of this length.
DIVERSITY_K = 5


def paper() -> Result:
    """Return the paper's own numbers."""
    return paper_numbers(__package__)


def clusters(results: SimulationResults) -> Iterator[Row]:
    """Yield how many runs chose how many clusters, by rule, and in how many of the paper's 20 runs."""
    chosen = [results.chosen(run) for run in results.runs]
    for c in results.size.candidates:
        counts = {rule: sum(by_rule[rule] == c for by_rule in chosen) for rule in chosen[0]}
        yield {"C": c, **counts, "paper": int(paper()["n_clusters"]["chosen"].get(str(c), 0))}


def accuracy(results: SimulationResults) -> Iterator[Row]:
    """Yield minimum, quartiles, maximum, mean and standard deviation of the accuracy over the runs."""
    for k in NEXT:
        for method in results.methods(k):
            yield from _summary_rows(f"next {k}: {method.name}", method, k, "accuracy", percent)


def diversity(results: SimulationResults, k: int) -> Iterator[Row]:
    """Yield the same for coverage, correct coverage, intra-list similarity and novelty of lists of k."""
    for measure, words in DIVERSITY.items():
        for method in results.methods(k):
            yield from _summary_rows(f"{words}: {method.name}", method, k, measure, "{:.3f}".format)


def differences_in_accuracy(results: SimulationResults) -> Iterator[Row]:
    """Yield the accuracy of every method minus that of BMCD with C by held-out likelihood, paired by run."""
    for k in NEXT:
        for method in results.methods(k):
            if method.name == results.bmcd(BY_LIKELIHOOD).name:
                continue
            mean, low, high = (f"{100 * value:+.2f}" for value in ahead_of_bmcd(results, method, k))
            yield {"method": f"next {k}: {method.name}", "minus BMCD, points": mean, "from": low, "to": high}


def ahead_of_bmcd(results: SimulationResults, method: Method, k: int) -> Difference:
    """Return a method's accuracy minus that of BMCD with C by held-out likelihood, paired by run."""
    bmcd = results.bmcd(BY_LIKELIHOOD)
    return mean_difference(method.values(k, "accuracy"), bmcd.values(k, "accuracy"))


def probabilities(results: SimulationResults) -> Iterator[Row]:
    """Yield predicted and observed hits of recommended items."""
    for k in NEXT:
        for method in results.methods(k):
            if method.has_probabilities(k):
                yield {
                    "method": f"next {k}: {method.name}",
                    "mean probability in %": _mean_sd(method.values(k, "mean_probability"), 2, 100.0),
                    "hit rate in %": _mean_sd(method.values(k, "accuracy"), 2, 100.0),
                    "ECE": _mean_sd(method.values(k, "calibration_error"), 4),
                    "Brier": _mean_sd(method.values(k, "brier"), 4),
                    "Brier of the hit rate for all": _mean_sd(
                        [a * (1 - a) for a in method.values(k, "accuracy")], 4
                    ),
                }


def cutoffs(results: SimulationResults, k: int, method: Method) -> Iterator[Row]:
    """Yield volume and accuracy with each of the paper's cut-offs, mean and standard deviation over the runs."""
    # Numbers of recommendations can be compared between as many users only.
    same_users = results.size.n_users == paper()["n_users"]
    ours, limit = _runs_by_cutoff(method, k), _runs_by_cutoff(results.limit(), k)
    for expected, (n, accuracy), (limit_n, limit_accuracy) in zip(
        paper()["cutoffs"][str(k)], ours, limit, strict=True
    ):
        row = {
            "cut-off": f"{expected['cutoff']:.2f}",
            "recommendations": _mean_sd(n, 1),
            "paper (±)": plus_minus(expected["n"], expected["n_pm"], 1),
            "difference in s.e.": _from_paper(n, expected["n"], expected["n_pm"]) if same_users else "",
            "accuracy in %": _mean_sd(accuracy, 2, 100.0),
            "paper in % (±)": plus_minus(100 * expected["accuracy"], 100 * expected["accuracy_pm"], 1),
            "difference in s.e. ": _from_paper(accuracy, expected["accuracy"], expected["accuracy_pm"]),
            "limit: recommendations": _mean_sd(limit_n, 1),
            "limit: accuracy in %": _mean_sd(limit_accuracy, 2, 100.0),
        }
        if method.paper_name is None:
            row = {name: cell for name, cell in row.items() if not name.startswith(("paper", "difference"))}
        yield row


def rare(results: SimulationResults) -> Iterator[Row]:
    """Yield recommendations of rare items and users who get at least one, mean and standard deviation."""
    for k in NEXT:
        for method in results.methods(k):
            n_users = method.values(k, "n_users_with_rare")
            yield {
                "method": f"next {k}: {method.name}",
                "rare recommendations": _mean_sd(method.values(k, "n_rare"), 1),
                "users with one or more": _mean_sd(n_users, 1),
                "smallest over the runs": int(min(n_users)),
            }


def spark(results: SimulationResults) -> Iterator[Row]:
    """Yield the measures of the two programs for ALS on the same data."""
    for k in NEXT:
        for run in results.spark_runs:
            row: Row = {"k": k, "run": run}
            for measure in ("accuracy", "coverage", "novelty"):
                row[f"{measure}, ALS"] = results[run, f"als-{k}"][str(k)][measure]
                row[f"{measure}, SparkALS"] = results[run, "spark"][str(k)][measure]
            yield row


def far_from_paper(results: SimulationResults) -> list[str]:
    """Return in words which means over runs differ from the paper's by more than three standard errors.

    Diversity of lists of 5 only: the paper's intra-list similarity cannot be that of longer lists.
    """
    lines = []
    for k in NEXT:
        for measure in ("accuracy", *DIVERSITY) if k == DIVERSITY_K else ("accuracy",):
            for method in results.methods(k):
                if (expected := _expected(measure, k, method)) is None:
                    continue
                ours = summarize(method.values(k, measure))
                distance = differences(ours, len(method.runs), expected, paper()["runs"])["mean"]
                if abs(distance) > FAR:
                    lines.append(
                        f"{DIVERSITY.get(measure, measure)}, next {k}, {method.name}: {ours['mean']:.4f} against "
                        f"{expected['mean']:.4f}, {distance:+.1f} standard errors"
                    )
    return lines


def _expected(measure: str, k: int, method: Method) -> Mapping[str, float] | None:
    if method.paper_name is None:
        return None
    table = paper()["accuracy"][str(k)] if measure == "accuracy" else paper()["diversity"][measure]
    expected: Mapping[str, float] = table[method.paper_name]
    return expected


def _summary_rows(name: str, method: Method, k: int, measure: str, show: Callable[[float], str]) -> Iterator[Row]:
    """Yield up to three rows: what was measured, what the paper has, and the difference in standard errors."""
    ours = summarize(method.values(k, measure))
    yield {"": name, **{s: show(ours[s]) for s in STATISTICS}}
    if (expected := _expected(measure, k, method)) is not None:
        gaps = differences(ours, len(method.runs), expected, paper()["runs"])
        yield {"": "- paper", **{s: show(expected[s]) if s in expected else "" for s in STATISTICS}}
        yield {"": "- difference in s.e.", **{s: f"{gaps[s]:+.1f}" if s in gaps else "" for s in STATISTICS}}


def _runs_by_cutoff(method: Method, k: int) -> Iterator[tuple[list[float], list[float]]]:
    """Yield for each cut-off the numbers of recommendations, and the accuracies of the runs that kept any."""
    tables = [result[str(k)]["cutoffs"] for result in method.runs]
    for i in range(len(tables[0]["cutoff"])):
        accuracies = [table["accuracy"][i] for table in tables]
        yield [table["n"][i] for table in tables], [a for a in accuracies if a is not None]


def _from_paper(values: Sequence[float], mean: float, plus_minus: float) -> str:
    """Return the difference in standard errors; the paper's ± is taken for a 95 % interval of its mean."""
    if len(values) < 2:
        return ""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    distance = in_errors(float(np.mean(values)) - mean, float(np.hypot(error, plus_minus / REACH)))
    return f"{distance:+.1f}" if distance == distance else "exactly known"


def _mean_sd(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    if not values:
        return "none"
    if len(values) == 1:
        return f"{scale * values[0]:.{digits}f} (one run)"
    return plus_minus(scale * float(np.mean(values)), scale * float(np.std(values, ddof=1)), digits)
