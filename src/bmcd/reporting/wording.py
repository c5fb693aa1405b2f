"""What a report says in plain words, without markup: summary, headline numbers, sentences of sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from bmcd.blend.blend import Blend
from bmcd.evaluation import ItemCounts, PairedDifference
from bmcd.inference.diagnostics import MIN_DRAWS
from bmcd.models.clusters import ClusterSummary
from bmcd.models.estimator import clone
from bmcd.models.tastes import Tastes
from bmcd.reporting.choices import ExampleUser
from bmcd.reporting.context import LEAST_KEPT, Context, ContextForK, Cutoff
from bmcd.reporting.page import counted, in_100, next_clicks, percent
from bmcd.utils import and_list

# A difference between predicted and observed hits that is too small to matter.
NEAR = 0.015
# Showing less than this share of the items that the best baseline shows is a warning.
FEW_SHOWN = 0.8
# Groups to which a user belongs with a smaller probability are not named.
LEAST_MEMBERSHIP = 0.05
# More groups than this are folded away.
MOST_CARDS = 12
Light = Literal["good", "look", "bad", "none"]
LIGHT_OF: dict[str, Light] = {"about right": "good", "cautious": "look", "too high": "bad"}


def n_groups(context: Context) -> str:
    """Return how many groups or tastes there are; "" if there are none."""
    grouping = context.grouping
    return "" if grouping is None else counted(grouping.n_clusters_, group_word(context))


def group_word(context: Context) -> str:
    """Return what the model's clusters are called: a user belongs to a group, and has tastes."""
    return "taste" if context.has_tastes else "group"


def cluster_name(context: Context, cluster: ClusterSummary) -> str:
    """Return what a group or taste is called: its number, and its name if it has one."""
    name = f" ({cluster.name})" if cluster.name else ""
    return f"{group_word(context).capitalize()} {cluster.cluster}{name}"


def n_test_clicks(context: Context) -> str:
    """Return how many clicks of a user were held out."""
    counts = context.test_clicks
    fewest, most = int(counts.min()), int(counts.max())
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,} (on average {counts.mean():.1f})"


def summary(context: Context, for_k: ContextForK) -> list[str]:
    """Return the report in a few sentences."""
    if for_k.comparison is not None:
        return [
            hits(context, for_k),
            f"{predicted(for_k)} {mismatch(context, for_k)}".strip(),
            *([own_ranking(context)] if own_ranking(context) else []),
            *([best(for_k), against_baselines(for_k)] if context.others else []),
            diversity(context, for_k),
            cutoff(half_the_time(for_k)),
            _verdict(context),
        ]
    clicks, lists = context.clicks, for_k.lists
    probability = float(lists.values["probability"][lists.items >= 0].mean())
    n_shown = int((for_k.items.recommended > 0).sum())
    groups = f" and finds {n_groups(context)} of users" if context.grouping else ""
    return [
        f"The model was fitted to {clicks.n_clicks:,} clicks of {clicks.n_users:,} users on {clicks.n_items:,} "
        f"items{groups}.",
        f"Each user gets {_up_to_k(for_k)} recommendations. On average an item has a probability of "
        f"{percent(probability)} of being among the {next_clicks(for_k.k)}.",
        *([own_ranking(context)] if own_ranking(context) else []),
        f"Of the {clicks.n_items:,} items, {n_shown:,} are recommended to at least one user.",
        _verdict(context),
        "The hit rate is not known: no clicks were held out to test the recommendations.",
    ]


def best(for_k: ContextForK) -> str:
    """Return which method hits most often, and how sure that is."""
    rates = {name: entry.evaluation.accuracy for name, entry in for_k.tested.entries.items()}
    name, top = for_k.name, max(rates, key=rates.__getitem__)
    gaps = {other: of["accuracy"] for other, of in for_k.tested.differences.items()}
    if rates[name] == rates[top]:
        level = [other for other, gap in gaps.items() if gap.high >= 0]
        sure = f", though not clearly more often than {and_list(level)}" if level else ", and clearly so"
        return f"{name} works best here: it hits most often of {len(rates)} methods{sure}."
    sure = "" if gaps[top].low > 0 else "; the difference is within what chance explains"
    return f"{top} works best here: {in_100(rates[top])} are hits, {in_100(rates[name])} with {name}{sure}."


def hits(context: Context, for_k: ContextForK) -> str:
    """Return how often the recommendations were right."""
    evaluation, accuracy = for_k.evaluation, for_k.accuracy
    interval = f" (95 % interval: {percent(accuracy.low)} to {percent(accuracy.high)})"
    number, clicks = _up_to_k(for_k), test_clicks(for_k)
    items = "items recommended, one" if number == "1" else f"{number} items recommended"
    return (
        f"Of the {items} to each of {evaluation.n_users_with_list:,} users, "
        f"{in_100(evaluation.accuracy)} were {'' if clicks.endswith('next click') else 'among '}{clicks}"
        f"{interval if accuracy.low < accuracy.high else ''}; for items chosen at random it would "
        f"be {in_100(context.chance(for_k))}."
    )


def test_clicks(for_k: ContextForK) -> str:
    """Return what counts as a hit, where there is a test."""
    horizon = for_k.evaluation.horizon
    return "the clicks held out" if horizon is None else f"the user's {next_clicks(horizon)}"


def split(for_k: ContextForK) -> str:
    """Return which clicks the model was tested on, where there is a test."""
    about = "; ".join(for_k.tested.about_the_test)
    return f"{about[0].upper()}{about[1:]}." if about else ""


def own_ranking(context: Context) -> str:
    """Return what the probabilities of a model of rankings refer to; "" for a blend."""
    if isinstance(context.model, Blend):
        return ""
    name = type(context.model).__name__
    return (
        f"The probability refers to the model's own ranking of the items, not to the order in which users click: "
        f"for calibrated probabilities of the next clicks use Blend({name}(...))."
    )


def judgement(for_k: ContextForK) -> str:
    """Return "cautious", "too high" or "about right": the mean probability against the interval of the hit rate.

    With many users the interval is narrow: a mean within `NEAR` of the hit rate counts as about right, too.
    """
    calibration, accuracy = for_k.calibration, for_k.accuracy
    if calibration.mean_probability < min(accuracy.low, calibration.hit_rate - NEAR):
        return "cautious"
    high = max(accuracy.high, calibration.hit_rate + NEAR)
    return "too high" if calibration.mean_probability > high else "about right"


def predicted(for_k: ContextForK) -> str:
    """Return whether the probabilities are right, in words and numbers."""
    calibration = for_k.calibration
    return (
        f"The probabilities are {judgement(for_k)}: predicted {percent(calibration.mean_probability)}, observed "
        f"{percent(calibration.hit_rate)}."
    )


def mismatch(context: Context, for_k: ContextForK) -> str:
    """Return a warning where not k clicks of each user were held out, to which the probabilities refer; or ""."""
    counts, calibration = context.test_clicks, for_k.calibration
    if not is_mismatched(context, for_k):
        return ""
    fewer = bool(counts.mean() < for_k.k)
    start = (
        f"Note that they refer to a user's {next_clicks(for_k.k)}, while {n_test_clicks(context)} clicks of each "
        f"user were held out: {'fewer' if fewer else 'more'} can hit than with {for_k.k}"
    )
    if fewer == (calibration.hit_rate < calibration.mean_probability):
        return f"{start}, which explains the difference, or a part of it."
    return f"{start}, and still {'more' if fewer else 'fewer'} did than predicted."


def is_mismatched(context: Context, for_k: ContextForK) -> bool:
    """Return whether the probabilities refer to another number of clicks than were held out."""
    return for_k.evaluation.horizon is None and bool((context.test_clicks != for_k.k).any())


def why(context: Context, for_k: ContextForK) -> str:
    """Return why the probabilities are not right, and what to do about it; or ""."""
    judged = judgement(for_k)
    if judged == "too high":
        return "Do not rely on these numbers: choose a cut-off by the observed hits, as below."
    if judged == "cautious" and not isinstance(context.model, Blend) and for_k.evaluation.horizon is None:
        return (
            "Part of the difference comes from the test: items held out at random are liked as much as those in "
            "the training clicks, while the model assumes that items without a click are liked less. So more "
            "of them are hits than predicted. The order of the recommendations does not change."
        )
    return ""


def against_baselines(for_k: ContextForK) -> str:
    """Return which baselines hit more often than the model, which less often, and which show no difference."""
    gaps = {name: differences["accuracy"] for name, differences in for_k.tested.differences.items()}
    better = {name: gap for name, gap in gaps.items() if gap.low > 0}
    worse = {name: gap for name, gap in gaps.items() if gap.high < 0}
    same = [name for name in gaps if name not in better and name not in worse]
    parts = [_hit_how_often(better, f"more often than {for_k.name}")] if better else []
    if worse:
        parts.append(_hit_how_often(worse, "less often" if better else f"less often than {for_k.name}"))
    if same:
        parts.append(f"between {for_k.name} and {and_list(same)} there is no clear difference")
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]


def diversity(context: Context, for_k: ContextForK) -> str:
    """Return how many items are shown, and how many of the recommendations are rare ones."""
    evaluations = {name: entry.evaluation for name, entry in for_k.tested.entries.items()}
    shown = {name: f"{round(each.coverage * each.n_items):,}" for name, each in evaluations.items()}
    rare = {name: percent(each.rare_share) for name, each in evaluations.items()}

    def of_others(numbers: dict[str, str]) -> str:
        others = ", ".join(f"{name} {number}" for name, number in numbers.items() if name != for_k.name)
        return f" ({others})" if others else ""

    name, n_items = for_k.name, context.clicks.n_items
    return (
        f"{name} recommends {shown[name]} of the {n_items:,} items to at least one user{of_others(shown)}; "
        f"{rare[name]} of its recommendations are rare items, those outside the {context.n_popular:,} most clicked"
        f"{of_others(rare)}."
    )


def prices(context: Context, for_k: ContextForK) -> list[str]:
    """Return what the model gives up or gains in diversity: a sentence for each that hits about as often."""
    texts = []
    for price in for_k.prices:
        if not price.nearly_equal:
            continue
        shown = round(price.coverage.difference * context.clicks.n_items)
        parts = [_more_or_fewer(shown, "item") if shown else "as many items"]
        if price.rare_share.clear:
            rare = price.rare_share.difference
            parts.append(f"{100 * abs(rare):.1f} points {'more' if rare > 0 else 'fewer'} rare items")
        else:
            parts.append("about as many rare ones")
        texts.append(f"At about the hits of {price.other}, {for_k.name} shows {and_list(parts)}.")
    return texts or [f"No other method hits about as often as {for_k.name}."]


def cutoff(chosen: Cutoff | None) -> str:
    """Return what it takes to be right as often as the cut-off was chosen for."""
    if chosen is None:
        return "No cut-off helps: none of the recommendations were hits."
    if chosen.probability == 0.0:
        return (
            f"To be right {how_often(chosen.wanted)}, no cut-off is needed: {percent(chosen.hit_rate)} of all "
            "recommendations were hits."
        )
    return (
        f"To be right {how_often(chosen.wanted)}, recommend only items with a probability of at least "
        f"{100 * chosen.probability:.2f} %. This keeps {percent(chosen.share)} of the recommendations "
        f"({chosen.n:,}), {chosen.per_user:.1f} per user on average; {chosen.n_users:,} of {chosen.of_users:,} "
        "users get at least one."
    )


def how_often(rate: float) -> str:
    """Return a hit rate in words.

    >>> how_often(0.5), how_often(0.75)
    ('half the time', '75 % of the time')
    """
    return "half the time" if rate == 0.5 else f"{percent(rate)} of the time"


def half_the_time(for_k: ContextForK) -> Cutoff | None:
    """Return the cut-off for being right half the time, or the nearest to it that there is."""
    nearest = sorted(for_k.cutoffs, key=lambda chosen: (abs(chosen.wanted - 0.5), chosen.wanted))
    return nearest[0] if nearest else for_k.best_cutoff


def reach(for_k: ContextForK) -> str:
    """Return which hit rate cannot be reached, and what a cut-off is worth on other clicks; or ""."""
    if for_k.best_cutoff is None:
        return ""
    least = min(LEAST_KEPT, len(for_k.calibration.hit))
    best = for_k.best_cutoff.hit_rate
    most = "Even all hits can" if best == 1 else f"More than {percent(best)} cannot"
    return (
        f"{most} be reached here (at least {least} recommendations must remain, because a few can all be hits by "
        "chance). Cut-offs are chosen on these test clicks: on other clicks, expect slightly less."
    )


def _up_to_k(for_k: ContextForK) -> str:
    items = for_k.lists.items
    return f"{for_k.k}" if items.shape[1] == for_k.k and (items >= 0).all() else f"up to {for_k.k}"


def _more_or_fewer(number: int, what: str) -> str:
    return counted(abs(number), f"{'more' if number > 0 else 'fewer'} {what}")


def _hit_how_often(gaps: dict[str, PairedDifference], how_often: str) -> str:
    names = []
    for name, gap in gaps.items():
        low, high = sorted(100 * abs(end) for end in (gap.low, gap.high))
        names.append(f"{name} ({100 * abs(gap.difference):.1f} points; {low:.1f} to {high:.1f})")
    return f"{and_list(names)} {'hits' if len(names) == 1 else 'hit'} {how_often}"


def convergence(context: Context) -> str:
    """Return whether the probabilities of a blend are stable over time, or whether the chains have converged."""
    model = context.model
    if not isinstance(model, Blend):
        return converged(model)
    verdicts = {name: part.verdict_ for name, part in context.sampled.items()}
    bad = [f"{name}: {verdict.text}" for name, verdict in verdicts.items() if not verdict.converged]
    return " ".join([model.verdict_.text, *bad])


def _verdict(context: Context) -> str:
    """Return the same as a sentence of the summary."""
    text = convergence(context)
    return f"Over time: {text[0].lower()}{text[1:]}" if isinstance(context.model, Blend) else text


def converged(judged: Any) -> str:
    """Return whether the chains of a sampled model have converged."""
    verdict, draws = judged.verdict_, judged.draws_
    runs = f"its {draws.n_chains} independent runs"
    if verdict.converged:
        if draws.n_chains == 1:
            return "The calculation has converged, but in one run only: another run might give other results."
        if isinstance(judged, Tastes):
            return f"The calculation has converged: runs other than {runs} would change the probabilities little."
        return f"The calculation has converged: {runs} agree."
    if draws.n_draws < MIN_DRAWS:
        return "Whether the calculation has converged cannot be assessed: it was too short."
    if verdict.stuck_chains:
        return "The calculation is stuck: do not use this report, and run the fit again."
    if verdict.state == "too short":
        return "The calculation has nearly converged, but was too short to be sure: run it longer."
    if verdict.state == "stopped":
        return "The calculation was stopped before it had converged: let it finish."
    if draws.n_chains == 1:
        return (
            "The calculation has not converged: its one run is still changing. Run it longer, and use several runs."
        )
    return (
        f"The calculation has not converged: {runs} do not agree yet. Recommendations are averaged over the runs, "
        "which is still the best answer, but groups and probabilities may change in a longer run."
    )


class Headline(NamedTuple):
    """One of the numbers at the top of the page, with a light."""

    label: str
    value: str
    light: Light
    text: str


def headlines(context: Context, for_k: ContextForK) -> list[Headline]:
    """Return hits, calibration, coverage and the verdict, as far as they are known."""
    found = [_shown(context, for_k), _verdict_headline(context)]
    if for_k.comparison is None:
        untested = "No clicks were held out to test the recommendations."
        return [Headline("Hits", "not known", "none", untested), *found]
    return [_predicted(context, for_k), _hits(context, for_k), *found]


def best_other(for_k: ContextForK) -> str | None:
    """Return which other method hits most often; None without any."""
    return max(for_k.baseline_accuracies, key=for_k.baseline_accuracies.__getitem__, default=None)


def _hits(context: Context, for_k: ContextForK) -> Headline:
    rate, other = for_k.evaluation.accuracy, best_other(for_k)
    if other is None:
        return Headline("Hits", in_100(rate), "none", f"Items at random: {in_100(context.chance(for_k))}.")
    gap = for_k.tested.differences[other]["accuracy"]  # the other minus the model
    light: Light = "bad" if gap.low > 0 else "look" if gap.difference > 0 else "good"
    sure = "clear" if gap.low > 0 or gap.high < 0 else "not clear"
    text = f"{other}, the best other method: {in_100(for_k.baseline_accuracies[other])}. The difference is {sure}."
    return Headline("Hits", in_100(rate), light, text)


def _predicted(context: Context, for_k: ContextForK) -> Headline:
    calibration, horizon = for_k.calibration, for_k.evaluation.horizon
    label = "Calibration" if horizon is None else next_clicks(horizon).capitalize()
    value = f"{percent(calibration.mean_probability)} predicted, {percent(calibration.hit_rate)} observed"
    if is_mismatched(context, for_k):
        text = (
            f"Not comparable: predicted for the {next_clicks(for_k.k)}, but {n_test_clicks(context)} clicks were "
            "held out."
        )
        return Headline(label, value, "none", text)
    judged = judgement(for_k)
    return Headline(label, value, LIGHT_OF[judged], f"The probabilities are {judged}.")


def _shown(context: Context, for_k: ContextForK) -> Headline:
    n_items = context.clicks.n_items
    own = int((for_k.items.recommended > 0).sum())
    value, other = f"{own:,} of {n_items:,} items", None if for_k.comparison is None else best_other(for_k)
    if other is None:
        return Headline("Shown", value, "none", "Items recommended to at least one user.")
    theirs = round(for_k.tested.value(other, "coverage") * n_items)
    light: Light = "good" if own >= theirs else "look" if own >= FEW_SHOWN * theirs else "bad"
    return Headline("Shown", value, light, f"{other}: {theirs:,}.")


def _verdict_headline(context: Context) -> Headline:
    state, bad = context.model.verdict_.state, "See below what to do."
    if not isinstance(context.model, Blend):
        if state == "converged":
            return Headline("Converged", "yes", "good", "More runs would change little.")
        value = {"too short": "not sure", "stopped": "stopped"}.get(state, "no")
        return Headline("Converged", value, "bad" if state == "not converged" else "look", bad)
    if state == "converged":
        n = len(context.model.windows_)
        if not n:
            return Headline("Over time", "not known", "none", "The log has no order.")
        return Headline("Over time", "calibrated", "good", f"In each of {n} past windows.")
    if state == "too short":
        return Headline("Over time", "not known", "look", "Not enough history.")
    return Headline("Over time", "not stable", "bad", bad)


def popular_share(counts: ItemCounts, numbers: Any) -> str:
    """Return the share of the popular items in numbers for each item."""
    return percent(int(numbers[-counts.n_popular :].sum()) / max(1, int(numbers.sum())))


def settings(model: Any) -> str:
    """Return the settings of a model, without what a fit adds to its repr."""
    return repr(clone(model) if hasattr(model, "get_params") else model)


def all_settings(models: Mapping[str, Any]) -> str:
    """Return the settings of several models by name."""
    return "; ".join(f"{name}: {settings(model)}" for name, model in models.items())


def with_ends(values: Iterable[float | None], unit: float = 100.0, digits: str = ".1f") -> str:
    """Return a difference with its interval, if it has one.

    >>> with_ends([0.1, -0.02, 0.25]), with_ends([3, None, None], 1, ".0f")
    ('+10.0 (-2.0 to +25.0)', '+3')
    """
    middle, *ends = (f"{unit * value:+z{digits}}" for value in values if value is not None)
    return f"{middle} ({' to '.join(ends)})" if ends else middle


def difference(gap: PairedDifference, sign: int = 1) -> str:
    """Return a difference between two methods in points; sign -1 swaps them."""
    return with_ends([sign * end for end in (gap.difference, *(gap.low, gap.high)[::sign])])


def cutoff_steps(context: Context) -> dict[str, list[list[str]]]:
    """Return, for scripts, what the slider over hit rates shows at each step, for each k."""
    return {
        str(for_k.k): [[percent(step.wanted), cutoff(step)] for step in for_k.cutoffs] for for_k in context.by_k
    }


def shares(of: Mapping[str, float]) -> str:
    """Return the share of each member in words."""
    return and_list([f"{name} {percent(share)}" for name, share in of.items()])


def popular_shares(for_k: ContextForK) -> str:
    """Return the share of the popular items in the recommendations of each method."""
    found = for_k.items_by_method.items()
    return ", ".join(f"{name} {popular_share(counts, counts.recommended)}" for name, counts in found)


def membership(context: Context, user: ExampleUser) -> str:
    """Return to which groups a user belongs, or which tastes a user has; or ""."""
    word = group_word(context)
    likely = [f"{word} {c} ({percent(p)})" for c, p in user.memberships if p >= LEAST_MEMBERSHIP]
    if not likely or len(user.memberships) < 2:
        return ""
    return f" {'Visits' if context.has_tastes else 'Belongs to'} {and_list(likely)}."
