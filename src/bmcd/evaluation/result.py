"""Evaluation: everything `bmcd.evaluate` measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import InputError
from bmcd.evaluation.calibration import Calibration, Library
from bmcd.evaluation.intervals import Interval, bootstrap, percentiles
from bmcd.evaluation.metrics import PerUser
from bmcd.system.text import listed

COUNTS = ("n_users", "n_users_with_list", "n_items", "n_recommendations", "n_hits", "n_rare", "n_users_with_rare")
"""The counts, in the order they are shown."""
MEASURES = (
    *("accuracy", "coverage", "correct_coverage", "intra_list_similarity", "novelty", "rare_share"),
    *("users_with_rare_share", "precision", "recall", "ndcg", "mrr"),
)
"""The measures every evaluation has, in the order they are shown."""
CALIBRATION_MEASURES = ("brier", "log_score", "expected_calibration_error")
"""What is shown below them when there are probabilities."""


@dataclass(frozen=True, eq=False)
class ItemCounts:
    """How often each item was recommended, from the least to the most clicked in train, as in the paper."""

    item: NDArray[Any]
    """The caller's ids."""
    clicks: NDArray[np.int64]
    """Clicks in train."""
    recommended: NDArray[np.int64]
    """Users the item was recommended to."""
    hits: NDArray[np.int64]
    """Those of them for whom it was a hit."""
    n_popular: int
    """The last so many items are the popular ones; the others are rare."""

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return a frame with a row for each item: item, clicks, recommended, hits, rare."""
        import narwhals as nw

        data = {name: getattr(self, name).tolist() for name in ("item", "clicks", "recommended", "hits")}
        data["rare"] = (np.arange(len(self.item)) < len(self.item) - self.n_popular).tolist()
        return nw.from_dict(data, backend=library).to_native()


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What `bmcd.evaluate` found; `print` it for the table. docs/evaluation.md has every definition."""

    k: int
    """The number of recommendations asked for, for each user."""
    n_users: int
    """Evaluated users: those with recommendations, test clicks, or both."""
    n_users_with_list: int
    """Users with at least one recommendation."""
    n_items: int
    """Items in train, those nobody clicked included: all that can be recommended."""
    n_recommendations: int
    n_hits: int
    n_unclicked: int
    """Recommendations of items nobody clicked in train; for `novelty` they count as clicked once."""
    accuracy: float
    """Share of all recommendations that are hits."""
    coverage: float
    """Distinct items recommended, over `n_items`."""
    correct_coverage: float
    """Distinct items that are a hit for some user, over `n_items`."""
    intra_list_similarity: float
    """Binary cosine from training clicks, summed over the pairs of a list, mean over users with a list."""
    novelty: float
    """|log2| of an item's share of all training clicks, mean over the list, mean over users with a list."""
    n_rare: int
    """Recommendations of items that are not among the `items.n_popular` most clicked."""
    rare_share: float
    """`n_rare` over `n_recommendations`."""
    n_users_with_rare: int
    """Users with at least one rare recommendation."""
    users_with_rare_share: float
    """`n_users_with_rare` over `n_users_with_list`."""
    precision: float
    """Hits over k, mean over evaluated users."""
    recall: float
    """Hits over test clicks, mean over users with test clicks."""
    ndcg: float
    """Discounted gain over that of the best list, mean over users with test clicks."""
    mrr: float
    """1 over the rank of the first hit, or 0, mean over evaluated users."""
    calibration: Calibration | None
    """Hit rate against probability; None when the recommendations have no column `probability`."""
    items: ItemCounts
    """How often each item was recommended, by popularity."""
    users: NDArray[Any]
    """The evaluated users' ids, in the order of train; entries of `per_user` and `n_relevant` are theirs."""
    n_relevant: NDArray[np.int64]
    """How many items would have been a hit for each evaluated user."""
    per_user: Mapping[str, PerUser]
    """For each measure that has an interval, numerator and denominator of each evaluated user."""

    def interval(self, measure: str, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
        """Return a measure with its bootstrap interval; see `intervals`."""
        if measure not in self.per_user:
            raise InputError(
                f"{measure!r} has no interval; those that have: {listed(list(self.per_user), 20)}. See `intervals`."
            )
        return self._intervals([measure], level, resamples, seed)[measure]

    def intervals(self, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> dict[str, Interval]:
        """Return all measures that can have one with their percentile intervals over resamples of the users.

        Coverage, correct coverage and the expected calibration error have none: a resample holds only about 63 % of
        the different users, so it covers fewer items, and its bins are noisier, than the users it stands for.
        """
        return self._intervals(list(self.per_user), level, resamples, seed)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON; without what there is for each user and item."""
        names = ("k", *COUNTS, "n_unclicked", *MEASURES)
        calibration = None if self.calibration is None else self.calibration.to_dict()
        numbers = {name: getattr(self, name) for name in names}
        return {**numbers, "n_popular": self.items.n_popular, "calibration": calibration}

    def to_frame(
        self, library: Library = "pandas", *, level: float | None = None, resamples: int = 2000, seed: int = 0
    ) -> Any:
        """Return a frame with a row for each measure: measure, value; with a `level` also low and high."""
        import narwhals as nw

        rows = self._rows()
        data: dict[str, list[Any]] = {"measure": list(rows), "value": list(rows.values())}
        schema: dict[str, Any] = {"measure": nw.String(), "value": nw.Float64()}
        if level is not None:
            found = self.intervals(level=level, resamples=resamples, seed=seed)
            for end in ("low", "high"):
                data[end] = [getattr(found[name], end) if name in found else None for name in rows]
                schema[end] = nw.Float64()
        return nw.from_dict(data, schema=schema, backend=library).to_native()

    def __repr__(self) -> str:
        rows = [f"  {name:<27}{value:>8.4f}" for name, value in self._rows().items()]
        rare = f"{self.n_rare:,} rare recommendations, to {self.n_users_with_rare:,} users"
        return "\n".join(
            [
                f"Evaluation({self.n_hits:,} hits in {self.n_recommendations:,} recommendations to "
                f"{self.n_users_with_list:,} users, k={self.k})",
                *rows,
                f"  ({rare}; rare: not among the {self.items.n_popular:,} most clicked of {self.n_items:,} items)",
            ]
        )

    def _rows(self) -> dict[str, float]:
        rows = {name: float(getattr(self, name)) for name in MEASURES}
        if self.calibration is not None:
            rows |= {name: getattr(self.calibration, name) for name in CALIBRATION_MEASURES}
        return rows

    def _intervals(self, names: list[str], level: float, resamples: int, seed: int) -> dict[str, Interval]:
        measures = [self.per_user[name] for name in names]
        draws = bootstrap(measures, resamples, seed)
        found = {}
        for name, measure, column in zip(names, measures, draws.T, strict=True):
            low, high, error = percentiles(column, level)
            found[name] = Interval(name, measure.value, low, high, error, level)
        return found
