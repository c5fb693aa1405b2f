"""What was found, in sentences made from the numbers, so that they are true for other data and seeds as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bmcd.system.text import and_list
from experiments.case_study.study import CF, MAIN, Difference, Study
from experiments.case_study.tables import over_clusters, papers, reaching
from experiments.document import percent

# More is better for the first two of these, and for novelty; less for similarity.
DIVERSITY = {
    "coverage": ("coverage", "{:.3f}", 1),
    "correct_coverage": ("correct coverage", "{:.3f}", 1),
    "rare_share": ("the share of rare recommendations", "{:.1%}", 1),
    "users_with_rare_share": ("the share of users with a rare one", "{:.1%}", 1),
    "novelty": ("novelty", "{:.2f}", 1),
    "intra_list_similarity": ("intra-list similarity (less is more diverse)", "{:.2f}", -1),
}


def what_was_run(studies: Sequence[Study], quick: bool) -> list[str]:
    """The protocol, and how much was computed."""
    of = studies[0].sizes
    own = any(study.data.is_own for study in studies)
    where = "your own clicks" if own else "public clicks, as NRK's are not public"
    found = [
        f"The protocol of the paper's case study, on {where}: only the most clicked items and users with enough "
        "clicks on them are kept, some clicks of each user are removed at random, and every method recommends as "
        "many items. A recommendation is a hit if it is among the removed clicks.",
        f"BMCD: the exact sampler, {of.chains} chains of {of.warmup} + {of.draws} sweeps, probabilities averaged "
        f"over {of.used} draws of each chain; C is chosen on training clicks by the log-likelihood of held-out "
        f"users ({of.choice_chains} chains of {of.choice_warmup} + {of.choice_draws} sweeps). The rivals were "
        f"tuned by {of.folds}-fold cross-validation over training clicks. No choice made here has seen the "
        "removed clicks. Differences are paired, user by user, with 95 % bootstrap intervals over users; what "
        "another seed of the chains would change is not in them, so small differences between fits of BMCD mean "
        "little (see how far single chains lie apart, below).",
    ]
    if not own:
        found.append("The paper's own numbers on NRK's clicks stand beside ours as context, not as a target.")
    if why := next((study.without_spark for study in studies if study.without_spark), ""):
        found.append(f"The paper's own rival, the ALS of Spark's MLlib, was left out: {why}.")
    if quick:
        found.insert(0, "**Quick form: a few users, items and sweeps. It shows that everything runs, no more.**")
    return found


def in_short(study: Study) -> str:
    """Where BMCD loses and where it wins on one data set."""
    said = [_accuracy(study), _diversity(study), _outdone(study), _cutoff(study)]
    return " ".join([f"**{study.name}.**", *filter(None, said)])


def _accuracy(study: Study) -> str:
    own = study.measure(MAIN, "accuracy")
    fit = study.roles.main
    said = [f"Of BMCD's recommendations {percent(own)} are hits (C = {fit.n_clusters})."]
    rivals = {name: study.differences[name] for name in study.methods if name in study.rivals}
    behind = [f"{name} by {_points(gap)}" for name, gap in rivals.items() if gap.sign > 0]
    level = [f"{name} ({_points(gap, signed=True)})" for name, gap in rivals.items() if gap.sign == 0]
    ahead = [f"{name} by {_points(gap)}" for name, gap in rivals.items() if gap.sign < 0]
    if behind:
        said.append(f"It loses to {len(behind)} of {len(rivals)} rivals: to {and_list(behind)}.")
    if level:
        said.append(f"It cannot be told apart from {and_list(level)}.")
    if ahead:
        said.append(f"It beats {and_list(ahead)}.")
    return " ".join(said)


def _diversity(study: Study) -> str:
    ours, theirs = ({measure: study.measure(name, measure) for measure in DIVERSITY} for name in (MAIN, CF))
    return against_cf(ours, theirs)


def against_cf(ours: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    """Where BMCD is ahead of CF in diversity, where level as far as is shown, and where behind.

    >>> same = dict.fromkeys(DIVERSITY, 0.5)
    >>> print(against_cf(same | {"novelty": 5.0}, same | {"novelty": 6.0}))  # doctest: +ELLIPSIS
    Against ALS, the paper's CF, it is level in coverage 0.500, ... and behind in novelty 5.00 against 6.00.
    """
    places: dict[str, list[str]] = {"ahead": [], "level": [], "behind": []}
    for measure, (name, form, better) in DIVERSITY.items():
        own, other = (form.format(values[measure]).replace("%", " %") for values in (ours, theirs))
        if own == other:
            places["level"].append(f"{name} {own}")
        else:
            where = "ahead" if better * (ours[measure] - theirs[measure]) > 0 else "behind"
            places[where].append(f"{name} {own} against {other}")
    said = [f"{where} in {', '.join(told)}" for where, told in places.items() if told]
    return f"Against {CF}, the paper's CF, it is {and_list(said)}."


def _outdone(study: Study) -> str:
    """Rivals that leave BMCD nothing but its probabilities."""
    names = [
        name
        for name in study.methods
        if name in study.rivals
        and study.differences[name].sign > 0
        and all(
            better * (study.measure(name, measure) - study.measure(MAIN, measure)) > 0
            for measure, (_, _, better) in DIVERSITY.items()
        )
    ]
    if not names:
        return ""
    are = "is" if len(names) == 1 else "are"
    return f"{and_list(names)} {are} ahead of it in accuracy and in all {len(DIVERSITY)} measures of diversity."


def _cutoff(study: Study) -> str:
    own, target = (study.measure(name, "accuracy") for name in (MAIN, study.best_rival))
    if own >= target:
        return ""
    found = reaching(study, target)
    if found is None:
        return f"No cut-off brings it to the {percent(target)} of {study.best_rival}, the best rival."
    cut, share, _ = found
    return (
        f"Recommending only what has a probability of {cut:.2f} or more, it reaches the {percent(target)} of "
        f"{study.best_rival}, the best rival, with {percent(share, 0)} of the recommendations."
    )


def on_clusters(study: Study) -> str:
    """What the number of clusters, averaging, start, scale and length of the chains change."""
    found, chains = study.choice, study.sizes.chains
    said = [f"**{study.name}.**"]
    if found.elbow is None:
        said.append("The k-means curve has no elbow.")
    else:
        larger = f"; of the numbers that were fitted {found.larger} is taken for it"
        said.append(f"The k-means curve has its elbow at {found.elbow}{larger}.")
    numbers = found.held_out.index.tolist()
    how = "the best" if found.recommended == found.best else f"within a standard error of the best, {found.best}"
    said.append(f"Held-out likelihood chooses {found.recommended} of {and_list([str(c) for c in numbers])}: {how}.")
    if len(numbers) > 1 and found.best == numbers[-1]:
        said.append("The best is the largest tried: more may be better still.")
    if len(numbers) > 1 and found.recommended == numbers[0]:
        said.append("It is the smallest tried: fewer might do as well.")
    fits = over_clusters(study)
    by_c = {fit.n_clusters: study.accuracy_of(study.fits[fit]) for fit in fits}
    least, most = min(by_c), max(by_c)
    if least < most:
        said.append(
            f"With {chains} chains averaged, accuracy is {percent(by_c[least])} at C = {least} and "
            f"{percent(by_c[most])} at C = {most}."
        )
    groups = study.fits[study.roles.more or study.roles.main]["averaged"]
    if len(groups) > 1:
        means = [np.mean([group["accuracy"] for group in one["groups"]]) for one in groups]
        said.append(
            f"At the C chosen, averages of {and_list([str(one['chains']) for one in groups])} chains have "
            f"{and_list([percent(float(mean)) for mean in means])}."
        )
    if (most_of := study.roles.more_largest) is not None and study.roles.more is not None:
        averaged = study.fits[most_of]["averaged"]
        means = [np.mean([group["accuracy"] for group in one["groups"]]) for one in averaged]
        said.append(
            f"At C = {most_of.n_clusters}, the largest, they have {and_list([percent(float(x)) for x in means])}."
        )
    return " ".join([*said, *_variants(study)])


def _variants(study: Study) -> list[str]:
    said = []
    told = study.main["convergence"]
    state = "The chains have converged" if told["converged"] else "The chains have not converged"
    said.append(f"{state} (largest R-hat {_shown(told['largest_rhat'])}).")
    names = list(study.variants)
    for name in names[1:]:
        fit, result = study.variants[name], study.methods[name]
        if fit.longer:
            rhat = _shown(result["convergence"]["largest_rhat"])
            sweeps = study.sizes.warmup * study.sizes.longer
            gap = _points(study.differences[name], signed=True)
            said.append(f"With {sweeps} sweeps of warm-up (largest R-hat {rhat}) accuracy changes by {gap}.")
        elif fit.more:
            gap = _points(study.differences[name], signed=True)
            said.append(f"Averaging {study.sizes.more} chains instead of {study.sizes.chains} changes it by {gap}.")
        elif fit.rank_scale != "linear":
            gap = _points(study.differences[name], signed=True)
            said.append(f"Ranks on a square root scale, decided on beforehand, change it by {gap}.")
        elif fit.start == "popularity":
            base = next((other for other in names if study.variants[other] == _from_kmeans(study)), MAIN)
            gap = _points(study.difference(name, base), signed=True)
            said.append(
                f"The paper's start, from popularity, instead of k-means changes it by {gap} at the same C."
            )
    return said


def _from_kmeans(study: Study) -> object:
    return study.roles.elbow or study.roles.main


def on_probabilities(study: Study) -> str:
    """Promise and hit rate, and why they differ."""
    found = study.calibration
    promised, hit_rate = percent(found.mean_probability), percent(found.hit_rate)
    order, quarter = np.argsort(found.probability, kind="stable"), max(len(found.hit) // 4, 1)
    least, most = (percent(float(found.hit[part].mean()), 1) for part in (order[:quarter], order[-quarter:]))
    rises = f"Of the least probable quarter {least} were hits, of the most probable {most}."
    paper = papers(study)
    told = ""
    if paper and "cutoff" in paper:
        cut = paper["cutoff"]
        told = (
            f" (The paper, on {paper['called']}: a cut-off of {cut['cutoff']} reaches "
            f"{percent(cut['accuracy'], 0)} and keeps {percent(cut['share'], 0)}.)"
        )
    said = f"The probabilities promise {promised} on average, and {hit_rate} were hits."
    gain = round(found.uncertainty, 4) - round(found.brier, 4)
    better = "better than" if gain > 0 else "worse than" if gain < 0 else "as good as"
    rises += (
        f" As forecasts they are {better} giving every recommendation the overall hit rate (Brier score "
        f"{found.brier:.4f} against {found.uncertainty:.4f}); that rate is known only afterwards."
    )
    return f"**{study.name}.** {said} {rises}{told}"


def _points(gap: Difference, *, signed: bool = False) -> str:
    """A difference in points with its interval; without a sign where the sentence says who is ahead.

    >>> _points(Difference(-0.02, -0.03, -0.01)), _points(Difference(0.02, -0.01, 0.05), signed=True)
    ('2.00 points (1.00 to 3.00)', '+2.00 points (-1.00 to +5.00)')
    """
    value, low, high = (100 * number for number in (gap.value, gap.low, gap.high))
    if signed:
        return f"{value:+.2f} points ({low:+.2f} to {high:+.2f})"
    low, high = sorted((abs(low), abs(high)))
    return f"{abs(value):.2f} points ({low:.2f} to {high:.2f})"


def _shown(rhat: float | None) -> str:
    return "above 10" if rhat is None or rhat > 10 else f"{rhat:.2f}"
