"""Whether the probabilities can be relied on: past windows of a blend, chains of a sampled model."""

from __future__ import annotations

from typing import Any

from bmcd import plots
from bmcd.blend.blend import Blend
from bmcd.inference.diagnostics import Verdict
from bmcd.markup import Html, bullets, paragraphs, table, tag
from bmcd.reporting.page import Section, captioned
from bmcd.reporting.reliability import convergence
from bmcd.reporting.results import Results
from bmcd.reporting.sentences import percent

WINDOWS = (
    "Each window of the past was predicted by members and weights from the clicks before it: hits of the next "
    "click in lists of ten, beside the hits that were observed. The model will be used on clicks that come later, "
    "as these did."
)
HEADS = ("window", "users", "predicted", "observed")


def section(results: Results) -> Section:
    """Return the verdict in words, then in numbers, then what to do."""
    model = results.model
    body: list[Any] = verdict_tags(model.verdict_, convergence(results), is_blend=isinstance(model, Blend))
    if not isinstance(model, Blend):
        return Section("convergence", "Has the calculation converged?", body)
    return Section("convergence", "Do the probabilities hold over time?", [*body, *_windows(model)])


def verdict_tags(verdict: Verdict, text: str, *, is_blend: bool = False) -> list[Any]:
    """Return a verdict: in words, as the model gives it, and what to do."""
    return [
        tag("p", text, cls=f"verdict {'good' if verdict.converged else 'warning'}"),
        None if is_blend else tag("p", verdict.text, cls="note"),
        bullets(verdict.advice) if verdict.advice else None,
    ]


def _windows(model: Blend) -> list[Html]:
    """Return predicted and observed hits of past windows, as a figure and as a table."""
    windows: Any = model.windows_
    if not len(windows):
        return []
    outside = bool((windows["outside_predicted"] > 0).any() or (windows["outside_observed"] > 0).any())
    rows = [
        (
            str(row.label),
            f"{row.n:,}",
            percent(row.predicted),
            percent(row.observed),
            *((percent(row.outside_predicted), percent(row.outside_observed)) if outside else ()),
        )
        for row in windows.itertuples(index=False)
    ]
    heads = (*HEADS, *(("new items, predicted", "new items, observed") if outside else ()))
    used = f"{model.refresh} each" if model.refresh else "each as long as the last fifth of the clicks took"
    caption = "Predicted and observed hits of the next click in past windows, with 95 % intervals."
    figure = captioned(plots.past_windows(windows), "windows", caption)
    split = f"Test: the next click at moments in past windows, {used}; the earliest first."
    numbers = table(heads, rows, cls="numbers", caption=split)
    return [*paragraphs(WINDOWS), tag("div", figure, numbers, cls="beside")]
