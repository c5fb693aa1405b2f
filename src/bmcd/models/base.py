"""What every model with probabilities offers: recommendations, probabilities, groups, cut-offs, verdict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.item_table import Filter, allowed_items
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference.diagnostics import SHORT, Verdict
from bmcd.inference.draws import ChainDraws, MaxDraws
from bmcd.markup import tag
from bmcd.models.clusters import ClusterSummaries
from bmcd.models.cutoffs import cutoff_for, cutoff_table, sure_cutoff_for
from bmcd.models.estimator import BaseEstimator, not_fitted
from bmcd.models.list_rules import Rules, RulesReport, read_rules, ruled_lists
from bmcd.models.persistence import Packed, save
from bmcd.models.predictor import Options, Predictions, Predictor
from bmcd.models.top_k import (
    Frame,
    Lists,
    check_horizon,
    check_k,
    read_truth,
    recommendation_frame,
    warn_if_few_are_left,
    was_clicked,
)
from bmcd.simulation import Simulation
from bmcd.utils import Floats


class ProbabilityModel(BaseEstimator, ABC):
    """A recommender that returns probabilities. A model of this kind sets `clicks_` and `_answers` in its fit.

    Attributes
    ----------
    clicks_ : the clicks it was fitted to (without users, if it was saved without them)
    converged_, verdict_ : whether the chains have converged, and a verdict in words with advice
    clusters_ : a summary of each cluster, a `ClusterSummaries`
    """

    clicks_: Clicks
    draws_: ChainDraws
    _answers: Predictor
    _number: str  # the parameter with the number of clusters

    def recommend(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        min_probability: float | None = None,
        *,
        horizon: int | None = None,
        only: Filter | None = None,
        never: Filter | None = None,
        rules: Rules | None = None,
        max_draws: MaxDraws = "auto",
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Frame:
        """Return the k items most probable to be among each user's next `horizon` clicks.

        A frame with the columns user, item, title (if items have titles), rank, probability and mcse, the Monte
        Carlo standard error of the probability; in the ids and the frame library of the clicks. Clicked items are
        left out, and there are fewer than k rows for a user who has fewer items left.

        Equal probabilities (within 1e-6) are frequent in the lists of heavy users, about half of the top 10 for
        those with 20 to 40 clicks: items that a cluster ranks no lower than the user's number of clicks, and that
        the user has not clicked, are exchangeable. First comes the one with the better consensus rank, on average
        over the user's own clusters, each as probable as it is for this user (with several tastes: the one more
        probable as the very next click), then the one with the smaller id. Where k or the horizon is more than is
        left, a `ShortListWarning` is given.

        Parameters
        ----------
        k
            Any number, without fitting again.
        users
            Ids of users it was fitted to, in the order wanted; by default all. For others see `recommend_for`.
        items
            Recommend only from these. The probabilities stay those of being among the next clicks on all items.
        min_probability
            Leave out recommendations less probable than this; `cutoff_curve` helps to choose it.
        horizon
            The number of next clicks that a probability refers to; by default k. A page that shows ten items and
            asks for the next click is ``recommend(k=10, horizon=1)``.
        only, never
            Recommend only items of these groups of the item table, and none of those:
            ``only={"section": ["sports"]}, never={"source": ["agency"]}``. See the guide "Groups of items".
        rules
            A `bmcd.ListRules`, or several: each list is the most probable one under the rules, and what they cost
            is in ``attrs["rules"]`` of the frame.
        max_draws
            How many of the draws to use, over all chains, evenly spaced; None for all, "auto" for about 20 of
            BMCD and 40 of Tastes. `mcse` shows what that costs: mostly nothing, since chains differ more than the
            draws of a chain.

        Examples
        --------
        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> model.recommend(k=3, users=[4, 2], items=[10, 11, 12, 13]).groupby("user", sort=False).size().to_dict()
        {4: 3, 2: 3}
        """
        least, options = _check_probability(min_probability), Options(max_draws, n_threads, progress)
        clicks = self.clicks_with_users()
        k, horizon = check_k(k), check_horizon(horizon, k)
        rows, allowed = self._answers.rows(users), self.allowed(items, only, never)
        return self._frame(clicks, rows, k, horizon, allowed, rules, least, options)

    def recommend_for(
        self,
        histories: Any,
        k: int = 10,
        items: Iterable[Any] | None = None,
        min_probability: float | None = None,
        *,
        unknown: Literal["error", "ignore"] = "error",
        horizon: int | None = None,
        only: Filter | None = None,
        never: Filter | None = None,
        rules: Rules | None = None,
        max_draws: MaxDraws = "auto",
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Frame:
        """Recommend to users the model has never seen, from their clicks alone; see `recommend`.

        BMCD and Tastes sum out the latent variables of these users under the stored posterior, which their clicks
        do not change. For a `Blend`, a history is one running session; with times (a `Clicks`, or a frame with a
        column "time") it is cut into sessions, and the last one is running. On a log with times, a user by a name
        that the log knows also has the clicks of the log, before the running session.

        Parameters
        ----------
        histories
            A list of lists of items in click order, the latest last, whose users are then 0, 1, ...; a dict from
            user to list; a `Clicks`; or a frame with the columns user and item. An empty list gives what the whole
            population is likely to click.
        unknown
            What to do about items that the model does not know: "error" lists them, "ignore" leaves them out.
        horizon
            The number of next clicks that a probability refers to; by default k.

        Examples
        --------
        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> model.recommend_for({"ann": [3, 4], "bob": []}, k=2)["user"].tolist()
        ['ann', 'ann', 'bob', 'bob']
        """
        least = _check_probability(min_probability)
        people = self._people(histories, unknown)
        k, horizon = check_k(k), check_horizon(horizon, k)
        options = Options(max_draws, n_threads, progress)
        return self._frame(people, None, k, horizon, self.allowed(items, only, never), rules, least, options)

    def _people(self, histories: Any, unknown: Literal["error", "ignore"]) -> Clicks:
        """Return histories as clicks on the items of the model."""
        return clicks_of_histories(histories, self.check_fitted().clicks_, unknown)

    def lists(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        *,
        horizon: int | None = None,
        max_draws: MaxDraws = "auto",
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Lists:
        """Return what `recommend` does as arrays: items by number, their probabilities and standard errors."""
        k, options = check_k(k), Options(max_draws, n_threads, progress)
        clicks = self.clicks_with_users()
        return self._answers.kept_lists(
            clicks, self._answers.rows(users), k, items, options, check_horizon(horizon, k)
        )

    def lists_for(
        self,
        people: Clicks,
        k: int = 10,
        items: Iterable[Any] | None = None,
        *,
        horizon: int | None = None,
        max_draws: MaxDraws = "auto",
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Lists:
        """Return what `recommend_for` does as arrays, for users with clicks on the model's items."""
        self.check_fitted()
        k, options = check_k(k), Options(max_draws, n_threads, progress)
        return self._answers.lists(people, None, k, items, options, check_horizon(horizon, k))

    def ruled_lists_for(
        self,
        people: Clicks,
        k: int,
        rules: Rules,
        items: Iterable[Any] | None = None,
        *,
        horizon: int | None = None,
        n_threads: int | None = None,
    ) -> tuple[Lists, RulesReport]:
        """Return `lists_for` under rules, and what the rules did."""
        self.check_fitted()
        k, options = check_k(k), Options("auto", n_threads, False)
        return self._ruled(people, None, k, check_horizon(horizon, k), self.allowed(items), rules, options)

    def allowed(
        self, items: Iterable[Any] | None = None, only: Filter | None = None, never: Filter | None = None
    ) -> NDArray[np.bool_] | None:
        """Return which items may be recommended, by ids and by groups of the item table; None for all."""
        clicks = self.check_fitted().clicks_
        return allowed_items(clicks.items, clicks.items_table, items, only, never)

    def similar(
        self,
        item: Any,
        k: int = 10,
        items: Iterable[Any] | None = None,
        *,
        only: Filter | None = None,
        never: Filter | None = None,
        n_threads: int | None = None,
    ) -> Frame:
        """Return the k items that a click on this item makes more likely: "who clicked this also clicks".

        A frame with the columns item, title (if there are any), rank, probability (of being the very next click of
        a visitor who has clicked only this item), lift (that over the probability for a visitor who has clicked
        nothing yet), and gain, probability x log(lift), by which they are ranked: it favours neither popular nor
        rare items. Only items with a lift above 1 are similar, so there may be fewer than k. ``items``, ``only``
        and ``never`` are those of `recommend`.

        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> found = model.similar(3, k=4)
        >>> found.columns.tolist(), (found["lift"] > 1).all()
        (['item', 'rank', 'probability', 'lift', 'gain'], np.True_)
        """
        import narwhals as nw

        clicks, k = self.check_fitted().clicks_, check_k(k)
        (column,) = clicks.columns_of([item], "Similar items are known of items of the model.")
        allowed = self.allowed(items, only, never)
        after, before = self.law_of_next_click(clicks_of_histories([[item], []], clicks), n_threads=n_threads)[0]
        there = (after > before) & (before > 0) & (np.arange(clicks.n_items) != column)
        there &= True if allowed is None else allowed
        lift = np.divide(after, before, out=np.ones_like(after), where=there)
        gain = np.where(there, after * np.log(lift), -np.inf)
        order = np.lexsort((id_ranks(clicks.items), -gain))[:k]
        best = order[there[order]]
        data: dict[str, Any] = {"item": clicks.items[best].tolist()}
        if clicks.titles is not None:
            data["title"] = clicks.titles[best].tolist()
        data |= {"rank": np.arange(1, len(best) + 1), "probability": after[best], "lift": lift[best]}
        return nw.from_dict(data | {"gain": gain[best]}, backend=clicks.library).to_native()

    def probabilities(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        *,
        horizon: int | None = None,
        max_draws: MaxDraws = "auto",
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Floats:
        """Return P(item among the user's next k), users x items in the order of `clicks_`; 0 for clicked items.

        A row sums to k, or to the number of unclicked items if that is less. There are no lists here: `horizon`,
        if given, is the number of next clicks instead of k. `probability_blocks` gives the same block by block,
        when the whole is too large for memory.

        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> model.probabilities(k=5).sum(axis=1).round(6).max()
        np.float64(5.0)
        """
        options = {"max_draws": max_draws, "n_threads": n_threads, "progress": progress}
        blocks = self.probability_blocks(k, users, horizon=horizon, **options)
        return np.concatenate([block for _, block in blocks])

    def probability_blocks(
        self, k: int = 10, users: Iterable[Any] | None = None, **options: Any
    ) -> Iterator[tuple[NDArray[Any], Floats]]:
        """Yield `probabilities` block by block: the ids of some users, and their rows."""
        for ids, predicted in self.prediction_blocks(k, users, **options):
            yield ids, predicted.probability

    def prediction_blocks(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        *,
        horizon: int | None = None,
        max_draws: MaxDraws = "auto",
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[tuple[NDArray[Any], Predictions]]:
        """Yield probabilities, their standard errors and what breaks ties, block by block, with the users' ids."""
        clicks = self.clicks_with_users()
        rows, options = self._answers.rows(users), Options(max_draws, n_threads, progress)
        horizon = check_horizon(horizon, check_k(k))
        for block, predicted in self._answers.predictions(clicks, rows, horizon, options):
            yield clicks.users[rows[block]], predicted

    def law_of_next_click(
        self, people: Clicks, *, max_draws: MaxDraws = "auto", n_threads: int | None = None
    ) -> tuple[Floats, Floats]:
        """Return the next-click distribution of any users with clicks on the model's items, and its standard error.

        Both are users x items, in the order of `clicks_`; the probability is 0 for clicked items.
        """
        options = Options(max_draws, n_threads, False)
        self.check_fitted()
        blocks = [predicted for _, predicted in self._answers.predictions(people, None, 1, options)]
        nothing = np.zeros((0, people.n_items))
        law, mcse = ([nothing, *(getattr(block, name) for block in blocks)] for name in ("probability", "mcse"))
        return np.concatenate(law), np.concatenate(mcse)

    def memberships_of(self, people: Clicks, *, max_draws: MaxDraws = "auto") -> Floats:
        """Return `memberships` of any users with clicks on the model's items, as an array."""
        self.check_fitted()
        return self._answers.memberships(people, Options(max_draws, None, False))

    def memberships(
        self, users: Iterable[Any] | None = None, *, max_draws: MaxDraws = "auto", n_threads: int | None = None
    ) -> Any:
        """Return how much each user belongs to each cluster: one row per user and one column per cluster.

        The columns are user, then "1", "2", ... as the clusters are numbered in `clusters_`, whatever their names,
        so that a program can rely on them. A row sums to 1.

        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> model.memberships(users=[4, 2]).columns.tolist()
        ['user', '1', '2']
        """
        import narwhals as nw

        clicks = self.clicks_with_users()
        rows = self._answers.rows(users)
        weight = self._answers.memberships(clicks.of_users(rows), Options(max_draws, n_threads, False))
        data = {"user": clicks.users[rows].tolist()}
        data |= {str(c + 1): weight[:, c] for c in range(weight.shape[1])}
        return nw.from_dict(data, backend=clicks.library).to_native()

    def cutoff_curve(
        self,
        test: Clicks | Simulation,
        k: int = 10,
        cutoffs: ArrayLike | None = None,
        *,
        horizon: int | None = None,
        **options: Any,
    ) -> Any:
        """Return the effect of cut-offs: a frame with cutoff, n and share of recommendations kept, and accuracy.

        ``test`` has the clicks held out of those it was fitted to, or is the simulation. The probabilities refer to
        the next `horizon` clicks, by default k; users are scored as in `bmcd.evaluate`. ``options`` are those of
        `recommend`.

        >>> import bmcd
        >>> simulation = bmcd.simulate(n_users=200, seed=1)
        >>> model = bmcd.BMCD(3).fit(simulation.clicks, draws=10, warmup=10, chains=2)
        >>> model.cutoff_curve(simulation, k=5, cutoffs=[0, 0.3]).columns.tolist()
        ['cutoff', 'n', 'share', 'accuracy']
        """
        probability, hit, _ = self._hits(test, k, horizon, options)
        return cutoff_table(probability, hit, cutoffs, library=self.clicks_.library)

    def choose_cutoff(
        self,
        test: Clicks | Simulation,
        hit_rate: float,
        k: int = 10,
        *,
        horizon: int | None = None,
        confidence: float | None = 0.95,
        min_kept: int = 30,
        finite_sample: bool = False,
        **options: Any,
    ) -> float:
        """Return the smallest `min_probability` with which what is kept has at least the wanted hit rate.

        It does so with this confidence for other users like those of ``test``, although it is chosen on these: see
        `bmcd.models.cutoffs.sure_cutoff_for`. By default that rests on a bootstrap over users, with
        ``finite_sample`` on a bound that holds for any number of them. With confidence None the hit rate is only
        that on these data, and a little lower on others. If no cut-off will do, an error reports what is reached.
        """
        probability, hit, user = self._hits(test, k, horizon, options)
        if confidence is None:
            return cutoff_for(probability, hit, hit_rate, min_kept=min_kept)
        how: Any = {"confidence": confidence, "min_kept": min_kept, "finite_sample": finite_sample}
        return sure_cutoff_for(probability, hit, user, hit_rate, **how)

    @property
    def converged_(self) -> bool:
        """Whether the chains have converged; see `verdict_`."""
        return self.verdict_.converged

    @property
    def verdict_(self) -> Verdict:
        """Whether the chains have converged, in words, and what to do if not."""
        self.check_fitted()
        return self._answers.verdict()

    @property
    def clusters_(self) -> ClusterSummaries:
        """A summary of each cluster, the largest first: `print` it, or take `to_frame()`."""
        self.check_fitted()
        return self._answers.clusters()

    def name_clusters(self, names: Mapping[int, str]) -> Self:
        """Call clusters, by their numbers in `clusters_`, by names that you choose, and return the model itself.

        The names are shown by `clusters_`, `explain` and the report, and `save` keeps them. Other clusters keep
        theirs; an empty name removes one. `clusters_` has suggestions, as `suggested_name`.

        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> print(model.name_clusters({1: "skirts"}).clusters_[0].title)
        Cluster 1 (skirts)
        """
        self.check_fitted()
        self._answers.name_clusters(names)
        return self

    def save(self, path: str | Path, *, clicks: bool = True) -> None:
        """Write the fitted model to one file, which `bmcd.load` opens.

        The file holds every user's clicks, so only its owner can read it (mode 0600). With ``clicks=False`` it
        holds no user id, no sequence of clicks, and no number that depends on fewer than five users. Such a model
        can serve `recommend_for`, but not `recommend`; clusters that had fewer users than that in a draw count in
        it as clusters without preferences. Items stay in the order of the clicks, which may be that of their first
        clicks: fit to ``clicks.of_items(...)`` in another order if that must not be revealed, as ``bmcd fit
        --no-clicks`` does.
        """
        save(self, path, clicks=clicks)

    @abstractmethod
    def packed(self, *, clicks: bool = True) -> Packed:
        """Return header and arrays of the file that `save` writes; see `bmcd.models.persistence`."""

    def check_fitted(self) -> Self:
        """Return the model itself, or raise `NotFittedError`."""
        if not hasattr(self, "_answers"):
            raise not_fitted(self)
        return self

    def clicks_with_users(self) -> Clicks:
        """Return the clicks it was fitted to, or an error if it was saved without them."""
        if self.check_fitted().clicks_.n_users == 0:
            raise InputError(
                "this model was saved without the clicks it was fitted to, so it has no users: use recommend_for "
                "with their clicks."
            )
        return self.clicks_

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the name is scikit-learn's
        text: str = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "draws_"):
            return text
        of, draws = self.draws_.problem, self.draws_
        auto = f" ({of.n_clusters} chosen)" if getattr(self, self._number) == "auto" else ""
        sample, users = getattr(self, "sample_", None), f"{of.n_users:,} users"
        if sample is not None:
            users += f" ({sample.max_users:,} a chain{', chosen' if sample.chosen else ''})"
        return (
            f"{text}{auto}, fitted to {users} x {of.n_items:,} items: "
            f"{draws.n_chains} chains x {draws.n_draws} draws, {SHORT[self.verdict_.state]}"
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Let notebooks show the line above, which reports whether it converged."""
        return {"text/plain": repr(self), "text/html": tag("pre", repr(self))}

    def _to_explain(self, user: Any, item: Any, history: Iterable[Any] | None) -> tuple[Clicks, int, str]:
        """Return the clicks of one user, the column of an item they have not clicked, and its title."""
        known = self.check_fitted().clicks_
        if history is None:
            person = self.clicks_with_users().of_users(self._answers.rows([user]))
        else:
            person = clicks_of_histories([history], known, "error")
        column = int(known.columns_of([item], "Explain one of them.")[0])
        title = known.title_of(column)
        if person.matrix[:, [column]].nnz:
            raise InputError(f"user {user!r} has clicked {title}: only other items have a probability.")
        return person, column, title

    def _frame(
        self, people: Clicks, rows: NDArray[np.int64] | None, k: int, horizon: int,
        allowed: NDArray[np.bool_] | None, rules: Rules | None, least: float | None, options: Options,
    ) -> Frame:  # fmt: skip
        """Return recommendations for users of the fit in these rows, or for other users."""
        if rules is None:
            lists = self._answers.kept_lists(people, rows, k, allowed, options, horizon)
        else:
            lists, _ = self._ruled(people, rows, k, horizon, allowed, rules, options)
        some = slice(None) if rows is None else rows
        warn_if_few_are_left(self._n_clicked(people)[some], people.n_items, k, horizon, stacklevel=4)
        return recommendation_frame(people.users[some], lists, people, column="probability", at_least=least)

    def _ruled(
        self, people: Clicks, rows: NDArray[np.int64] | None, k: int, horizon: int,
        allowed: NDArray[np.bool_] | None, rules: Rules, options: Options,
    ) -> tuple[Lists, RulesReport]:  # fmt: skip
        """Return lists under rules, of users of the fit in these rows, or of other users."""
        n_items, n_users = people.n_items, people.n_users if rows is None else len(rows)
        every = np.ones(n_items, np.bool_) if allowed is None else allowed
        read = read_rules(rules, self.clicks_.items_table, k, every)

        def ask(some: NDArray[np.int64], size: int, mask: NDArray[np.bool_] | None) -> Lists:
            who, own = (people.of_users(some), None) if rows is None else (people, rows[some])
            return self._answers.lists(who, own, size, mask, options, horizon)

        return ruled_lists(ask, n_users, k, read, allowed, "probability")

    def _n_clicked(self, people: Clicks) -> NDArray[np.int64]:
        """Return how many items each user will not be recommended."""
        return people.per_user

    def _hits(
        self, test: Clicks | Simulation, k: int, horizon: int | None, options: Any
    ) -> tuple[Floats, NDArray[np.bool_], NDArray[np.int64]]:
        """Return the probability of every recommendation, whether it was a hit, and the row of its user."""
        lists, clicks = self.lists(k, horizon=horizon, **options), self.clicks_with_users()
        truth = read_truth(test, clicks, check_k(k), horizon)
        user = self._answers.rows(options.get("users"))
        rows, places = np.nonzero((lists.items >= 0) & truth.scored[user][:, None])
        hit = was_clicked(truth.matrix, user[rows], lists.items[rows, places])
        return lists.values["probability"][rows, places], hit, user[rows]


def _check_probability(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= 1:
        raise InputError(f"min_probability must lie between 0 and 1, but it is {value!r}.")
    return value
