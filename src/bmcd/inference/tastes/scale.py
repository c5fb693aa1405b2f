"""The move of a taste's scale alpha on the grid of `rank_laws.py`: Gibbs within a window of the grid.

A window of neighbouring points is laid at random over the present one: each of the WINDOW windows that hold it is
equally likely. Whatever point of it is drawn next, the same window was as likely from there, so drawing within the
window in proportion to the posterior leaves the posterior as it is. A window is far wider than the posterior of a
taste with visits, and only laws in its reach need be made. Without visits the posterior is the prior, and no law
is needed.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba
import numpy as np

from bmcd.inference.variates import draw_from_logs
from bmcd.mallows.latent.scan import REORDER
from bmcd.rng import uniform_below


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def log_posterior(counts_at, log_law, log_prior):
    """Log posterior of one alpha, up to a constant; counts_at[r] are the visits of the item at rank r + 1."""
    total = 0.0
    for r in range(counts_at.size):
        total += counts_at[r] * log_law[r]
    return total + log_prior


@numba.njit(cache=True, nogil=True)
def draw_window(stream, index, window, size):
    """The first point of a window that holds ``index``, and the one after its last; cut off at the grid's ends."""
    first = index - uniform_below(stream, window)
    return max(first, 0), min(first + window, size)


@numba.njit(cache=True, nogil=True)
def update_scale(stream, index, counts_at, log_law, log_prior, window):
    """The next point of the grid. All laws closer to ``index`` than ``window`` must have been made."""
    last = counts_at.size
    while last > 0 and counts_at[last - 1] == 0.0:
        last -= 1
    if last == 0:
        return draw_from_logs(stream, log_prior)
    first, end = draw_window(stream, index, window, log_prior.size)
    log_weights = np.empty(end - first)
    for g in range(first, end):
        log_weights[g - first] = log_posterior(counts_at[:last], log_law[g], log_prior[g])
    return first + draw_from_logs(stream, log_weights)
