"""Sentences of the page about probabilities, made from the numbers."""

from __future__ import annotations

import numpy as np

from bmcd.utils import and_list
from experiments.case_study.forecasts import KEPT_SHARES
from experiments.case_study.plan import BLEND, MAIN, TASTES, blend_name
from experiments.case_study.results import DataSetResults
from experiments.case_study.tables import paper_results
from experiments.differences import Difference, against
from experiments.document import percent


def on_probabilities(results: DataSetResults) -> str:
    """Return predicted and observed hits, and how good the forecasts are."""
    sentences = [f"**{results.name}.**", *_of_bmcd(results)]
    sentences += [_predicted(results, name) for name in (TASTES, BLEND)]
    return " ".join([*sentences, _calibration_errors(results), *map(_kept, [results] * 2, (TASTES, BLEND))])


def _of_bmcd(results: DataSetResults) -> list[str]:
    calibration = results.calibration()
    ascending = calibration.hit[np.argsort(calibration.probability, kind="stable")]
    quarter = max(len(ascending) // 4, 1)
    least, most = (percent(float(hits.mean()), 1) for hits in (ascending[:quarter], ascending[-quarter:]))
    gain = round(calibration.uncertainty, 4) - round(calibration.brier, 4)
    better = "better than" if gain > 0 else "worse than" if gain < 0 else "as good as"
    sentences = [
        f"BMCD predicted {percent(calibration.mean_probability)} on average, and "
        f"{percent(calibration.hit_rate)} were hits.",
        f"Of the least probable quarter {least} were hits, of the most probable {most}.",
        f"As forecasts they are {better} giving every recommendation the overall hit rate (Brier score "
        f"{calibration.brier:.4f} against {calibration.uncertainty:.4f}); that rate is known only afterwards.",
    ]
    if (paper := paper_results(results)) and (cutoff := paper.get("cutoff")):
        sentences.append(
            f"(The paper, on {paper['called']}: a cut-off of {cutoff['cutoff']} reaches "
            f"{percent(cutoff['accuracy'], 0)} and keeps {percent(cutoff['share'], 0)}.)"
        )
    return sentences


def _predicted(results: DataSetResults, method: str) -> str:
    measured = results.forecasters[method]["forecasts"]["recommended"]
    predicted, hit = (percent(measured[name][0]) for name in ("mean_probability", "hit_rate"))
    excess = Difference(*measured["excess"])
    verdict = {1: "too much", -1: "too little", 0: "equal within the interval"}[excess.sign]
    return f"{method} predicted {predicted}, and {hit} were hits: {verdict}."


def _calibration_errors(results: DataSetResults) -> str:
    """Return whose probabilities of recommended items are nearest to the hit rates, and whose are farthest."""
    errors = {name: result["forecasts"]["recommended"]["ece"][0] for name, result in results.forecasters.items()}
    ranked = sorted(errors, key=lambda name: errors[name])
    ours = [f"{name} {errors[name]:.4f}" for name in (MAIN, TASTES, BLEND)]
    return (
        f"Of {len(ranked)} methods {ranked[0]} has the smallest calibration error, ECE {errors[ranked[0]]:.4f}, "
        f"and {ranked[-1]} the largest, {errors[ranked[-1]]:.4f}; {and_list(ours)}."
    )


def _kept(results: DataSetResults, method: str) -> str:
    """Return how a method's most probable recommendations do beside as many of the best baseline's."""
    best = blend_name(results.best_baseline)
    accuracy, _, _ = results.accuracy_when_kept(method, 0)
    gap = against(results.ahead_when_kept(method, best, 0), best)
    share = percent(KEPT_SHARES[0], 0)
    return f"Of the most probable {share} of {method} {percent(accuracy)} are hits, which is {gap}."
