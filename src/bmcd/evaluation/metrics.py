"""Recommendation lists, checked and numbered as in the training clicks, and every measure of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.frames import collected, column_names, column_of, columns
from bmcd.clicks.ids import encode
from bmcd.clicks.item_table import ItemGroups
from bmcd.clicks.log import Clicks, Library
from bmcd.errors import ClicksError, InputError
from bmcd.models.top_k import check_k, was_clicked
from bmcd.utils import Floats, shown

Ints = NDArray[np.int64]

# Rounding may carry an average of probabilities this far below 0 or above 1; anything further is an error.
ROUNDING = 1e-9


class RankedLists(NamedTuple):
    """The lists of all users, one entry for each recommendation, sorted by user and then by rank."""

    user: Ints
    """Row of the user in `train`."""
    item: Ints
    """Column of the item in `train`."""
    rank: Ints
    """1 is the first; each user's ranks are 1, 2, ... without a gap."""
    probability: NDArray[np.float64] | None


def read_lists(recommendations: Any, train: Clicks, repeats: bool = False) -> RankedLists:
    """Return the recommendations of a frame, checked against the training clicks, or the histories of other users.

    With ``repeats`` clicked items may be recommended.

    >>> import pandas as pd
    >>> train = Clicks.from_matrix([[1, 0, 0]], users=["ann"], items=["a", "b", "c"])
    >>> read_lists(pd.DataFrame({"user": ["ann"] * 2, "item": ["b", "c"], "rank": [2, 1]}), train).item
    array([2, 1])
    """
    names = ["rank"] + ["probability"] * ("probability" in column_names(recommendations))
    recommendations = collected(recommendations, ("user", "item", *names))
    users, items = (column_of(recommendations, name) for name in ("user", "item"))  # exact, as NumPy may not be
    ranks, *others = columns(recommendations, *names)
    if len(ranks) == 0:
        raise ClicksError(
            "there are no recommendations: the frame has no rows. Ask for more, or lower min_probability."
        )
    user, item = _numbered(users, train.users, "user"), _numbered(items, train.items, "item")
    numbers = _numbers(ranks, "rank")
    bad = ~(np.isfinite(numbers) & (numbers >= 1) & (numbers == np.floor(numbers)))
    _refuse_rows(bad, ranks, "rank", "Ranks are 1, 2, ..., 1 for the first.")
    rank, probability = numbers.astype(np.int64), None
    if others:
        numbers = _numbers(others[0], "probability")
        bad = ~((numbers >= -ROUNDING) & (numbers <= 1 + ROUNDING))
        rule = "Probabilities lie between 0 and 1; any other score belongs in a column 'score'."
        _refuse_rows(bad, others[0], "probability", rule)
        probability = np.clip(numbers, 0.0, 1.0)
    _check_pairs(user, item, train, repeats)
    order = np.lexsort((rank, user))
    lists = RankedLists(user[order], item[order], rank[order], None if probability is None else probability[order])
    _check_gaps(lists, train)
    return lists


def read_k(k: int | None, lists: RankedLists, train: Clicks, *, must_be_sure: bool) -> int:
    """Return k, or the length of the longest list where k is None; no list may be longer than k.

    `must_be_sure`: the truth depends on k, so lists of different lengths do not say what k was.
    """
    longest = int(lists.rank.max())
    if k is None:
        lengths = np.bincount(lists.user)
        if must_be_sure and (lengths[lengths > 0] < longest).any():
            raise InputError(
                "the lists have different lengths, so they do not tell which k they were made for, and the truth "
                "of a simulation, rank <= n_clicked + k, depends on it. Pass k."
            )
        return longest
    k = check_k(k)
    if longest > k:
        user = train.users[lists.user[lists.rank.argmax()]]
        raise InputError(
            f"user {shown(user)} has {longest} recommendations, but k is {k}. "
            f"Pass k={longest}, or recommend with k={k}: a probability of being among the next {longest} is not "
            f"one of being among the next {k}."
        )
    return k


def _numbered(values: Any, known: NDArray[Any], what: str) -> Ints:
    """Return where the id of each row stands among those known; an error names the first row with another id."""
    codes, ids, _ = encode(values, what)
    place = {value: number for number, value in enumerate(known.tolist())}
    numbers: Ints = np.array([place.get(value, -1) for value in ids.tolist()], dtype=np.int64)[codes]
    if (bad := np.flatnonzero(numbers < 0)).size:
        raise ClicksError(
            f"the {what} {shown(ids[codes[bad[0]]])} is not in train, whose first {what} is "
            f"{shown(known[0])} (rows count from 0). Pass the clicks the model was fitted to; 7 and '7' differ.",
            row=int(bad[0]),
            column=what,
        )
    return numbers


def _numbers(values: NDArray[Any], column: str) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ClicksError(f"the column must hold numbers ({error}).", column=column) from error


def _refuse_rows(bad: NDArray[np.bool_], values: NDArray[Any], column: str, rule: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ClicksError(
            f"the {column} is {shown(values[row])} (rows count from 0). {rule}", row=row, column=column
        )


def _check_pairs(user: Ints, item: Ints, train: Clicks, repeats: bool) -> None:
    pairs = user * train.n_items + item
    order = np.argsort(pairs, kind="stable")
    if (twice := np.flatnonzero(np.diff(pairs[order]) == 0)).size:
        row = int(order[twice + 1].min())
        raise ClicksError(
            f"item {shown(train.items[item[row]])} is recommended to user {shown(train.users[user[row]])} twice "
            "(rows count from 0). Keep one row for each user and item.",
            row=row,
        )
    if not repeats and (old := np.flatnonzero(was_clicked(train.matrix, user, item))).size:
        row = int(old[0])
        raise ClicksError(
            f"user {shown(train.users[user[row]])} already clicked the recommended item "
            f"{shown(train.items[item[row]])} in train (rows count from 0). Only unclicked items can be hits: "
            "is train what the model was fitted to?",
            row=row,
        )


def _check_gaps(lists: RankedLists, train: Clicks) -> None:
    starts = np.flatnonzero(np.diff(lists.user, prepend=-1))
    lengths = np.diff(np.append(starts, len(lists.user)))
    expected = np.arange(len(lists.user)) - np.repeat(starts, lengths) + 1
    if (bad := np.flatnonzero(lists.rank != expected)).size:
        entry = bad[0]
        raise ClicksError(
            f"the ranks of user {shown(train.users[lists.user[entry]])} are not 1, 2, ...: where "
            f"{expected[entry]} should follow, there is {lists.rank[entry]}. Number each user's recommendations "
            "from 1 without gaps.",
            column="rank",
        )


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

    Accuracy is the mean of hits: a recommendation is a hit when the user clicked the item in the test set, or, in a
    simulation, when the item's true rank is at most n_clicked + k. For users without test clicks all
    recommendations are misses. The rare share, the Brier score and the log score are means of this kind, too.

    >>> lists = RankedLists(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1, 2, 1]), None)
    >>> round(per_row(np.array([True, False, False]), lists, n_users=2).value, 4)
    0.3333
    """
    return PerUser(_sums(values, lists, n_users), list_lengths(lists, n_users))


def _sums(values: NDArray[Any], lists: RankedLists, n_users: int) -> Floats:
    """Return the sum of a value over each user's list."""
    return np.bincount(lists.user, weights=values, minlength=n_users).astype(np.float64)


def list_lengths(lists: RankedLists, n_users: int) -> Floats:
    """Return how many recommendations each user has."""
    return np.bincount(lists.user, minlength=n_users).astype(np.float64)


def per_list(values: NDArray[Any], lists: RankedLists) -> PerUser:
    """Return the mean of a value of each user over the users with a list."""
    has_list = list_lengths(lists, len(values)) > 0
    return PerUser(values.astype(np.float64), has_list.astype(np.float64))


def coverage(item: NDArray[Any], n_items: int) -> float:
    """Return the number of distinct items recommended to at least one user, over the number of items in train.

    >>> coverage(np.array([0, 3, 0]), n_items=4)
    0.5
    """
    return len(np.unique(item)) / n_items


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
    return per_list(total, lists)


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
    total = _sums(item_novelty(clicks)[lists.item], lists, n_users)
    return per_list(total / np.maximum(list_lengths(lists, n_users), 1), lists)


def popularity_order(clicks: NDArray[Any]) -> NDArray[np.int64]:
    """Return the items from the most to the least clicked in train; of equally clicked items the earlier is first.

    >>> popularity_order(np.array([1, 5, 1, 7])).tolist()
    [3, 1, 0, 2]
    """
    return np.argsort(-clicks, kind="stable").astype(np.int64)


def users_with(lists: RankedLists, rare: Bools, n_users: int) -> PerUser:
    """Return the share of users with at least one rare recommendation, among the users with a list."""
    return per_list(_sums(rare, lists, n_users) > 0, lists)


def precision(lists: RankedLists, hit: Bools, k: int, evaluated: Bools) -> PerUser:
    """Return hits over k, averaged over the evaluated users: those with recommendations, test clicks, or both.

    It equals the accuracy when every evaluated user has k recommendations; empty places count as misses here.
    """
    return PerUser(_sums(hit, lists, len(evaluated)) / k, evaluated.astype(np.float64))


def recall(lists: RankedLists, hit: Bools, n_relevant: NDArray[Any]) -> PerUser:
    """Return hits over the user's number of test clicks, averaged over the users with test clicks.

    A user with test clicks but without recommendations has recall 0.
    """
    hits = _sums(hit, lists, len(n_relevant))
    return PerUser(hits / np.maximum(n_relevant, 1), (n_relevant > 0).astype(np.float64))


def ndcg(lists: RankedLists, hit: Bools, n_relevant: NDArray[Any], k: int) -> PerUser:
    """Return the normalised discounted cumulative gain, averaged over the users with test clicks.

    A hit at rank r gains 1 / log2(r + 1); the sum is divided by that of the best list possible, whose first
    min(k, number of test clicks) places are hits. Without recommendations it is 0.

    >>> lists = RankedLists(np.zeros(3, int), np.arange(3), np.arange(1, 4), None)
    >>> round(ndcg(lists, np.array([False, True, False]), np.array([2]), k=3).value, 4)
    0.3869
    """
    best = np.concatenate(([0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))))[np.minimum(n_relevant, k)]
    total = _sums(hit / np.log2(lists.rank + 1.0), lists, len(n_relevant))
    counts = n_relevant > 0
    return PerUser(np.divide(total, best, out=np.zeros(len(best)), where=counts), counts.astype(np.float64))


def mrr(lists: RankedLists, hit: Bools, evaluated: Bools) -> PerUser:
    """Return the mean over evaluated users of 1 over the rank of the first hit, or of 0 without a hit."""
    reciprocal = np.zeros(len(evaluated))
    np.maximum.at(reciprocal, lists.user[hit], 1 / lists.rank[hit])
    return PerUser(reciprocal, evaluated.astype(np.float64))


GROUP_MEASURES = ("groups_per_list", "group_distance", "group_miscalibration", "group_gap")
# The part of a user's own distribution that is mixed into that of the list, so that no logarithm is infinite.
SMOOTHING = 0.01


@dataclass(frozen=True, eq=False)
class GroupMeasures:
    """What recommendations are like by the groups of one column of the item table: `Evaluation.by_group`."""

    column: str
    names: tuple[str, ...]
    """Of the groups; the last of each array below are items without a group."""
    items: Floats
    """Items of each group. Here and below an item in n groups counts as 1/n in each."""
    clicks: Floats
    """Training clicks on them."""
    shown: Floats
    """Recommendations of them."""
    hits: Floats
    next_clicks: Floats
    """Test clicks on them, within the horizon."""
    groups_per_list: float
    """Different groups in a list, mean over users with a list."""
    group_distance: float
    """1 - Jaccard similarity of the groups of two items, mean over pairs of a list, then over users."""
    group_miscalibration: float
    """Divergence of a list's groups from those of the user's clicks (Steck 2018), mean over users; 0 is best."""
    group_gap: float
    """Share of recommendations that would have to move to other groups to match the test clicks."""

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return a frame with a row for each group: items, clicks, shown, hits, next_clicks, hit_rate."""
        import narwhals as nw

        data: dict[str, Any] = {self.column: [*self.names, None]}
        data |= {name: getattr(self, name) for name in ("items", "clicks", "shown", "hits", "next_clicks")}
        shown = self.shown
        data["hit_rate"] = np.divide(self.hits, shown, out=np.full_like(shown, np.nan), where=shown > 0)
        keep = slice(None) if self.items[-1] > 0 else slice(-1)
        rows = {name: list(values)[keep] for name, values in data.items()}
        return nw.from_dict(rows, backend=library).to_native()

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON."""
        return {name: getattr(self, name) for name in GROUP_MEASURES} | {
            "groups": self.to_frame().to_dict("records")
        }


def measure_groups(
    column: str, groups: ItemGroups, lists: RankedLists, hit: NDArray[np.bool_], users: Clicks, train: Clicks,
    truth: sparse.csr_array[Any], n_users: int,
) -> tuple[GroupMeasures, dict[str, PerUser]]:  # fmt: skip
    """Return the measures of one column, and those that have intervals by user.

    ``users`` are those of the lists, with what they had clicked; ``truth`` is what would have been a hit for them.
    """
    share = shares_of(groups)
    per_user = {
        "groups_per_list": groups_per_list(lists, groups, n_users),
        "group_distance": group_distance(lists, groups, n_users),
        "group_miscalibration": miscalibration(lists, share, users.matrix, n_users),
    }

    def total(items: NDArray[Any], weights: Any = None) -> Floats:
        return np.asarray(np.bincount(items, weights=weights, minlength=train.n_items) @ share, np.float64)

    shown, nexts = total(lists.item), total(truth.indices)
    own = {name: one.value if one.denominator.any() else float("nan") for name, one in per_user.items()}
    measures = GroupMeasures(
        column, groups.names, np.ones(train.n_items) @ share, train.per_item @ share, shown, total(lists.item[hit]),
        nexts, **own, group_gap=gap(shown, nexts),
    )  # fmt: skip
    return measures, per_user


def shares_of(groups: ItemGroups) -> Floats:
    """Return the share of each item in each group, items x (groups, none): an item in n groups is 1/n in each.

    >>> shares_of(ItemGroups.of([["a"], ["a", "b"], []])).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    inside = groups.matrix.toarray().astype(np.float64)
    number = inside.sum(axis=1)
    return np.column_stack([inside / np.maximum(number, 1)[:, None], number == 0])


def groups_per_list(lists: RankedLists, groups: ItemGroups, n_users: int) -> PerUser:
    """Return the number of different groups in a list, averaged over the users with a list."""
    of_lists, n_groups = groups.take(lists.item), max(len(groups.names), 1)
    user = np.repeat(lists.user, np.diff(of_lists.starts))
    pairs = np.unique(user * n_groups + of_lists.numbers)
    return per_list(np.bincount(pairs // n_groups, minlength=n_users), lists)


def group_distance(lists: RankedLists, groups: ItemGroups, n_users: int) -> PerUser:
    """Return 1 - |shared groups| / |groups of either|, mean over pairs of items with groups, then over users.

    Users whose list has no such pair do not count.
    """
    inside = groups.matrix.astype(np.int64)
    number = np.diff(groups.starts)
    total, n_pairs = np.zeros(n_users), np.zeros(n_users)
    for apart in range(1, int(lists.rank.max(initial=1))):
        one, other = lists.item[apart:], lists.item[:-apart]
        use = (lists.user[apart:] == lists.user[:-apart]) & (number[one] > 0) & (number[other] > 0)
        one, other, user = one[use], other[use], lists.user[apart:][use]
        if not len(user):
            continue
        both = np.asarray((inside[one] * inside[other]).sum(axis=1)).ravel()
        distance = 1 - both / (number[one] + number[other] - both)
        total += np.bincount(user, weights=distance, minlength=n_users)
        n_pairs += np.bincount(user, minlength=n_users)
    return PerUser(total / np.maximum(n_pairs, 1), (n_pairs > 0).astype(np.float64))


def miscalibration(lists: RankedLists, share: Floats, clicked: sparse.csr_array[Any], n_users: int) -> PerUser:
    """Return sum over groups of p log(p / q), mean over users with clicks and recommendations that have groups.

    p is the distribution of groups over a user's clicks, and q that over the list, mixed with a little of p.
    """
    rows = sparse.csr_array((np.ones(len(lists.user)), (lists.user, lists.item)), shape=(n_users, len(share)))
    p: Floats = np.asarray(clicked.astype(np.float64) @ share[:, :-1])
    q: Floats = np.asarray(rows @ share[:, :-1])
    of_clicks, of_list = p.sum(axis=1), q.sum(axis=1)
    counts = (of_clicks > 0) & (of_list > 0)
    p = p / np.maximum(of_clicks, 1e-300)[:, None]
    q = (1 - SMOOTHING) * q / np.maximum(of_list, 1e-300)[:, None] + SMOOTHING * p
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    return PerUser(np.where(counts, (p * np.log(ratio)).sum(axis=1), 0.0), counts.astype(np.float64))


def gap(shown: Floats, clicked: Floats) -> float:
    """Return half the sum of the differences of two distributions: what would have to move.

    >>> gap(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    0.25
    """
    if not shown.sum() or not clicked.sum():
        return float("nan")
    return float(np.abs(shown / shown.sum() - clicked / clicked.sum()).sum() / 2)


def personalisation(lists: RankedLists, n_users: int) -> float:
    """Return 1 - the mean number of items that two users' lists share, over the mean length of a list.

    1: no two users share an item; 0: all have the same list. NaN for a single user.

    >>> lists = RankedLists(np.array([0, 0, 1, 1]), np.array([4, 5, 5, 6]), np.array([1, 2, 1, 2]), None)
    >>> personalisation(lists, 2)
    0.5
    """
    length = list_lengths(lists, n_users)
    n = int((length > 0).sum())
    if n < 2:
        return float("nan")
    shown = np.bincount(lists.item).astype(np.float64)
    shared = (shown * (shown - 1) / 2).sum() / (n * (n - 1) / 2)
    return float(1 - shared / length[length > 0].mean())
