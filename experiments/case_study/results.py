"""The results of all tasks on one data set, and how its methods compare, user by user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bmcd.evaluation import Calibration, ItemCounts
from bmcd.evaluation.intervals import bootstrap, percentiles
from bmcd.evaluation.metrics import PerUser
from experiments.case_study.choice import Choice, choose
from experiments.case_study.forecasts import BIN_WIDTH, LEVEL, RESAMPLES
from experiments.case_study.plan import BLEND, MAIN, PSEUDO, TASTES, Fit, Plan, blend_name, blend_part
from experiments.differences import Difference
from experiments.tasks import Result

# What the paper calls CF; MLlib's own is run on few data sets, and tuned less.
CF = "ALS"


@dataclass(frozen=True, eq=False)
class DataSetResults:
    """The results on one data set; ``results["kmeans"]`` is that of the task "kmeans"."""

    plan: Plan
    by_task: Mapping[str, Result]
    """All results of the study. `choice` and `fits` need only those of the first stage."""

    def __getitem__(self, part: str) -> Result:
        return self.by_task[self.plan.task_name(part)]

    @property
    def name(self) -> str:
        """The name of the data set."""
        return self.plan.data.name

    @cached_property
    def choice(self) -> Choice:
        """The numbers of clusters that were chosen."""
        return choose(self["kmeans"], {c: self[f"held-out-{c}"] for c in self.plan.sizes.clusters})

    @cached_property
    def variants(self) -> dict[str, Fit]:
        """The fits of BMCD in the table of methods, by name; the main one first."""
        return self.plan.variants(self.choice.recommended, self.choice.larger)

    @property
    def fits(self) -> list[Fit]:
        """All fits of BMCD."""
        return self.plan.fits(self.variants.values())

    @property
    def fits_over_clusters(self) -> list[Fit]:
        """The fits that differ in the number of clusters alone, by that number."""
        return sorted((fit for fit in self.fits if fit == Fit(fit.n_clusters)), key=lambda fit: fit.n_clusters)

    @property
    def main(self) -> Result:
        """BMCD as it is meant to be used: C by held-out likelihood, k-means start, all chains averaged."""
        return self[self.variants[MAIN].name]

    @property
    def pseudo_mallows(self) -> Result:
        """Pseudo-Mallows, with as many clusters as BMCD."""
        return self[f"{PSEUDO}-{self.choice.recommended}"]

    @cached_property
    def baselines(self) -> dict[str, Result]:
        """The baselines by name, in the order of the plan."""
        return {name: self[name] for name in self.plan.baselines}

    @cached_property
    def ranked_baselines(self) -> list[str]:
        """The names of the baselines, from the most to the least accurate."""
        return sorted(self.baselines, key=lambda name: -self.baselines[name]["measures"]["accuracy"])

    @property
    def best_baseline(self) -> str:
        """The most accurate baseline."""
        return self.ranked_baselines[0]

    @property
    def settings(self) -> dict[str, Mapping[str, Any]]:
        """What was chosen on training clicks, by method that has a choice or may be part of a blend."""
        chosen = {name: (result["tuning"] or {"best": {}})["best"] for name, result in self.baselines.items()}
        return chosen | {TASTES: {**self[TASTES]["tuning"]["best"], "chains": self[TASTES]["chains"]}}

    @cached_property
    def blends(self) -> dict[str, Result]:
        """The blends by name, in the order of the plan."""
        return {name: self[blend_part(members)] for name, members in self.plan.blends.items()}

    @cached_property
    def methods(self) -> dict[str, Result]:
        """All methods by name: BMCD and its like, Tastes, its blend, and the baselines, the most accurate first."""
        variants = {name: self[fit.name] for name, fit in self.variants.items()} | {PSEUDO: self.pseudo_mallows}
        others = {TASTES: self[TASTES], BLEND: self.blends[BLEND]}
        return variants | others | {name: self.baselines[name] for name in self.ranked_baselines}

    @cached_property
    def forecasters(self) -> dict[str, Result]:
        """All that give probabilities: some methods themselves, Tastes and baselines through Blend."""
        own = {MAIN: self.main, PSEUDO: self.pseudo_mallows, TASTES: self[TASTES]}
        own |= {name: self.baselines[name] for name in self.ranked_baselines if "forecasts" in self.baselines[name]}
        names = [BLEND, blend_name(TASTES), *map(blend_name, self.ranked_baselines)]
        return own | {name: self.blends[name] for name in names}

    def measure(self, method: str, name: str) -> float:
        """Return a measure of a method."""
        return float(self.methods[method]["measures"][name])

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """Accuracy of each method less that of BMCD, over the same resampled users."""
        return {name: self.difference(name, MAIN) for name in self.methods if name != MAIN}

    def difference(self, method: str, other: str) -> Difference:
        """Return the accuracy of a method less that of another, over the same resampled users."""
        return self._difference(self.methods[method], self.methods[other])

    @cached_property
    def ahead_of_best_baseline(self) -> dict[str, Difference]:
        """Accuracy of each method less that of the most accurate baseline, over the same resampled users."""
        best = self.best_baseline
        return {name: self.difference(name, best) for name in self.methods if name != best}

    def ahead_when_kept(self, method: str, other: str, place: int) -> Difference:
        """Return the same of two that give probabilities, for the most probable recommendations of each.

        ``place`` is that of their share in `KEPT_SHARES`.
        """
        kept = (self.forecasters[name]["forecasts"]["most_probable"][place] for name in (method, other))
        return self._difference(*kept)

    def _difference(self, result: Result, other: Result) -> Difference:
        hits, other_hits = map(_hits_by_user, (result, other))
        resamples = bootstrap([hits, other_hits], RESAMPLES, self.plan.data.seed)
        low, high, _ = percentiles(resamples[:, 0] - resamples[:, 1], LEVEL)
        return Difference(hits.value - other_hits.value, low, high)

    def accuracy_when_kept(self, method: str, place: int) -> tuple[float, float, float]:
        """Return the accuracy of the most probable recommendations of a method, and its interval."""
        hits = _hits_by_user(self.forecasters[method]["forecasts"]["most_probable"][place])
        low, high, _ = percentiles(bootstrap([hits], RESAMPLES, self.plan.data.seed)[:, 0], LEVEL)
        return hits.value, low, high

    def calibration(self, method: str = MAIN, bin_width: float = BIN_WIDTH) -> Calibration:
        """Return the calibration of a method, from the numbers of recommendations and hits at each probability."""
        counts = self.forecasters[method]["forecasts"]["counts"]
        n, hits = np.array(counts["n"]), np.array(counts["hits"])
        first = np.repeat(np.cumsum(n) - n, n)
        hit = np.arange(n.sum()) - first < np.repeat(hits, n)
        return Calibration.of(np.repeat(counts["value"], n), hit, bin_width)

    def item_counts(self, method: str) -> ItemCounts:
        """Return how often each item was recommended by a method; items are numbered by popularity."""
        result = self.methods[method]
        counts = {name: np.array(values, np.int64) for name, values in result["items"].items()}
        n_popular = int(result["measures"]["n_popular"])
        return ItemCounts(item=np.arange(len(counts["clicks"])), **counts, n_popular=n_popular)


def _hits_by_user(result: Result) -> PerUser:
    hits = np.array(result["user_hits"], float)
    return PerUser(hits, np.broadcast_to(np.array(result["user_lengths"], float), hits.shape))
