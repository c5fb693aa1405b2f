"""The move of the rates: Gibbs. lambda_jc ~ Gamma(a + visits of user j to taste c, b + 1).

The 1 is what a taste's probabilities of first items sum to: a user at rate lambda is seen for one unit of time.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.tastes.gammas import draw_small_gammas, gamma_table
from bmcd.inference.tastes.rng_streams import RATES
from bmcd.inference.tastes.visits import SMALLEST
from bmcd.inference.variates import log_gamma_variate
from bmcd.mallows.latent.scan import REORDER
from bmcd.rng import STREAM_SIZE, in_blocks, open_stream, uniform

# Up to here Gamma(a + n) is drawn as Gamma(a) plus n exponentials, which cost one logarithm together.
FEW = 6


@numba.njit(cache=True, nogil=True)
def draw_gammas(stream, a, counts, table, out, bits):
    """out[c] = a Gamma(a + counts[c], 1) variate, for whole counts; the table, of `gammas.py`, is used if a < 1."""
    if a < 1.0:
        draw_small_gammas(stream, table, out, bits)
    for c in range(out.size):
        if a >= 1.0 or counts[c] > FEW:
            out[c] = math.exp(log_gamma_variate(stream, a + counts[c]))
        elif counts[c] > 0.0:
            product = 1.0
            for _ in range(int(counts[c])):
                product *= 1.0 - uniform(stream)
            out[c] -= math.log(product)


@numba.njit(cache=True, nogil=True)
def update_rates(rates, of_user, a, b, key, chain, sweep):
    """Draw all rates afresh, given how often each user visited each taste. Returns their sum."""
    n_users, n_tastes = rates.shape
    stream, bits = np.empty(STREAM_SIZE, np.uint64), np.empty(in_blocks(n_tastes), np.uint64)
    table = gamma_table(a if a < 1.0 else 0.5, rates.size if a < 1.0 else 0)
    scale = 1.0 / (b + 1.0)
    total = 0.0
    for user in range(n_users):
        open_stream(stream, key, chain, sweep, user, RATES)
        draw_gammas(stream, a, of_user[user], table, rates[user], bits)
        total += scaled(rates[user], scale)
    return total


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def scaled(rates, scale):
    """Multiply the rates of a user by ``scale``, in place; no rate becomes zero. Returns their sum."""
    total = 0.0
    for c in range(rates.size):
        rates[c] = max(scale * rates[c], SMALLEST)
        total += rates[c]
    return total
