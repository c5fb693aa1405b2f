"""What a report says in plain words, for the summary and for the sections. Nothing here is markup."""

from __future__ import annotations

from collections.abc import Sequence

from bmcd.blend.blend import Blend
from bmcd.evaluation import PairedDifference
from bmcd.evaluation.diversify import Price
from bmcd.models.tastes import Tastes
from bmcd.reporting.reliability import convergence
from bmcd.reporting.results import LEAST_KEPT, Cutoff, Results, ResultsForK
from bmcd.utils import and_list

# A difference between predicted and observed hits on which nobody would act.
NEAR = 0.015


def hundredths(share: float) -> str:
    """Return a share in hundredths, with as many digits as a reader needs.

    >>> hundredths(0.2345), hundredths(0.0234), hundredths(0.0), hundredths(0.00001), hundredths(0.999)
    ('23', '2.3', '0', 'under 0.1', '99.9')
    """
    number = 100 * share
    if 0 < number < 0.05:
        return "under 0.1"
    return f"{number:.1f}" if 0 < number < 9.95 or 99.05 <= number < 99.95 else f"{number:.0f}"


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.2345)
    '23 %'
    """
    return f"{hundredths(share)} %"


def in_100(share: float) -> str:
    """Return a share as so many in 100.

    >>> in_100(0.2345), in_100(0)
    ('23 in 100', 'none')
    """
    return "none" if share == 0 else f"{hundredths(share)} in 100"


def how_often(rate: float) -> str:
    """Return a hit rate as words.

    >>> how_often(0.5), how_often(0.75)
    ('half the time', '75 % of the time')
    """
    return "half the time" if rate == 0.5 else f"{percent(rate)} of the time"


def counted(n: int, word: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "click"), counted(2000, "click")
    ('1 click', '2,000 clicks')
    """
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def n_groups(results: Results) -> str:
    """Return how many groups or tastes there are; "" if there are none."""
    grouping = results.grouping
    return "" if grouping is None else counted(grouping.n_clusters_, group_word(results))


def group_word(results: Results) -> str:
    """Return what the model's clusters are called: a user belongs to a group, and has tastes."""
    return "taste" if isinstance(results.grouping, Tastes) else "group"


def n_test_clicks(results: Results) -> str:
    """Return how many clicks of a user were held out."""
    counts = results.test_clicks
    fewest, most = int(counts.min()), int(counts.max())
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,} (on average {counts.mean():.1f})"


def summary(results: Results, for_k: ResultsForK) -> list[str]:
    """Return the report in a few sentences."""
    if for_k.comparison is not None:
        return [
            hits(results, for_k),
            f"{predicted(for_k)} {mismatch(results, for_k)}".strip(),
            *([own_ranking(results)] if own_ranking(results) else []),
            *([best(for_k)] if results.others else []),
            *([rivals(for_k)] if results.others else []),
            diversity(results, for_k),
            cutoff(half_the_time(for_k)),
            over_time(results),
        ]
    clicks, lists = results.clicks, for_k.lists
    probability = float(lists.values["probability"][lists.items >= 0].mean())
    n_shown = int((for_k.items.recommended > 0).sum())
    sorted_into = f"were sorted into {n_groups(results)}" if results.grouping else "were learned from"
    return [
        f"{clicks.n_users:,} users and their {clicks.n_clicks:,} clicks on {clicks.n_items:,} items {sorted_into}.",
        f"Each user is recommended {_up_to_k(for_k)} items, which have, on average, a probability of "
        f"{percent(probability)} to be among the {next_clicks(for_k.k)}.",
        *([own_ranking(results)] if own_ranking(results) else []),
        f"Of the {clicks.n_items:,} items {n_shown:,} are recommended to somebody.",
        over_time(results),
        "How often the recommendations hit is not known: no clicks were held out to test them.",
    ]


def over_time(results: Results) -> str:
    """Return the verdict, as a sentence of the summary."""
    text = convergence(results)
    return f"Over time: {text[0].lower()}{text[1:]}" if isinstance(results.model, Blend) else text


def best(for_k: ResultsForK) -> str:
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


def hits(results: Results, for_k: ResultsForK) -> str:
    """Return how often the recommendations were right."""
    evaluation, accuracy = for_k.evaluation, for_k.accuracy
    interval = f" (95 % interval: {percent(accuracy.low)} to {percent(accuracy.high)})"
    return (
        f"Of the {_up_to_k(for_k)} items recommended to each of {evaluation.n_users_with_list:,} users, "
        f"{in_100(evaluation.accuracy)} were among {test_clicks(for_k)}"
        f"{interval if accuracy.low < accuracy.high else ''}; items chosen at random would have hit "
        f"{in_100(results.chance(for_k))}."
    )


def next_clicks(k: int) -> str:
    """Return what a probability refers to.

    >>> next_clicks(1), next_clicks(3)
    ('next click', 'next 3 clicks')
    """
    return "next click" if k == 1 else f"next {k:,} clicks"


def test_clicks(for_k: ResultsForK) -> str:
    """Return what counts as a hit, where there is a test."""
    horizon = for_k.evaluation.horizon
    return "the clicks held out" if horizon is None else f"the user's {next_clicks(horizon)}"


def split(for_k: ResultsForK) -> str:
    """Return which clicks the model was tested on, where there is a test."""
    about = "; ".join(for_k.tested.about_the_test)
    return f"{about[0].upper()}{about[1:]}." if about else ""


def own_ranking(results: Results) -> str:
    """Return what the probabilities of a model of rankings refer to; "" for a blend."""
    if isinstance(results.model, Blend):
        return ""
    name = type(results.model).__name__
    return (
        f"The probability refers to the model's own ranking of the items, not to the order in which users really "
        f"click: for the clicks that come next, Blend({name}(...)) gives calibrated probabilities."
    )


def judgement(for_k: ResultsForK) -> str:
    """Return "cautious", "too high" or "about right": the mean probability against the interval of the hit rate.

    With many users the interval is narrow; what lies within `NEAR` of the hit rate is about right all the same.
    """
    calibration, accuracy = for_k.calibration, for_k.accuracy
    if calibration.mean_probability < min(accuracy.low, calibration.hit_rate - NEAR):
        return "cautious"
    high = max(accuracy.high, calibration.hit_rate + NEAR)
    return "too high" if calibration.mean_probability > high else "about right"


def predicted(for_k: ResultsForK) -> str:
    """Return whether the probabilities are right, in words and numbers."""
    calibration = for_k.calibration
    return (
        f"The probabilities are {judgement(for_k)}: predicted {percent(calibration.mean_probability)}, observed "
        f"{percent(calibration.hit_rate)}."
    )


def mismatch(results: Results, for_k: ResultsForK) -> str:
    """Return a warning where not k clicks of each user were held out, to which the probabilities refer; or ""."""
    counts, calibration = results.test_clicks, for_k.calibration
    if not is_mismatched(results, for_k):
        return ""
    fewer = bool(counts.mean() < for_k.k)
    start = (
        f"Note that they refer to a user's {next_clicks(for_k.k)}, while {n_test_clicks(results)} clicks of each "
        f"user were held out: {'fewer' if fewer else 'more'} can hit than with {for_k.k}"
    )
    if fewer == (calibration.hit_rate < calibration.mean_probability):
        return f"{start}, which explains the difference, or a part of it."
    return f"{start}, and still {'more' if fewer else 'fewer'} did than predicted."


def is_mismatched(results: Results, for_k: ResultsForK) -> bool:
    """Return whether the probabilities refer to another number of clicks than were held out."""
    return for_k.evaluation.horizon is None and bool((results.test_clicks != for_k.k).any())


def why(results: Results, for_k: ResultsForK) -> str:
    """Return why the probabilities are not right, and what to do about it; or ""."""
    judged = judgement(for_k)
    if judged == "too high":
        return "Do not rely on the numbers here: choose a cut-off by the observed hits, as below."
    if judged == "cautious" and not isinstance(results.model, Blend) and for_k.evaluation.horizon is None:
        return (
            "Part of that is the test itself: clicks that are held out at random are on average as well liked "
            "as those left to learn from, while the model assumes that what it has not seen clicked is liked less. "
            "So more of them are found than predicted. The order of the recommendations does not change."
        )
    return ""


def rivals(for_k: ResultsForK) -> str:
    """Return who hits more often than the model, who less often, and with whom there is no clear difference."""
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


def diversity(results: Results, for_k: ResultsForK) -> str:
    """Return how many items are shown, and how many of the recommendations are rare ones."""
    evaluations = {name: entry.evaluation for name, entry in for_k.tested.entries.items()}
    shown = {name: f"{round(each.coverage * each.n_items):,}" for name, each in evaluations.items()}
    rare = {name: percent(each.rare_share) for name, each in evaluations.items()}

    def of_rivals(numbers: dict[str, str]) -> str:
        others = ", ".join(f"{name} {number}" for name, number in numbers.items() if name != for_k.name)
        return f" ({others})" if others else ""

    name, n_items = for_k.name, results.clicks.n_items
    return (
        f"{name} shows {shown[name]} of the {n_items:,} items to somebody{of_rivals(shown)}, and {rare[name]} of "
        f"its recommendations are rare items, those outside the {results.n_popular:,} most clicked"
        f"{of_rivals(rare)}."
    )


def prices(results: Results, for_k: ResultsForK, found: Sequence[Price]) -> list[str]:
    """Return what the model gives up or gains in diversity: a sentence for each that hits about as often."""
    texts = []
    for price in found:
        if not price.nearly_equal:
            continue
        shown = round(price.coverage.difference * results.clicks.n_items)
        parts = [_more_or_fewer(shown, "item") if shown else "as many items"]
        if price.rare_share.clear:
            rare = price.rare_share.difference
            parts.append(f"{100 * abs(rare):.1f} points {'more' if rare > 0 else 'fewer'} rare items")
        else:
            parts.append("about as many rare ones")
        texts.append(f"At about the hits of {price.other}, {for_k.name} shows {and_list(parts)}.")
    return texts or [
        f"No other method hits about as often as {for_k.name}: more or less diverse, each has a price."
    ]


def cutoff(chosen: Cutoff | None) -> str:
    """Return what it takes to be right as often as the cut-off was chosen for."""
    if chosen is None:
        return "No cut-off helps: none of the recommendations were hits."
    if chosen.probability == 0.0:
        return (
            f"To be right {how_often(chosen.wanted)} nothing needs to be left out: of all recommendations, "
            f"{percent(chosen.hit_rate)} were hits."
        )
    return (
        f"To be right {how_often(chosen.wanted)}, recommend only what has a probability of at least "
        f"{100 * chosen.probability:.2f} %: that is {percent(chosen.share)} of the recommendations ({chosen.n:,}), "
        f"{chosen.per_user:.1f} for a user on average, and {chosen.n_users:,} of {chosen.of_users:,} users "
        "get at least one."
    )


def half_the_time(for_k: ResultsForK) -> Cutoff | None:
    """Return the cut-off for being right half the time, or the nearest to it that there is."""
    nearest = sorted(for_k.cutoffs, key=lambda chosen: (abs(chosen.wanted - 0.5), chosen.wanted))
    return nearest[0] if nearest else for_k.best_cutoff


def reach(for_k: ResultsForK) -> str:
    """Return which hit rate cannot be reached, and what a cut-off is worth on other clicks; or ""."""
    if for_k.best_cutoff is None:
        return ""
    least = min(LEAST_KEPT, len(for_k.calibration.hit))
    best = for_k.best_cutoff.hit_rate
    most = "Even all hits can" if best == 1 else f"More than {percent(best)} cannot"
    return (
        f"{most} be reached here (at least {least} recommendations "
        "must be left, because few can be all hits by luck). Cut-offs are chosen on these very clicks: on others, "
        "expect a little less."
    )


def _up_to_k(for_k: ResultsForK) -> str:
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
