"""The section "What each model adds": the weights of a blend in plain words, and each of its models alone."""

from __future__ import annotations

from typing import Any

from bmcd.blend.blend import Blend
from bmcd.reporting.page import Section, for_each_k
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import percent
from bmcd.system.markup import Html, paragraphs, table, tag
from bmcd.system.text import and_list

ACTIVE = "more for active users"
HEADS = ("model", "its say", "hits alone", "points that the blend hits more")


def section(results: Results) -> Section | None:
    """Return how much each model of a blend counts, for whom, and how it does alone; None for other models."""
    model = results.model
    if not isinstance(model, Blend):
        return None

    def view(for_k: ResultsForK) -> list[Any]:
        shares = model.shares(for_k.k)
        said = and_list([f"{name} {percent(share)}" for name, share in shares.items()])
        text = (
            f"The recommendations blend {and_list(list(shares))}. Of what sets apart the items that a user may "
            f"click next, this much is each model's say: {said}. How much each counts was learnt from clicks that "
            "it had not seen; nobody has set it."
        )
        rows = [(name, percent(share), *_alone(results, for_k, name)) for name, share in shares.items()]
        body = [*paragraphs(text, _for_whom(model, for_k.k))]
        if results.test is not None:
            body.append(table(HEADS, rows, cls="numbers", caption=f"k = {for_k.k}, with 95 % intervals over users"))
        return [*body, _weights(model, for_k.k)]

    return Section("blend", "What each model adds", for_each_k(results, view))


def _alone(results: Results, for_k: ResultsForK, name: str) -> tuple[str, ...]:
    """Return how often a model alone hits, and how much more often the blend does."""
    if results.test is None:
        return ()
    called = results.parts[name]
    gap = for_k.tested.differences[called]["accuracy"]
    points = f"{-100 * gap.difference:+z.1f} ({-100 * gap.high:+z.1f} to {-100 * gap.low:+z.1f})"
    return (percent(for_k.tested.value(called, "accuracy")), points)


def _for_whom(model: Blend, k: int) -> str:
    """Return which models count more, and which less, the more a user has clicked; or ""."""
    rows = _nearest(model, k)
    active = rows[rows["feature"] == ACTIVE]
    clear = active[active["weight"].abs() > 2 * active["standard_error"]]
    more, less = (clear[clear["weight"] * sign > 0]["model"].tolist() for sign in (1, -1))
    parts = [f"the {word} {and_list(names)} counts" for word, names in (("more", more), ("less", less)) if names]
    return f"The more a user has clicked, {' and '.join(parts)}." if parts else ""


def _weights(model: Blend, k: int) -> Html:
    rows = [
        (f"{row.model}: {row.feature}", f"{row.weight:.3f} ± {row.standard_error:.3f}")
        for row in _nearest(model, k).itertuples(index=False)
    ]
    numbers = table(("", "weight ± standard error"), rows, cls="numbers")
    note = tag("p", "An item's rate is the exponential of its scores, each times its weight, added up.", cls="note")
    return tag("details", tag("summary", "The weights themselves"), note, numbers)


def _nearest(model: Blend, k: int) -> Any:
    """Return the weights for the number of clicks to come that is nearest to k."""
    weights = model.weights_
    nearest = min(weights["k"].unique().tolist(), key=lambda learnt: abs(learnt - k))
    return weights[weights["k"] == nearest]
