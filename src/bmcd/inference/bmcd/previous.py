"""Where a chain starts if there is an earlier fit: at a draw of it, with new users, and new items by clicks."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import softmax

from bmcd.inference.bmcd.click_orders import click_counts
from bmcd.inference.bmcd.em import Mixture, log_joint
from bmcd.inference.draws import ChainDraws
from bmcd.utils import Floats, Integers


class Previous(NamedTuple):
    """A fit to other clicks, and where the items of these clicks stand in it."""

    draws: Any  # ChainDraws
    columns: Integers  # [item]: its column in that fit, or -1 if it is new

    def place(self, chain: int) -> tuple[int, int]:
        """Return the chain and the draw at which this chain starts: the last draws first, one of each chain."""
        rounds, of = divmod(chain, self.draws.n_chains)
        return of, self.draws.n_draws - 1 - rounds % self.draws.n_draws

    def describe(self) -> str:
        """Return what makes it another start than any other, for checkpoints and files."""
        sha = hashlib.sha256(np.ascontiguousarray(self.draws.rho[:, -1]).tobytes())
        sha.update(np.ascontiguousarray(self.draws.alpha[:, -1]).tobytes())
        return f"previous {sha.hexdigest()[:16]}"


def match_items(draws: ChainDraws, known: NDArray[Any], items: NDArray[Any]) -> Previous:
    """Return the draws, fitted to the items ``known``, laid out for ``items``, which may be others."""
    place = {own: column for column, own in enumerate(known.tolist())}
    return Previous(draws, np.array([place.get(own, -1) for own in items.tolist()], np.int64))


def place_new_items(rho: Integers, counts: Floats) -> Integers:
    """Return rankings of all items, [cluster, item]: old ones in their order, new ones (rank 0) by their counts.

    A new item comes after all old ones with more clicks. A gap that an item has left is closed.

    >>> place_new_items(np.array([[5, 0, 1, 3]]), np.array([[1.0, 4.0, 9.0, 5.0]])).tolist()
    [[4, 3, 1, 2]]
    """
    out = np.empty(rho.shape, np.int64)
    for c, (ranks, clicks) in enumerate(zip(rho, np.broadcast_to(counts, rho.shape), strict=True)):
        old = np.flatnonzero(ranks > 0)
        new = np.flatnonzero(ranks == 0)
        key = np.empty(ranks.size)
        key[old[np.argsort(ranks[old])]] = np.arange(1.0, old.size + 1.0)
        more = old.size - np.searchsorted(np.sort(clicks[old]), clicks[new], side="right")
        key[new] = more + 0.5
        out[c, np.lexsort((-clicks, key))] = np.arange(1, ranks.size + 1)
    return out


def mixture_after(
    matrix: sparse.csr_array[Any], previous: Previous, chain: int, rank_scale: str | ArrayLike
) -> Mixture:
    """Return the mixture of a draw of the fit before, for these clicks.

    New items are placed by the clicks of everybody, then, once it is known who belongs where, by those of each
    cluster.
    """
    draws, place = previous.draws, previous.place(chain)
    rho = np.where(previous.columns >= 0, draws.rho[place].astype(np.int64)[:, previous.columns], 0)
    tau = np.maximum(draws.tau[place], 1e-12)
    mixture = Mixture(place_new_items(rho, click_counts(matrix)), draws.alpha[place].copy(), tau / tau.sum())
    if (previous.columns >= 0).all():
        return mixture
    average_user = click_counts(matrix) / max(matrix.shape[0], 1)
    counts = click_counts(matrix, softmax(log_joint(matrix, mixture, rank_scale), axis=1)) + average_user
    return mixture._replace(rho=place_new_items(rho, counts))
