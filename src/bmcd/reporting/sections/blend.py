"""The section "What each member contributes": members of a blend, their gains and shares, and its weights."""

from __future__ import annotations

from typing import Any

from bmcd.blend.blend import Blend
from bmcd.markup import Html, paragraphs, table, tag
from bmcd.reporting.page import Section, for_each_k
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import next_clicks, percent
from bmcd.utils import and_list

HEADS = ("member", "share", "gain ± error")
ALONE = ("hits alone", "points that the blend hits more")
GAIN = (
    "Share: of what distinguishes the items that a user may click next, how much comes from this member. Gain: by "
    "how much the member lowers the loss on past clicks (in nats), with its standard error. Members that gain "
    "nothing are left out."
)


def section(results: Results) -> Section | None:
    """Return how much each member of a blend contributes, and how given models do alone; None for other models."""
    model = results.model
    if not isinstance(model, Blend):
        return None
    frame: Any = model.gains_
    gains: dict[str, Any] = {row.member: row for row in frame.itertuples(index=False)}
    left_out = [name for name, row in gains.items() if not row.kept]

    def view(for_k: ResultsForK) -> list[Any]:
        shares = model.shares(for_k.k)
        said = and_list([f"{name} {percent(share)}" for name, share in shares.items()])
        text = (
            f"The rate at which a user clicks an item comes from {and_list(list(shares))}. Shares for the "
            f"{next_clicks(for_k.k)}: {said}. How much each counts was learnt from past clicks; nobody has set it."
        )
        if left_out:
            text += f" Tried and left out: {and_list(left_out)}."
        alone = bool(results.parts)
        rows = [
            (name, percent(share), _gain(gains.get(name)), *(_alone(results, for_k, name) if alone else ()))
            for name, share in shares.items()
        ]
        rows += [(name, "left out", _gain(gains[name]), *(("", "") if alone else ())) for name in left_out]
        caption = f"k = {for_k.k}" + (", with 95 % intervals over users" if alone else "")
        numbers = table((*HEADS, *(ALONE if alone else ())), rows, cls="numbers", caption=caption)
        return [*paragraphs(text), numbers, tag("p", GAIN, cls="note"), _weights(model, for_k.k)]

    return Section("blend", "What each member contributes", for_each_k(results, view))


def _gain(row: Any) -> str:
    return "" if row is None else f"{row.gain:,.1f} ± {row.standard_error:,.1f}"


def _alone(results: Results, for_k: ResultsForK, name: str) -> tuple[str, str]:
    """Return how often a model alone hits, and how much more often the blend does."""
    if name not in results.parts:
        return "", ""
    called = results.parts[name]
    gap = for_k.tested.differences[called]["accuracy"]
    points = f"{-100 * gap.difference:+z.1f} ({-100 * gap.high:+z.1f} to {-100 * gap.low:+z.1f})"
    return percent(for_k.tested.value(called, "accuracy")), points


def _weights(model: Blend, k: int) -> Html:
    rows = [
        (_named(row), f"{row.weight:.3f} ± {row.standard_error:.3f}")
        for row in _nearest(model, k).itertuples(index=False)
    ]
    numbers = table(("", "weight ± standard error"), rows, cls="numbers")
    note = tag(
        "p", "The rate of an item is the exponential of its features, each times its weight, added up.", cls="note"
    )
    return tag("details", tag("summary", "The weights"), note, numbers)


def _named(row: Any) -> str:
    times = f", times {row.times}" if row.times else ""
    return f"{row.member}: {row.feature}{times}"


def _nearest(model: Blend, k: int) -> Any:
    """Return the weights for the number of next clicks that is nearest to k."""
    weights = model.weights_
    nearest = min(weights["k"].unique().tolist(), key=lambda learnt: abs(learnt - k))
    return weights[weights["k"] == nearest]
