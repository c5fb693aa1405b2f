"""A fit that starts from a model fitted to earlier clicks."""

from __future__ import annotations

from typing import Any

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference.draws import Previous, match_items
from bmcd.utils import shown


def earlier_fit(
    kind: type[Any], start: Any, clicks: Clicks, number: int | str
) -> tuple[Previous | None, int | str]:
    """Return the earlier fit, laid out for these clicks, and how many clusters there are; None without ``start``.

    ``number`` is how many clusters are asked for; "auto" takes those of the earlier fit.
    """
    if start is None:
        return None, number
    if type(start) is not kind:
        raise InputError(
            f"start must be a fitted {kind.__name__}, a model of the same kind, but it is {shown(start)}."
        )
    before, found = start.check_fitted().draws_, start.n_clusters_
    if number not in ("auto", found):
        raise InputError(f"start has {found} of them, so the number must be {found} or 'auto', not {number!r}.")
    previous = match_items(before, start.clicks_.items, clicks.items)
    if (previous.columns < 0).all():
        raise InputError("start was fitted to none of these items: fit without it.")
    return previous, found
