"""The strip of headline numbers: what counts most, each with a light. No markup."""

from __future__ import annotations

from typing import Literal, NamedTuple

from bmcd.blend.blend import Blend
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import in_100, is_mismatched, judgement, n_test_clicks, next_clicks, percent

Light = Literal["good", "look", "bad", "none"]
# Showing less than this part of the items that the best other method shows is a warning.
FEW_SHOWN = 0.8
LIGHT_OF: dict[str, Light] = {"about right": "good", "cautious": "look", "too high": "bad"}


class Headline(NamedTuple):
    """One number of the strip."""

    label: str
    value: str
    light: Light
    text: str


def headlines(results: Results, for_k: ResultsForK) -> list[Headline]:
    """Return hits, calibration, coverage and the verdict, as far as they are known."""
    tested = for_k.comparison is not None
    return [
        *([_predicted(results, for_k), _hits(results, for_k)] if tested else [_untested()]),
        _shown(results, for_k),
        _over_time(results.model) if isinstance(results.model, Blend) else _settled(results),
    ]


def _untested() -> Headline:
    return Headline("Hits", "not known", "none", "No clicks were held out to test the recommendations.")


def best_other(for_k: ResultsForK) -> str | None:
    """Return which other method hits most often; None without any."""
    return max(for_k.rival_accuracies, key=for_k.rival_accuracies.__getitem__, default=None)


def _hits(results: Results, for_k: ResultsForK) -> Headline:
    rate, other = for_k.evaluation.accuracy, best_other(for_k)
    if other is None:
        return Headline("Hits", in_100(rate), "none", f"Items at random: {in_100(results.chance(for_k))}.")
    gap = for_k.tested.differences[other]["accuracy"]  # the other minus the model
    light: Light = "bad" if gap.low > 0 else "look" if gap.difference > 0 else "good"
    sure = "clear" if gap.low > 0 or gap.high < 0 else "not clear"
    text = f"{other}, the best other method: {in_100(for_k.rival_accuracies[other])}. The difference is {sure}."
    return Headline("Hits", in_100(rate), light, text)


def _predicted(results: Results, for_k: ResultsForK) -> Headline:
    calibration, horizon = for_k.calibration, for_k.evaluation.horizon
    label = "Calibration" if horizon is None else next_clicks(horizon).capitalize()
    value = f"{percent(calibration.mean_probability)} predicted, {percent(calibration.hit_rate)} observed"
    if is_mismatched(results, for_k):
        text = (
            f"Not comparable: predicted for the {next_clicks(for_k.k)}, but {n_test_clicks(results)} clicks were "
            "held out."
        )
        return Headline(label, value, "none", text)
    judged = judgement(for_k)
    return Headline(label, value, LIGHT_OF[judged], f"The probabilities are {judged}.")


def _shown(results: Results, for_k: ResultsForK) -> Headline:
    n_items = results.clicks.n_items
    own = int((for_k.items.recommended > 0).sum())
    value, other = f"{own:,} of {n_items:,} items", None if for_k.comparison is None else best_other(for_k)
    if other is None:
        return Headline("Shown", value, "none", "Items that are recommended to somebody.")
    theirs = round(for_k.tested.value(other, "coverage") * n_items)
    light: Light = "good" if own >= theirs else "look" if own >= FEW_SHOWN * theirs else "bad"
    return Headline("Shown", value, light, f"{other} shows {theirs:,}.")


def _over_time(model: Blend) -> Headline:
    label, state, n = "Over time", model.verdict_.state, len(model.windows_)
    if not n and state == "converged":
        return Headline(label, "not known", "none", "The log has no order.")
    if state == "converged":
        return Headline(label, "calibrated", "good", f"In each of {n} past windows.")
    if state == "too short":
        return Headline(label, "not known", "look", "Not enough history.")
    return Headline(label, "not stable", "bad", "See below what to do.")


def _settled(results: Results) -> Headline:
    state = results.model.verdict_.state
    if state == "converged":
        return Headline("Converged", "yes", "good", "Other runs would change little.")
    light: Light = "bad" if state == "not converged" else "look"
    value = {"too short": "not sure", "stopped": "stopped"}.get(state, "no")
    return Headline("Converged", value, light, "See below what to do.")
