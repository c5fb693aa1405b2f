"""The answers of the model with several tastes per user, out of its draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.inference.diagnostics import Verdict
from bmcd.inference.tastes.draws import TasteDraws
from bmcd.models.answers import Answers, MaxDraws, Options, Predictions
from bmcd.models.clusters import ClusterSummaries, Groups, summarise_groups
from bmcd.models.explanation import TasteContribution
from bmcd.models.taste_predictor import TastePredictor
from bmcd.models.taste_verdict import judge_tastes
from bmcd.progress import counting
from bmcd.utils import Floats


class TasteAnswers(Answers):
    """Answers out of the draws of one fit. Tastes are those of the best chain, the most visited first."""

    def __init__(self, clicks: Clicks, draws: TasteDraws) -> None:
        super().__init__(clicks)
        self.draws = draws

    def verdict(self) -> Verdict:
        """Return whether other or longer chains would change the probabilities, in words."""
        return self.once("verdict", lambda: judge_tastes(self.draws, self.predictor("auto"), self.clicks))

    def predictor(self, max_draws: MaxDraws) -> TastePredictor:
        """Return the draws made ready."""
        return self.once(("predictor", max_draws), lambda: TastePredictor(self.draws, max_draws))

    def order(self) -> NDArray[np.int64]:
        """Return the tastes of the best chain in the order of their numbers: the most visited first."""
        visits = self.draws.visits_per_taste[self.draws.best_chain].mean(axis=0)
        return np.argsort(-visits, kind="stable")

    def summaries(self) -> ClusterSummaries:
        """Return what each taste of the best chain is like, without names."""
        return self.once("clusters", self._summaries)

    def memberships(self, people: Clicks, options: Options) -> Floats:
        """Return the share of each taste in the users' visits, [user, taste], tastes numbered as in `clusters`."""
        return self.predictor(options.max_draws).memberships(people.matrix)[:, self.order()]

    def predictions(
        self, people: Clicks, rows: NDArray[np.int64] | None, k: int, options: Options
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield predictions block by block; see `Answers.predictions`."""
        matrix = people.matrix if rows is None else people.matrix[rows]
        with counting(options.progress, "users", matrix.shape[0]) as show:
            for block, predicted in self.predictor(options.max_draws).blocks(matrix, k, options.n_threads):
                yield block, predicted
                show(int(block[-1]) + 1)

    def contributions(
        self, matrix: sparse.csr_array[Any], column: int, probability: float, max_draws: MaxDraws
    ) -> tuple[TasteContribution, ...]:
        """Return what each taste adds to the probability of an item for the one user of ``matrix``."""
        predictor, order = self.predictor(max_draws), self.order()
        share = predictor.memberships(matrix)[0, order]
        click = predictor.q[predictor.best][:, column].mean(axis=0)[order].astype(np.float64)
        rank = self.draws.rho[self.draws.best_chain][:, order, column].mean(axis=0)
        part = share * click / max(float(share @ click), 1e-300)
        return tuple(
            TasteContribution(
                c + 1,
                float(share[c]),
                float(rank[c]),
                float(click[c]),
                float(part[c] * probability),
                self.cluster_names.get(c + 1),
            )
            for c in np.argsort(-part, kind="stable").tolist()
        )

    def _summaries(self) -> ClusterSummaries:
        draws, order = self.draws, self.order()
        best = draws.best_chain
        visits = draws.visits_per_taste[best][:, order]
        users = np.zeros(draws.n_tastes)
        if self.clicks.n_users:
            users = self.predictor("auto").memberships(self.clicks.matrix).sum(axis=0)[order]
        groups = Groups(
            "taste",
            draws.alpha[best][None, :, order],
            draws.rho[best][None][:, :, order],
            np.broadcast_to(users, (1, draws.n_draws, draws.n_tastes)),
            visits.sum(axis=0) / max(visits.sum(), 1.0),
            self._agreement()[order],
        )
        return summarise_groups(groups, self.clicks)

    def _agreement(self) -> Floats:
        """Return how near the nearest taste of another chain is to each taste of the best chain, on average.

        Nearness is the cosine between the probabilities of their items.
        """
        draws, best, last = self.draws, self.draws.best_chain, self.draws.n_draws - 1

        def unit(chain: int) -> Floats:
            q = draws.first_items(chain, last)
            return np.asarray(q / np.linalg.norm(q, axis=0))

        others = [unit(chain) for chain in range(draws.n_chains) if chain != best]
        if not others:
            return np.ones(draws.n_tastes)
        return np.asarray(np.mean([(unit(best).T @ other).max(axis=1) for other in others], axis=0))
