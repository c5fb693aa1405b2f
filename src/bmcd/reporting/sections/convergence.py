"""The section "Has the calculation settled?": the verdict on the chains."""

from __future__ import annotations

from bmcd.reporting.page import Section
from bmcd.reporting.results import Results
from bmcd.reporting.settled import convergence
from bmcd.system.markup import bullets, tag


def section(results: Results) -> Section:
    """Return the verdict in words, then in numbers, then what to do."""
    verdict = results.model.verdict_
    body = [
        tag("p", convergence(results), cls=f"verdict {'good' if verdict.converged else 'warning'}"),
        tag("p", verdict.text, cls="note"),
        bullets(verdict.advice) if verdict.advice else None,
    ]
    return Section("convergence", "Has the calculation settled?", body)
