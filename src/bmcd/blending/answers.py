"""The answers of a blend: scores of its models, then rates, then the race for the next k."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.blending.features import Scale, Scores
from bmcd.blending.parts import part_scores
from bmcd.blending.rule import Rule
from bmcd.clicks.log import Clicks
from bmcd.clusters.summary import ClusterSummaries
from bmcd.errors import InputError, Message
from bmcd.prediction.answers import Answers, Floats, Options, Predictions
from bmcd.prediction.explanation import PartOfBlend
from bmcd.prediction.race import race_rows
from bmcd.prediction.top_k import clicked_mask
from bmcd.sampling.diagnostics import State, Verdict
from bmcd.system.progress import counting

# Users in one block, and numbers in its features.
BLOCK, BLOCK_SIZE = 512, 2**23
# How bad the state of a chain is: a blend is as good as the worst of its models.
STATES: tuple[State, ...] = ("converged", "too short", "stopped", "not converged")


class BlendAnswers(Answers):
    """Answers of a blend of fitted models. ``scales`` are those of the models, None for those with a law."""

    def __init__(
        self, clicks: Clicks, models: Mapping[str, Any], scales: tuple[Scale | None, ...], rule: Rule
    ) -> None:
        super().__init__(clicks)
        self.models, self.scales, self.rule = models, scales, rule

    def verdict(self) -> Verdict:
        """Return whether the models have settled, in words; one that is not sampled always has."""
        rule = self.rule
        text = [f"The weights were learnt from {rule.n_clicks:,} held-out clicks of {rule.n_users:,} users."]
        state: State = "converged"
        advice: list[str] = []
        for name, model in self.models.items():
            if hasattr(model, "verdict_"):
                of = model.verdict_
                text.append(f"{name}: {of.text}")
                advice += [Message(f"{name}: ", line) for line in of.advice]
                state = max(state, of.state, key=STATES.index)
        return Verdict(state, " ".join(text), tuple(advice))

    def summaries(self) -> ClusterSummaries:
        """Return the clusters of the first model that has some, which knows their names."""
        return self.clusters()

    def clusters(self) -> ClusterSummaries:
        """Return the clusters of the first model that has some."""
        clusters: ClusterSummaries = self._grouping("clusters").clusters_
        return clusters

    def name_clusters(self, names: Mapping[int, str]) -> None:
        """Name the clusters of the first model that has some."""
        self._grouping("clusters").name_clusters(names)

    def memberships(self, people: Clicks, options: Options) -> Floats:
        """Return those of the first model that has clusters."""
        weight: Floats = self._grouping("memberships").memberships_of(people, max_draws=options.max_draws)
        return weight

    def predictions(
        self, people: Clicks, rows: NDArray[np.int64] | None, k: int, options: Options
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield predictions block by block; see `Answers.predictions`."""
        chosen = np.arange(people.n_users) if rows is None else rows
        size = max(1, min(BLOCK, BLOCK_SIZE // (people.n_items * self.rule.weights.shape[1])))
        with counting(options.progress, "users", len(chosen)) as show:
            for first in range(0, len(chosen), size):
                block = np.arange(first, min(first + size, len(chosen)))
                some = people.of_users(chosen[block])
                yield block, self._predict(some, k, rows is not None, options.n_threads)
                show(int(block[-1]) + 1)

    def explain(
        self, person: Clicks, column: int, k: int, known: bool
    ) -> tuple[float, float, tuple[PartOfBlend, ...]]:
        """Return the probability of an item for one person, its Monte Carlo error, and what each model adds."""
        predicted = self._predict(person, k, known, 1)
        scores = self._scores(person, known, 1)
        features = self.rule.features(scores, self.scales, person.per_user)[0]
        free = ~clicked_mask(person.matrix, np.arange(1))[0]
        weights, _ = self.rule.at(k)
        parts = []
        for name, given, columns in zip(self.models, scores, self.rule.features_by_model(), strict=True):
            own = features[:, columns] @ weights[columns]
            place = 1 + int((given.values[0, free] > given.values[0, column]).sum())
            parts.append(PartOfBlend(name, place, float(np.exp(own[column]) / np.exp(own[free]).mean())))
        parts.sort(key=lambda part: -part.factor)
        return float(predicted.probability[0, column]), float(predicted.mcse[0, column]), tuple(parts)

    def shares(self, people: Clicks, k: int) -> dict[str, float]:
        """Return how much of what sets apart the items that people may click next is each model's say.

        That is its part in the variance of the logarithm of the rate, among the unclicked items of a person, each
        counting as much as it is likely to be the next; the parts sum to 1.
        """
        features = self.rule.features(self._scores(people, True, None), self.scales, people.per_user)
        free = ~clicked_mask(people.matrix, np.arange(people.n_users))
        weights, _ = self.rule.at(k)
        own = [features[:, :, columns] @ weights[columns] for columns in self.rule.features_by_model()]
        total = np.where(free, np.sum(own, axis=0), -np.inf)
        highest = total.max(axis=1, keepdims=True, initial=-1e300)
        chance = np.where(free, np.exp(total - highest), 0.0)
        chance /= np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
        apart = [part - (part * chance).sum(axis=1, keepdims=True) for part in own]
        together = np.sum(apart, axis=0)
        said = np.array([(part * together * chance).sum() for part in apart])
        said = said / said.sum() if said.sum() > 0 else np.full(len(own), 1 / len(own))
        return dict(zip(self.models, said.tolist(), strict=True))

    def _predict(self, people: Clicks, k: int, known: bool, n_threads: int | None) -> Predictions:
        scores = self._scores(people, known, n_threads)
        free = ~clicked_mask(people.matrix, np.arange(people.n_users))
        features = self.rule.features(scores, self.scales, people.per_user)
        log_rates = self.rule.log_rates(features, free, k)
        tie_breaker = -log_rates
        if self.rule.is_law == (False,):  # the order of a single score is kept
            tie_breaker = -scores[0].values
            log_rates = never_falling(log_rates, scores[0].values)
        probability, slope = np.zeros_like(log_rates), np.zeros_like(log_rates)
        race_rows(log_rates, free, k, probability, slope)
        return Predictions(probability, slope * self._relative_error(scores, people, k), tie_breaker)

    def _scores(self, people: Clicks, known: bool, n_threads: int | None) -> list[Scores]:
        return [
            part_scores(name, model, people, known=known, n_threads=n_threads)
            for name, model in self.models.items()
        ]

    def _relative_error(self, scores: list[Scores], people: Clicks, k: int) -> Floats:
        """Return the Monte Carlo standard error of the logarithms of the rates, [person, item]."""
        weights, _ = self.rule.at(k)
        square = np.zeros((people.n_users, people.n_items))
        activity = self.rule.activity.of(people.per_user)[:, None]
        for given, columns in zip(scores, self.rule.features_by_model(), strict=True):
            if given.relative_error is not None:
                slope, more = weights[columns]
                square += ((slope + more * activity) * given.relative_error) ** 2
        return np.sqrt(square)

    def _grouping(self, what: str) -> Any:
        """Return the first model that has clusters, or an error."""
        for model in self.models.values():
            if hasattr(model, "memberships_of"):
                return model
        raise InputError(f"no model of this blend has {what}: {', '.join(self.models)}. BMCD and Tastes have.")


def never_falling(log_rates: Floats, score: Floats) -> Floats:
    """Return log rates that never fall where the score rises: each is at least that of every lower score.

    >>> never_falling(np.array([[3.0, 1.0, 2.0]]), np.array([[0.1, 0.3, 0.2]])).tolist()
    [[3.0, 3.0, 3.0]]
    """
    order = np.argsort(score, axis=1, kind="stable")
    rising = np.maximum.accumulate(np.take_along_axis(log_rates, order, axis=1), axis=1)
    out = np.empty_like(log_rates)
    np.put_along_axis(out, order, rising, axis=1)
    return out
