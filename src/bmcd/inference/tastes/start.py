"""Clicks and chains of the tastes sampler, and where a chain starts: mean-field rounds over the clicks.

The posterior has many modes, and the start decides which one a chain finds. The rounds are the collapsed move of
`visits.py` with expected counts (CVB0, Asuncion et al. 2009), one visit per click, and free probabilities of the
items in place of Mallows laws: share of taste c for a click of user j on item i proportional to (N_jc + a) (N_ic +
SMOOTHING) / (N_c + SMOOTHING n), without the click itself. From random shares, a few rounds leave a poor mode and
a hundred find a good one.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.inference.rng_streams import TASTE_START
from bmcd.inference.tastes.rank_laws import RankLaws
from bmcd.mallows.latent.exact import click_matrix
from bmcd.mallows.latent.scan import REORDER
from bmcd.rng import STREAM_SIZE, open_stream, uniform


class TasteData(NamedTuple):
    """Who clicked what: user j clicked user_items[user_start[j] : user_start[j + 1]]."""

    user_start: NDArray[np.int64]
    user_items: NDArray[np.int64]
    n_items: int


class TasteState(NamedTuple):
    """What the next sweep needs; a sweep changes it in place."""

    rates: NDArray[np.float64]  # [user, taste]: lambda, how often a user visits a taste
    item_at: NDArray[np.int64]  # [taste, rank - 1]: the consensus, read from the best item on
    scale_index: NDArray[np.int64]  # [taste]: which alpha of the grid
    a: NDArray[np.float64]  # [1]: shape of the law of the rates
    b: NDArray[np.float64]  # [1]: rate of the law of the rates
    a_step: NDArray[np.float64]  # [1]: spread of the proposals of log a, tuned in warm-up only


class TasteInfo(NamedTuple):
    """What a reader wants to know of a sweep.

    ``log_joint`` is the log density of clicks, visits, consensuses, scales, a and b at the end of the sweep, the
    rates integrated out. Given the visits, a rate has mean (visits + a) / (b + 1): less noisy than the rate itself.
    """

    log_joint: float
    n_visits: int
    visits: NDArray[np.float64]  # [user, taste]: how many visits each user paid to each taste
    visits_per_taste: NDArray[np.float64]
    rho: NDArray[np.int64]  # [taste, item]: the consensuses as ranks, 1 for the best
    alpha: NDArray[np.float64]  # [taste]
    swaps_accepted: float  # share of the swaps proposed to the consensuses; NaN if no taste has a visit
    a_accepted: float  # share; NaN if a is fixed


def make_taste_data(clicks: Any) -> TasteData:
    """Take a users x items matrix, dense or sparse, or `Clicks`; anything but zero is one click.

    >>> make_taste_data([[0, 1], [1, 1]]).user_items.tolist()
    [1, 0, 1]
    """
    matrix = click_matrix(clicks)
    return TasteData(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), int(matrix.shape[1]))


ROUNDS = 100
# The rounds stop when a round moves less than this of every click from one taste to another, on average.
SETTLED = 1e-3
SMOOTHING = 0.05
# How far apart the points of the grid are among which the best alpha is looked for first.
STRIDE = 16


@numba.njit(cache=True, nogil=True)
def random_shares(user_start, n_tastes, key, chain):
    """Shares of the tastes in every click, uniform on the simplex, and a function of (key, chain, user) alone."""
    shares = np.empty((user_start[-1], n_tastes), np.float32)
    stream = np.empty(STREAM_SIZE, np.uint64)
    for user in range(user_start.size - 1):
        open_stream(stream, key, chain, 0, user, TASTE_START)
        for click in range(user_start[user], user_start[user + 1]):
            total = 0.0
            for c in range(n_tastes):
                shares[click, c] = -math.log(1.0 - uniform(stream))
                total += shares[click, c]
            for c in range(n_tastes):
                shares[click, c] /= total
    return shares


# No check for division by zero, which could not happen, and which would keep the loop from vectorising.
@numba.njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")
def mean_field_round(user_start, user_items, a, shares, of_user, of_item, of_taste):
    """One round over all clicks, in place. Returns how much of a click changed its taste, on average."""
    n_items, n_tastes = of_item.shape
    new = np.empty(n_tastes, np.float32)
    moved = 0.0
    for user in range(user_start.size - 1):
        mine = of_user[user]
        for click in range(user_start[user], user_start[user + 1]):
            old, item = shares[click], of_item[user_items[click]]
            total = np.float32(0.0)
            for c in range(n_tastes):
                # What is left without the click; rounding must not make it negative.
                u = max(mine[c] - old[c], np.float32(0.0)) + np.float32(a)
                i = max(item[c] - old[c], np.float32(0.0)) + np.float32(SMOOTHING)
                t = max(of_taste[c] - old[c], np.float32(0.0)) + np.float32(SMOOTHING * n_items)
                new[c] = u * i / t
                total += new[c]
            scale = np.float32(1.0) / total
            change = np.float32(0.0)
            for c in range(n_tastes):
                share = new[c] * scale
                difference = share - old[c]
                mine[c] += difference
                item[c] += difference
                of_taste[c] += difference
                old[c] = share
                change += abs(difference)
            moved += float(change)
    return 0.5 * moved / max(user_start[-1], 1)


@numba.njit(cache=True, nogil=True)
def count_shares(user_start, user_items, shares, of_user, of_item, of_taste):
    """Sum up the shares by user, by item, and over all."""
    of_user[:] = 0.0
    of_item[:] = 0.0
    of_taste[:] = 0.0
    for user in range(user_start.size - 1):
        for click in range(user_start[user], user_start[user + 1]):
            for c in range(shares.shape[1]):
                of_user[user, c] += shares[click, c]
                of_item[user_items[click], c] += shares[click, c]
                of_taste[c] += shares[click, c]


def mean_field(
    data: TasteData,
    n_tastes: int,
    a: float,
    key: NDArray[np.uint64],
    chain: int,
    rounds: int = ROUNDS,
    laws: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected clicks of each (user, taste) and of each (item, taste) after the rounds.

    The rounds start from random shares, or, given the ``laws`` [item, taste] of the items, from shares that are
    proportional to them.
    """
    if laws is None:
        shares = random_shares(data.user_start, n_tastes, key, chain)
    else:
        shares = (laws / laws.sum(axis=1, keepdims=True))[data.user_items].astype(np.float32)
    # Sums in single precision do for a start; they are recomputed from time to time, so that rounding does not
    # add up.
    of_user = np.zeros((data.user_start.size - 1, n_tastes), np.float32)
    of_item = np.zeros((data.n_items, n_tastes), np.float32)
    of_taste = np.zeros(n_tastes, np.float32)
    for round_ in range(rounds):
        if round_ % 10 == 0:
            count_shares(data.user_start, data.user_items, shares, of_user, of_item, of_taste)
        moved = mean_field_round(data.user_start, data.user_items, a, shares, of_user, of_item, of_taste)
        if moved < SETTLED:
            break
    count_shares(data.user_start, data.user_items, shares, of_user, of_item, of_taste)
    return of_user.astype(np.float64), of_item.astype(np.float64)


def best_scale(counts_at: NDArray[np.float64], laws: RankLaws, log_prior: NDArray[np.float64]) -> int:
    """The point of the grid with the highest posterior given visits by rank: every 16th point first, then nearby.

    >>> laws = RankLaws(3)
    >>> laws.alphas[best_scale(np.array([50.0, 1.0, 0.0]), laws, laws.log_prior(0.1))] > 3
    np.True_
    """
    candidates = np.arange(0, log_prior.size, STRIDE)
    for reach in (STRIDE - 1, 0):
        laws.make(candidates)
        best = int(candidates[np.argmax(laws.log_law[candidates] @ counts_at + log_prior[candidates])])
        candidates = np.arange(max(best - reach, 0), min(best + reach + 1, log_prior.size))
    return best
