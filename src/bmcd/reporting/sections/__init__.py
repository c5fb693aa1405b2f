"""The sections of a report, one file each: words first, numbers second. Knows results and plots, no samplers."""

from __future__ import annotations

from collections.abc import Callable

from bmcd.reporting.page import Section
from bmcd.reporting.results import Results
from bmcd.reporting.sections import (
    calibration,
    comparison,
    convergence,
    cutoffs,
    data,
    exposure,
    groups,
    method,
    summary,
    users,
)

_IN_ORDER = (
    *(summary, data, convergence, groups),
    *(calibration, cutoffs, comparison, exposure),
    *(users, method),
)
# In the order of the page. Without a test some have nothing to show and are None.
SECTIONS: tuple[Callable[[Results], Section | None], ...] = tuple(module.section for module in _IN_ORDER)
