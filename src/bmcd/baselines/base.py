"""Baseline: everything that all baselines share, except how they learn and score."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.item_table import Filter, allowed_items
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.models.estimator import BaseEstimator, not_fitted
from bmcd.models.list_rules import Rules, read_rules, ruled_lists
from bmcd.models.persistence import save
from bmcd.models.top_k import TIE, Lists, check_k, clicked_mask, recommendation_frame
from bmcd.utils import Floats

Matrix: TypeAlias = "sparse.csr_array[Any]"  # in quotes: before SciPy 1.14 it takes no parameters when it runs

# Scores held at once: users are served in blocks, so that a large catalogue does not fill the memory.
BLOCK_SCORES = 4_000_000
SPARSE_PARTS = ("data", "indices", "indptr")
POPULARITY = "popularity"
"""The number of users per item, which breaks ties; stored in files without clicks."""


class Baseline(BaseEstimator, ABC):
    """A method that gives every user a score for every item. A new one implements `_learn` and `_scores_of`.

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
    """Attributes that `fit` learns, except the clicks themselves."""
    _of_pairs: tuple[str, ...] = ()
    """Those that are dense and have one number for each pair of items."""
    _value = "score"
    """The column of the frame that holds the scores."""

    def fit(
        self, clicks: Any, *, seed: int = 0, n_threads: int | None = None, progress: bool | None = None
    ) -> Self:
        """Learn from clicks and return self; an earlier fit is discarded.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item.
        seed
            For methods with a random start; the same seed gives the same recommendations.
        n_threads
            Number of threads, for methods that use several (default: all cores). Does not change the results.
        progress
            Accepted for consistency with `BMCD.fit`; baselines are fast and show no progress.
        """
        clicks = clicks if isinstance(clicks, Clicks) else Clicks.from_frame(clicks)
        self._check_settings()
        if hasattr(self, "clicks_"):
            del self.clicks_  # a failed fit leaves an unfitted model
        self._prepare(clicks)
        self._learn(clicks, seed, n_threads)
        self.clicks_ = clicks
        return self

    def _prepare(self, clicks: Clicks) -> None:
        # Floats, because the methods count clicks, and sums of booleans would be booleans.
        self._clicked: Matrix = clicks.matrix.astype(np.float64)
        self._popularity: Floats = clicks.per_item.astype(np.float64)
        self._item_order = id_ranks(clicks.items)
        self._rank_ties()

    def _rank_ties(self) -> None:
        """Break ties of scores by the number of clicks, then by id."""
        self._tie_order = np.lexsort((self._item_order, -self._popularity))

    def scores_for(self, people: Clicks) -> Floats:
        """Return the scores of any users whose clicks are on the items of the fit, users x items.

        For users of the fit they are (nearly) those of `recommend`: ALS solves for their factors once more, and for
        UserKNN they are neighbours of themselves.
        """
        self._check_fitted()
        if people.n_items != self.clicks_.n_items:
            raise InputError(
                f"the clicks are on {people.n_items} items, but it was fitted to {self.clicks_.n_items}."
            )
        blocks = [self._scores_for(people, rows) for rows in self._blocks(np.arange(people.n_users))]
        return np.concatenate(blocks)

    def save(self, path: str | Path, *, clicks: bool = True) -> None:
        """Write the fitted model to a file, which `bmcd.load` opens; see `BMCD.save`.

        Methods that need the clicks of all users, such as UserKNN and SessionKNN, cannot be saved with
        ``clicks=False``. For other methods such a file contains nothing about items clicked by fewer than five
        users, nor about pairs of items clicked by fewer than five (for ordered counts: one after the other).
        """
        self._check_fitted()
        save(self, path, clicks=clicks)

    def packed(self) -> dict[str, NDArray[Any]]:
        """Return what was learned as arrays, from which `restore` rebuilds the model."""
        self._check_fitted()
        arrays = _arrays_of({name: getattr(self, name) for name in self._learned})
        return arrays if self.clicks_.n_users else {**arrays, POPULARITY: self._popularity}

    def packed_without_users(self, fewest: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of `packed` and the popularity of items, without what depends on few users.

        Nothing is left of items, and pairs of items, that fewer than ``fewest`` users clicked.
        """
        self._check_fitted()
        if not self._learned:
            raise self._needs_everybody()
        rare = self._popularity < fewest
        popularity = np.where(rare, 0.0, self._popularity)
        return {**_arrays_of(self._without_few(rare, fewest)), POPULARITY: popularity}

    def _without_few(self, rare: NDArray[np.bool_], fewest: int) -> dict[str, Any]:
        """Return what was learned without rare items, and without pairs of items of few users."""
        modelled = getattr(self, "modelled_", np.arange(len(rare)))  # EASE may cover only some items
        counts: Any = (self._clicked.T @ self._clicked)[modelled][:, modelled]
        enough: Any = sparse.csr_array(counts >= fewest)
        kept: dict[str, Any] = {}
        for name in self._learned:
            value: Any = getattr(self, name)
            if name.startswith("user_"):
                kept[name] = value[:0]
            elif name == "modelled_":  # the items it covers
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
        return InputError(f"{name} needs the clicks of all users: save with clicks=True.")

    def restore(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Restore from the arrays of `packed` and the clicks; raise ValueError if they cannot be right."""
        self._check_settings()
        self._prepare(clicks)
        if POPULARITY in arrays:  # a file without clicks
            popularity, arrays = arrays[POPULARITY], {k: v for k, v in arrays.items() if k != POPULARITY}
            if popularity.dtype != np.float64 or popularity.shape != (clicks.n_items,):
                raise ValueError("the popularity must have one number for each item")
            if not (np.isfinite(popularity).all() and (popularity >= 0).all()):
                raise ValueError("the popularity must be numbers, 0 or more")
            self._popularity = popularity
            self._rank_ties()
        if {name.partition(".")[0] for name in arrays} != set(self._learned):
            raise ValueError(f"a {type(self).__name__} has learned {self._learned}, not {sorted(arrays)}")
        shapes = self._shapes(clicks, arrays)
        for name in self._learned:
            setattr(self, name, _learned_array(name, arrays, shapes.get(name), clicks.n_items))
        self.clicks_ = clicks
        nobody = clicks_of_histories([[]], clicks)
        if self._scores_for(nobody, np.arange(1)).shape != (1, clicks.n_items):
            raise ValueError(f"what the {type(self).__name__} has learned does not fit {clicks.n_items} items")
        return self

    def _shapes(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        """Return the shapes that learned arrays must have; by default sparse ones are items x items."""
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
        """Recommend the k unclicked items with the highest scores to each user.

        The frame has the columns user, item, title (if items have titles), rank and score, in the ids and the frame
        library of the clicks. Ties are broken by the number of clicks, then by the smaller id. A user with fewer
        than k unclicked items gets fewer rows.

        Parameters
        ----------
        k
            Number of items per user.
        users
            Ids of users of the fit, in the order of the output; by default all.
        items
            Recommend only these.
        only, never, rules
            Filters by item groups, and list rules; see `Blend.recommend`.
        """
        self._check_fitted()
        clicks = self.clicks_
        rows = np.arange(clicks.n_users)
        if users is not None:
            rows = clicks.rows_of(users, "For other users, use recommend_for.")
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
        """Recommend to any users, given their clicks; the frame is that of `recommend`.

        Items of a history are not recommended. Methods that use order take the last session of a history as the
        running session: all of it, unless it has times or sessions.

        Parameters
        ----------
        histories
            Clicks in order, the latest last: a list of lists of items, whose users are then 0, 1, ...; a dict from
            user to list; a `Clicks`; or a frame with the columns user and item, and perhaps time.
        k
            Number of items per user.
        items
            Recommend only these.
        unknown
            What to do with items that are not in the fit: "error" lists them, "ignore" drops them.
        only, never, rules
            Filters by item groups, and list rules; see `Blend.recommend`.

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
        k = check_k(k)
        every = np.ones(people.n_items, np.bool_) if allowed is None else allowed

        def ask(some: NDArray[np.int64], size: int, mask: NDArray[np.bool_] | None) -> Lists:
            mask = every if mask is None else mask
            blocks = [self._best(people, block, mask, size, k) for block in self._blocks(rows[some])]
            best, values = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
            return Lists(best, {self._value: values})

        if rules is None:
            return recommendation_frame(people.users[rows], ask(np.arange(len(rows)), k, allowed), people)
        read = read_rules(rules, self.clicks_.items_table, k, every)
        lists, _ = ruled_lists(ask, len(rows), k, read, allowed, self._value)
        return recommendation_frame(people.users[rows], lists, people)

    def _blocks(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Split rows into blocks whose scores fit into memory; at least one block, even without rows."""
        size = max(1, BLOCK_SCORES // self._width())
        return [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]

    def _best(
        self, people: Clicks, rows: NDArray[np.int64], allowed: NDArray[np.bool_], k: int, horizon: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return the best k items of the users in these rows, and their scores; probabilities need a horizon."""
        score = self._scores(rows) if people is self.clicks_ else self._scores_for(people, rows)
        # Some methods give tiny scores: a tie is relative to the user's highest score.
        largest = np.abs(score).max(axis=1, keepdims=True)
        scaled = score / np.where(largest > 0, np.minimum(largest, 1.0), 1.0)
        best = np.empty((len(rows), min(k, score.shape[1])), np.int64)
        available = ~clicked_mask(people.matrix, rows) & allowed
        best_of_rows(np.ascontiguousarray(scaled), available, self._tie_order, best)
        return best, np.take_along_axis(score, np.maximum(best, 0), axis=1)

    def _check_settings(self) -> None:
        """Raise `InputError` if a setting is invalid."""
        return

    @abstractmethod
    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        """Learn from the clicks; ``self._clicked`` is users x items, 1 where there is a click."""

    def _scores_of(self, clicked: Matrix) -> Floats:
        """Return the scores of users with these clicks, [user, item]; scores of clicked items are ignored."""
        raise NotImplementedError(f"{type(self).__name__} needs clicks in order")

    def _scores_for(self, people: Clicks, rows: NDArray[np.int64]) -> Floats:
        """Return the scores of the users in these rows of ``people``, given their clicks, [row, item]."""
        return self._scores_of(people.matrix[rows].astype(np.float64))

    def _scores(self, rows: NDArray[np.int64]) -> Floats:
        """Return the scores of users of the fit, [row, item]; some methods have learned more about them."""
        return self._scores_for(self.clicks_, rows)

    def _width(self) -> int:
        """Return how many numbers `_scores` needs for one user."""
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
    """Return arrays by name; a sparse array becomes three."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in learned.items():
        if sparse.issparse(value):
            arrays |= {f"{name}.{part}": np.asarray(getattr(value, part)) for part in SPARSE_PARTS}
        else:
            arrays[name] = np.asarray(value)
    return arrays


def _learned_array(
    name: str, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...] | None, n_items: int
) -> Any:
    """Return one learned array of a file, dense or sparse, or raise ValueError; ``shape`` None is unchecked."""
    if name in arrays:
        value = arrays[name]
        is_number = value.dtype == np.float64 and np.isfinite(value).all()
        if not is_number and not (value.dtype == np.int64 and value.min(initial=0) >= 0):
            raise ValueError(f"{name} must be finite numbers")
        if shape is not None and shape != value.shape:
            raise ValueError(f"{name} must have the shape {shape}, not {value.shape}")
        return value
    data, indices, starts = (arrays[f"{name}.{part}"] for part in SPARSE_PARTS)
    n_rows, n_columns = shape or (n_items, n_items)
    matrix: Any = sparse.csr_array((data, indices, starts), shape=(n_rows, n_columns))
    matrix.check_format(full_check=True)
    if data.dtype.kind not in "bf" or not np.isfinite(data).all():
        raise ValueError(f"{name} must have finite numbers")
    return matrix


def without_rare(values: NDArray[Any], rare: NDArray[np.bool_]) -> NDArray[Any]:
    """Return numbers per item, those of rare items replaced by 0, or by the smallest other if all are positive.

    >>> without_rare(np.array([0.5, 0.1, 0.2]), np.array([False, True, False])).tolist()
    [0.5, 0.2, 0.2]
    """
    positive = values.size and (values > 0).all()
    kept = values.copy()
    kept[rare] = (values[~rare].min() if not rare.all() else 1.0) if positive else 0
    return kept


@numba.njit(cache=True, nogil=True)
def best_of_rows(scores, available, order, best):
    """Write the best available items of each row, with the ties of `best_items`; -1 where there are fewer.

    ``order`` has the items in the order in which ties are broken. Most methods score most of a large catalogue 0:
    of the items exactly tied with the k-th, only the first k in this order are considered.
    """
    n, k = order.size, best.shape[1]
    highest, chosen = np.empty(k), np.empty(n, np.int64)
    keys, place_of = np.empty(n, np.int64), np.empty(n, np.int64)
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
