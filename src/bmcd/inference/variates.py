"""Draw random variates from a counter-based stream."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.rng import uniform


@numba.njit(cache=True, nogil=True)
def exponential(stream):
    """Draw an exponential variate with mean 1. (1 - u is never zero.)"""
    return -math.log(1.0 - uniform(stream))


@numba.njit(cache=True, nogil=True)
def normal(stream):
    """Draw a standard normal variate (Box and Muller). The second of the pair is not kept for the next call."""
    return math.sqrt(2.0 * exponential(stream)) * math.cos(2.0 * math.pi * uniform(stream))


@numba.njit(cache=True, nogil=True)
def log_gamma_variate(stream, shape):
    """Draw the log of a Gamma(shape, 1) variate (Marsaglia and Tsang 2000). Small shapes would underflow."""
    boost = 0.0
    if shape < 1.0:
        boost = -exponential(stream) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(stream)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(1.0 - uniform(stream)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return math.log(d * v) + boost


@numba.njit(cache=True, nogil=True)
def draw_dirichlet(stream, concentration, out):
    """Fill ``out`` with a Dirichlet variate. No entry is exactly zero, so that its logarithm exists."""
    largest = -math.inf
    for c in range(out.size):
        out[c] = log_gamma_variate(stream, concentration[c])
        largest = max(largest, out[c])
    total = 0.0
    for c in range(out.size):
        out[c] = max(math.exp(out[c] - largest), 1e-300)
        total += out[c]
    out /= total


@numba.njit(cache=True, nogil=True)
def draw_from_logs(stream, log_weights):
    """Draw an index with probability proportional to exp(log_weights)."""
    largest = log_weights.max()
    total = 0.0
    for c in range(log_weights.size):
        total += math.exp(log_weights[c] - largest)
    u = uniform(stream) * total
    for c in range(log_weights.size):
        u -= math.exp(log_weights[c] - largest)
        if u < 0.0:
            return c
    return int(np.argmax(log_weights))
