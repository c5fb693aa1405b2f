"""What was found on one data set, and how its methods compare, user by user."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bmcd.evaluation.calibration import Calibration
from bmcd.evaluation.evaluate import ItemCounts
from bmcd.evaluation.intervals import bootstrap, percentiles
from bmcd.evaluation.metrics import PerUser
from experiments.case_study.choice import Choice
from experiments.case_study.data import DataSet
from experiments.case_study.plan import Fit, Roles, Sizes
from experiments.tasks import Result

MAIN = "BMCD"
# What the paper calls CF; MLlib's own is run on few data sets, and tuned less.
CF = "ALS"
LEVEL, RESAMPLES = 0.95, 2000


@dataclass(frozen=True)
class Difference:
    """How much more accurate a method is than BMCD, with its interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 if it is more accurate, -1 if less, 0 if that cannot be told."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


@dataclass(frozen=True, eq=False)
class Study:
    """What was found on one data set."""

    data: DataSet
    sizes: Sizes
    description: Result
    choice: Choice
    roles: Roles
    fits: dict[Fit, Result]
    rivals: dict[str, Result]
    without_spark: str
    """Why MLlib's ALS is not among the rivals, if it was meant to be."""

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.data.name

    @property
    def k(self) -> int:
        """How many items were recommended to each user."""
        return self.data.remove

    @property
    def main(self) -> Result:
        """BMCD as it is meant to be used: C by held-out likelihood, k-means start, all chains averaged."""
        return self.fits[self.roles.main]

    @cached_property
    def variants(self) -> dict[str, Fit]:
        """The fits of BMCD in the table of methods, by name; the main one first."""
        of = self.roles
        elbow = "the elbow's C, " if of.elbow is not None else ""
        given = {
            MAIN: of.main,
            f"{MAIN}, the elbow's C": of.elbow,
            f"{MAIN}, {elbow}popularity start": of.popularity,
            f"{MAIN}, square root ranks": of.sqrt,
            f"{MAIN}, longer chains": of.longer,
            f"{MAIN}, {self.sizes.more} chains": of.more,
        }
        return {name: fit for name, fit in given.items() if fit is not None and (name == MAIN or fit != of.main)}

    @cached_property
    def methods(self) -> dict[str, Result]:
        """All methods by name: BMCD, its variants, and the rivals from the most to the least accurate."""
        ranked = sorted(self.rivals, key=lambda name: -self.accuracy_of(self.rivals[name]))
        own = {name: self.fits[fit] for name, fit in self.variants.items()}
        return own | {name: self.rivals[name] for name in ranked}

    @property
    def best_rival(self) -> str:
        """The most accurate rival."""
        return max(self.rivals, key=lambda name: self.accuracy_of(self.rivals[name]))

    @staticmethod
    def accuracy_of(result: Result) -> float:
        """The accuracy a task found."""
        return float(result["measures"]["accuracy"])

    def measure(self, method: str, name: str) -> float:
        """One measure of one method."""
        return float(self.methods[method]["measures"][name])

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """Accuracy of each method less that of BMCD, over the same resampled users."""
        return {name: self.difference(name, MAIN) for name in self.methods if name != MAIN}

    def difference(self, one: str, other: str) -> Difference:
        """Accuracy of one method less that of another, over the same resampled users."""
        a, b = (_hits(self.methods[name]) for name in (one, other))
        draws = bootstrap([a, b], RESAMPLES, self.data.seed)
        low, high, _ = percentiles(draws[:, 0] - draws[:, 1], LEVEL)
        return Difference(a.value - b.value, low, high)

    @cached_property
    def calibration(self) -> Calibration:
        """Of BMCD; its probabilities are rounded to four digits."""
        return calibration_of(self.main)

    def item_counts(self, method: str) -> ItemCounts:
        """How often each item was recommended by a method; items are numbered by popularity."""
        result = self.methods[method]
        counts = {name: np.array(values, np.int64) for name, values in result["items"].items()}
        n_popular = int(result["measures"]["n_popular"])
        return ItemCounts(item=np.arange(len(counts["clicks"])), **counts, n_popular=n_popular)


def calibration_of(fit: Result) -> Calibration:
    """From the numbers of recommendations and hits at each probability."""
    counted = fit["probabilities"]
    n, hits = np.array(counted["n"]), np.array(counted["hits"])
    probability = np.repeat(counted["value"], n)
    first = np.repeat(np.cumsum(n) - n, n)
    return Calibration.of(probability, np.arange(n.sum()) - first < np.repeat(hits, n))


def _hits(result: Result) -> PerUser:
    hits = np.array(result["user_hits"], float)
    return PerUser(hits, np.broadcast_to(np.array(result["user_lengths"], float), hits.shape))
