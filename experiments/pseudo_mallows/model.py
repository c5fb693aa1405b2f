"""PseudoMallows, an estimator with the contract of BMCD."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd import Clicks
from bmcd.errors import InputError
from bmcd.inference.diagnostics import Verdict
from bmcd.inference.draws import Draws
from bmcd.inference.run import Run
from bmcd.models.base import ProbabilityModel
from bmcd.models.bmcd_predictor import BMCDPredictor, count_predictions
from bmcd.models.predictor import Options, Predictions
from bmcd.models.top_k import check_k
from experiments.pseudo_mallows.sampler import sample_pseudo

COUNTED = (5, 10)


class PseudoMallows(ProbabilityModel):
    """The mixture of Mallows models of BMCD, with consensuses and rankings drawn by Pseudo-Mallows.

    Parameters
    ----------
    n_clusters
        How many clusters.
    alpha
        Fixed; None for an estimate from the clicks. See `sample_pseudo`.
    rankings_order
        "any" or "V": in which order the items of a user's ranking have their turns. See `sample_pseudo`.
    start
        Where chains start, as in BMCD.
    by_counts
        Where probabilities come from: how often an item is among the next k in the rankings drawn, which is the
        method's own way (only for users it was fitted to, and for the ``count_k`` of the fit); or, by default, from
        the draws of (rho, alpha, tau) with rankings and labels summed out, as in BMCD.

    Attributes
    ----------
    clicks_, draws_, n_clusters_, verdict_, clusters_ : as in BMCD

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=200, seed=1).clicks
    >>> model = PseudoMallows(3).fit(clicks, draws=10, warmup=10, chains=2)
    >>> model.recommend(k=2, users=[7]).columns.tolist()
    ['user', 'item', 'rank', 'probability', 'mcse']
    """

    draws_: Draws
    _answers: BMCDPredictor
    _number = "n_clusters"

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        alpha: float | None = None,
        rankings_order: str = "any",
        start: str = "kmeans",
        by_counts: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.rankings_order = rankings_order
        self.start = start
        self.by_counts = by_counts

    def fit(
        self,
        clicks: Any,
        *,
        draws: int = 200,
        warmup: int = 200,
        chains: int = 4,
        thin: int = 1,
        seed: int = 0,
        n_threads: int | None = None,
        progress: bool | None = None,
        count_k: Iterable[int] = COUNTED,
    ) -> PseudoMallows:
        """Draw, and return self. What was learned before is forgotten. ``count_k`` is for ``by_counts``."""
        run = Run(draws, warmup, chains, thin, seed, n_threads, progress)
        clicks = clicks if isinstance(clicks, Clicks) else Clicks.from_frame(clicks)
        counted = [check_k(k) for k in count_k] if self.by_counts else []
        drawn = sample_pseudo(
            clicks,
            self.n_clusters,
            run,
            alpha=self.alpha,
            rankings_order=self.rankings_order,
            start=self.start,
            count_k=counted,
        )
        self.clicks_, self.draws_, self.n_clusters_ = clicks, drawn, drawn.problem.n_clusters
        self._answers = (CountedAnswers if self.by_counts else PseudoAnswers)(clicks, drawn)
        return self

    def packed(self, *, clicks: bool = True) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Raise an error: models of the experiments are fitted again."""
        raise InputError("a PseudoMallows cannot be saved: it belongs to the experiments.")


class PseudoAnswers(BMCDPredictor):
    """Predictor out of draws of (rho, tau) with alpha fixed."""

    def verdict(self) -> Verdict:
        """Return that the chains are not judged."""
        said = "alpha is fixed, and what the chains converge to is not the posterior"
        return Verdict("not converged", f"Not judged: {said}.")


class CountedAnswers(PseudoAnswers):
    """Predictor out of the rankings that were drawn: how often an item is among the next k."""

    def predictions(
        self, people: Clicks, rows: NDArray[np.int64] | None, k: int, options: Options
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield predictions in one block; see `Predictor.predictions`."""
        counted = self.draws.problem.options["count_k"]
        if rows is None:
            raise InputError("counts are of the users it was fitted to: for others leave out by_counts.")
        if k not in counted:
            said = f"probabilities were counted for k = {', '.join(map(str, counted)) or 'none'}, not for {k}"
            raise InputError(f"{said}: fit again with count_k=[{k}], or leave out by_counts.")
        yield np.arange(len(rows)), count_predictions(self.draws, people.matrix[rows], rows, k)
