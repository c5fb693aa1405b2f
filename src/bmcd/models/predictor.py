"""What a fitted model predicts, computed when it is first asked for and kept; what explanations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.ids import id_ranks, places_of, positions
from bmcd.clicks.item_table import allowed_items
from bmcd.clicks.log import Clicks
from bmcd.inference.diagnostics import Verdict
from bmcd.inference.draws import MaxDraws
from bmcd.markup import paragraphs, table, tag
from bmcd.models.clusters import ClusterSummaries, checked_names
from bmcd.models.top_k import Lists, best_items, clicked_mask
from bmcd.progress import counting
from bmcd.utils import Floats

# Clusters that hold, or tastes that add, less than this are not printed in an explanation.
SHOWN = 0.005


@dataclass(frozen=True)
class ExplainedProbability(ABC):
    """What every explanation reports: a probability, for whom, and from how many clicks."""

    HEADS: ClassVar[tuple[str, ...]]

    user: Any
    item: Any
    title: str
    k: int
    n_clicked: int
    probability: float
    mcse: float

    def opening(self) -> list[str]:
        """Return the first lines: the probability, and how many clicks the user has."""
        who = "Someone" if self.user is None else f"User {self.user}"
        what = self.title[:1].upper() + self.title[1:]
        return [
            f"{what} is among the next {self.k} of {who[0].lower() + who[1:]} with probability "
            f"{self.probability:.1%} (+- {self.mcse:.1%}).",
            f"{who} has {self.n_clicked} click{'' if self.n_clicked == 1 else 's'}.",
        ]

    @abstractmethod
    def parts(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return each part of the probability that is not tiny, as a sentence and as a row of a table."""

    def __str__(self) -> str:
        return "\n".join([*self.opening(), *(f"- {line}" for line, _ in self.parts())])

    def _repr_html_(self) -> str:
        return tag("div", paragraphs(*self.opening()), table(self.HEADS, [row for _, row in self.parts()]))


def in_brackets(name: str | None) -> str:
    """Return a name to follow the number of a cluster, if there is one."""
    return f" ({name})" if name else ""


T = TypeVar("T")


class Options(NamedTuple):
    """Options that change the time of a prediction, not its meaning."""

    max_draws: MaxDraws
    n_threads: int | None
    progress: bool | None


class Predictions(NamedTuple):
    """Predictions for some users and all items, [user, item]."""

    probability: Floats  # that the item is among the user's next k; 0 where it is clicked
    mcse: Floats  # its Monte Carlo standard error
    tie_breaker: Floats  # of the user's own groups: among equal probabilities the smallest comes first


class Predictor(ABC):
    """The predictions of one fit to ``clicks``, whose users may have been left out (0 users)."""

    def __init__(self, clicks: Clicks) -> None:
        self.clicks = clicks
        self.every = np.arange(clicks.n_users)
        self.cluster_names: dict[int, str] = {}
        self._kept: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of ``make``, computed when it is first asked for."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast(T, self._kept[key])

    @abstractmethod
    def verdict(self) -> Verdict:
        """Return whether the chains have converged, in words."""

    @abstractmethod
    def summaries(self) -> ClusterSummaries:
        """Return a summary of each cluster, without names."""

    def clusters(self) -> ClusterSummaries:
        """Return a summary of each cluster, with its name."""
        return self.summaries().named(self.cluster_names)

    def name_clusters(self, names: Mapping[int, str]) -> None:
        """Name clusters, numbered as in `clusters`; an empty name removes one."""
        changed = self.cluster_names | checked_names(names, len(self.summaries()))
        self.cluster_names = {number: name for number, name in sorted(changed.items()) if name}

    @abstractmethod
    def memberships(self, people: Clicks, options: Options) -> Floats:
        """Return P(user belongs to cluster), [user, cluster], clusters numbered as in `clusters`."""

    def predictor(self, max_draws: MaxDraws) -> Any:
        """Return the draws, prepared for predictions by their method ``blocks``."""
        raise NotImplementedError

    def predictions(
        self, people: Clicks, rows: NDArray[np.int64] | None, k: int, options: Options
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield predictions for the next k clicks block by block, each with the positions of its users.

        They are for the users in these rows of the fitted clicks, or, if rows is None, for ``people``, new users.
        """
        matrix = people.matrix if rows is None else people.matrix[rows]
        with counting(options.progress, "users", matrix.shape[0]) as show:
            for block, predicted in self.predictor(options.max_draws).blocks(matrix, k, options.n_threads):
                yield block, predicted
                show(int(block[-1]) + 1)

    def rows(self, users: Iterable[object] | None) -> NDArray[np.int64]:
        """Return the rows of these users in the clicks; all rows if None."""
        if users is None:
            return self.every
        known, hint = self.clicks.users, "For users it was not fitted to, use recommend_for."
        # Kept: a caller with a million users asks for some thousand at a time.
        return positions(users, known, "user", hint, self.once("places", lambda: places_of(known)))

    def lists(
        self,
        people: Clicks,
        rows: NDArray[np.int64] | None,
        k: int,
        items: Iterable[object] | None,
        options: Options,
        horizon: int,
    ) -> Lists:
        """Return the best k items of each user, with their probabilities for the next ``horizon`` clicks."""
        allowed = self._allowed(items)
        order = self.once("order", lambda: id_ranks(self.clicks.items))
        matrix = people.matrix if rows is None else people.matrix[rows]
        nothing = np.zeros((0, min(k, people.n_items)))
        parts: list[tuple[NDArray[Any], ...]] = [(nothing.astype(np.int64), nothing, nothing)]
        for block, predicted in self.predictions(people, rows, horizon, options):
            available = ~clicked_mask(matrix, block) & allowed
            best = best_items(predicted.probability, available, k, order, predicted.tie_breaker)
            values = (np.take_along_axis(of, best, axis=1) for of in (predicted.probability, predicted.mcse))
            parts.append((best, *values))
        chosen, probability, mcse = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Lists(chosen, {"probability": probability, "mcse": mcse})

    def kept_lists(
        self,
        people: Clicks,
        rows: NDArray[np.int64] | None,
        k: int,
        items: Iterable[object] | None,
        options: Options,
        horizon: int,
    ) -> Lists:
        """Return `lists`; those of all users and items are kept, since cut-offs and comparisons ask again."""
        if rows is not self.every or items is not None:
            return self.lists(people, rows, k, items, options, horizon)
        key = ("lists", k, horizon, options.max_draws)
        return self.once(key, lambda: self.lists(people, rows, k, None, options, horizon))

    def _allowed(self, items: Iterable[object] | None) -> NDArray[np.bool_]:
        """Return which items may be recommended."""
        allowed = allowed_items(self.clicks.items, None, items)
        return np.ones(self.clicks.n_items, np.bool_) if allowed is None else allowed
