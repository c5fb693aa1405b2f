"""What a fitted model can be asked, worked out when it is first asked for and kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.table import Clicks, positions
from bmcd.clusters.matching import ClusterNames, name_clusters
from bmcd.clusters.summary import ClusterSummaries, summarise_clusters
from bmcd.prediction.predictor import Predictions, Predictor, count_predictions
from bmcd.prediction.top_k import Lists, best_items, clicked_mask, order_of_ids
from bmcd.sampling.diagnostics import Verdict, verdict
from bmcd.sampling.draws import Draws
from bmcd.system.progress import counting

T = TypeVar("T")


class Options(NamedTuple):
    """What changes how long an answer takes, and not what it means."""

    max_draws: int | None
    n_threads: int | None
    progress: bool | None


class Answers:
    """Answers out of the draws of one fit to ``clicks``, whose users may have been left out (0 users)."""

    def __init__(self, clicks: Clicks, draws: Draws) -> None:
        self.clicks, self.draws = clicks, draws
        self.exact = draws.problem.options["distance"] == "footrule"
        self._made: dict[Hashable, object] = {}

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        return cast(T, self._made[key])

    def verdict(self) -> Verdict:
        """Converged or not, in words."""
        return self._once("verdict", lambda: verdict(self.draws))

    def names(self) -> ClusterNames:
        """Which cluster is which."""
        return self._once("names", lambda: name_clusters(self.draws))

    def clusters(self) -> ClusterSummaries:
        """What each cluster is like."""
        return self._once("clusters", lambda: summarise_clusters(self.draws, self.names(), self.clicks))

    def predictor(self, max_draws: int | None) -> Predictor:
        """The draws made ready."""
        return self._once(("predictor", max_draws), lambda: Predictor(self.draws, max_draws))

    def rows(self, users: Iterable[object] | None) -> NDArray[np.int64]:
        """Where these users stand in the clicks; all of them without."""
        if users is None:
            return np.arange(self.clicks.n_users)
        return positions(users, self.clicks.users, "user", "For people it was not fitted to, use recommend_for.")

    def allowed(self, items: Iterable[object] | None) -> NDArray[np.bool_]:
        """Which items may be recommended."""
        if items is None:
            return np.ones(self.clicks.n_items, np.bool_)
        hint = "Leave them out: the model can recommend only items it was fitted to."
        allowed = np.zeros(self.clicks.n_items, np.bool_)
        allowed[positions(items, self.clicks.items, "item", hint)] = True
        return allowed

    def predictions(
        self, people: Clicks, rows: NDArray[np.int64] | None, k: int, options: Options
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """For the users in these rows of the fitted clicks, or for ``people`` it was not fitted to (rows None)."""
        matrix = people.matrix if rows is None else people.matrix[rows]
        if not self.exact:
            yield np.arange(matrix.shape[0]), count_predictions(self.draws, matrix, rows, k)
            return
        with counting(options.progress, "users", matrix.shape[0]) as show:
            for block, found in self.predictor(options.max_draws).blocks(matrix, k, options.n_threads):
                yield block, found
                show(int(block[-1]) + 1)

    def lists(
        self,
        people: Clicks,
        rows: NDArray[np.int64] | None,
        k: int,
        items: Iterable[object] | None,
        options: Options,
    ) -> Lists:
        """The best k items of each, with their probabilities."""
        allowed = self.allowed(items)
        order = self._once("order", lambda: order_of_ids(self.clicks.items))
        matrix = people.matrix if rows is None else people.matrix[rows]
        nothing = np.zeros((0, min(k, people.n_items)))
        parts: list[tuple[NDArray[Any], ...]] = [(nothing.astype(np.int64), nothing, nothing)]
        for block, found in self.predictions(people, rows, k, options):
            available = ~clicked_mask(matrix, block) & allowed
            best = best_items(found.probability, available, k, order, found.mean_rank)
            values = (np.take_along_axis(of, best, axis=1) for of in (found.probability, found.mcse))
            parts.append((best, *values))
        chosen, probability, mcse = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Lists(chosen, {"probability": probability, "mcse": mcse})

    def lists_of_all(self, k: int, options: Options) -> Lists:
        """The same for all users and items; kept, since cut-offs and comparisons ask again."""
        every = self.rows(None)
        return self._once(("lists", k, options.max_draws), lambda: self.lists(self.clicks, every, k, None, options))
