"""The move of the rates: Gibbs. lambda_jc ~ Gamma(a + visits of user j to taste c, b + 1).

The 1 is what a taste's probabilities of first items sum to: a user at rate lambda is seen for one unit of time.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.sampling.tastes.purposes import RATES
from bmcd.sampling.tastes.visits import SMALLEST
from bmcd.system.streams import STREAM_SIZE, open_stream, uniform
from bmcd.system.variates import log_gamma_variate

# Up to here Gamma(a + n) is drawn as Gamma(a) plus n exponentials, which cost one logarithm together.
FEW = 6
CELLS = 1024


@numba.njit(cache=True, nogil=True)
def draw_small_gammas(stream, shape, out, proposals, cells):
    """Fill ``out`` with Gamma(shape, 1) variates, shape < 1 (Ahrens and Dieter 1974, algorithm GS).

    p = split (1 - u); up to 1 it proposes x = p^(1 / shape), to be accepted with probability exp(-x), which lies
    above the first terms of its series. One random number gives u and the cell, one of CELLS, in which the number
    lies that decides; mostly that is enough.
    ``proposals`` and ``cells`` are room for as many numbers.
    """
    split, inverse = 1.0 + shape / math.e, 1.0 / shape
    for i in range(out.size):
        x = uniform(stream) * CELLS
        cells[i] = int(x)
        proposals[i] = split * (1.0 - (x - cells[i]))
    # Powers first and decisions after: the processor guesses decisions, and is to lose little when it is wrong.
    for i in range(out.size):
        out[i] = math.exp(math.log(proposals[i]) * inverse)
    for i in range(out.size):
        x = out[i]
        if proposals[i] > 1.0 or cells[i] + 1.0 > CELLS * (1.0 - x * (1.0 - x * (0.5 - x / 6.0))):
            out[i] = settle_small_gamma(stream, shape, split, proposals[i], cells[i])


@numba.njit(cache=True, nogil=True)
def settle_small_gamma(stream, shape, split, p, cell):
    """Finish algorithm GS from a proposal on: accept it, or propose anew until one is accepted."""
    while True:
        if p <= 1.0:
            x = math.exp(math.log(p) / shape)
            accept = math.exp(-x)
        else:
            x = -math.log((split - p) / shape) if p < split else math.inf
            accept = math.exp((shape - 1.0) * math.log(x))
        if cell + uniform(stream) < CELLS * accept:
            return x
        x = uniform(stream) * CELLS
        cell = int(x)
        p = split * (1.0 - (x - cell))


@numba.njit(cache=True, nogil=True)
def draw_gammas(stream, a, counts, out, proposals, cells):
    """out[c] = a Gamma(a + counts[c], 1) variate, for whole counts."""
    if a < 1.0:
        draw_small_gammas(stream, a, out, proposals, cells)
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
    stream = np.empty(STREAM_SIZE, np.uint64)
    proposals, cells = np.empty(n_tastes), np.empty(n_tastes, np.int64)
    scale = 1.0 / (b + 1.0)
    total = 0.0
    for user in range(n_users):
        open_stream(stream, key, chain, sweep, user, RATES)
        draw_gammas(stream, a, of_user[user], rates[user], proposals, cells)
        for c in range(n_tastes):
            rate = max(scale * rates[user, c], SMALLEST)
            rates[user, c] = rate
            total += rate
    return total
