"""The answers of a mixture of Mallows models, out of its draws."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference.diagnostics import Verdict, verdict
from bmcd.inference.draws import Draws
from bmcd.models.answers import Answers, MaxDraws, Options, Predictions
from bmcd.models.bmcd_predictor import Predictor, count_predictions
from bmcd.models.clusters import ClusterNames, ClusterSummaries, name_clusters, summarise_clusters
from bmcd.progress import counting
from bmcd.utils import Floats


class MixtureAnswers(Answers):
    """Answers out of the draws of one fit."""

    def __init__(self, clicks: Clicks, draws: Draws) -> None:
        super().__init__(clicks)
        self.draws = draws
        self.exact = draws.problem.options["distance"] == "footrule"

    def verdict(self) -> Verdict:
        """Return whether the chains have converged, in words."""
        return self.once("verdict", lambda: verdict(self.draws, self.clicks))

    def names(self) -> ClusterNames:
        """Return which cluster is which, in every draw and chain."""
        return self.once("names", lambda: name_clusters(self.draws))

    def summaries(self) -> ClusterSummaries:
        """Return what each cluster is like, without names."""
        return self.once("clusters", lambda: summarise_clusters(self.draws, self.names(), self.clicks))

    def predictor(self, max_draws: MaxDraws) -> Predictor:
        """Return the draws made ready."""
        return self.once(("predictor", max_draws), lambda: Predictor(self.draws, max_draws))

    def memberships(self, people: Clicks, options: Options) -> Floats:
        """Return P(user belongs to cluster), [user, cluster], clusters numbered as in `clusters`."""
        if not self.exact:
            distance = self.draws.problem.options["distance"]
            raise InputError(f"memberships are for the footrule, and this model has distance={distance!r}.")
        predictor = self.predictor(options.max_draws)
        weight = predictor.memberships(people.matrix, options.n_threads)
        order = np.argsort(self.names().name[:, predictor.chosen].reshape(len(weight), -1), axis=1)
        by_name: Floats = np.take_along_axis(weight, order[:, None, :], axis=2).mean(axis=0)
        return by_name

    def predictions(
        self, people: Clicks, rows: NDArray[np.int64] | None, k: int, options: Options
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield predictions block by block; see `Answers.predictions`."""
        matrix = people.matrix if rows is None else people.matrix[rows]
        if not self.exact:
            yield np.arange(matrix.shape[0]), count_predictions(self.draws, matrix, rows, k)
            return
        with counting(options.progress, "users", matrix.shape[0]) as show:
            for block, predicted in self.predictor(options.max_draws).blocks(matrix, k, options.n_threads):
                yield block, predicted
                show(int(block[-1]) + 1)
