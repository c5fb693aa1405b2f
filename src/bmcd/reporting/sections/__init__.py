"""The sections of a report, one file each: words first, numbers second. Knows results and plots, no samplers."""

from __future__ import annotations

from collections.abc import Callable

from bmcd.reporting.page import Section
from bmcd.reporting.results import Results
from bmcd.reporting.sections import (
    blend,
    calibration,
    changes,
    comparison,
    convergence,
    cutoffs,
    data,
    exposure,
    groups,
    item_groups,
    method,
    summary,
    users,
)

_IN_ORDER = (
    *(summary, changes, calibration, convergence, cutoffs),
    *(comparison, blend, exposure, item_groups, groups, users),
    *(data, method),
)
# In the order of the page. Some have nothing to show of some models, or without a test, and are None.
SECTIONS: tuple[Callable[[Results], Section | None], ...] = tuple(module.section for module in _IN_ORDER)
