"""What all baselines share: everything but how they learn and score."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.arrays import Floats
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.item_table import Filter, allowed_items
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.models.estimator import BaseEstimator, not_fitted
from bmcd.models.list_rules import Rules, read_rules, ruled_lists
from bmcd.models.persistence import save
from bmcd.models.top_k import TIE, Lists, check_k, clicked_mask, recommendation_frame

Matrix: TypeAlias = "sparse.csr_array[Any]"  # in quotes: before SciPy 1.14 it takes no parameters when it runs

# How many scores are held at once: users are served in blocks, so that a large catalogue does not fill the memory.
BLOCK_SCORES = 4_000_000
SPARSE_PARTS = ("data", "indices", "indptr")
POPULARITY = "popularity"
"""The number of users who clicked each item, in files without clicks, which breaks ties."""


class Baseline(BaseEstimator, ABC):
    """A method that gives every user a score for every item; a new one needs only `_learn` and `_scores_of`.

    A method that uses the order of clicks overrides `_scores_for` instead of `_scores_of`.

    Attributes
    ----------
    clicks_ : the clicks it was fitted to

    Examples
    --------
    >>> import bmcd
    >>> from bmcd.baselines import EASE, Baseline
    >>> isinstance(EASE(), Baseline)
    True
    """

    clicks_: Clicks
    _learned: tuple[str, ...] = ()
    """The names of what it has learned, besides the clicks themselves."""
    _of_pairs: tuple[str, ...] = ()
    """The names of those that are not sparse and have a number for each pair of items."""
    _value = "score"
    """The column of what is recommended by."""

    def fit(
        self, clicks: Any, *, seed: int = 0, n_threads: int | None = None, progress: bool | None = None
    ) -> Self:
        """Learn from clicks, and return self. What was learned before is forgotten.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item.
        seed
            For methods that start at random; the same seed gives the same recommendations.
        n_threads
            For methods that use several (default: as many as cores). It never changes what is recommended.
        progress
            As in `BMCD.fit`; the baselines are quick and show nothing.
        """
        clicks = clicks if isinstance(clicks, Clicks) else Clicks.from_frame(clicks)
        self._check_settings()
        if hasattr(self, "clicks_"):
            del self.clicks_  # a fit that fails leaves a model that is not fitted
        self._prepare(clicks)
        self._learn(clicks, seed, n_threads)
        self.clicks_ = clicks
        return self

    def _prepare(self, clicks: Clicks) -> None:
        # Numbers, because the methods count clicks, and sums of booleans would be booleans.
        self._clicked: Matrix = clicks.matrix.astype(np.float64)
        self._popularity: Floats = clicks.per_item.astype(np.float64)
        self._item_order = id_ranks(clicks.items)
        self._rank_ties()

    def _rank_ties(self) -> None:
        """Of equal scores the item with more clicks comes first, then the one with the smaller id."""
        self._tie_order = np.lexsort((self._item_order, -self._popularity))

    def scores_for(self, people: Clicks) -> Floats:
        """Return the scores of any users with clicks on the items it was fitted to, users x items.

        Users it was fitted to get (nearly) what `recommend` gives them. ALS solves once more for their factors,
        and for UserKNN they are neighbours of themselves. `score_blocks` gives the same block by block, for many.
        """
        return np.concatenate([np.zeros((0, people.n_items)), *(block for _, block in self.score_blocks(people))])

    def score_blocks(self, people: Clicks) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Yield `scores_for` block by block: the rows of some users, and their scores."""
        self._check_fitted()
        if people.n_items != self.clicks_.n_items:
            raise InputError(
                f"the clicks are on {people.n_items} items, but it was fitted to {self.clicks_.n_items}."
            )
        for rows in self._blocks(np.arange(people.n_users)):
            yield rows, self._scores_for(people, rows)

    def save(self, path: str | Path, *, clicks: bool = True) -> None:
        """Write the fitted model to one file, which `bmcd.load` opens; see `BMCD.save`.

        Methods that need everybody's clicks, such as UserKNN and SessionKNN, cannot be saved with
        ``clicks=False``. Of other methods such a file holds nothing about items that fewer than five users clicked,
        nor about pairs of items that fewer clicked both (of counts in order: one after the other).
        """
        self._check_fitted()
        save(self, path, clicks=clicks)

    def packed(self) -> dict[str, NDArray[Any]]:
        """Return what it has learned as arrays, of which `restore` makes the model again."""
        self._check_fitted()
        arrays = _arrays_of({name: getattr(self, name) for name in self._learned})
        return arrays if self.clicks_.n_users else {**arrays, POPULARITY: self._popularity}

    def packed_without_users(self, fewest: int) -> dict[str, NDArray[Any]]:
        """Return what `packed` gives, and the popularity of items, without what depends on fewer users.

        Of items that fewer than ``fewest`` users clicked nothing is left, nor of pairs of items that fewer clicked
        both.
        """
        self._check_fitted()
        if not self._learned:
            raise self._needs_everybody()
        rare = self._popularity < fewest
        popularity = np.where(rare, 0.0, self._popularity)
        return {**_arrays_of(self._without_few(rare, fewest)), POPULARITY: popularity}

    def _without_few(self, rare: NDArray[np.bool_], fewest: int) -> dict[str, Any]:
        """Return what it has learned without the items that are rare, and without pairs of few users."""
        modelled = getattr(self, "modelled_", np.arange(len(rare)))  # some methods learn only about some items
        counts: Any = (self._clicked.T @ self._clicked)[modelled][:, modelled]
        enough: Any = sparse.csr_array(counts >= fewest)
        kept: dict[str, Any] = {}
        for name in self._learned:
            value: Any = getattr(self, name)
            if name.startswith("user_"):
                kept[name] = value[:0]
            elif name == "modelled_":  # the numbers of the items it covers
                kept[name] = value
            elif sparse.issparse(value):
                kept[name] = enough.multiply(value).tocsr()
            elif name in self._of_pairs:
                kept[name] = np.asarray(enough.multiply(value).toarray())
            else:
                kept[name] = without_rare(np.asarray(value), rare[modelled])
        return kept

    def _needs_everybody(self) -> InputError:
        name = type(self).__name__
        return InputError(f"there is a {name}, which needs everybody's clicks: save with clicks=True.")

    def restore(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what `packed` gave, and the clicks; return self, or raise ValueError if it cannot be right."""
        self._check_settings()
        self._prepare(clicks)
        if POPULARITY in arrays:  # of a file without clicks
            popularity, arrays = arrays[POPULARITY], {k: v for k, v in arrays.items() if k != POPULARITY}
            if popularity.dtype != np.float64 or popularity.shape != (clicks.n_items,):
                raise ValueError("the popularity must be a number for each item")
            if not (np.isfinite(popularity).all() and (popularity >= 0).all()):
                raise ValueError("the popularity must be numbers, 0 or more")
            self._popularity = popularity
            self._rank_ties()
        if {name.partition(".")[0] for name in arrays} != set(self._learned):
            raise ValueError(f"a {type(self).__name__} has learned {self._learned}, not {sorted(arrays)}")
        shapes = self._shapes(clicks, arrays)
        for name in self._learned:
            if name in arrays:
                value: Any = arrays[name]
                is_number = value.dtype == np.float64 and np.isfinite(value).all()
                if not is_number and not (value.dtype == np.int64 and value.min(initial=0) >= 0):
                    raise ValueError(f"{name} must be finite numbers")
                if shapes.get(name, value.shape) != value.shape:
                    raise ValueError(f"{name} must have the shape {shapes[name]}, not {value.shape}")
            else:
                data, indices, starts = (arrays[f"{name}.{part}"] for part in SPARSE_PARTS)
                shape: Any = shapes.get(name, (clicks.n_items, clicks.n_items))
                value = sparse.csr_array((data, indices, starts), shape=shape)
                value.check_format(full_check=True)
                if data.dtype.kind not in "bf" or not np.isfinite(data).all():
                    raise ValueError(f"{name} must have finite numbers")
            setattr(self, name, value)
        self.clicks_ = clicks
        nobody = clicks_of_histories([[]], clicks)
        if self._scores_for(nobody, np.arange(1)).shape != (1, clicks.n_items):
            raise ValueError(f"what the {type(self).__name__} has learned does not fit {clicks.n_items} items")
        return self

    def _shapes(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        """Return the shapes that learned arrays must have; sparse ones that are not named are items x items."""
        return {}

    def recommend(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        *,
        only: Filter | None = None,
        never: Filter | None = None,
        rules: Rules | None = None,
    ) -> Any:
        """Return the k unclicked items with the highest scores for each user.

        The frame has the columns user, item, title (if items have titles), rank and score, in the ids and the frame
        library of the clicks. Of equal scores, the item with more clicks comes first, then the one with the
        smaller id. A user with fewer than k items left gets fewer.

        Parameters
        ----------
        k
            How many items for each user.
        users
            Ids of users it was fitted to, in the order wanted; by default all.
        items
            Recommend only from these.
        only, never, rules
            Filters by groups of items, and rules for lists; see `Blend.recommend`.
        """
        self._check_fitted()
        clicks = self.clicks_
        rows = np.arange(clicks.n_users)
        if users is not None:
            rows = clicks.rows_of(users, "Only users it was fitted to get recommendations.")
        return self._frame(
            clicks, rows, k, allowed_items(clicks.items, clicks.items_table, items, only, never), rules
        )

    def recommend_for(
        self,
        histories: Any,
        k: int = 10,
        items: Iterable[Any] | None = None,
        unknown: Literal["error", "ignore"] = "error",
        *,
        only: Filter | None = None,
        never: Filter | None = None,
        rules: Rules | None = None,
    ) -> Any:
        """Recommend to any users from their clicks alone; the frame is that of `recommend`.

        Items of a history are not recommended. Methods that use order take the last session of a history as the
        running session: all of it, unless it has times or sessions of its own.

        Parameters
        ----------
        histories
            Clicks in order, the latest last: a list of lists of items, whose users are then 0, 1, ...; a dict from
            user to list; a `Clicks`; or a frame with the columns user and item, and perhaps time.
        k
            How many items for each user.
        items
            Recommend only from these.
        unknown
            What to do about items it was not fitted to: "error" lists them, "ignore" leaves them out.
        only, never, rules
            Filters by groups of items, and rules for lists; see `Blend.recommend`.

        Examples
        --------
        >>> from bmcd import Clicks
        >>> from bmcd.baselines import ItemKNN
        >>> clicks = Clicks.from_matrix([[1, 1, 0], [1, 1, 0], [1, 0, 1]], items=["a", "b", "c"])
        >>> ItemKNN().fit(clicks).recommend_for({"ann": ["b", "a"], "bob": []}, k=1)["item"].tolist()
        ['c', 'a']
        """
        self._check_fitted()
        people = clicks_of_histories(histories, self.clicks_, unknown)
        known = self.clicks_
        allowed = allowed_items(known.items, known.items_table, items, only, never)
        return self._frame(people, np.arange(people.n_users), k, allowed, rules)

    def _frame(
        self,
        people: Clicks,
        rows: NDArray[np.int64],
        k: int,
        allowed: NDArray[np.bool_] | None,
        rules: Rules | None,
    ) -> Any:
        """Return the recommendations for the users in these rows of ``people``."""
        k, every = check_k(k), np.ones(people.n_items, np.bool_)
        every = every if allowed is None else allowed

        def ask(some: NDArray[np.int64], size: int, mask: NDArray[np.bool_] | None) -> Lists:
            blocks = [
                self._best(people, block, every if mask is None else mask, size, k)
                for block in self._blocks(rows[some])
            ]
            best, values = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
            return Lists(best, {self._value: values})

        if rules is None:
            return recommendation_frame(people.users[rows], ask(np.arange(len(rows)), k, allowed), people)
        read = read_rules(rules, self.clicks_.items_table, k, every)
        lists, _ = ruled_lists(ask, len(rows), k, read, allowed, self._value)
        return recommendation_frame(people.users[rows], lists, people)

    def _blocks(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Split rows into blocks whose scores fit into memory: at least one, so that nobody gets an empty frame."""
        size = max(1, BLOCK_SCORES // self._width())
        return [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]

    def _best(
        self, people: Clicks, rows: NDArray[np.int64], allowed: NDArray[np.bool_], k: int, horizon: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return the best k items of the users in these rows, and what the frame says of each, for a horizon."""
        score = self._scores(rows) if people is self.clicks_ else self._scores_for(people, rows)
        free = ~clicked_mask(people.matrix, rows)
        # Some methods give tiny scores: what counts as a tie is relative to the user's highest score.
        largest = np.abs(score).max(axis=1, keepdims=True)
        scaled = score / np.where(largest > 0, np.minimum(largest, 1.0), 1.0)
        best = np.empty((len(rows), min(k, score.shape[1])), np.int64)
        best_of_rows(np.ascontiguousarray(scaled), free & allowed, self._tie_order, best)
        return best, np.take_along_axis(self._values(score, free, horizon), np.maximum(best, 0), axis=1)

    def _values(self, score: Floats, free: NDArray[np.bool_], k: int) -> Floats:
        """Return what the frame says of each item, [user, item], given scores and who has not clicked what."""
        return score

    def _check_settings(self) -> None:
        """Raise `InputError` if a setting makes no sense."""
        return

    @abstractmethod
    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        """Learn from the clicks; ``self._clicked`` is users x items, 1 where there is a click."""

    def _scores_of(self, clicked: Matrix) -> Floats:
        """Return the scores of users with these clicks, [user, item]; those of clicked items do not matter."""
        raise NotImplementedError(f"{type(self).__name__} needs clicks in order")

    def _scores_for(self, people: Clicks, rows: NDArray[np.int64]) -> Floats:
        """Return the scores of the users in these rows of ``people``, from their clicks alone, [row, item]."""
        return self._scores_of(people.matrix[rows].astype(np.float64))

    def _scores(self, rows: NDArray[np.int64]) -> Floats:
        """Return the scores of users it was fitted to, [row, item]; some methods have learned more about them."""
        return self._scores_for(self.clicks_, rows)

    def _width(self) -> int:
        """Return how many numbers `_scores` holds for one user."""
        return self._clicked.shape[1]

    def _check_fitted(self) -> None:
        if not hasattr(self, "clicks_"):
            raise not_fitted(self)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the name is scikit-learn's
        text: str = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "clicks_"):
            return text
        return f"{text}, fitted to {self.clicks_.n_users:,} users x {self.clicks_.n_items:,} items"


def _arrays_of(learned: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return arrays by name; a sparse one is three."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in learned.items():
        if sparse.issparse(value):
            arrays |= {f"{name}.{part}": np.asarray(getattr(value, part)) for part in SPARSE_PARTS}
        else:
            arrays[name] = np.asarray(value)
    return arrays


def without_rare(values: NDArray[Any], rare: NDArray[np.bool_]) -> NDArray[Any]:
    """Return numbers of items without those that are rare: 0, or the least of others where all are positive.

    >>> without_rare(np.array([0.5, 0.1, 0.2]), np.array([False, True, False])).tolist()
    [0.5, 0.2, 0.2]
    """
    positive = values.size and (values > 0).all()
    kept = values.copy()
    kept[rare] = (values[~rare].min() if not rare.all() else 1.0) if positive else 0
    return kept


@numba.njit(cache=True, nogil=True)
def best_of_rows(scores, available, order, best):
    """Write the best available items of each row, as `best_items` finds them; -1 where there are fewer.

    ``order`` has the items in the order in which ties are broken. Most methods score most of a large catalogue 0:
    of the items that are tied exactly with the k-th, only the first k in this order are looked at.
    """
    n, k = order.size, best.shape[1]
    highest, chosen, keys, place_of = (
        np.empty(k),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    for place in range(n):
        place_of[order[place]] = place
    for row in range(scores.shape[0]):
        known = 0
        for item in order:
            score = scores[row, item]
            if not available[row, item] or (known == k and score <= highest[0]):
                continue
            # highest[:known] is kept in ascending order.
            if known < k:
                place = known
                while place > 0 and highest[place - 1] > score:
                    highest[place] = highest[place - 1]
                    place -= 1
                known += 1
            else:
                place = 0
                while place + 1 < k and highest[place + 1] < score:
                    highest[place] = highest[place + 1]
                    place += 1
            highest[place] = score
        best[row] = -1
        if known == 0:
            continue
        kth, equal, m = highest[0], 0, 0
        for item in order:
            score = scores[row, item]
            if not available[row, item] or (known == k and score < kth - 2 * TIE):
                continue
            equal += score == kth
            if score != kth or equal <= k:
                chosen[m] = item
                m += 1
        by_score = chosen[:m][np.argsort(-scores[row][chosen[:m]], kind="mergesort")]
        group, first = 0, scores[row, by_score[0]]
        for i in range(m):
            score = scores[row, by_score[i]]
            if first - score > TIE:
                group, first = group + 1, score
            keys[i] = group * n + place_of[by_score[i]]
        in_order = by_score[np.argsort(keys[:m])]
        best[row, : min(m, k)] = in_order[:k]


def check_number(
    name: str, value: Any, *, above: float | None = None, low: float = 0, high: float = np.inf
) -> None:
    """Raise `InputError` unless the value is a number in [low, high], or (above, high].

    >>> check_number("mixing", 0.5, high=1)
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if number and value <= high and (value > above if above is not None else value >= low):
        return
    least = f"above {above:g}" if above is not None else f"{low:g} or more"
    most = "" if np.isinf(high) else f", and at most {high:g}"
    raise InputError(f"{name} must be a number {least}{most}, but it is {value!r}.")
