"""The strip of headline numbers: what counts most, each with a light. No markup."""

from __future__ import annotations

from typing import Literal, NamedTuple

from bmcd.models.persistence import sampled_models
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import in_100, judgement, n_test_clicks, percent

Light = Literal["good", "look", "bad", "none"]
# Showing less than this part of the items that the best other method shows is a warning.
FEW_SHOWN = 0.8
LIGHT_OF_PROMISE: dict[str, Light] = {"about right": "good", "cautious": "look", "too high": "bad"}


class Headline(NamedTuple):
    """One number of the strip."""

    label: str
    value: str
    light: Light
    text: str


def headlines(results: Results, for_k: ResultsForK) -> list[Headline]:
    """Return hits, promise, coverage and whether the calculation has settled, as far as they are known."""
    tested = for_k.comparison is not None
    return [
        *([_hits(results, for_k), _promise(results, for_k)] if tested else [_untested()]),
        _shown(results, for_k),
        _settled(results),
    ]


def _untested() -> Headline:
    return Headline("Hits", "not known", "none", "No clicks were kept aside to test the recommendations.")


def best_other(for_k: ResultsForK) -> str | None:
    """Return which other method hits most often; None without any."""
    return max(for_k.rival_accuracies, key=for_k.rival_accuracies.__getitem__, default=None)


def _hits(results: Results, for_k: ResultsForK) -> Headline:
    rate, other = for_k.evaluation.accuracy, best_other(for_k)
    if other is None:
        return Headline("Hits", in_100(rate), "none", f"Items at random: {in_100(results.chance)}.")
    gap = for_k.tested.differences[other]["accuracy"]  # the other minus the model
    light: Light = "bad" if gap.low > 0 else "look" if gap.difference > 0 else "good"
    sure = "clear" if gap.low > 0 or gap.high < 0 else "not clear"
    text = f"{other}, the best other method: {in_100(for_k.rival_accuracies[other])}. The difference is {sure}."
    return Headline("Hits", in_100(rate), light, text)


def _promise(results: Results, for_k: ResultsForK) -> Headline:
    value = f"{percent(for_k.calibration.mean_probability)} promised, {percent(for_k.calibration.hit_rate)} hit"
    if (results.test_clicks != for_k.k).any():
        text = (
            f"Not comparable: promised of the next {for_k.k} clicks, but {n_test_clicks(results)} were kept aside."
        )
        return Headline("Promise", value, "none", text)
    judged = judgement(for_k)
    return Headline("Promise", value, LIGHT_OF_PROMISE[judged], f"The probabilities are {judged}.")


def _shown(results: Results, for_k: ResultsForK) -> Headline:
    n_items = results.clicks.n_items
    own = int((for_k.items.recommended > 0).sum())
    value, other = f"{own:,} of {n_items:,} items", None if for_k.comparison is None else best_other(for_k)
    if other is None:
        return Headline("Shown", value, "none", "Items that are recommended to somebody.")
    theirs = round(for_k.tested.value(other, "coverage") * n_items)
    light: Light = "good" if own >= theirs else "look" if own >= FEW_SHOWN * theirs else "bad"
    return Headline("Shown", value, light, f"{other} shows {theirs:,}.")


def _settled(results: Results) -> Headline:
    state = results.model.verdict_.state
    if not sampled_models(results.model):
        return Headline("Settled", "yes", "good", "Nothing is drawn at random.")
    if state == "converged":
        return Headline("Settled", "yes", "good", "Other runs would change little.")
    light: Light = "bad" if state == "not converged" else "look"
    value = {"too short": "not sure", "stopped": "stopped"}.get(state, "no")
    return Headline("Settled", value, light, "See below what to do.")
