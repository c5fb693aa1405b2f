"""From draws of BMCD to probabilities, memberships and explanations: exactly, for any clicks and any k."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, Message, Option
from bmcd.inference.bmcd.labels import power_of
from bmcd.inference.bmcd.next_items import (
    LEFT_OUT,
    SCORED,
    ScoreTables,
    StackedTables,
    add_predictions,
    fill_scores,
    is_scored,
    keep_tables,
    probability_by_cluster,
    score_tables,
)
from bmcd.inference.diagnostics import Verdict, verdict
from bmcd.inference.draws import ClusterMatching, Draws, MaxDraws, draws_per_chain, match_clusters
from bmcd.inference.mixture import Data, make_data
from bmcd.mallows.latent.scan import shared_tables
from bmcd.models.clusters import INTERVAL, ClusterSummaries, summarise
from bmcd.models.predictor import SHOWN, ExplainedProbability, Options, Predictions, Predictor, in_brackets
from bmcd.utils import Floats, thread_count


@dataclass(frozen=True)
class Contribution:
    """One cluster's part in a probability."""

    cluster: int
    """As in `BMCD.clusters_`: 1 is the largest."""
    membership: float
    """Probability that the user belongs to it."""
    rank: float
    """Where its consensus has the item (1 is best), mean over draws."""
    rank_interval: tuple[float, float]
    """Holds 90 % of the draws."""
    probability: float
    """That the item is among the user's next k, if the user belongs to this cluster."""
    contribution: float
    """Its part of the probability: the mean over draws of membership times probability."""
    name: str | None = None
    """Its name, if it has one."""


@dataclass(frozen=True)
class Explanation(ExplainedProbability):
    """An explanation of `probability`; `print` it. The contributions add up to it."""

    clusters: tuple[Contribution, ...]
    """The largest contribution first; clusters that the user does not belong to are left out."""

    HEADS = ("cluster", "belongs to it", "rank there", "probability there", "adds")

    def parts(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return each part of the probability that is not tiny, as a sentence and as a row of a table."""
        return [
            (
                f"{c.membership:.0%} cluster {c.cluster}{in_brackets(c.name)}, whose consensus has it at rank "
                f"{c.rank:.0f} ({c.rank_interval[0]:.0f} to {c.rank_interval[1]:.0f}): {c.probability:.1%} there, "
                f"adds {c.contribution:.1%}",
                (
                    c.cluster,
                    f"{c.membership:.1%}",
                    f"{c.rank:.0f}",
                    f"{c.probability:.1%}",
                    f"{c.contribution:.1%}",
                ),
            )
            for c in self.clusters
            if c.membership >= SHOWN
        ]


# Draws used, over all chains, by default. Given a draw all else is summed out, so few are
# enough: on eshop (4 chains, 17 clusters, the ten items recommended to each of 400 users) 20 differ from 100 by
# 0.0035 on average, where the Monte Carlo error, mostly that between the chains, is 0.0143 with 20 and 0.0138 with
# 100. Of clicks held out of the training clicks of eshop they hit 0.2 and 0.1 points more (standard error 0.2), of
# the next ten of simulated users 0.01 more (0.04). With 12 the differences are 0.4, -0.4 and -0.07.
ENOUGH = 20
# Batches of draws, over all chains, from which Monte Carlo standard errors are taken.
BATCHES = 20
# Users in one block, and numbers in the arrays of a block.
BLOCK, BLOCK_SIZE = 256, 2**20
# For as few users as this the tables of all draws take longer to make than to use: they are kept for the next call,
FEW = 16
# up to this many bytes. The same holds for the scores by which clusters are left out.
KEPT_BYTES = 2**29


class PreparedDraws:
    """Draws of (rho, alpha, tau), prepared to make predictions from any user's clicks.

    A probability is the mean over draws of sum_c P(z = c | clicks) P(item among the next k | clicks, z = c), both
    with the user's latent ranking summed out. Of the draws of every chain an equal number is used, evenly spaced,
    about ``max_draws`` in all ("auto": ENOUGH, None: all).

    The Monte Carlo standard error is the larger of two: that between the means of the chains, and that between the
    means of consecutive batches within them (ArviZ's takes 0.4 ms for a single probability). The first sees
    chains that sit in different modes, the second a chain that stands alone.

    Clusters that together hold at most ``LEFT_OUT`` of a user in a draw are left out of it.

    The predictions for a user depend on no other user's clicks, and the number of threads changes no digit.
    """

    def __init__(self, draws: Draws, max_draws: MaxDraws = "auto") -> None:
        if draws.problem.options["distance"] != "footrule":
            raise InputError("exact probabilities are for the footrule; others have the counts of count_k.")
        self.n_chains, self.n_items = draws.n_chains, draws.problem.n_items
        self.scale = draws.problem.options["rank_scale"]
        per_chain = draws_per_chain(max_draws, ENOUGH, self.n_chains, draws.n_draws)
        batches = min(-(-BATCHES // self.n_chains), per_chain)
        chosen = np.linspace(0, draws.n_draws - 1, per_chain).round().astype(int)
        self.rho = draws.rho[:, chosen].reshape(-1, *draws.rho.shape[2:]).astype(np.int64)
        self.alpha = np.ascontiguousarray(draws.alpha[:, chosen].reshape(-1, draws.alpha.shape[2]))
        self.tau = np.ascontiguousarray(draws.tau[:, chosen].reshape(-1, draws.tau.shape[2]))
        self.chosen = chosen  # of each chain
        by_chain = np.arange(len(self.rho)).reshape(self.n_chains, per_chain)
        self.batches = [batch for draws_of in by_chain for batch in np.array_split(draws_of, batches)]
        gaps = np.diff(make_data(sparse.csr_array((1, self.n_items)), self.scale).scale)
        self.shared = shared_tables(gaps)
        self._none = keep_tables(self.shared, self.alpha, 0)
        self._kept: StackedTables | None = None
        self._scores = self._room_for_scores()
        self._scored = np.zeros(len(self._scores.base), bool)  # by power

    @property
    def n_draws(self) -> int:
        """How many draws are used, over all chains."""
        return len(self.rho)

    def predict(self, clicks: sparse.csr_array, k: int, n_threads: int | None = None) -> Predictions:
        """Return the predictions for all users of a click matrix, in one piece."""
        parts = list(self.blocks(clicks, k, n_threads))
        return Predictions(*(np.concatenate(arrays) for arrays in zip(*(part for _, part in parts), strict=True)))

    def blocks(
        self, clicks: sparse.csr_array, k: int, n_threads: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield the same block by block: the rows of the block and what is predicted for them."""
        data = self._data(clicks)
        k = min(k, self.n_items)
        n_users = clicks.shape[0]
        size = max(1, min(BLOCK, BLOCK_SIZE // self.n_items))
        kept = self._tables() if n_users <= FEW else self._none
        with ThreadPoolExecutor(thread_count(n_threads)) as pool:
            self._score(data, kept, pool)
            for first in range(0, n_users, size):
                users = np.arange(first, min(first + size, n_users))
                yield users, self._block(users, data, k, kept, pool)

    def memberships(self, clicks: sparse.csr_array, n_threads: int | None = 1) -> Floats:
        """Return P(user belongs to cluster), [draw, user, cluster]; clusters are numbered as in that draw."""
        data, users = self._data(clicks), np.arange(clicks.shape[0])
        weight = np.empty((self.n_draws, users.size, self.alpha.shape[1]))
        nothing = np.empty((1, 0))

        def set_weight(s: int) -> None:
            self._add(users, data, 0, self._none, s, s + 1, nothing, nothing, weight)

        with ThreadPoolExecutor(thread_count(n_threads)) as pool:
            self._score(data, self._none, pool)
            list(pool.map(set_weight, range(self.n_draws)))
        return weight

    def by_cluster(self, clicks: sparse.csr_array, item: int, k: int) -> tuple[Floats, Floats]:
        """Return, of one user, P(cluster) and P(item among the next k | cluster), each [draw, cluster]."""
        weight = self.memberships(clicks)[:, 0]
        found = np.zeros_like(weight)
        data = self._data(clicks)
        probability_by_cluster(
            0, item, data, self.rho, self.alpha, self.shared, min(k, self.n_items), weight, found
        )
        return weight, found

    def _block(
        self, users: NDArray[np.int64], data: Data, k: int, kept: StackedTables, pool: ThreadPoolExecutor
    ) -> Predictions:
        n_batches = len(self.batches)
        sums = np.zeros((n_batches, 2, users.size, self.n_items))
        weight = np.empty((self.n_draws, users.size, self.alpha.shape[1]))

        def add(batch: int) -> None:
            draws = self.batches[batch]
            self._add(users, data, k, kept, draws[0], draws[-1] + 1, sums[batch, 0], sums[batch, 1], weight)

        list(pool.map(add, range(n_batches)))
        probability, mean_rank = sums.sum(axis=0) / self.n_draws
        means = sums[:, 0] / np.array([len(batch) for batch in self.batches])[:, None, None]
        mcse = standard_error(means.reshape(self.n_chains, -1, *means.shape[1:]))
        return Predictions(probability.clip(0.0, 1.0), mcse, mean_rank)

    def _add(
        self, users: NDArray[np.int64], data: Data, k: int, kept: StackedTables, first: int, last: int,
        probability: Floats, mean_rank: Floats, weight: Floats,
    ) -> None:  # fmt: skip
        add_predictions(
            users, data, self.rho, self.alpha, self.tau, kept, self.shared, self._scores, k, LEFT_OUT, first, last,
            probability, mean_rank, weight,
        )  # fmt: skip

    def _room_for_scores(self) -> ScoreTables:
        most = int(SCORED * self.n_items)
        n_powers = power_of(most) + 1 if most > 0 and self.alpha.shape[1] > 1 else 0
        if n_powers * self.rho.size * 4 > KEPT_BYTES:
            n_powers = 0
        return score_tables(n_powers, self.n_draws, self.n_items, self.alpha.shape[1])

    def _score(self, data: Data, kept: StackedTables, pool: ThreadPoolExecutor) -> None:
        """Make the scores for click counts that have not come before, once for all calls.

        Two callers at once may make the same ones, and then write the same numbers.
        """
        counts = np.unique(np.diff(data.user_start)).tolist()
        powers = {power_of(count) for count in counts if is_scored(count, self._scores)}
        missing = np.array([power for power in sorted(powers) if not self._scored[power]], np.int64)
        if missing.size:
            one = (missing, self.rho, self.alpha, kept, self.shared)
            list(pool.map(lambda s: fill_scores(*one, s, self._scores), range(self.n_draws)))
            self._scored[missing] = True

    def _data(self, clicks: sparse.csr_array) -> Data:
        if clicks.shape[1] != self.n_items:
            raise InputError(f"the draws are of {self.n_items} items, but the clicks are on {clicks.shape[1]}.")
        return make_data(clicks, self.scale)

    def _tables(self) -> StackedTables:
        if self._kept is None:
            one = sum(array.nbytes for array in keep_tables(self.shared, self.alpha, 1))
            self._kept = keep_tables(self.shared, self.alpha, min(self.n_draws, KEPT_BYTES // one))
        return self._kept


def count_predictions(
    draws: Draws, clicks: sparse.csr_array, rows: NDArray[np.int64] | None, k: int
) -> Predictions:
    """Return predictions for other distances than the footrule: how often an item was among the next k in the fit.

    ``rows`` are the places of the users of ``clicks`` in the fit. Ties go by the user's own counts for the other k
    that were counted; where these are equal too, by the consensus of all clusters, as labels of users are not kept.
    """
    distance, counted = draws.problem.options["distance"], draws.problem.options["count_k"]
    if rows is None:
        raise InputError(
            f"this model has the distance {distance!r}; only the footrule can serve users it was not fitted to."
        )
    if k not in counted or draws.tally is None:
        said = (
            f"with the distance {distance!r} probabilities are counted during the fit, for k = "
            f"{', '.join(map(str, counted)) or 'none'}, not for {k}: fit again with "
        )
        raise InputError(Message(said, Option("count_k", [k]), ", or the footrule."))
    by_chain = draws.tally[:, counted.index(k)][:, rows] / draws.n_tallied[:, None, None]
    by_chain[:, clicks.toarray().astype(bool)] = 0.0
    mean_rank = np.einsum("sdc,sdci->i", draws.tau, draws.rho.astype(np.float64)) / draws.log_joint.size
    # Counts are whole numbers, and a rank over n + 1 is less than one of them.
    own = draws.tally[:, :, rows].sum(axis=(0, 1), dtype=np.float64)
    return Predictions(
        by_chain.mean(axis=0), standard_error(by_chain[:, None]), mean_rank / (mean_rank.size + 1) - own
    )


def standard_error(means: Floats) -> Floats:
    """Return the Monte Carlo standard error of the mean of [chain, batch, ...]; nan if there is only one batch.

    >>> one, two = np.array([[0.4, 0.6], [0.4, 0.6]]), np.array([[0.1], [0.3]])
    >>> standard_error(one).round(3), standard_error(two).round(3)
    (np.float64(0.071), np.float64(0.1))
    """
    n_chains, n_batches = means.shape[:2]
    squares = [np.full(means.shape[2:], np.nan)]
    if n_batches > 1:
        squares.append(means.var(axis=1, ddof=1).mean(axis=0) / (n_chains * n_batches))
    if n_chains > 1:
        squares.append(means.mean(axis=1).var(axis=0, ddof=1) / n_chains)
    return np.asarray(np.sqrt(np.fmax.reduce(squares)))


class BMCDPredictor(Predictor):
    """Predictions from the draws of one fit."""

    def __init__(self, clicks: Clicks, draws: Draws) -> None:
        super().__init__(clicks)
        self.draws = draws
        self.exact = draws.problem.options["distance"] == "footrule"

    def verdict(self) -> Verdict:
        """Return whether the chains have converged, in words."""
        return self.once("verdict", lambda: verdict(self.draws, self.clicks))

    def names(self) -> ClusterMatching:
        """Return which cluster is which, in every draw and chain."""
        return self.once("names", lambda: match_clusters(self.draws))

    def summaries(self) -> ClusterSummaries:
        """Return a summary of each cluster, without names."""
        return self.once("clusters", self._summaries)

    def _summaries(self) -> ClusterSummaries:
        draws, sort = self.draws, self.names().sort
        # Where a chain sees a sample of the users, they stand for all.
        scale_up = draws.problem.n_users / draws.problem.n_users_of_chain
        return summarise(
            self.clicks,
            "cluster",
            alpha=sort(draws.alpha),
            rho=sort(draws.rho),
            sizes=sort(draws.label_counts.astype(np.float64)) * scale_up,
            share=sort(draws.tau).mean(axis=(0, 1)),
            agreement=self.names().agreement,
        )

    def predictor(self, max_draws: MaxDraws) -> PreparedDraws:
        """Return the prepared draws."""
        return self.once(("predictor", max_draws), lambda: PreparedDraws(self.draws, max_draws))

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
        """Yield predictions block by block; see `Predictor.predictions`."""
        if self.exact:
            yield from super().predictions(people, rows, k, options)
            return
        matrix = people.matrix if rows is None else people.matrix[rows]
        yield np.arange(matrix.shape[0]), count_predictions(self.draws, matrix, rows, k)

    def explain(
        self, people: Clicks, column: int, k: int, max_draws: MaxDraws, about: tuple[Any, Any, str]
    ) -> Explanation:
        """Explain one probability for the one user of ``people``; ``about`` is the user, the item and its title."""
        predictor = self.predictor(max_draws)
        weight, given = predictor.by_cluster(people.matrix, column, k)
        by_draw = weight * given
        order = np.argsort(self.names().name[:, predictor.chosen].reshape(weight.shape), axis=1)
        weight, parts, rank = (
            np.take_along_axis(values, order, axis=1)
            for values in (weight, by_draw, predictor.rho[:, :, column].astype(np.float64))
        )
        found = []
        for c in np.argsort(-parts.mean(axis=0), kind="stable").tolist():
            member, inside = float(weight[:, c].mean()), float(parts[:, c].mean())
            if member > 0:
                low, high = np.percentile(rank[:, c], INTERVAL)
                interval = (float(low), float(high))
                part = (member, float(rank[:, c].mean()), interval, inside / member, inside)
                found.append(Contribution(c + 1, *part, self.cluster_names.get(c + 1)))
        batches = np.array([by_draw[draws].sum(axis=1).mean() for draws in predictor.batches])
        mcse = float(standard_error(batches.reshape(predictor.n_chains, -1)))
        probability = float(by_draw.sum(axis=1).mean())
        return Explanation(*about, k, int(people.matrix.nnz), probability, mcse, tuple(found))
