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


@numba.njit(cache=True, nogil=True)
def small_gamma(stream, shape):
    """A Gamma(shape, 1) variate, shape < 1 (Ahrens and Dieter 1974, algorithm GS).

    Most of these are tiny and accepted without a look at the exponential: 1 - x <= exp(-x).
    """
    split = 1.0 + shape / math.e
    while True:
        p = split * (1.0 - uniform(stream))  # never zero
        v = uniform(stream)
        if p <= 1.0:
            x = math.exp(math.log(p) / shape)
            if v < 1.0 - x or v < math.exp(-x):
                return x
        else:
            x = -math.log((split - p) / shape) if p < split else math.inf
            if v < math.exp((shape - 1.0) * math.log(x)):
                return x


@numba.njit(cache=True, nogil=True)
def gamma_variate(stream, a, n):
    """A Gamma(a + n, 1) variate for a whole number n, small or not."""
    if a >= 1.0 or n > FEW:
        return math.exp(log_gamma_variate(stream, a + n))
    x = small_gamma(stream, a)
    if n > 0:
        product = 1.0
        for _ in range(n):
            product *= 1.0 - uniform(stream)
        x -= math.log(product)
    return x


@numba.njit(cache=True, nogil=True)
def update_rates(rates, of_user, a, b, key, chain, sweep):
    """Draw all rates afresh, given how often each user visited each taste. Returns their sum."""
    n_users, n_tastes = rates.shape
    stream = np.empty(STREAM_SIZE, np.uint64)
    scale = 1.0 / (b + 1.0)
    total = 0.0
    for user in range(n_users):
        open_stream(stream, key, chain, sweep, user, RATES)
        for c in range(n_tastes):
            rate = max(scale * gamma_variate(stream, a, int(of_user[user, c])), SMALLEST)
            rates[user, c] = rate
            total += rate
    return total
