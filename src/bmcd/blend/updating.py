"""More clicks for a fitted blend: everything that is counted is counted again; weights and EASE stay."""

from __future__ import annotations

import numpy as np

from bmcd.baselines.counting import events_of
from bmcd.blend.features import Csr, EventCounts, count
from bmcd.blend.fitting import Fitted
from bmcd.blend.moments import MICROSECONDS_PER_HOUR, Cut, length_of_refresh, share_outside
from bmcd.clicks.adding import joined_ids
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError


def updated(fitted: Fitted, before: Clicks, clicks: Clicks) -> Fitted:
    """Return a blend that was fitted to ``before`` with the counts of a fit to ``clicks``.

    Members, settings, weights and past windows are kept, and EASE of the items it was learnt for: those in both.
    """
    if fitted.dense.models:
        raise InputError(
            f"only counts can be updated, and this blend is made of {', '.join(fitted.dense.models)}: fit it again."
        )
    settings = fitted.settings
    events, until, refresh = events_of(clicks), 0, 0.0
    if settings.half_lives:
        assert clicks.times is not None
        until = int(clicks.times.view(np.int64).max())
        length = length_of_refresh(clicks) if fitted.refresh is None else fitted.refresh
        refresh = length / MICROSECONDS_PER_HOUR
    now = Cut(np.ones(len(clicks.sequence), np.bool_), np.zeros(0, np.bool_), 0.0 if until else None, "")
    counted = settings._replace(members=tuple(name for name in settings.members if name != "EASE"))
    tables = count(EventCounts(events), counted, share_outside(clicks, now, refresh))
    ease = renumbered(fitted.tables.ease, before, clicks)
    return fitted._replace(tables=tables._replace(ease=ease), until=until)


def renumbered(counts: Csr, before: Clicks, clicks: Clicks) -> Csr:
    """Return counts by items of one log as those by items of another; items that are in one of them have none."""
    _, place = joined_ids(clicks.items, before.items)
    new = np.where(place < clicks.n_items, place, -1)
    row = np.repeat(np.arange(before.n_items), np.diff(counts.start))
    kept = (new[row] >= 0) & (new[counts.item] >= 0)
    row, item, value = new[row[kept]], new[counts.item[kept]], counts.value[kept]
    order = np.lexsort((item, row))
    start = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=clicks.n_items)))).astype(np.int64)
    total = np.zeros(clicks.n_items, np.float32)
    total[new[new >= 0]] = counts.total[new >= 0]
    return Csr(start, item[order].astype(np.int32), value[order], total)
