"""The section "In short": the report in a few sentences."""

from __future__ import annotations

from bmcd.markup import bullets, tag
from bmcd.reporting import sentences
from bmcd.reporting.page import Section, for_each_k
from bmcd.reporting.results import Results

HOW_TO_TEST = (
    "To learn that, hold out clicks before the fit (Clicks.split_at, split_users, hold_out), and give them to the "
    "report: bmcd report model.bmcd --test test.csv -o report.html. It then also has the accuracy, whether the "
    "probabilities are right, which cut-off to use, and other methods beside this one."
)


def section(results: Results) -> Section:
    """Return the summary and, without a test, how to get one."""
    views = for_each_k(results, lambda for_k: bullets(sentences.summary(results, for_k), cls="summary"))
    return Section(
        "summary", "In short", [views, tag("p", HOW_TO_TEST, cls="note") if results.test is None else None]
    )
