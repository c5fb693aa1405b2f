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

from bmcd.mallows.latent.scan import REORDER
from bmcd.sampling.tastes.purposes import COLLAPSED, PASS_STRIDE, VISITS
from bmcd.system.streams import STREAM_SIZE, open_stream, uniform

BLOCK = 8
# From this mean on, a Poisson number is drawn as a sum of parts with means below it: no part underflows.
LARGE_MEAN = 16.0
# Terms of a Poisson law below this can no longer change its sum.
LAST_TERM = 1e-20
# Rates and probabilities below this are raised to it, so that no product of two is zero.
SMALLEST = 1e-150


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
    first, place, passed = block * BLOCK, 0, 0.0
    for i in range(BLOCK - 1):
        passed += weights[first + i]
        place += passed <= u
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
def positive_poisson(stream, mu):
    """A Poisson(mu) number given that it is not zero.

    P(1) = mu / expm1(mu) >= 1 - mu / 2, which spares most calls the exponential. Large means: a Poisson number as a
    sum of parts, anew if it is zero, which hardly ever happens.
    """
    if mu < LARGE_MEAN:
        u = uniform(stream)
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
def larger(array, size):
    """A copy of ``array`` with room for at least ``size`` numbers."""
    out = np.empty(2 * size, array.dtype)
    out[: array.size] = array
    return out


@numba.njit(cache=True, nogil=True)
def update_visits(rates, data, q, a, passes, key, chain, sweep, of_user, of_item):
    """Draw all visits afresh. Counts of the visits go to of_user[user, c] and of_item[item, c].

    Returns how many visits there are, and the sum of log n! over the clicks.
    """
    n_users, n_tastes = rates.shape
    width = q.shape[1]
    weights, block_sums = np.empty(width), np.empty(width // BLOCK)
    rate, count = np.zeros(width), np.zeros(width)
    item_of, taste_of = np.empty(64, np.int64), np.empty(64, np.int64)  # of the visits of one user
    stream = np.empty(STREAM_SIZE, np.uint64)
    of_item[:] = 0.0
    n_visits, log_repeats = 0, 0.0
    for user in range(n_users):
        open_stream(stream, key, chain, sweep, user, VISITS)
        rate[:n_tastes] = rates[user]
        count[:] = 0.0
        size = 0
        for click in range(data.user_start[user], data.user_start[user + 1]):
            item = data.user_items[click]
            mu = weigh(rate, 0.0, q[item], weights, block_sums)
            n = positive_poisson(stream, mu)
            if size + n > item_of.size:
                item_of, taste_of = larger(item_of, size + n), larger(taste_of, size + n)
            for visit in range(size, size + n):
                c = pick(uniform(stream) * mu, weights, block_sums, n_tastes)
                item_of[visit], taste_of[visit] = item, c
                count[c] += 1.0
            size += n
            if n > 1:
                log_repeats += math.lgamma(n + 1.0)
        for pass_ in range(passes):
            open_stream(stream, key, chain, sweep, user, COLLAPSED + PASS_STRIDE * pass_)
            collapsed_pass(stream, item_of[:size], taste_of, count, q, a, weights, block_sums, n_tastes)
        for visit in range(size):
            of_item[item_of[visit], taste_of[visit]] += 1.0
        of_user[user] = count[:n_tastes]
        n_visits += size
    return n_visits, log_repeats


@numba.njit(cache=True, nogil=True)
def collapsed_pass(stream, item_of, taste_of, count, q, a, weights, block_sums, n_tastes):
    """Gibbs over the tastes of one user's visits, the user's rates integrated out."""
    for visit in range(item_of.size):
        count[taste_of[visit]] -= 1.0
        total = weigh(count, a, q[item_of[visit]], weights, block_sums)
        c = pick(uniform(stream) * total, weights, block_sums, n_tastes)
        taste_of[visit] = c
        count[c] += 1.0
