"""The measures, each with its definition: the paper's own, and those of information retrieval.

Most measures are a ratio of two sums over users, and are returned as the two terms of each user (`PerUser`), so
that the bootstrap can sum them again over resampled users. Coverage is a number for all users together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.evaluation.lists import RankedLists
from bmcd.utils import Floats

Bools = NDArray[np.bool_]


class PerUser(NamedTuple):
    """A measure as a ratio of sums over users: a user who does not count has 0 in both."""

    numerator: Floats
    denominator: Floats

    @property
    def value(self) -> float:
        """The measure over all users.

        >>> PerUser(np.array([1.0, 3.0]), np.array([2.0, 6.0])).value
        0.5
        """
        return float(self.numerator.sum() / self.denominator.sum())


def per_row(values: NDArray[Any], lists: RankedLists, n_users: int) -> PerUser:
    """Return a mean over all recommendations: each counts the same, so users with longer lists count for more.

    Accuracy is the mean of `hit`; the rare share, the Brier score and the log score are means of this kind, too.

    >>> lists = RankedLists(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1, 2, 1]), None)
    >>> round(per_row(np.array([True, False, False]), lists, n_users=2).value, 4)
    0.3333
    """
    total = np.asarray(np.bincount(lists.user, weights=values, minlength=n_users), dtype=np.float64)
    return PerUser(total, list_lengths(lists, n_users))


def list_lengths(lists: RankedLists, n_users: int) -> Floats:
    """Return how many recommendations each user has."""
    return np.bincount(lists.user, minlength=n_users).astype(np.float64)


def accuracy(lists: RankedLists, hit: Bools, n_users: int) -> PerUser:
    """Return the share of all recommended items that are hits.

    A recommendation is a hit when the user clicked the item in the test set, or, in a simulation, when the item's
    true rank is at most n_clicked + k. Users without test clicks count: all their recommendations are misses.
    """
    return per_row(hit, lists, n_users)


def coverage(item: NDArray[Any], n_items: int) -> float:
    """Return the number of distinct items recommended to at least one user, over the number of items in train.

    >>> coverage(np.array([0, 3, 0]), n_items=4)
    0.5
    """
    return len(np.unique(item)) / n_items


def correct_coverage(item: NDArray[Any], hit: Bools, n_items: int) -> float:
    """Return the number of distinct items that are a hit for at least one user, over the number of items.

    >>> correct_coverage(np.array([0, 3, 0]), np.array([True, False, True]), n_items=4)
    0.25
    """
    return coverage(item[hit], n_items)


def intra_list_similarity(lists: RankedLists, train: sparse.csr_array[Any], n_users: int | None = None) -> PerUser:
    """Return how similar the items of a list are: the sum over its pairs, averaged over the users with a list.

    The similarity of two items is the binary cosine: the number of users who clicked both in train, over
    sqrt(users who clicked the one) * sqrt(users who clicked the other). For an item nobody clicked it is 0.
    The sum grows with the length of the list, so compare only lists of one length. ``n_users`` is the number of
    users with lists, by default those of ``train``.

    >>> lists = RankedLists(np.array([2, 2]), np.array([0, 1]), np.array([1, 2]), None)
    >>> train = sparse.csr_array([[True, True, False], [True, False, False], [False, False, True]])
    >>> round(intra_list_similarity(lists, train).value, 4)
    0.7071
    """
    n_users = train.shape[0] if n_users is None else n_users
    items, code = np.unique(lists.item, return_inverse=True)
    chosen = train[:, items].astype(np.int64)  # a product of booleans would be boolean
    together = sparse.csr_array(chosen.T @ chosen)
    together.sort_indices()
    clicks = together.diagonal()
    row = np.repeat(np.arange(len(items)), np.diff(together.indptr))
    cosine = together.data / np.sqrt(clicks[row] * clicks[together.indices])
    # Each pair of items is one number, in sorted order, so that many can be looked up at once. The last number
    # stands for no pair: a search that passes all others ends there.
    pairs = np.append(row * len(items) + together.indices, len(items) ** 2)
    cosine = np.append(cosine, 0.0)
    total = np.zeros(n_users)
    for apart in range(1, int(lists.rank.max())):
        same = lists.user[apart:] == lists.user[:-apart]
        wanted = code[apart:][same] * len(items) + code[:-apart][same]
        place = np.searchsorted(pairs, wanted)
        similar = np.where(pairs[place] == wanted, cosine[place], 0.0)
        total += np.bincount(lists.user[apart:][same], weights=similar, minlength=n_users)
    return PerUser(total, (list_lengths(lists, n_users) > 0).astype(np.float64))


def item_novelty(clicks: NDArray[Any]) -> Floats:
    """Return |log2| of the share of all training clicks each item received.

    An item nobody clicked, whose logarithm would be infinite, counts as if it had been clicked once.

    >>> item_novelty(np.array([4, 3, 1, 0])).round(3).tolist()
    [1.0, 1.415, 3.0, 3.0]
    """
    novelty: Floats = np.abs(np.log2(np.maximum(clicks, 1) / clicks.sum()))
    return novelty


def novelty(lists: RankedLists, clicks: NDArray[Any], n_users: int) -> PerUser:
    """Return the mean of `item_novelty` over a user's list, averaged over the users with a list.

    The paper divides the sum over the list by k, which is the same for a full list. Here a shorter list is divided
    by its own length, or it would seem less novel for being short.
    """
    length = list_lengths(lists, n_users)
    total = np.bincount(lists.user, weights=item_novelty(clicks)[lists.item], minlength=n_users)
    return PerUser(total / np.maximum(length, 1), (length > 0).astype(np.float64))


def popularity_order(clicks: NDArray[Any]) -> NDArray[np.int64]:
    """Return the items from the most to the least clicked in train; of equally clicked items the earlier is first.

    >>> popularity_order(np.array([1, 5, 1, 7])).tolist()
    [3, 1, 0, 2]
    """
    return np.argsort(-clicks, kind="stable").astype(np.int64)


def users_with(lists: RankedLists, rare: Bools, n_users: int) -> PerUser:
    """Return the share of users with at least one rare recommendation, among the users with a list."""
    some = np.bincount(lists.user, weights=rare, minlength=n_users) > 0
    return PerUser(some.astype(np.float64), (list_lengths(lists, n_users) > 0).astype(np.float64))


def precision(lists: RankedLists, hit: Bools, k: int, evaluated: Bools) -> PerUser:
    """Return hits over k, averaged over the evaluated users: those with recommendations, test clicks, or both.

    It equals the accuracy when every evaluated user has k recommendations; empty places count as misses here.
    """
    hits = np.bincount(lists.user, weights=hit, minlength=len(evaluated))
    return PerUser(hits / k, evaluated.astype(np.float64))


def recall(lists: RankedLists, hit: Bools, n_relevant: NDArray[Any]) -> PerUser:
    """Return hits over the user's number of test clicks, averaged over the users with test clicks.

    A user with test clicks but without recommendations has recall 0.
    """
    hits = np.bincount(lists.user, weights=hit, minlength=len(n_relevant))
    return PerUser(hits / np.maximum(n_relevant, 1), (n_relevant > 0).astype(np.float64))


def ndcg(lists: RankedLists, hit: Bools, n_relevant: NDArray[Any], k: int) -> PerUser:
    """Return the normalised discounted cumulative gain, averaged over the users with test clicks.

    A hit at rank r gains 1 / log2(r + 1); the sum is divided by that of the best list possible, whose first
    min(k, number of test clicks) places are hits. Without recommendations it is 0.

    >>> lists = RankedLists(np.zeros(3, int), np.arange(3), np.arange(1, 4), None)
    >>> round(ndcg(lists, np.array([False, True, False]), np.array([2]), k=3).value, 4)
    0.3869
    """
    gain = hit / np.log2(lists.rank + 1.0)
    best = np.concatenate(([0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))))[np.minimum(n_relevant, k)]
    total = np.bincount(lists.user, weights=gain, minlength=len(n_relevant))
    counts = n_relevant > 0
    return PerUser(np.divide(total, best, out=np.zeros(len(best)), where=counts), counts.astype(np.float64))


def mrr(lists: RankedLists, hit: Bools, evaluated: Bools) -> PerUser:
    """Return the mean over evaluated users of 1 over the rank of the first hit, or of 0 without a hit."""
    reciprocal = np.zeros(len(evaluated))
    np.maximum.at(reciprocal, lists.user[hit], 1 / lists.rank[hit])
    return PerUser(reciprocal, evaluated.astype(np.float64))
