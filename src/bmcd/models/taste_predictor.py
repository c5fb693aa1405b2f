"""From draws of the tastes to probabilities: clicks folded in under every draw, then the race for the next k."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.errors import InputError
from bmcd.inference.tastes.draws import TasteDraws
from bmcd.inference.tastes.fold_in import arrival_rates_by_taste, expected_visits
from bmcd.mallows.latent.scan import REORDER
from bmcd.models.answers import MaxDraws, Predictions, draws_per_chain
from bmcd.models.next_k import race_corrected
from bmcd.utils import Floats, thread_count

# Batches of draws of a chain, from which Monte Carlo standard errors are taken where there is one chain only.
BATCHES = 4
# Draws used, over all chains, unless the caller says otherwise.
ENOUGH = 40
# Users in one block, and numbers in the arrays of a block.
BLOCK, BLOCK_SIZE = 512, 2**20
# Users that a thread takes at a time.
PIECE = 32


@numba.njit(cache=True, nogil=True)
def predict_users(first, last, offset, user_start, user_items, q, laws, a, b, batch_of, k, probability, mcse, law):
    """Write probabilities, their standard errors and the law of the next click of users first..last - 1.

    Into ``probability[user - offset, item]``, and so on. All of them are folded in under one draw after the other,
    so that its ``q[item, taste]`` and ``laws[taste, item]``, the same numbers, stay at hand. A clicked item has the
    rate 0 in the race, and so the probability 0.
    """
    n_draws, n_items, n_tastes = q.shape
    shares, visits = np.empty((n_items, n_tastes), np.float32), np.empty(n_tastes, np.float32)
    rates, running, out = np.empty(n_items, np.float32), np.empty(n_items), np.empty(n_items)
    of_batch, squares = np.zeros((last - first, n_items)), np.zeros((last - first, n_items))
    mean, times = np.zeros((last - first, n_items)), np.full(last - first, float(k))
    n_batches, n_in_batch = 0, 0
    for draw in range(n_draws):
        n_in_batch += 1
        ends = draw + 1 == n_draws or batch_of[draw + 1] != batch_of[draw]
        n_batches += ends
        for user in range(first, last):
            items, row, person = user_items[user_start[user] : user_start[user + 1]], user - offset, user - first
            expected_visits(items, q[draw], a[draw], b[draw], shares, visits)
            arrival_rates_by_taste(visits, a[draw], laws[draw], rates)
            for i in items:
                rates[i] = 0.0
            as_shares(rates, running, law[row], n_draws)
            if n_items - items.size <= k:
                out[:] = 1.0  # all that is left is among the next k
                for i in items:
                    out[i] = 0.0
            elif k == 1:
                out[:] = running  # exact
            else:
                times[person] = race_corrected(running, k, times[person], out)
            of_batch[person] += out
            if ends:
                probability[row] += of_batch[person] / n_draws
                add_batch(of_batch[person], n_in_batch, n_batches, mean[person], squares[person])
        if ends:
            n_in_batch = 0
    for user in range(first, last):
        for i in range(n_items):
            variance = squares[user - first, i] / (n_batches - 1) if n_batches > 1 else math.nan
            mcse[user - offset, i] = math.sqrt(variance / n_batches)


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def as_shares(rates, running, law, n_draws):
    """Write each rate as its share in all of them, and add the n-th part of that to the law."""
    total = 0.0
    for i in range(rates.size):
        total += rates[i]
    scale = 1.0 / total if total > 0.0 else 0.0  # whoever has clicked everything
    part = scale / n_draws
    for i in range(rates.size):
        running[i] = rates[i] * scale
        law[i] += rates[i] * part


@numba.njit(cache=True, nogil=True)
def add_batch(sums, n_in_batch, n_batches, mean, squares):
    """Count the mean of the ``n_batches``-th batch in, and clear its sums.

    ``mean`` is that over batches and ``squares`` the sum of the squared differences to it, by Welford's recursion.
    """
    part, share = 1.0 / n_in_batch, 1.0 / n_batches
    for i in range(sums.size):
        value = sums[i] * part
        before = value - mean[i]
        mean[i] += before * share
        squares[i] += before * (value - mean[i])
        sums[i] = 0.0


@numba.njit(cache=True, nogil=True)
def shares_of_users(user_start, user_items, q, a, b, out):
    """Add to out[user, taste] the share of each taste in a user's expected visits under one draw."""
    n_items, n_tastes = q.shape
    shares, visits = np.empty((n_items, n_tastes), np.float32), np.empty(n_tastes, np.float32)
    for user in range(user_start.size - 1):
        expected_visits(user_items[user_start[user] : user_start[user + 1]], q, a, b, shares, visits)
        total = 0.0
        for c in range(n_tastes):
            total += visits[c] + a
        for c in range(n_tastes):
            out[user, c] += (visits[c] + a) / total


class TastePredictor:
    """Draws of the tastes, made ready to answer for anybody's clicks.

    Of the draws of every chain an equal number is used, evenly spaced, about ``max_draws`` in all ("auto": ENOUGH,
    None: all), at least one of each chain. The Monte Carlo standard error is that between the means of the chains,
    which sit in different modes; with one chain it is that between batches of its draws.

    The answer for a user depends on nobody else's clicks, and the number of threads changes no digit.
    """

    def __init__(self, draws: TasteDraws, max_draws: MaxDraws) -> None:
        self.n_chains, self.n_items = draws.n_chains, draws.problem.n_items
        per_chain = draws_per_chain(max_draws, ENOUGH, self.n_chains, draws.n_draws)
        # The last draw is always among them.
        chosen = draws.n_draws - 1 - np.linspace(0, draws.n_draws - 1, per_chain).round().astype(int)[::-1]
        pairs = [(chain, int(draw)) for chain in range(self.n_chains) for draw in chosen]
        self.q = np.stack([draws.first_items(*pair) for pair in pairs]).astype(np.float32)
        self.laws = np.ascontiguousarray(self.q.transpose(0, 2, 1))
        self.a, self.b = (
            np.array([values[pair][0] for pair in pairs], np.float32) for values in (draws.a, draws.b)
        )
        self.n_batches = 1 if self.n_chains > 1 else min(BATCHES, per_chain)
        of_chain = np.arange(per_chain) * self.n_batches // per_chain
        self.batch_of = np.concatenate([chain * self.n_batches + of_chain for chain in range(self.n_chains)])
        best = draws.best_chain
        self.best = slice(best * per_chain, (best + 1) * per_chain)

    def blocks(
        self, clicks: sparse.csr_array[Any], k: int, n_threads: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield predictions block by block: the rows of the block and what is predicted for them."""
        starts, items = self._laid_out(clicks)
        n_users, k = clicks.shape[0], min(k, self.n_items)
        size = max(1, min(BLOCK, BLOCK_SIZE // self.n_items))
        # Starting a thread takes longer than a few users do.
        with nullcontext() if n_users <= PIECE else ThreadPoolExecutor(thread_count(n_threads)) as pool:
            for first in range(0, n_users, size):
                last = min(first + size, n_users)
                found = np.zeros((3, last - first, self.n_items))

                def predict(start: int, first=first, last=last, found=found) -> None:
                    predict_users(
                        start, min(start + PIECE, last), first, starts, items, self.q, self.laws, self.a, self.b,
                        self.batch_of, k, *found,
                    )  # fmt: skip

                list((map if pool is None else pool.map)(predict, range(first, last, PIECE)))
                probability, mcse, law = found
                yield np.arange(first, last), Predictions(probability.clip(0.0, 1.0), mcse, -law)

    def memberships(self, clicks: sparse.csr_array[Any]) -> Floats:
        """Return the share of each taste of the best chain in the users' expected visits, [user, taste]."""
        starts, items = self._laid_out(clicks)
        out = np.zeros((clicks.shape[0], self.q.shape[2]))
        for q, a, b in zip(self.q[self.best], self.a[self.best], self.b[self.best], strict=True):
            shares_of_users(starts, items, q, a, b, out)
        return np.asarray(out / len(self.q[self.best]))

    def _laid_out(self, clicks: sparse.csr_array[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if clicks.shape[1] != self.n_items:
            raise InputError(f"the draws are of {self.n_items} items, but the clicks are on {clicks.shape[1]}.")
        return clicks.indptr.astype(np.int64), clicks.indices.astype(np.int64)
