"""The rates of anybody's next items under one draw of the tastes, from their clicks alone.

Given the laws q_c(i) of the tastes and the law Gamma(a, b) of the rates, the visits of a user are shared out among
the tastes by mean-field rounds: the share of taste c in the visits that clicked item i is proportional to
(n_c without these visits + a) q_c(i), where n_c are the expected visits to c. A clicked item was visited
mu / (1 - exp(-mu)) times on average, mu being its expected number of visits before it is known that it was clicked.
Then item i arrives at a rate proportional to sum_c (n_c + a) q_c(i).
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.mallows.latent.scan import REORDER

# The rounds stop when none of the expected visits to a taste moves by more than this.
SETTLED = 0.01
MOST_ROUNDS = 30


@numba.njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")
def expected_visits(items, q, a, b, shares, visits):
    """Write the expected visits of a user to each taste; ``shares`` is room for [click, taste].

    ``q[item, taste]`` are the probabilities that a visit clicks the item, ``items`` those that the user clicked.
    """
    n_tastes = q.shape[1]
    visits[:] = 0.0
    for j in range(items.size):
        total = np.float32(0.0)
        row, mine = q[items[j]], shares[j]
        for c in range(n_tastes):
            total += row[c]
        scale = np.float32(1.0) / total
        for c in range(n_tastes):
            mine[c] = row[c] * scale
            visits[c] += mine[c]
    for _ in range(MOST_ROUNDS):
        moved = np.float32(0.0)
        for j in range(items.size):
            row, mine = q[items[j]], shares[j]
            mu = np.float32(0.0)
            for c in range(n_tastes):
                mu += (visits[c] + a) * row[c]
            mu /= b + np.float32(1.0)
            times = mu / -math.expm1(-mu) if mu > 1e-6 else 1.0
            total = np.float32(0.0)
            for c in range(n_tastes):
                rest = max(visits[c] - mine[c], np.float32(0.0))
                visits[c] = rest
                weight = (rest + a) * row[c]
                total += weight
            scale = np.float32(times) / total
            for c in range(n_tastes):
                share = (visits[c] + a) * row[c] * scale
                moved = max(moved, abs(share - mine[c]))
                mine[c] = share
                visits[c] += share
        if moved < SETTLED:
            break


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def arrival_rates(visits, a, q, rates):
    """Write the rates at which all items arrive, up to a factor."""
    for i in range(q.shape[0]):
        total, row = np.float32(0.0), q[i]
        for c in range(q.shape[1]):
            total += (visits[c] + a) * row[c]
        rates[i] = total
