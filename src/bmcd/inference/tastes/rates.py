"""The move of the rates: Gibbs. lambda_jc ~ Gamma(a + visits of user j to taste c, b + 1).

The 1 is what a taste's probabilities of first items sum to: a user at rate lambda is seen for one unit of time.

Nearly all rates of a user belong to tastes without a visit: Gamma(a, 1) variates with one shape a < 1, which are
drawn by rejection from a table. Their density, up to a constant, h(x) = x^(a - 1) exp(-x), falls. So the axis is
cut into cells, and the highest value of h in a cell is that at its left end, h_k: a hat made of boxes, all of the
same area. A variate is drawn by

1. taking a cell, all equally likely, and a place x in it, uniformly: both from 53 bits of one random number;
2. accepting x with probability h(x) / h_k. That is at least h_(k + 1) / h_k, which is near 1 and is in the table:
   the other 11 bits of the number are enough for most decisions, and no function is evaluated.

The first cells lie below the boxes, where h grows beyond all bounds: x^(a - 1) is a hat there, and is inverted.
The last cell is the tail, with an exponential hat. (Ahrens 1993, *Sampling from general distributions by
suboptimal division of domains*.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.inference.rng_streams import TASTE_RATES
from bmcd.inference.tastes.visits import SMALLEST
from bmcd.inference.variates import log_gamma_variate
from bmcd.mallows.latent.scan import REORDER
from bmcd.rng import STREAM_SIZE, in_blocks, next_blocks, open_stream, uniform, unit_interval

# The boxes do not start below this; rates so small are made larger anyway (`visits.py`).
LOWEST = 1e-150
# Decisions are made from a number out of 0, ..., STEPS - 1 at first: 11 bits.
STEPS = 2048
_LOW_BITS = np.uint64(STEPS - 1)
# Boxes; with a small a they must be many, as h falls fast.
FEWEST, MOST = 16, 4096
# Cells beyond the boxes asked for: no more than -log r, summed over the ratios r of neighbouring values of h. From
# LOWEST to 1 it falls by a factor of no more than exp(345.4), and from there to the area, which is above 1e-4.
EXTRA = 400


class GammaTable(NamedTuple):
    """The cells for one shape."""

    a: float
    low: NDArray[np.float64]  # left ends
    width: NDArray[np.float64]
    at_once: NDArray[np.float64]  # of STEPS numbers, how many accept whatever the place in the cell
    n_cells: int
    n_first: int  # the number of cells for what lies below the boxes
    first: float  # where the boxes start
    area: float


@numba.njit(cache=True, nogil=True)
def log_density(a, x):
    """log h(x)."""
    return (a - 1.0) * math.log(x) - x


@numba.njit(cache=True, nogil=True)
def gamma_table(a, n_variates):
    """The cells for Gamma(a, 1), a < 1; for few variates, few."""
    boxes = min(max(int(200.0 / a), 256), MOST, max(n_variates // 8, FEWEST))
    low, width, at_once = np.zeros(boxes + EXTRA), np.zeros(boxes + EXTRA), np.zeros(boxes + EXTRA)
    area = math.gamma(a) / boxes
    first = max(math.exp(math.log(a * area) / a), LOWEST)
    n_first = max(math.ceil(first**a / (a * area) - 1e-9), 1)
    k, x, h = n_first, first, math.exp(log_density(a, first))
    while h > area:  # beyond, the area under h is below h, hence below that of a box: the tail
        low[k], width[k] = x, area / h
        x += width[k]
        height, h = h, math.exp(log_density(a, x))
        at_once[k] = math.floor(STEPS * (h / height) * (1.0 - 1e-12))
        k += 1
    low[k] = x
    return GammaTable(a, low, width, at_once, k + 1, n_first, first, area)


@numba.njit(cache=True, nogil=True)
def draw_small_gammas(stream, table, out, bits):
    """Fill ``out`` with variates. ``bits`` is room for as many numbers, in whole blocks of the stream."""
    next_blocks(stream, bits)
    for i in range(out.size):
        place = unit_interval(bits[i]) * table.n_cells
        cell = int(place)
        step = float(bits[i] & _LOW_BITS)
        if step < table.at_once[cell]:
            out[i] = table.low[cell] + (place - cell) * table.width[cell]
        else:
            out[i] = settle(stream, table, place, step)


@numba.njit(cache=True, nogil=True)
def settle(stream, table, place, step):
    """Accept or refuse the proposal in full; if it is refused, propose until one is accepted."""
    while True:
        x, accept = propose(table, place)
        if step + uniform(stream) < STEPS * accept:
            return x
        place = uniform(stream) * table.n_cells
        step = math.floor(uniform(stream) * STEPS)


@numba.njit(cache=True, nogil=True)
def propose(table, place):
    """The variate proposed by a cell and a place in it, and the probability to accept it."""
    a, cell = table.a, int(place)
    fraction = place - cell
    low = table.low[cell]
    if cell < table.n_first:
        x = table.first * math.exp(math.log(1.0 - fraction) / a)
        return x, math.exp(-x) * table.first**a / (a * table.n_first * table.area)
    if cell == table.n_cells - 1:
        x = low - math.log(1.0 - fraction)
        return x, math.exp(log_density(a, low) + (a - 1.0) * math.log(x / low)) / table.area
    x = low + fraction * table.width[cell]
    return x, math.exp(log_density(a, x) - log_density(a, low))


# Up to here Gamma(a + n) is drawn as Gamma(a) plus n exponentials, which cost one logarithm together.
FEW = 6


@numba.njit(cache=True, nogil=True)
def draw_gammas(stream, a, counts, table, out, bits):
    """out[c] = a Gamma(a + counts[c], 1) variate, for whole counts; the table is used if a < 1."""
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
    """Redraw all rates, given how often each user visited each taste. Returns their sum."""
    n_users, n_tastes = rates.shape
    stream, bits = np.empty(STREAM_SIZE, np.uint64), np.empty(in_blocks(n_tastes), np.uint64)
    table = gamma_table(a if a < 1.0 else 0.5, rates.size if a < 1.0 else 0)
    scale = 1.0 / (b + 1.0)
    total = 0.0
    for user in range(n_users):
        open_stream(stream, key, chain, sweep, user, TASTE_RATES)
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
