"""The move of the visits: how often each clicked item was drawn, and under which taste.

Users are independent given the laws of the tastes, so a user is dealt with from beginning to end at a time:

1. every clicked item was visited n ~ Poisson(mu) times, given n >= 1, and each of these visits was to taste c with
   probability proportional to lambda_c q_c(i);
2. passes over the visits with the rates integrated out: taste c with probability proportional to
   (the user's other visits to c + a) q_c(i). The number of visits to an item stays.

Rows of tastes are filled up with zeros to a multiple of BLOCK, so that loops over a block vectorise.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.rng_streams import PASS_STRIDE, TASTE_COLLAPSED, TASTE_VISITS
from bmcd.mallows.latent.scan import REORDER
from bmcd.rng import STREAM_SIZE, in_blocks, next_blocks, open_stream, uniform, unit_interval

BLOCK = 8
# From this mean on, a Poisson number is drawn as a sum of parts with means below it: no part underflows.
LARGE_MEAN = 16.0
# Terms of a Poisson law below this can no longer change its sum.
LAST_TERM = 1e-20
# Rates and probabilities below this are raised to it, so that no product of two is zero.
SMALLEST = 1e-150
LOG_FACTORIAL = np.array([math.lgamma(n + 1.0) for n in range(64)])


@numba.njit(cache=True, nogil=True)
def padded(n_tastes):
    """n_tastes rounded up to whole blocks."""
    return (n_tastes + BLOCK - 1) // BLOCK * BLOCK


@numba.njit(cache=True, nogil=True)
def first_item_probabilities(item_at, scale_index, log_law, out):
    """out[item, c] = P(a visit to taste c clicks the item); columns beyond the last taste stay as they are."""
    n_tastes, n_items = item_at.shape
    law = np.empty(n_items)
    for c in range(n_tastes):
        for r in range(n_items):
            law[r] = max(math.exp(log_law[scale_index[c], r]), SMALLEST)
        for r in range(n_items):
            out[item_at[c, r], c] = law[r]


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def weigh(of_user, extra, of_item, weights, block_sums):
    """weights[c] = (of_user[c] + extra) of_item[c], and their sums over blocks. Returns the sum of all."""
    total = 0.0
    for block in range(block_sums.size):
        x = of_user[block * BLOCK : (block + 1) * BLOCK]
        q = of_item[block * BLOCK : (block + 1) * BLOCK]
        w = weights[block * BLOCK : (block + 1) * BLOCK]
        part = 0.0
        for i in range(BLOCK):
            w[i] = (x[i] + extra) * q[i]
            part += w[i]
        block_sums[block] = part
        total += part
    return total


@numba.njit(cache=True, nogil=True)
def pick(u, weights, block_sums, n_tastes):
    """The taste at which the running sum of the weights passes ``u``: the block first, then the place in it.

    Both loops always run to the end: where they would stop is random, and a wrong guess of the processor costs
    more.
    """
    block, passed, below = 0, 0.0, 0.0
    for i in range(block_sums.size - 1):
        passed += block_sums[i]
        if passed <= u:
            block += 1
            below = passed
    u -= below
    first = block * BLOCK
    w = weights[first : first + BLOCK]
    # Running sums, of few steps each: a step must wait for the one before.
    two, four, six = w[0] + w[1], w[0] + w[1] + (w[2] + w[3]), w[0] + w[1] + (w[2] + w[3]) + (w[4] + w[5])
    place = int(w[0] <= u) + int(two <= u) + int(two + w[2] <= u) + int(four <= u)
    place += int(four + w[4] <= u) + int(six <= u) + int(six + w[6] <= u)
    return min(first + place, n_tastes - 1)


@numba.njit(cache=True, nogil=True)
def small_poisson(u, term, n, mu):
    """The smallest number whose cumulative probability exceeds ``u``; ``term`` is the probability of ``n``."""
    total = term
    while u >= total and term > LAST_TERM:
        n += 1
        term *= mu / n
        total += term
    return n


@numba.njit(cache=True, nogil=True)
def positive_poisson(stream, u, mu):
    """A Poisson(mu) number given that it is not zero, by inversion of ``u``.

    P(1) = mu / expm1(mu) >= 1 - mu / 2, which spares most calls the exponential. Large means: a Poisson number as a
    sum of parts from the stream, again if it is zero, which is very rare.
    """
    if mu < LARGE_MEAN:
        if u < 1.0 - 0.5 * mu:
            return 1
        return small_poisson(u, mu / math.expm1(mu), 1, mu)
    parts = int(mu / LARGE_MEAN) + 1
    part = mu / parts
    nothing = math.exp(-part)
    total = 0
    while total == 0:
        for _ in range(parts):
            total += small_poisson(uniform(stream), nothing, 0, part)
    return total


@numba.njit(cache=True, nogil=True)
def log_factorial(n):
    """Log n!; nearly all numbers of visits are small."""
    return LOG_FACTORIAL[n] if n < LOG_FACTORIAL.size else math.lgamma(n + 1.0)


@numba.njit(cache=True, nogil=True)
def larger(array, size):
    """A copy of ``array`` with room for at least ``size`` numbers."""
    out = np.empty(2 * size, array.dtype)
    out[: array.size] = array
    return out


@numba.njit(cache=True, nogil=True)
def update_visits(rates, data, q, a, passes, key, chain, sweep, of_user, of_item):
    """Redraw all visits. Counts of the visits go to of_user[user, c] and of_item[item, c].

    Each click has two random numbers, one for how many visits there were and one for the taste of the
    first; the other visits take theirs from what comes next in the stream.
    Returns how many visits there are, and the sum of log n! over the clicks.
    """
    n_users, n_tastes = rates.shape
    width = q.shape[1]
    weights, block_sums = np.empty(width), np.empty(width // BLOCK)
    rate, count = np.zeros(width), np.zeros(width)
    item_of, taste_of = np.empty(64, np.int64), np.empty(64, np.int64)  # of the visits of one user
    stream, bits = np.empty(STREAM_SIZE, np.uint64), np.empty(128, np.uint64)
    of_item[:] = 0.0
    n_visits, log_repeats = 0, 0.0
    for user in range(n_users):
        first, last = data.user_start[user], data.user_start[user + 1]
        open_stream(stream, key, chain, sweep, user, TASTE_VISITS)
        if bits.size < 2 * (last - first):
            bits = larger(bits, 2 * (last - first))
        next_blocks(stream, bits[: in_blocks(2 * (last - first))])
        rate[:n_tastes] = rates[user]
        count[:] = 0.0
        size = 0
        for click in range(first, last):
            item = data.user_items[click]
            mu = weigh(rate, 0.0, q[item], weights, block_sums)
            n = positive_poisson(stream, unit_interval(bits[2 * (click - first)]), mu)
            if size + n > item_of.size:
                item_of, taste_of = larger(item_of, size + n), larger(taste_of, size + n)
            u = unit_interval(bits[2 * (click - first) + 1])
            for visit in range(size, size + n):
                if visit > size:
                    u = uniform(stream)
                c = pick(u * mu, weights, block_sums, n_tastes)
                item_of[visit], taste_of[visit] = item, c
                count[c] += 1.0
            size += n
            if n > 1:
                log_repeats += log_factorial(n)
        if bits.size < in_blocks(size):
            bits = larger(bits, in_blocks(size))
        for pass_ in range(passes):
            open_stream(stream, key, chain, sweep, user, TASTE_COLLAPSED + PASS_STRIDE * pass_)
            next_blocks(stream, bits[: in_blocks(size)])
            collapsed_pass(bits, item_of[:size], taste_of, count, q, a, weights, block_sums, n_tastes)
        for visit in range(size):
            of_item[item_of[visit], taste_of[visit]] += 1.0
        of_user[user] = count[:n_tastes]
        n_visits += size
    return n_visits, log_repeats


@numba.njit(cache=True, nogil=True)
def collapsed_pass(bits, item_of, taste_of, count, q, a, weights, block_sums, n_tastes):
    """Gibbs over the tastes of one user's visits, the user's rates integrated out; a random number for each."""
    for visit in range(item_of.size):
        count[taste_of[visit]] -= 1.0
        total = weigh(count, a, q[item_of[visit]], weights, block_sums)
        c = pick(unit_interval(bits[visit]) * total, weights, block_sums, n_tastes)
        taste_of[visit] = c
        count[c] += 1.0
