"""The section "How much to recommend": the cut-off for being right as often as the reader wants."""

from __future__ import annotations

from typing import Any

from bmcd import plots
from bmcd.markup import json_script, paragraphs, table, tag
from bmcd.reporting import sentences
from bmcd.reporting.page import Section, captioned, for_each_k
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import percent

HEADS = ("right", "least prob.", "kept", "a user", "users", "hits")


def section(results: Results) -> Section | None:
    """Return a slider over hit rates with the cut-off for each, and the same as a figure and as a table."""
    if results.test is None:
        return None

    def view(for_k: ResultsForK) -> list[Any]:
        k, steps, first = for_k.k, for_k.cutoffs, sentences.half_the_time(for_k)
        if not steps or first is None:
            return paragraphs(sentences.cutoff(first), sentences.reach(for_k))
        slider = {"min": 0, "max": len(steps) - 1, "step": 1, "value": steps.index(first)}
        control = tag(
            "p",
            tag("label", "How often do you want to be right? ", for_=f"wanted-{k}"),
            tag("input", type="range", id=f"wanted-{k}", **slider, data_k=k, aria_describedby=f"cut-{k}"),
            tag("output", percent(first.wanted), id=f"rate-{k}", for_=f"wanted-{k}"),
            cls="control slider",
        )
        answer = tag("p", sentences.cutoff(first), id=f"cut-{k}", cls="answer", aria_live="polite")
        caption = (
            "The higher the least probability that is still recommended, the more of the recommendations hit, and "
            f"the fewer are left (k = {k}; the band is the 95 % interval)."
        )
        figure = plots.cutoff_curve({for_k.name: for_k.calibration}, rivals=for_k.rival_accuracies)
        rows = []
        for step in steps:
            kept = (f"{step.n:,} ({percent(step.share)})", f"{step.per_user:.2f}", f"{step.n_users:,}")
            rows.append((percent(step.wanted), f"{100 * step.probability:.2f} %", *kept, percent(step.hit_rate)))
        numbers = [
            table(HEADS, rows, cls="steps numbers"),
            tag("p", f"{sentences.reach(for_k)} {sentences.split(for_k)}", cls="note"),
        ]
        picture = captioned(figure, f"cutoff-{k}", caption)
        return [control, answer, tag("div", picture, tag("div", numbers), cls="beside")]

    # What the slider says at each of its steps; report.js reads it.
    answers = {
        str(for_k.k): [[percent(step.wanted), sentences.cutoff(step)] for step in for_k.cutoffs]
        for for_k in results.by_k
    }
    return Section("cutoff", "How much to recommend", [for_each_k(results, view), json_script("cutoffs", answers)])
