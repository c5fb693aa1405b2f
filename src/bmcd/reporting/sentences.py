"""What a report says in plain words. Numbers come from `facts.py`; nothing here is markup."""

from __future__ import annotations

from bmcd.evaluation.intervals import PairedDifference
from bmcd.reporting.facts import OWN, Facts, Step, View
from bmcd.system.text import and_list


def percent(share: float) -> str:
    """A share for people.

    >>> percent(0.2345), percent(0.0234), percent(0.0), percent(0.00001), percent(0.999)
    ('23 %', '2.3 %', '0 %', 'under 0.1 %', '99.9 %')
    """
    hundred = 100 * share
    if 0 < hundred < 0.05:
        return "under 0.1 %"
    exact = 0 < hundred < 9.95 or 99.05 <= hundred < 99.95
    return f"{hundred:.1f} %" if exact else f"{hundred:.0f} %"


def in_100(share: float) -> str:
    """A share as so many in 100.

    >>> in_100(0.2345), in_100(0.0234), in_100(0)
    ('23 in 100', '2.3 in 100', 'none')
    """
    return "none" if share == 0 else percent(share).replace(" %", " in 100")


def often(rate: float) -> str:
    """How often.

    >>> often(0.5), often(0.75)
    ('half the time', '75 % of the time')
    """
    return "half the time" if rate == 0.5 else f"{percent(rate)} of the time"


def summary(facts: Facts, view: View) -> list[str]:
    """Four to six sentences that say it all."""
    if view.comparison is None:
        shown = int((view.items.recommended > 0).sum())
        return [
            f"{facts.clicks.n_users:,} users and their {facts.clicks.n_clicks:,} clicks on "
            f"{facts.clicks.n_items:,} items were sorted into {_groups(facts)}.",
            f"Each user is recommended {_up_to(view)} items, which have, on average, a probability of "
            f"{percent(float(view.probability.mean()))} to be among the next {view.k} clicks.",
            f"Of the {facts.clicks.n_items:,} items {shown:,} are recommended to somebody.",
            converged(facts),
            "How often the recommendations hit is not known: no clicks were kept aside to test them.",
        ]
    return [
        hits(facts, view),
        f"{promise(view)} {mismatch(facts, view)}".strip(),
        *([rivals(view)] if facts.rivals else []),
        diversity(facts, view),
        cut(facts, view, _half(view)),
        converged(facts),
    ]


def hits(facts: Facts, view: View) -> str:
    """How often the recommendations were right."""
    found = view.evaluation
    assert found is not None
    assert view.comparison is not None
    own = view.comparison.entries[OWN].intervals["accuracy"]
    said = (
        f"Of the {_up_to(view)} items recommended to each of {found.n_users_with_list:,} users, "
        f"{in_100(found.accuracy)} were among the clicks kept aside"
    )
    if own.low < own.high:
        said += f" (95 % interval: {percent(own.low)} to {percent(own.high)})"
    return f"{said}; items chosen at random would have hit {in_100(facts.chance)}."


def judged(view: View) -> str:
    """Are the probabilities "cautious", "too high", or "about right": within the interval of the hit rate?"""
    assert view.comparison is not None
    own, found = view.comparison.entries[OWN].intervals["accuracy"], view.calibration
    low, high = min(own.low, found.hit_rate), max(own.high, found.hit_rate)
    given = found.mean_probability
    return "cautious" if given < low else "too high" if given > high else "about right"


def promise(view: View) -> str:
    """Are the probabilities right? In words and numbers."""
    found = view.calibration
    return (
        f"The probabilities are {judged(view)}: on average they promised {percent(found.mean_probability)}, and "
        f"{percent(found.hit_rate)} of the recommendations were hits."
    )


def mismatch(facts: Facts, view: View) -> str:
    """Where other numbers of clicks were kept aside than the probabilities speak of."""
    fewest, mean, most = facts.test_clicks
    if fewest == most == view.k:
        return ""
    number = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,} (on average {mean:.1f})"
    more = "fewer" if mean < view.k else "more"
    return (
        f"They speak of a user's next {view.k} clicks, but {number} were kept aside for each user: there are "
        f"{more} hits to be had than they speak of, for that reason alone."
    )


def why(view: View) -> str:
    """Why the probabilities are not right, and what to do about it."""
    if judged(view) == "cautious":
        return (
            "Part of that is the check itself: clicks that are kept aside at random are on average as well liked "
            "as those left to learn from, while the model takes what it has not seen clicked for liked less. So "
            "more of them are found than it says. The order of the recommendations is not touched by this."
        )
    if judged(view) == "too high":
        return "Do not take them at their word here: choose a cut-off by the hits, as below."
    return ""


def rivals(view: View) -> str:
    """Who hits more often, who less."""
    assert view.comparison is not None
    gaps = {name: own["accuracy"] for name, own in view.comparison.differences.items()}
    better = {name: gap for name, gap in gaps.items() if gap.low > 0}
    worse = {name: gap for name, gap in gaps.items() if gap.high < 0}
    same = [name for name in gaps if name not in better and name not in worse]
    parts = []
    if better:
        parts.append(f"{_points(better)} {_hit(better)} more often than {OWN}")
    if worse:
        parts.append(f"{_points(worse)} {_hit(worse)} less often{'' if better else f' than {OWN}'}")
    if same:
        parts.append(f"between {OWN} and {and_list(same)} there is no clear difference")
    said = "; ".join(parts) + "."
    return said[0].upper() + said[1:]


def diversity(facts: Facts, view: View) -> str:
    """How many items are shown, and how many of them are rare."""
    assert view.comparison is not None
    found = {name: entry.evaluation for name, entry in view.comparison.entries.items()}
    own = found[OWN]
    n_shown = {name: round(one.coverage * one.n_items) for name, one in found.items()}
    others = ", ".join(f"{name} {n:,}" for name, n in n_shown.items() if name != OWN)
    rare = ", ".join(f"{name} {percent(one.rare_share)}" for name, one in found.items() if name != OWN)
    return (
        f"{OWN} shows {n_shown[OWN]:,} of the {own.n_items:,} items to somebody{f' ({others})' if others else ''}, "
        f"and {percent(own.rare_share)} of its recommendations are rare items, those outside the "
        f"{facts.n_popular:,} most clicked{f' ({rare})' if rare else ''}."
    )


def cut(facts: Facts, view: View, step: Step | None) -> str:
    """What it takes to be right so often."""
    if step is None:
        return "No cut-off helps: none of the recommendations were hits."
    if step.cutoff == 0.0:
        return (
            f"To be right {often(step.wanted)} nothing needs to be left out: of all recommendations, "
            f"{percent(step.hit_rate)} were hits."
        )
    users = facts.clicks.n_users
    return (
        f"To be right {often(step.wanted)}, recommend only what has a probability of at least "
        f"{100 * step.cutoff:.2f} %: that is {percent(step.share)} of the recommendations ({step.n:,}), "
        f"{step.per_user:.1f} for a user on average, and {step.n_users:,} of {users:,} users get at least one."
    )


def reach(view: View) -> str:
    """What cannot be reached, and what a cut-off is worth elsewhere."""
    best = view.best
    if best is None:
        return ""
    limit = (
        f"More than {percent(best.hit_rate)} cannot be reached here (at least {min(30, len(view.calibration.hit))} "
        "recommendations must be left, because few can be all hits by luck). "
    )
    return limit + "Cut-offs are chosen on these very clicks: on others, expect a little less."


def converged(facts: Facts) -> str:
    """Has the calculation settled?"""
    verdict, n_chains = facts.model.verdict_, facts.model.draws_.n_chains
    runs = f"its {n_chains} independent runs"
    if verdict.converged and n_chains == 1:
        said = "The calculation has settled, but in one run only: others might end elsewhere."
    elif verdict.converged:
        said = f"The calculation has settled: {runs} agree."
    elif verdict.text.startswith("Cannot be judged"):
        said = "Whether the calculation has settled cannot be judged: it was too short."
    elif "stuck" in verdict.text.split(";")[0]:
        said = "The calculation is stuck: use nothing of this report, and run it again."
    elif verdict.text.startswith("Not converged yet"):
        said = "The calculation has nearly settled, but was too short to be sure: run it longer."
    elif n_chains == 1:
        said = "The calculation has not settled: its one run still moves. Run it longer, and in several runs."
    else:
        said = (
            f"The calculation has not settled: {runs} do not agree yet. Recommendations are averaged over the "
            "runs, which is still the best answer, but groups and probabilities may change in a longer run."
        )
    return said


def _half(view: View) -> Step | None:
    """Being right half the time, or the nearest to it that can be reached."""
    if not view.steps:
        return view.best
    return min(view.steps, key=lambda step: (abs(step.wanted - 0.5), step.wanted))


def first_step(view: View) -> int:
    """The place of the step that is shown first."""
    return view.steps.index(step) if view.steps and (step := _half(view)) in view.steps else 0


def _groups(facts: Facts) -> str:
    n = facts.model.n_clusters_
    return "one group" if n == 1 else f"{n} groups"


def _up_to(view: View) -> str:
    return (
        f"{view.k}" if (view.lists.items >= 0).all() and view.lists.items.shape[1] == view.k else f"up to {view.k}"
    )


def _points(gaps: dict[str, PairedDifference]) -> str:
    return and_list(
        [
            "{} ({:.1f} points; {:.1f} to {:.1f})".format(
                name, 100 * abs(gap.difference), *sorted(100 * abs(end) for end in (gap.low, gap.high))
            )
            for name, gap in gaps.items()
        ]
    )


def _hit(gaps: dict[str, PairedDifference]) -> str:
    return "hits" if len(gaps) == 1 else "hit"
