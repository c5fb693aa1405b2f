"""The likelihood of held-out clicks under a blend, and its gradient.

A user has clicked T, without the fold; m clicks are held out, and the user will click k more, which nobody has seen
yet. The order of clicks says nothing here, so the m are a random part of the g = m + k that come next, and a click
i of the fold has probability pi_i / g, where pi_i is the probability that i is among the next g:

    pi_i = 1 - exp(-r_i t),   r_i = exp(sum_f w_f x_if),   t such that the pi of all items not in T sum to g.

That is the race for the next g by its shortcut. If the clicks to come were forgotten (k = 0) they would count as
misses, though they are as good as those of the fold: the law would be too flat, and promises too low.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.prediction.race import race_time

Floats = NDArray[np.float64]

# Rows that a thread takes at a time.
PIECE = 500


class HeldOut(NamedTuple):
    """Clicks held out of some rows; a row is one user without one fold."""

    x: NDArray[np.float32]  # features, [row, item, feature]
    free: NDArray[np.bool_]  # not clicked in what is left, [row, item]: these compete
    starts: NDArray[np.int64]  # where the held-out clicks of each row start in ``items``
    items: NDArray[np.int64]  # the held-out clicks
    users: NDArray[np.int64]  # whose row it is
    weight: Floats  # what one of its clicks counts

    @property
    def n_held(self) -> NDArray[np.int64]:
        """How many clicks of each row are held out."""
        return np.diff(self.starts)

    def of_rows(self, rows: NDArray[np.int64]) -> HeldOut:
        """Return some rows alone."""
        clicks = np.concatenate([np.arange(self.starts[row], self.starts[row + 1]) for row in rows])
        starts = np.concatenate(([0], np.cumsum(self.n_held[rows])))
        own, weight = self.users[rows], self.weight[rows]
        return HeldOut(self.x[rows], self.free[rows], starts, self.items[clicks], own, weight)

    def pieces(self) -> list[tuple[int, int]]:
        """Return the first row of each piece of work, and the one after its last."""
        return [(first, min(first + PIECE, len(self.x))) for first in range(0, len(self.x), PIECE)]


@numba.njit(cache=True, nogil=True)
def row_rates(x, free, weights, rates, numbers):
    """Write the rates of the free items of a row, which sum to 1, and which items they are; return how many."""
    n_items, n_features = x.shape
    n, largest = 0, -math.inf
    for i in range(n_items):
        if free[i]:
            score = 0.0
            for f in range(n_features):
                score += weights[f] * x[i, f]
            rates[n], numbers[n] = score, i
            largest = max(largest, score)
            n += 1
    total = 0.0
    for j in range(n):
        rates[j] = math.exp(rates[j] - largest)
        total += rates[j]
    for j in range(n):
        rates[j] /= total
    return n


@numba.njit(cache=True, nogil=True)
def log_likelihood(first_row, last_row, x, free, starts, items, weight_of, k, weights, times, gradient):
    """Return the log likelihood of the held-out clicks of some rows, and write its gradient by row, [row, feature].

    ``times`` holds where to begin looking for t in each row, and what was found. Rows with g items or fewer left
    say nothing: all of them come next.
    """
    _, n_items, n_features = x.shape
    rates, numbers = np.empty(n_items), np.empty(n_items, np.int64)
    slope, mean = np.empty(n_items), np.empty(n_features)
    total = 0.0
    for row in range(first_row, last_row):
        gradient[row] = 0.0
        g = starts[row + 1] - starts[row] + k
        n = row_rates(x[row], free[row], weights, rates, numbers)
        if n <= g:
            continue
        t = race_time(rates[:n], float(g), times[row])
        times[row] = t
        mean[:] = 0.0
        sum_slope = 0.0
        slope[:] = 0.0
        for j in range(n):
            change = rates[j] * t * math.exp(-rates[j] * t)  # of pi, if the score moves
            slope[numbers[j]] = change
            sum_slope += change
            for f in range(n_features):
                mean[f] += change * x[row, numbers[j], f]
        for j in range(n):
            rates[j] *= t
        for place in range(starts[row], starts[row + 1]):
            i = items[place]
            j = np.searchsorted(numbers[:n], i)
            arrived = -math.expm1(-rates[j])
            total += weight_of[row] * math.log(max(arrived, 1e-300) / g)
            weight = weight_of[row] * slope[i] / max(arrived, 1e-300)
            for f in range(n_features):
                gradient[row, f] += weight * (x[row, i, f] - mean[f] / max(sum_slope, 1e-300))
    return total


@numba.njit(cache=True, nogil=True)
def brier_scores(x, free, starts, items, k, weights, out):
    """Write, by row, the mean over the k best items of (promise - hit)^2; nan where k or fewer are left.

    The promise of an item is that it is in the fold: m / g times the probability that it is among the next g.
    """
    n_rows, n_items, _ = x.shape
    rates, numbers = np.empty(n_items), np.empty(n_items, np.int64)
    held = np.zeros(n_items, np.bool_)
    for row in range(n_rows):
        out[row] = math.nan
        m = starts[row + 1] - starts[row]
        n = row_rates(x[row], free[row], weights, rates, numbers)
        if n <= m + k:
            continue
        t = race_time(rates[:n], float(m + k), float(m + k))
        held[:] = False
        for place in range(starts[row], starts[row + 1]):
            held[items[place]] = True
        best = np.argsort(-rates[:n])[:k]
        out[row] = 0.0
        for j in best:
            promise = -math.expm1(-rates[j] * t) * m / (m + k)
            out[row] += (promise - held[numbers[j]]) ** 2 / best.size
