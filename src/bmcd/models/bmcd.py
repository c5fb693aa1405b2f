"""BMCD, the estimator: fit clicks, recommend items, each with the probability that it is among the next k."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.table import Clicks, positions
from bmcd.clusters.choose import ClusterChoice, choose_n_clusters
from bmcd.clusters.summary import ClusterSummaries
from bmcd.errors import FitWarning, InputError
from bmcd.evaluation import evaluate
from bmcd.evaluation.calibration import Calibration
from bmcd.prediction.answers import Answers, Options
from bmcd.prediction.explanation import Explanation, explain
from bmcd.prediction.predictor import DRAWS
from bmcd.prediction.top_k import check_k, recommendation_frame
from bmcd.sampling import diagnostics
from bmcd.sampling.draws import Draws
from bmcd.sampling.posterior import sample_posterior
from bmcd.sampling.priors import Priors
from bmcd.sampling.run import Run
from bmcd.simulation import Simulation
from bmcd.system.progress import tell

Floats = NDArray[np.float64]
# k for which other distances than the footrule count, unless `fit` is told otherwise.
COUNTED = (5, 10)


class BMCD(BaseEstimator):  # type: ignore[misc]
    """Bayesian Mallows for clicking data.

    Every user has a hidden ranking of all items in which the clicked ones come first; users fall into clusters,
    each with a consensus ranking. `fit` draws from the posterior of all that is hidden. `recommend` gives the items
    most probable to be among a user's next k.

    Parameters
    ----------
    n_clusters
        How many clusters. "auto" tries 2 to 8 and takes the one `choose_n_clusters` recommends; `choice_` says why.
        Real data often want more: see `choose_n_clusters` for other candidates.
    distance
        Of the Mallows model: "footrule" (exact, fast), or another of `bmcd.mallows.DISTANCES` with sampler="paper".
    rank_scale
        "linear", "sqrt" or "log" spacing of the ranks, or n increasing numbers; see `docs/model.md`.
    priors
        `Priors()`; what changes the posterior.
    sampler
        "exact" or "paper", see `bmcd.sampling.posterior.sample_posterior`.
    start
        Where chains start: "kmeans", "popularity" or "random".
    alpha_update, ranks_move
        Options of the paper's sampler.

    Attributes
    ----------
    clicks_ : the clicks it was fitted to (without users, if it was saved without them)
    n_clusters_ : how many clusters there are
    choice_ : what `choose_n_clusters` found, with n_clusters="auto"
    draws_ : the draws, a `Draws`
    converged_, verdict_ : have the chains converged, and that in words with advice
    clusters_ : what each cluster is like, a `ClusterSummaries`

    Examples
    --------
    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> model = bmcd.BMCD(n_clusters=3).fit(simulation.clicks, draws=20, warmup=20, chains=2, seed=1)
    >>> model
    BMCD(n_clusters=3), fitted to 300 users x 50 items: 2 chains x 20 draws
    >>> model.recommend(k=2, users=[7]).columns.tolist()
    ['user', 'item', 'rank', 'probability', 'mcse']
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        *,
        distance: str = "footrule",
        rank_scale: str | ArrayLike = "linear",
        priors: Priors | None = None,
        sampler: str = "exact",
        start: str = "kmeans",
        alpha_update: int = 10,
        ranks_move: str = "swap",
    ) -> None:
        self.n_clusters = n_clusters
        self.distance = distance
        self.rank_scale = rank_scale
        self.priors = priors
        self.sampler = sampler
        self.start = start
        self.alpha_update = alpha_update
        self.ranks_move = ranks_move

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
        checkpoint: str | Path | None = None,
        max_time: float | None = None,
        count_k: Iterable[int] | None = None,
    ) -> BMCD:
        """Draw from the posterior given the clicks, and return self. What was learned before is forgotten.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item.
        draws, warmup, chains, thin
            Each chain does ``warmup`` sweeps, then keeps one of every ``thin`` until there are ``draws``.
            Probabilities are averaged over the chains, which start apart: real data have several modes, and the
            average is better than any chain.
        seed
            The same seed gives the same draws, whatever the number of threads.
        n_threads, progress
            Chains at a time (default: as many as cores); a bar (default: if standard error is a terminal).
        checkpoint
            A file from which the same call goes on if it was stopped, to the same end.
        max_time
            Seconds after which to stop with what has been drawn. (Choosing the number of clusters does not count.)
        count_k
            Only for other distances than the footrule: the k that `recommend` will be asked for (5 and 10).
        """
        run = Run(draws, warmup, chains, thin, seed, n_threads, progress, checkpoint, max_time=max_time)
        clicks = clicks if isinstance(clicks, Clicks) else Clicks.from_frame(clicks)
        choice = None
        n_clusters = self.n_clusters
        if isinstance(n_clusters, str):
            if n_clusters != "auto":
                raise InputError(f"n_clusters must be a whole number or 'auto', but it is {n_clusters!r}.")
            if self.distance != "footrule":
                raise InputError("n_clusters='auto' is for the footrule: give a number for other distances.")
            choice = choose_n_clusters(
                clicks,
                priors=self.priors,
                rank_scale=self.rank_scale,
                seed=seed,
                n_threads=n_threads,
                progress=progress,
            )
            n_clusters = choice.recommended
            tell(progress, choice.reason)
        counted = () if self.distance == "footrule" else COUNTED
        drawn = sample_posterior(
            clicks,
            n_clusters,
            run,
            priors=self.priors,
            distance=self.distance,
            rank_scale=self.rank_scale,
            sampler=self.sampler,
            start=self.start,
            count_k=counted if count_k is None else tuple(check_k(k) for k in count_k),
            alpha_update=self.alpha_update,
            ranks_move=self.ranks_move,
        )
        self._learn(clicks, drawn, choice)
        if drawn.stopped != "finished":
            warnings.warn(
                f"The fit was {drawn.note} It has {drawn.n_draws} of {draws} draws of each chain.",
                FitWarning,
                stacklevel=2,
            )
        return self

    def _learn(self, clicks: Clicks, draws: Draws, choice: ClusterChoice | None) -> None:
        self.clicks_, self.draws_, self.choice_ = clicks, draws, choice
        self.n_clusters_ = draws.problem.n_clusters
        self._answers = Answers(clicks, draws)

    def recommend(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        min_probability: float | None = None,
        *,
        max_draws: int | None = DRAWS,
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Any:
        """The k items most probable to be among each user's next k.

        A frame with the columns user, item, title (if items have titles), rank, probability and mcse, the Monte
        Carlo standard error of the probability; in the ids and the frame library of the clicks. Clicked items are
        left out, and there are fewer than k rows for a user who has fewer items left.

        Equal probabilities (within 1e-6) are frequent: items that a cluster ranks no lower than the user's number
        of clicks, and that the user has not clicked, are exchangeable. Among them the one with the better consensus
        rank comes first, then the one with the smaller id.

        Parameters
        ----------
        k
            Any number, without fitting again.
        users
            Ids of users it was fitted to, in the order wanted; by default all. For others see `recommend_for`.
        items
            Recommend only from these. The probabilities stay those of being among the next k of all items.
        min_probability
            Leave out recommendations less probable than this; `cutoff_curve` helps to choose it.
        max_draws
            How many of the draws to use, over all chains, evenly spaced; None for all. `mcse` shows what that
            costs: mostly nothing, since chains differ more than the draws of a chain.

        Examples
        --------
        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> model.recommend(k=3, users=[4, 2], items=[10, 11, 12, 13]).groupby("user", sort=False).size().to_dict()
        {4: 3, 2: 3}
        """
        clicks, k, cut = self._clicks_with_users(), check_k(k), _check_probability(min_probability)
        answers, options = self._ask(), Options(max_draws, n_threads, progress)
        rows = answers.rows(users)
        if users is None and items is None:
            lists = answers.lists_of_all(k, options)
        else:
            lists = answers.lists(clicks, rows, k, items, options)
        return recommendation_frame(clicks.users[rows], lists, clicks, column="probability", at_least=cut)

    def recommend_for(
        self,
        histories: Any,
        k: int = 10,
        items: Iterable[Any] | None = None,
        min_probability: float | None = None,
        *,
        unknown: Literal["error", "ignore"] = "error",
        max_draws: int | None = DRAWS,
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Any:
        """Recommend to people the model has never seen, from their clicks alone; see `recommend`.

        Their cluster and their ranking are summed out under the stored posterior, which their clicks do not change.

        Parameters
        ----------
        histories
            A list of lists of items, whose users are then 0, 1, ...; a dict from user to list; a `Clicks`; or a
            frame with the columns user and item. An empty list gives what the whole population is likely to click.
        unknown
            What to do about items that the model does not know: "error" lists them, "ignore" goes on without.

        Examples
        --------
        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> model.recommend_for({"ann": [3, 4], "bob": []}, k=2)["user"].tolist()
        ['ann', 'ann', 'bob', 'bob']
        """
        answers, cut = self._ask(), _check_probability(min_probability)
        strangers = clicks_of_histories(histories, self.clicks_, unknown)
        lists = answers.lists(strangers, None, check_k(k), items, Options(max_draws, n_threads, progress))
        return recommendation_frame(strangers.users, lists, strangers, column="probability", at_least=cut)

    def probabilities(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        *,
        max_draws: int | None = DRAWS,
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Floats:
        """P(item among the user's next k), users x items in the order of `clicks_`; 0 for clicked items.

        A row sums to k, or to the number of unclicked items if that is less. `probability_blocks` gives the same
        block by block, when the whole is too large for memory.

        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> model.probabilities(k=5).sum(axis=1).round(6).max()
        np.float64(5.0)
        """
        blocks = self.probability_blocks(k, users, max_draws=max_draws, n_threads=n_threads, progress=progress)
        return np.concatenate([block for _, block in blocks])

    def probability_blocks(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        *,
        max_draws: int | None = DRAWS,
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[tuple[NDArray[Any], Floats]]:
        """`probabilities`, block by block: the ids of some users, and their rows."""
        clicks, rows = self._clicks_with_users(), self._ask().rows(users)
        options = Options(max_draws, n_threads, progress)
        for block, found in self._ask().predictions(clicks, rows, check_k(k), options):
            yield clicks.users[rows[block]], found.probability

    def explain(
        self,
        user: Any,
        item: Any,
        k: int = 10,
        *,
        max_draws: int | None = DRAWS,
        history: Iterable[Any] | None = None,
    ) -> Explanation:
        """Why the probability of an item is what it is: the user's clusters, and what each contributes.

        ``history`` gives the clicks of someone the model has not seen; ``user`` is then only a name (or None).

        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> found = model.explain(user=0, item=40, k=5)
        >>> abs(found.probability - sum(c.contribution for c in found.clusters)) < 1e-9
        True
        """
        answers, k, known = self._ask(), check_k(k), self.clicks_
        if history is None:
            matrix = self._clicks_with_users().matrix[answers.rows([user])]
        else:
            matrix = clicks_of_histories([history], known, "error").matrix
        place = int(positions([item], known.items, "item", "Explain one of them.")[0])
        titled = known.titles is not None and known.titled is not None and known.titled[place]
        title = str(known.titles[place]) if known.titles is not None and titled else f"item {item}"
        if matrix[:, [place]].nnz:
            raise InputError(f"user {user!r} has clicked {title}: only other items have a probability.")
        predictor = answers.predictor(max_draws)
        return explain(predictor, answers.names(), matrix, place, k, user=user, item_id=item, title=title)

    def cutoff_curve(
        self, test: Clicks | Simulation, k: int = 10, cutoffs: ArrayLike | None = None, **options: Any
    ) -> Any:
        """What a cut-off would do: a frame with cutoff, n and share of recommendations kept, and their accuracy.

        ``test`` has the clicks held out of those it was fitted to (k of each user, best), or is the simulation.
        ``options`` are those of `recommend`.

        >>> import bmcd
        >>> simulation = bmcd.simulate(n_users=200, seed=1)
        >>> model = bmcd.BMCD(3).fit(simulation.clicks, draws=10, warmup=10, chains=2)
        >>> model.cutoff_curve(simulation, k=5, cutoffs=[0, 0.3]).columns.tolist()
        ['cutoff', 'n', 'share', 'accuracy']
        """
        return self._calibration(test, k, options).cutoff_table(cutoffs, library=self.clicks_.library)

    def choose_cutoff(
        self, test: Clicks | Simulation, hit_rate: float, k: int = 10, *, min_kept: int = 30, **options: Any
    ) -> float:
        """The smallest `min_probability` with which the recommendations kept have the wanted hit rate on ``test``.

        An error says what can be reached if that cannot. It is chosen on these data: confirm it on others.
        """
        return self._calibration(test, k, options).cutoff_for(hit_rate, min_kept=min_kept)

    def _calibration(self, test: Clicks | Simulation, k: int, options: Any) -> Calibration:
        found = evaluate(self.recommend(k, **options), self._clicks_with_users(), test, k=k).calibration
        assert found is not None  # there are probabilities
        return found

    @property
    def converged_(self) -> bool:
        """Have the chains converged? See `verdict_`."""
        return self.verdict_.converged

    @property
    def verdict_(self) -> diagnostics.Verdict:
        """Have the chains converged, in words, and what to do if not."""
        return self._ask().verdict()

    @property
    def clusters_(self) -> ClusterSummaries:
        """What each cluster is like, the largest first: `print` it, or take `to_frame()`."""
        return self._ask().clusters()

    def diagnostics(self) -> Any:
        """R-hat, effective sample sizes and Monte Carlo errors of what does not depend on cluster names."""
        self._check_fitted()
        return diagnostics.table(self.draws_)

    def to_arviz(self) -> Any:
        """The draws as ArviZ's DataTree, see `bmcd.sampling.diagnostics.to_arviz`."""
        self._check_fitted()
        return diagnostics.to_arviz(self.draws_, self.clicks_.items.tolist())

    def save(self, path: str | Path, *, clicks: bool = True) -> None:
        """Write everything that was learned to one file, which `bmcd.load` opens.

        With ``clicks=False`` nothing about single users is in the file: such a model can serve `recommend_for`, but
        not `recommend`.
        """
        from bmcd.models.files import save

        self._check_fitted()
        save(self, path, clicks)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the name is scikit-learn's
        own: str = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "draws_"):
            return own
        of, d = self.draws_.problem, self.draws_
        auto = f" ({of.n_clusters} chosen)" if self.n_clusters == "auto" else ""
        return (
            f"{own}{auto}, fitted to {of.n_users:,} users x {of.n_items:,} items: "
            f"{d.n_chains} chains x {d.n_draws} draws"
        )

    def _check_fitted(self) -> None:
        if not hasattr(self, "draws_"):
            raise NotFittedError("this BMCD is not fitted yet: call fit(clicks) first.")

    def _clicks_with_users(self) -> Clicks:
        self._check_fitted()
        if self.clicks_.n_users == 0:
            raise InputError(
                "this model was saved without the clicks it was fitted to, so it knows no users: use recommend_for "
                "with their clicks."
            )
        return self.clicks_

    def _ask(self) -> Answers:
        self._check_fitted()
        return self._answers


def _check_probability(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= 1:
        raise InputError(f"min_probability must lie between 0 and 1, but it is {value!r}.")
    return value
