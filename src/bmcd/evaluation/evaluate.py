"""evaluate: measure recommendations against what the users did next."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.log import Clicks, Library
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation import metrics
from bmcd.evaluation.calibration import GROUPS, Calibration, bin_edges, equal_groups, log_losses, squared_errors
from bmcd.evaluation.intervals import Interval, bootstrap, percentiles
from bmcd.evaluation.metrics import GroupMeasures, PerUser, RankedLists
from bmcd.markup import paragraphs, table, tag
from bmcd.models.top_k import Truth, read_truth, was_clicked
from bmcd.utils import listed

if TYPE_CHECKING:
    from bmcd.simulation import Simulation

# The paper calls 40 of its 200 items popular.
POPULAR_SHARE = 0.2
COUNTS = ("n_users", "n_users_with_list", "n_items", "n_recommendations", "n_hits", "n_rare", "n_users_with_rare")
"""The counts, in the order they are shown."""
TEST_FACTS = ("horizon", "split", "n_with_fewer", "n_outside", "n_new_users")
"""What is reported about the test clicks."""
MEASURES = (
    *("accuracy", "coverage", "correct_coverage", "intra_list_similarity", "novelty", "rare_share"),
    *("users_with_rare_share", "precision", "recall", "ndcg", "mrr"),
)
"""The measures every evaluation has, in the order they are shown."""
CALIBRATION_MEASURES = ("brier", "log_score", "expected_calibration_error", "ece_at_k", "promise_gap")
"""The measures shown below them when there are probabilities."""


GROUP_MEASURES = ("personalisation", *metrics.GROUP_MEASURES)
"""The measures shown when there is an item table with groups, of its first column of groups."""


@dataclass(frozen=True, eq=False)
class ItemCounts:
    """How often each item was recommended, from the least to the most clicked in train, as in the paper.

    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=200, seed=1)
    >>> model = bmcd.baselines.Popularity().fit(simulation.clicks)
    >>> evaluation = bmcd.evaluate(model.recommend(k=5), simulation.clicks, simulation)
    >>> evaluation.items.to_frame().columns.tolist()
    ['item', 'clicks', 'recommended', 'hits', 'rare']
    """

    item: NDArray[Any]
    """The caller's ids."""
    clicks: NDArray[np.int64]
    """Clicks in train."""
    recommended: NDArray[np.int64]
    """Users to whom the item was recommended."""
    hits: NDArray[np.int64]
    """Those of them for whom it was a hit."""
    n_popular: int
    """How many items, the last ones, are popular; the others are rare."""

    @classmethod
    def of(cls, train: Clicks, shown: NDArray[np.int64], hit: NDArray[np.int64], n_popular: int) -> ItemCounts:
        """Count items, given by their columns in train: once for each time one was shown, or was a hit."""
        order = metrics.popularity_order(train.per_item)[::-1]
        recommended, hits = (np.bincount(items, minlength=train.n_items)[order] for items in (shown, hit))
        return cls(train.items[order], train.per_item[order], recommended, hits, n_popular)

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return a frame with a row for each item: item, clicks, recommended, hits, rare."""
        import narwhals as nw

        data = {name: getattr(self, name).tolist() for name in ("item", "clicks", "recommended", "hits")}
        data["rare"] = (np.arange(len(self.item)) < len(self.item) - self.n_popular).tolist()
        return nw.from_dict(data, backend=library).to_native()


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The result of `bmcd.evaluate`; `print` it for the table. docs/evaluation.md defines every measure.

    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=200, seed=1)
    >>> model = bmcd.baselines.Popularity().fit(simulation.clicks)
    >>> evaluation = bmcd.evaluate(model.recommend(k=5), simulation.clicks, simulation)
    >>> evaluation.n_recommendations, evaluation.value("accuracy") == evaluation.n_hits / 1000
    (1000, True)
    """

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
    """The ids of the evaluated users, in the order of train, which is that of `per_user` and `n_relevant`."""
    n_relevant: NDArray[np.int64]
    """How many items would have been a hit for each evaluated user."""
    per_user: Mapping[str, PerUser]
    """For each measure that has an interval, numerator and denominator of each evaluated user."""
    groups: tuple[PerUser, ...]
    """Of each group of `ece_at_k`, its part in that error; empty without probabilities."""
    horizon: int | None = None
    """The number of next clicks of each user that count; None where all test clicks do."""
    split: str = ""
    """How the test clicks were chosen."""
    n_with_fewer: int = 0
    """Users who were not scored because they have fewer test clicks than the horizon, or none."""
    n_outside: int = 0
    """Test clicks on items that are not in train; they are misses for every model."""
    n_new_users: int = 0
    """Users of the test clicks who were left out because they have no training clicks."""
    personalisation: float = math.nan
    """How different the lists of two users are: 1 - shared items over the length of a list."""
    by_group: Mapping[str, GroupMeasures] = field(default_factory=dict)
    """Measures by each column of groups of the item table; empty without one."""

    def interval(self, measure: str, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
        """Return a measure with its bootstrap interval; see `intervals`."""
        if measure not in (names := self._with_interval()):
            raise InputError(f"{measure!r} has no interval; those that have: {listed(names, 20)}. See `intervals`.")
        return self._intervals([measure], level, resamples, seed)[measure]

    def intervals(self, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> dict[str, Interval]:
        """Return, for each measure that has one, its percentile interval over resamples of the users.

        Coverage, correct coverage and the expected calibration error have none: a resample holds only about 63 % of
        the different users, so it covers fewer items, and its bins are noisier, than the users it stands for. (That
        of `ece_at_k` is for the groups as they are, which are few and large.)
        """
        return self._intervals(self._with_interval(), level, resamples, seed)

    def _intervals(self, names: list[str], level: float, resamples: int, seed: int) -> dict[str, Interval]:
        own = [name for name in names if name in self.per_user]
        measures = [self.per_user[name] for name in own]
        draws = bootstrap([*measures, *(self.groups if "ece_at_k" in names else ())], resamples, seed)
        columns = dict(zip(own, draws.T, strict=False))
        columns["ece_at_k"] = np.abs(draws[:, len(own) :]).sum(axis=1)
        return {name: Interval(name, self.value(name), *percentiles(columns[name], level), level) for name in names}

    def _with_interval(self) -> list[str]:
        return [*self.per_user, *(["ece_at_k"] if self.groups else [])]

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON, without those of single users and items."""
        numbers = {name: getattr(self, name) for name in ("k", *TEST_FACTS, *COUNTS, "n_unclicked", *MEASURES)}
        calibration = None if self.calibration is None else self.calibration.to_dict()
        if self.by_group:
            numbers["personalisation"] = self.personalisation
            numbers["by_group"] = {name: one.to_dict() for name, one in self.by_group.items()}
        return {**numbers, "n_popular": self.items.n_popular, "calibration": calibration}

    def to_frame(
        self, library: Library = "pandas", *, level: float | None = None, resamples: int = 2000, seed: int = 0
    ) -> Any:
        """Return a frame with a row for each measure: measure, value; with a `level` also low and high."""
        import narwhals as nw

        values = self._values()
        data: dict[str, list[Any]] = {"measure": list(values), "value": list(values.values())}
        if level is not None:
            intervals = self.intervals(level=level, resamples=resamples, seed=seed)
            for end in ("low", "high"):
                data[end] = [getattr(intervals[name], end) if name in intervals else None for name in values]
        schema = {name: nw.String() if name == "measure" else nw.Float64() for name in data}
        return nw.from_dict(data, schema=schema, backend=library).to_native()

    def __repr__(self) -> str:
        rare = f"{self.n_rare:,} rare recommendations, to {self.n_users_with_rare:,} users"
        return "\n".join(
            [
                f"Evaluation({self.n_hits:,} hits in {self.n_recommendations:,} recommendations to "
                f"{self.n_users_with_list:,} users, k={self.k})",
                *(f"  {name:<27}{value:>8.4f}" for name, value in self._values().items()),
                *(f"  ({text})" for text in self.about_the_test()),
                f"  ({rare}; rare: not among the {self.items.n_popular:,} most clicked of {self.n_items:,} items)",
            ]
        )

    def _repr_html_(self) -> str:
        first, *lines = repr(self).split("\n")
        rows = [(name, f"{value:.4f}") for name, value in self._values().items()]
        notes = [line.strip() for line in lines[len(rows) :]]
        return tag("div", paragraphs(first), table(("measure", "value"), rows), paragraphs(*notes))

    def about_the_test(self) -> list[str]:
        """Return how the test clicks were chosen, and who was not scored, in words."""
        texts = [f"test: {self.split}"] if self.split else []
        if self.horizon is not None and self.split:
            number = "" if self.horizon == 1 else f" {self.horizon}"
            texts[0] += f"; the first{number} of each user"
        if self.n_with_fewer:
            texts.append(f"not scored: {self.n_with_fewer:,} users with fewer than {self.horizon} test clicks")
        if self.n_new_users:
            texts.append(f"left out: {self.n_new_users:,} users without training clicks")
        if self.n_outside:
            texts.append(f"{self.n_outside:,} test clicks are on items outside train, and misses for every model")
        return texts

    def value(self, measure: str) -> float:
        """Return one measure; NaN where there are no probabilities, or no item table, that it needs."""
        if measure in metrics.GROUP_MEASURES:
            first = next(iter(self.by_group.values()), None)
            return math.nan if first is None else float(getattr(first, measure))
        if measure not in CALIBRATION_MEASURES:
            return float(getattr(self, measure))
        return math.nan if self.calibration is None else float(getattr(self.calibration, measure))

    def _values(self) -> dict[str, float]:
        names: tuple[str, ...] = MEASURES if self.calibration is None else (*MEASURES, *CALIBRATION_MEASURES)
        names += GROUP_MEASURES if self.by_group else ()
        return {name: self.value(name) for name in names}


def evaluate(
    recommendations: Any,
    train: Clicks,
    test: Clicks | Simulation,
    *,
    horizon: int | None = None,
    histories: Any = None,
    repeats: bool = False,
    k: int | None = None,
    n_popular: int | None = None,
    bin_width: float = 0.01,
) -> Evaluation:
    """Measure recommendations: accuracy, diversity and, where they have probabilities, calibration.

    Parameters
    ----------
    recommendations
        A pandas, polars or Arrow table with the columns `user`, `item` (ids as in `train`), `rank` (1 for a user's
        first) and, where the method has them, `probability`; other columns are ignored.
    train
        The clicks the recommendations were made from. It is an error to recommend what is clicked here.
    test
        Test clicks, with users and items of `train` and no click that is in `train`: a recommendation is a hit
        when it is among them. Clicks on items that were first clicked later (-1, as `Clicks.split_at` gives them)
        are misses. Or the `Simulation` whose clicks are `train`: a hit is an item whose true rank is at most
        n_clicked + horizon.
    horizon
        The number of next clicks in which a hit must fall, and to which the probabilities refer: recommend with the
        same one. Only users with at least as many test clicks are scored; `n_with_fewer` counts the others. By
        default k where the test clicks are those that followed, in order; where they were held out at random, all
        of them count.
    histories
        What the users had clicked when the recommendations were made, if they are not users of `train`: as given to
        `recommend_for`. The users of `test` must be among them.
    repeats
        A click on an item clicked before counts as a next click, and clicked items may be recommended.
    k
        How many recommendations were asked for; by default the length of the longest list. Lists may be shorter.
    n_popular
        How many of the most clicked items of `train` are popular; the others are rare. By default a fifth of the
        items, as in the paper's case study (40 of 200); the paper's simulations have 20 of 50.
    bin_width
        Width of the bins of probability; the paper's is 0.01.

    Notes
    -----
    A user with recommendations but without test clicks counts: all those recommendations are misses. A user with
    test clicks but without recommendations counts as 0 in precision, recall, NDCG and MRR, and nowhere else.

    Examples
    --------
    >>> import pandas as pd
    >>> train = Clicks.from_matrix([[1, 1, 0, 0], [1, 0, 1, 0]], users=["ann", "bob"], items=list("abcd"))
    >>> test = Clicks.from_matrix([[0, 0, 1, 0], [0, 1, 0, 0]], users=["ann", "bob"], items=list("abcd"))
    >>> recommendations = pd.DataFrame(
    ...     {"user": ["ann", "bob", "bob"], "item": ["c", "d", "b"], "rank": [1, 1, 2]}
    ... ).assign(probability=[0.6, 0.5, 0.4])
    >>> evaluate(recommendations, train, test, n_popular=2)
    Evaluation(2 hits in 3 recommendations to 2 users, k=2)
      accuracy                     0.6667
      coverage                     0.7500
      correct_coverage             0.5000
      intra_list_similarity        0.0000
      novelty                      2.0000
      rare_share                   0.6667
      users_with_rare_share        1.0000
      precision                    0.5000
      recall                       1.0000
      ndcg                         0.8155
      mrr                          0.7500
      brier                        0.2567
      log_score                    0.7068
      expected_calibration_error   0.5000
      ece_at_k                     0.5000
      promise_gap                 -0.1667
      (test: held-out clicks, in no order)
      (2 rare recommendations, to 2 users; rare: not among the 2 most clicked of 4 items)
    """
    if not isinstance(train, Clicks):
        raise InputTypeError(f"train must be Clicks, not {type(train).__name__}.")
    bin_edges(bin_width)  # refuses a bad width also where there are no probabilities
    n_items, clicks = train.n_items, train.per_item
    n_popular = count_popular(n_popular, n_items)
    users = train if histories is None else clicks_of_histories(histories, train, "ignore")
    n_users = users.n_users
    is_read = isinstance(recommendations, RankedLists)  # those that the report has
    lists = recommendations if is_read else metrics.read_lists(recommendations, users, repeats)
    k = metrics.read_k(k, lists, users, must_be_sure=not isinstance(test, Clicks) and horizon is None)
    truth = read_truth(test, users, k, horizon, repeats=repeats)
    n_relevant = np.where(truth.scored, truth.n_relevant, 0)
    asked = (metrics.list_lengths(lists, n_users) > 0) | (truth.n_relevant > 0)
    lists = _of_scored(lists, truth)
    hit = was_clicked(truth.matrix, lists.user, lists.item)
    has_list = metrics.list_lengths(lists, n_users) > 0
    evaluated = has_list | (n_relevant > 0)
    rare = ~np.isin(lists.item, metrics.popularity_order(clicks)[:n_popular])

    measures = {
        "accuracy": metrics.per_row(hit, lists, n_users),
        "intra_list_similarity": metrics.intra_list_similarity(lists, train.matrix, n_users),
        "novelty": metrics.novelty(lists, clicks, n_users),
        "rare_share": metrics.per_row(rare, lists, n_users),
        "users_with_rare_share": metrics.users_with(lists, rare, n_users),
        "precision": metrics.precision(lists, hit, k, evaluated),
        "recall": metrics.recall(lists, hit, n_relevant),
        "ndcg": metrics.ndcg(lists, hit, n_relevant, k),
        "mrr": metrics.mrr(lists, hit, evaluated),
    }
    values = {name: measure.value for name, measure in measures.items()}
    calibration, gaps = None, []
    if lists.probability is not None:
        calibration = Calibration.of(lists.probability, hit, bin_width)
        measures["brier"] = metrics.per_row(squared_errors(lists.probability, hit), lists, n_users)
        measures["log_score"] = metrics.per_row(log_losses(lists.probability, hit), lists, n_users)
        gap, group = lists.probability - hit, equal_groups(lists.probability)
        measures["promise_gap"] = metrics.per_row(gap, lists, n_users)
        gaps = [metrics.per_row(np.where(group == number, gap, 0.0), lists, n_users) for number in range(GROUPS)]
    of_groups: dict[str, GroupMeasures] = {}
    for name, one in (train.items_table.groups if train.items_table else {}).items():
        of_scored = truth.matrix[np.flatnonzero(truth.scored)]
        found, own = metrics.measure_groups(name, one, lists, hit, users, train, of_scored, n_users)
        if not of_groups:  # intervals are those of the first column
            measures |= {measure: terms for measure, terms in own.items() if terms.denominator.any()}
        of_groups[name] = found

    def of_evaluated(measure: PerUser) -> PerUser:
        return PerUser(*(term[evaluated] for term in measure))

    return Evaluation(
        k=k,
        n_users=int(evaluated.sum()),
        n_users_with_list=int(has_list.sum()),
        n_items=n_items,
        n_recommendations=len(hit),
        n_hits=int(hit.sum()),
        n_unclicked=int((clicks[lists.item] == 0).sum()),
        coverage=metrics.coverage(lists.item, n_items),
        correct_coverage=metrics.coverage(lists.item[hit], n_items),
        n_rare=int(rare.sum()),
        n_users_with_rare=int(measures["users_with_rare_share"].numerator.sum()),
        **values,
        calibration=calibration,
        items=ItemCounts.of(train, lists.item, lists.item[hit], n_popular),
        users=users.users[evaluated],
        n_relevant=n_relevant[evaluated],
        per_user=MappingProxyType({name: of_evaluated(measure) for name, measure in measures.items()}),
        groups=tuple(map(of_evaluated, gaps)),
        horizon=truth.horizon,
        split=truth.split,
        n_with_fewer=int((asked & ~truth.scored).sum()),
        n_outside=test.n_outside if isinstance(test, Clicks) else 0,
        n_new_users=test.n_new_users if isinstance(test, Clicks) else 0,
        personalisation=metrics.personalisation(lists, n_users),
        by_group=MappingProxyType(of_groups),
    )


def _of_scored(lists: RankedLists, truth: Truth) -> RankedLists:
    """Return the lists of the users who are scored."""
    if truth.scored.all():
        return lists
    kept = truth.scored[lists.user]
    if not kept.any():
        raise InputError(
            f"none of the {truth.scored.sum():,} users with {truth.horizon} test clicks has recommendations. "
            "Recommend to the users of the test."
        )
    probability = None if lists.probability is None else lists.probability[kept]
    return RankedLists(lists.user[kept], lists.item[kept], lists.rank[kept], probability)


def count_popular(n_popular: int | None, n_items: int) -> int:
    """Return how many items are popular: as many as asked for, by default a fifth of them, rounded up.

    >>> count_popular(None, 200)
    40
    """
    if n_popular is None:
        return math.ceil(POPULAR_SHARE * n_items)
    n_popular = operator.index(n_popular)
    if not 1 <= n_popular <= n_items:
        raise InputError(f"n_popular must be 1 to {n_items}, the number of items, but it is {n_popular}.")
    return n_popular
