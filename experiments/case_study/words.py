"""What the results say, in sentences made from the numbers, so that they are true for other data and seeds too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bmcd.utils import and_list
from experiments.case_study.forecast_tables import smallest_cutoff
from experiments.case_study.forecast_words import on_probabilities
from experiments.case_study.plan import BLEND, MAIN, TASTES, Fit
from experiments.case_study.results import CF, DataSetResults
from experiments.case_study.tables import paper_results
from experiments.differences import against, points
from experiments.document import percent

# The name of a measure of diversity, its format, and whether more of it is better (1) or less (-1).
DIVERSITY = {
    "coverage": ("coverage", "{:.3f}", 1),
    "correct_coverage": ("correct coverage", "{:.3f}", 1),
    "rare_share": ("the share of rare recommendations", "{:.1%}", 1),
    "users_with_rare_share": ("the share of users with a rare one", "{:.1%}", 1),
    "novelty": ("novelty", "{:.2f}", 1),
    "intra_list_similarity": ("intra-list similarity (less is more diverse)", "{:.2f}", -1),
}
QUICK_NOTE = "**Quick form: a few users, items and sweeps. It shows that everything runs, no more.**"
PAPER_NOTE = "The paper's own numbers on NRK's clicks stand beside ours as context, not as a target."
MISPRINT_NOTE = (
    "(The paper gives CF on its data set 2 171 rare recommendations and calls that 4.0 %; of 2,143 users with 20 "
    "each it is 0.4 %.)"
)


def page_words(data_sets: Sequence[DataSetResults], *, quick: bool) -> dict[str, Any]:
    """Return the words of page.md."""
    own_clicks = any(results.plan.data.is_own for results in data_sets)
    spark_problem = next((r.plan.spark_problem for r in data_sets if r.plan.spark_problem), "")
    spark_note = f"The paper's own baseline, the ALS of Spark's MLlib, was left out: {spark_problem}."
    with_paper_2 = any(results.name == "eshop-2" and paper_results(results) for results in data_sets)
    return {
        "quick_note": QUICK_NOTE if quick else "",
        "whose_clicks": "your own clicks" if own_clicks else "public clicks, as NRK's are not public",
        "sizes": data_sets[0].plan.sizes,
        "blend_moments": "random training clicks of half of the users at a time",
        "paper_note": "" if own_clicks else PAPER_NOTE,
        "spark_note": spark_note if spark_problem else "",
        "misprint_note": MISPRINT_NOTE if with_paper_2 else "",
        "histories": "; ".join(f"{r.name}: {', '.join(r['describe']['history'])}" for r in data_sets),
        "n_popular": data_sets[0].main["measures"]["n_popular"],
        "cf": CF,
        "in_short": [in_short(results) for results in data_sets],
        "on_clusters": [on_clusters(results) for results in data_sets],
        "on_probabilities": [on_probabilities(results) for results in data_sets],
        "tastes": and_list([f"{results.settings[TASTES]['n_tastes']} on {results.name}" for results in data_sets]),
        **{f"convergence_{results.name}": results.main["convergence"]["text"] for results in data_sets},
        **{f"taste_verdict_{results.name}": results[TASTES]["verdict"] for results in data_sets},
    }


def in_short(results: DataSetResults) -> str:
    """Return where BMCD loses and wins; Tastes and its blend beside the best baseline."""
    cf = f"{CF} (the paper's CF)"
    sentences = [_accuracy(results), _diversity(results, MAIN, CF, cf), _ahead_in_all(results), _cutoff(results)]
    sentences += [beside_best_baseline(results, name) for name in (TASTES, BLEND)]
    return " ".join([f"**{results.name}.**", *filter(None, sentences)])


def beside_best_baseline(results: DataSetResults, method: str) -> str:
    """Return whether a method is ahead of the most accurate baseline in accuracy, and where in diversity."""
    baseline = results.best_baseline
    gap = against(results.ahead_of_best_baseline[method], f"{baseline} (the best baseline)")
    accuracy = f"{method} has {percent(results.measure(method, 'accuracy'))} and is {gap}."
    return f"{accuracy} {_diversity(results, method, baseline, baseline)}"


def _diversity(results: DataSetResults, method: str, other: str, called: str) -> str:
    ours, theirs = ({measure: results.measure(name, measure) for measure in DIVERSITY} for name in (method, other))
    return diversity_against(called, ours, theirs)


def _accuracy(results: DataSetResults) -> str:
    accuracy, c = results.measure(MAIN, "accuracy"), results.variants[MAIN].n_clusters
    sentences = [f"Of BMCD's recommendations {percent(accuracy)} are hits (C = {c})."]
    gaps = {name: results.differences[name] for name in results.ranked_baselines}
    ahead = [f"{name} by {points(gap)}" for name, gap in gaps.items() if gap.sign > 0]
    level = [f"{name} ({points(gap, signed=True)})" for name, gap in gaps.items() if gap.sign == 0]
    behind = [f"{name} by {points(gap)}" for name, gap in gaps.items() if gap.sign < 0]
    loses = f"It loses to {len(ahead)} of {len(gaps)} baselines: to"
    by_place = {loses: ahead, "It does not differ significantly from": level, "It beats": behind}
    sentences += [f"{start} {and_list(baselines)}." for start, baselines in by_place.items() if baselines]
    return " ".join(sentences)


def diversity_against(other: str, ours: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    """Return where a method is ahead of another in diversity, where level as far as is shown, and where behind.

    >>> same = dict.fromkeys(DIVERSITY, 0.5)
    >>> print(diversity_against("ALS", same | {"novelty": 5.0}, same | {"novelty": 6.0}))  # doctest: +ELLIPSIS
    Against ALS it is level in coverage 0.500, ... and behind in novelty 5.00 against 6.00.
    """
    places: dict[str, list[str]] = {"ahead": [], "level": [], "behind": []}
    for measure, (name, number_format, better) in DIVERSITY.items():
        value, beside = (number_format.format(values[measure]).replace("%", " %") for values in (ours, theirs))
        if value == beside:
            places["level"].append(f"{name} {value}")
        else:
            place = "ahead" if better * (ours[measure] - theirs[measure]) > 0 else "behind"
            places[place].append(f"{name} {value} against {beside}")
    parts = [f"{place} in {', '.join(measures)}" for place, measures in places.items() if measures]
    return f"Against {other} it is {and_list(parts)}."


def _ahead_in_all(results: DataSetResults) -> str:
    """Name the baselines that leave BMCD nothing but its probabilities."""
    names = [
        name
        for name in results.ranked_baselines
        if results.differences[name].sign > 0
        and all(
            better * (results.measure(name, measure) - results.measure(MAIN, measure)) > 0
            for measure, (_, _, better) in DIVERSITY.items()
        )
    ]
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return f"{and_list(names)} {verb} ahead of it in accuracy and in all {len(DIVERSITY)} measures of diversity."


def _cutoff(results: DataSetResults) -> str:
    baseline = results.best_baseline
    target = results.measure(baseline, "accuracy")
    if results.measure(MAIN, "accuracy") >= target:
        return ""
    cutoff = smallest_cutoff(results, MAIN, target)
    if cutoff is None:
        return f"No cut-off brings it to the {percent(target)} of {baseline}, the best baseline."
    return (
        f"Recommending only what has a probability of {cutoff.cutoff:.2f} or more, it reaches the "
        f"{percent(target)} of {baseline} (best baseline) with {percent(cutoff.share, 0)} of the recommendations."
    )


def on_clusters(results: DataSetResults) -> str:
    """Return what the number of clusters, averaging, start, scale and length of the chains change."""
    sentences = [f"**{results.name}.**", *_choice(results)]
    accuracies = {fit.n_clusters: results[fit.name]["measures"]["accuracy"] for fit in results.fits_over_clusters}
    least, most = min(accuracies), max(accuracies)
    if least < most:
        chains = results.plan.sizes.sampling["chains"]
        sentences.append(
            f"With {chains} chains averaged, accuracy is {percent(accuracies[least])} at C = {least} and "
            f"{percent(accuracies[most])} at C = {most}."
        )
    more = results.plan.sizes.more_chains > 0
    averages = _averages(results, replace(results.variants[MAIN], more=more))
    if len(averages) > 1:
        chains = and_list([str(n) for n in averages])
        sentences.append(f"At the C chosen, averages of {chains} chains have {and_list(list(averages.values()))}.")
    if more:
        largest = and_list(list(_averages(results, Fit(most, more=True)).values()))
        sentences.append(f"At C = {most}, the largest, they have {largest}.")
    return " ".join([*sentences, *_variants(results)])


def _choice(results: DataSetResults) -> list[str]:
    choice = results.choice
    candidates = choice.held_out.index.tolist()
    elbow = f"its elbow at {choice.elbow}; of the numbers that were fitted {choice.larger} is taken for it"
    behind = f"within a standard error of the best, {choice.best}"
    sentences = [
        f"The k-means curve has {'no elbow' if choice.elbow is None else elbow}.",
        f"Held-out likelihood chooses {choice.recommended} of {and_list([str(c) for c in candidates])}: "
        f"{'the best' if choice.recommended == choice.best else behind}.",
    ]
    if len(candidates) > 1 and choice.best == candidates[-1]:
        sentences.append("The best is the largest tried: more may be better still.")
    if len(candidates) > 1 and choice.recommended == candidates[0]:
        sentences.append("It is the smallest tried: fewer might do as well.")
    return sentences


def _averages(results: DataSetResults, fit: Fit) -> dict[int, str]:
    """Return the mean accuracy of averages over chains, by their number."""
    return {
        averaged["chains"]: percent(float(np.mean([group["accuracy"] for group in averaged["groups"]])))
        for averaged in results[fit.name]["averaged"]
    }


def _variants(results: DataSetResults) -> list[str]:
    sizes, variants = results.plan.sizes, results.variants
    convergence = results.main["convergence"]
    state = "have converged" if convergence["converged"] else "have not converged"
    sentences = [f"The chains {state} (largest R-hat {_rhat(convergence)})."]
    for name in list(variants)[1:]:
        fit, gap = variants[name], points(results.differences[name], signed=True)
        if fit.longer:
            sweeps = sizes.sampling["warmup"] * sizes.warmup_factor
            rhat = _rhat(results.methods[name]["convergence"])
            sentences.append(f"With {sweeps} sweeps of warm-up (largest R-hat {rhat}) accuracy changes by {gap}.")
        elif fit.more:
            chains = f"{sizes.more_chains} chains instead of {sizes.sampling['chains']}"
            sentences.append(f"Averaging {chains} changes it by {gap}.")
        elif fit.rank_scale != "linear":
            sentences.append(f"Ranks on a square root scale, decided on beforehand, change it by {gap}.")
        elif fit.start == "popularity":
            same_c = next(other for other in variants if variants[other] == replace(fit, start="kmeans"))
            gap = points(results.difference(name, same_c), signed=True)
            sentences.append(
                f"The paper's start, from popularity, instead of k-means changes it by {gap} at the same C."
            )
    return sentences


def _rhat(convergence: Mapping[str, Any]) -> str:
    rhat = convergence["largest_rhat"]
    return "above 10" if rhat is None or rhat > 10 else f"{rhat:.2f}"
