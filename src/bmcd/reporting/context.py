"""Every number of a report, computed once, before anything is drawn or written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.blend.blend import Blend
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.item_table import ItemTable
from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_items
from bmcd.errors import InputError
from bmcd.evaluation import Calibration, Comparison, Evaluation, Interval, ItemCounts, compare
from bmcd.evaluation.diversify import Diversity, Price, diversity_price
from bmcd.evaluation.evaluate import count_popular
from bmcd.evaluation.metrics import GroupMeasures, RankedLists, shares_of
from bmcd.inference.diagnostics import MIN_DRAWS
from bmcd.markup import short_title
from bmcd.models.bmcd import BMCD
from bmcd.models.persistence import Model, sampled_models
from bmcd.models.tastes import Tastes
from bmcd.models.top_k import Lists, Truth, read_truth
from bmcd.reporting.changes import Changes, find_changes, read_models
from bmcd.reporting.choices import (
    ExampleUser,
    check_clicks,
    check_people,
    choose_example_users,
    choose_grouping,
    choose_k,
    default_baselines,
    parts_of,
    repeats_of,
)

# The hit rates among which the reader can choose.
WANTED_RATES = tuple(step / 20 for step in range(1, 20))
# The hit rate of fewer recommendations than this may be luck.
LEAST_KEPT = 30
# The bins of probability are as narrow as they can be with at most this number of them.
BIN_WIDTHS, MOST_BINS = (0.01, 0.02, 0.05, 0.1), 20
# The users whose best items are in the page, for the price of rules for lists, and the number of their items.
RULED_USERS, CANDIDATES = 100, 200
# The columns of item groups that are shown.
MOST_GROUP_COLUMNS = 3
# With more items than this only the most clicked can be looked up, to keep the page small. Of users those with most
# clicks, or with more items only the example users; 5,000 with lists of 5 and 10 take less than 1 MB.
MOST_ITEMS, MOST_USERS = 5_000, 5_000


class Cutoff(NamedTuple):
    """A least probability for recommendations, and what remains."""

    wanted: float
    """The hit rate it was chosen for."""
    probability: float
    n: int
    """The number of recommendations kept."""
    share: float
    """Their share of all recommendations."""
    hit_rate: float
    per_user: float
    """Recommendations per user, on average over the users of the test."""
    n_users: int
    """Users who get at least one."""
    of_users: int
    """Users of the test."""


class ShownItem(NamedTuple):
    """How an item is shown."""

    title: str
    """Its title, or "item" and its id."""
    link: str = ""
    picture: str = ""


class GroupRow(NamedTuple):
    """One group of items: how many items it has, and its shares."""

    name: str
    items: float
    clicked: float
    """Share of all clicks."""
    shown: float
    """Share of all recommendations."""
    clicked_next: float | None = None
    """Share of the clicks that followed; None without a test."""
    hit_rate: float | None = None
    """Of its recommendations; None without a test or without recommendations."""


@dataclass(frozen=True, eq=False)
class ContextForK:
    """The numbers for one number of recommendations, k."""

    name: str
    """Of the model in the comparison."""
    k: int
    lists: Lists
    """The recommendations to each user of the report."""
    items: ItemCounts
    """How often the model recommends each item; without a test nothing is a hit."""
    comparison: Comparison | None = None
    """The model and its baselines; None without a test."""
    truth: Truth | None = None
    """What would have been a hit for each user of the report; None without a test."""
    cutoffs: tuple[Cutoff, ...] = ()
    """For the hit rates that can be reached, from the last that needs no cut-off on."""
    best_cutoff: Cutoff | None = None
    """For the highest hit rate that can be reached; None without a test or without hits."""
    candidates: Lists | None = None
    """More than k best items of some users, from which list rules choose; None without groups of items."""

    @property
    def tested(self) -> Comparison:
        """The comparison, where there is a test."""
        assert self.comparison is not None
        return self.comparison

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation of the model, where there is a test."""
        return self.tested.entries[self.name].evaluation

    @property
    def accuracy(self) -> Interval:
        """The accuracy of the model with its interval, where there is a test."""
        return self.tested.entries[self.name].intervals["accuracy"]

    @property
    def calibration(self) -> Calibration:
        """The calibration of the model, where there is a test."""
        assert self.evaluation.calibration is not None  # these models give probabilities
        return self.evaluation.calibration

    @cached_property
    def bins(self) -> Calibration:
        """The calibration in bins as narrow as can be shown, where there is a test."""
        probability, hit = self.calibration.probability, self.calibration.hit
        by_width = (Calibration.of(probability, hit, width) for width in BIN_WIDTHS)
        return next(each for each in by_width if len(each.lower) <= MOST_BINS)

    @cached_property
    def prices(self) -> tuple[Price, ...]:
        """What the model gives up or gains in diversity against each baseline, where there is a test."""
        return tuple(diversity_price(self.tested))

    @property
    def baseline_accuracies(self) -> dict[str, float]:
        """The accuracy of each baseline, where there is a test."""
        entries = self.tested.entries.items()
        return {name: entry.evaluation.accuracy for name, entry in entries if name != self.name}

    @property
    def items_by_method(self) -> dict[str, ItemCounts]:
        """How often each item is recommended, by the model and, where there is a test, by each baseline."""
        if self.comparison is None:
            return {self.name: self.items}
        return {name: entry.evaluation.items for name, entry in self.comparison.entries.items()}

    def relevant(self, row: int) -> frozenset[int]:
        """Return the columns of the items that would have been a hit for a user; none without a test."""
        return frozenset() if self.truth is None else frozenset(self.truth.matrix[[row]].indices.tolist())

    def list_of(self, row: int) -> list[tuple[int, float, float]]:
        """Return the column, the probability and its error of each item recommended to a user."""
        values = (self.lists.items, self.lists.values["probability"], self.lists.values["mcse"])
        found = zip(*(column[row].tolist() for column in values), strict=True)
        return [entry for entry in found if entry[0] >= 0]  # -1: fewer than k items are left


@dataclass(frozen=True, eq=False)
class Context:
    """Everything that a report shows of a model, its clicks and the test."""

    model: Model
    clicks: Clicks
    """Those the model was fitted to."""
    people: Clicks
    """The users of the report and what they had clicked: those of the fit, or of the histories."""
    test: Clicks | None
    by_k: tuple[ContextForK, ...]
    baselines: tuple[str, ...]
    """Names of the baselines; none without a test."""
    parts: Mapping[str, str]
    """The models of a blend and their names in the comparison; none without a test."""
    baselines_are_default: bool
    not_run: Mapping[str, str]
    """Default baselines that were not run, with the reason."""
    n_popular: int
    examples: tuple[ExampleUser, ...]
    grouping: BMCD | Tastes | None
    """The model whose groups of users are shown: the one given, the model itself, or its first member with some."""
    changes: Changes | None
    """What changed since another model; None without one."""
    diversity: Diversity | None
    """The result of `bmcd.diversify`, if it was given."""

    @property
    def table(self) -> ItemTable | None:
        """Groups, links and pictures of items."""
        return self.clicks.items_table

    @property
    def is_blend(self) -> bool:
        """Whether the model is a blend."""
        return isinstance(self.model, Blend)

    @property
    def has_tastes(self) -> bool:
        """Whether the groups of users are tastes, of which a user has several."""
        return isinstance(self.grouping, Tastes)

    @property
    def sampled(self) -> dict[str, BMCD | Tastes]:
        """The sampled models by name: the model itself, or members of a blend."""
        return sampled_models(self.model)

    @cached_property
    def items(self) -> tuple[ShownItem, ...]:
        """How each item is shown, by column."""
        n, table = self.clicks.n_items, self.table
        links = table.links if table is not None and table.links is not None else [""] * n
        pictures = table.pictures if table is not None and table.pictures is not None else [""] * n
        titles = map(self.clicks.title_of, range(n))
        return tuple(ShownItem(*one) for one in zip(titles, links, pictures, strict=True))

    @cached_property
    def column_of(self) -> dict[Any, int]:
        """The column of each item, by its id."""
        return {item: column for column, item in enumerate(self.clicks.items.tolist())}

    @property
    def baseline_models(self) -> dict[str, Any]:
        """The baselines that were run, by name."""
        return {name: self.by_k[0].tested.entries[name].model for name in self.baselines}

    @property
    def others(self) -> tuple[str, ...]:
        """Names of all that the model is compared with: the models it is made of, then the baselines."""
        return (*self.parts.values(), *self.baselines)

    @property
    def test_clicks(self) -> NDArray[np.int64]:
        """The numbers of test clicks of the users who have any."""
        assert self.test is not None
        return self.test.per_user[self.test.per_user > 0]

    @cached_property
    def highest(self) -> float:
        """The highest probability in the lists of the example users."""
        found = [p for for_k in self.by_k for user in self.examples for _, p, _ in for_k.list_of(user.row)]
        return max(found, default=0.0) or 1.0

    @property
    def has_errors(self) -> bool:
        """Whether the probabilities have Monte Carlo errors."""
        return any((for_k.lists.values["mcse"] > 0).any() for for_k in self.by_k)

    def chance(self, for_k: ContextForK) -> float:
        """Return the hit rate of items chosen at random among those that a user has not clicked."""
        assert for_k.truth is not None
        left = self.people.n_items - (0 if repeats_of(self.model) else 1) * self.people.per_user
        some = for_k.truth.scored & (left > 0)
        return float((np.diff(for_k.truth.matrix.indptr)[some] / left[some]).mean())

    @property
    def windows(self) -> Any:
        """The frame of past windows of a blend; None without any."""
        windows = self.model.windows_ if isinstance(self.model, Blend) else ()
        return windows if len(windows) else None

    def weights(self, k: int) -> list[Any]:
        """Return the weights of a blend for the number of next clicks that is nearest to k."""
        assert isinstance(self.model, Blend)
        weights = self.model.weights_
        nearest = min(weights["k"].unique().tolist(), key=lambda learnt: abs(learnt - k))
        return list(weights[weights["k"] == nearest].itertuples(index=False))

    def gains(self) -> dict[str, Any]:
        """Return what each member of a blend gained when it was tried, by name."""
        assert isinstance(self.model, Blend)
        frame: Any = self.model.gains_
        return {row.member: row for row in frame.itertuples(index=False)}

    def diagnostics(self, model: BMCD | Tastes, most: int) -> list[dict[str, Any]] | None:
        """Return the quantities of a sampled model with the largest R-hat; None with too few draws."""
        if model.draws_.n_draws < MIN_DRAWS:
            return None
        frame = model.diagnostics().sort_values("rhat", ascending=False).head(most).reset_index()
        return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]

    @property
    def group_columns(self) -> list[str]:
        """The columns of item groups that are shown."""
        return [] if self.table is None else list(self.table.groups)[:MOST_GROUP_COLUMNS]

    def group_rows(self, for_k: ContextForK, name: str) -> list[GroupRow]:
        """Return the item groups of one column, those shown most first."""
        assert self.table is not None
        groups, found = self.table.groups[name], self.group_measures(for_k, name)
        share = shares_of(groups)
        items, clicks = share.sum(axis=0), self.clicks.per_item @ share
        if found is None:
            exposed = for_k.lists.items[for_k.lists.items >= 0]
            shown = np.bincount(exposed, minlength=len(share)) @ share
        else:
            shown = found.shown
        rows = []
        for g in sorted(np.flatnonzero(items > 0).tolist(), key=lambda g: -shown[g]):
            label = groups.names[g] if g < len(groups.names) else "(no group)"
            row = GroupRow(label, items[g], clicks[g] / clicks.sum(), shown[g] / max(shown.sum(), 1))
            if found is not None:
                clicked = found.next_clicks[g] / max(found.next_clicks.sum(), 1)
                row = row._replace(clicked_next=clicked, hit_rate=found.hits[g] / shown[g] if shown[g] else None)
            rows.append(row)
        return rows

    def group_measures(self, for_k: ContextForK, name: str) -> GroupMeasures | None:
        """Return what was measured of the item groups of one column; None without a test."""
        return None if for_k.comparison is None else for_k.evaluation.by_group.get(name)

    def rule_data(self) -> dict[str, Any]:
        """Return, for scripts, the probabilities and groups of some users' best items, for each k."""
        return {str(for_k.k): self._rule_data(for_k) for for_k in self.by_k if for_k.candidates is not None}

    def _rule_data(self, for_k: ContextForK) -> dict[str, Any]:
        assert for_k.candidates is not None
        assert self.table is not None
        found, tables = for_k.candidates, [self.table.groups[name] for name in self.group_columns]
        of = [[one.numbers[a:b].tolist() for a, b in pairwise(one.starts)] for one in tables]
        chances: list[list[int]] = []
        groups: list[list[list[list[int]]]] = [[] for _ in tables]
        for items, probability in zip(found.items.tolist(), found.values["probability"].tolist(), strict=True):
            # No list has more than k items of a group: the best k of each group of each column are enough.
            counts: Counter[tuple[int, Any]] = Counter()
            kept = []
            for place, item in enumerate(items):
                own = [(column, group) for column, each in enumerate(of) for group in each[item] or [None]]
                counts.update(own)
                if item >= 0 and any(counts[one] <= for_k.k for one in own):
                    kept.append(place)
            chances.append([round(10_000 * probability[place]) for place in kept])
            for each, column in zip(of, groups, strict=True):
                column.append([each[items[place]] for place in kept])
        return {"p": chances, "groups": groups, "n": [len(one.names) for one in tables]}

    def lookup(self) -> dict[str, Any]:
        """Return, for scripts, what can be looked up.

        Of each item: its title, its clicks, and for each k how often it is recommended and hit. Of each user: the
        name, the number of clicks, the number of the card or -1, and the lists.
        """
        clicks, users, counts = self.clicks, self.people, {}
        for for_k in self.by_k:
            of, columns = for_k.items, clicks.columns_of(for_k.items.item).tolist()
            hits = of.hits.tolist() if self.test is not None else [None] * len(columns)
            counts[for_k.k] = dict(zip(columns, zip(of.recommended.tolist(), hits, strict=True), strict=True))
        order = sorted(range(clicks.n_items), key=lambda column: -int(clicks.per_item[column]))[:MOST_ITEMS]
        items = [
            [short_title(self.items[i].title), int(clicks.per_item[i]), {k: of[i] for k, of in counts.items()}]
            for i in order
        ]
        cards = {each.row: place for place, each in enumerate(self.examples)}
        rows = sorted(range(users.n_users), key=lambda row: (row not in cards, -int(users.per_user[row])))
        rows = [row for row in rows if row in cards or clicks.n_items <= MOST_ITEMS][: max(MOST_USERS, len(cards))]
        places = np.full(clicks.n_items, -1)
        places[order] = np.arange(len(order))
        people = [
            [
                f"user {short_title(users.users[row])}",
                int(users.per_user[row]),
                cards.get(row, -1),
                {for_k.k: _places(for_k, row, places) for for_k in self.by_k},
            ]
            for row in rows
        ]
        return {"items": items, "users": people}


def _places(for_k: ContextForK, row: int, places: NDArray[np.int64]) -> list[int]:
    """Return a user's items by their places in the lookup, each with its probability in 1/1000."""
    own, probability = for_k.lists.items[row], for_k.lists.values["probability"][row]
    there = (own >= 0) & (places[own] >= 0)
    pairs: NDArray[np.int64] = np.stack(
        [places[own[there]], np.rint(1000 * probability[there]).astype(np.int64)], 1
    )
    return [int(number) for number in pairs.ravel()]


@dataclass(frozen=True, eq=False)
class _Asked:
    """A fitted model whose recommendations are known, for `compare`."""

    model: Any
    clicks_: Clicks
    lists: RankedLists

    def recommend(self, k: int) -> RankedLists:
        return self.lists

    def recommend_for(self, histories: Clicks, k: int, unknown: str = "ignore") -> RankedLists:
        return self.lists


def make_context(
    model: Model | Mapping[str, Model],
    train: Clicks | None = None,
    test: Clicks | None = None,
    k: int | Iterable[int] | None = None,
    rivals: Mapping[str, Any] | None = None,
    users: Iterable[Any] | None = None,
    *,
    histories: Any = None,
    clusters: BMCD | Tastes | None = None,
    items: Any = None,
    diversity: Diversity | None = None,
    n_popular: int | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    show_share: Callable[[float], None] = lambda share: None,
) -> Context:
    """Return all numbers of a report; see `bmcd.report`. ``show_share`` is called with the share that is done."""
    model, older = read_models(model)
    clicks = check_clicks(model, train, test)
    if older is not None and histories is not None:
        raise InputError("changes are shown for the users of both models: give two models, or histories, not both.")
    people = clicks if histories is None else check_people(clicks_of_histories(histories, clicks, "ignore"))
    grouping = choose_grouping(model, clusters, clicks)
    if items is not None:
        own = read_items(clicks, items).items_table
        clicks = clicks.with_items(own)
        people = clicks if histories is None else people.with_items(own)
    ks = choose_k(model, people, test, k)
    popular = count_popular(n_popular, clicks.n_items)
    name, made_of = type(model).__name__, parts_of(model, clicks)
    # A default baseline that is also part of a blend would be the same method with worse settings.
    left_out = {type(part) for part in made_of.values()}
    usual, missing = default_baselines(clicks)
    usual = {name: baseline for name, baseline in usual.items() if type(baseline) not in left_out}
    others, not_run = (usual, missing) if rivals is None else (dict(rivals), {})
    parts = {part: f"{part} alone" if part in (name, *others) else part for part in made_of}
    if name in others:
        raise InputError(f"a baseline is called {name!r}, which is the model's own name in the report. Rename it.")
    repeats = repeats_of(model)

    def lists_of(n: int, rows: NDArray[np.int64] | None = None, horizon: int | None = None) -> Lists:
        options: dict[str, Any] = {"horizon": horizon, "n_threads": n_threads, "progress": False}
        if histories is None:
            return model.lists(n, None if rows is None else people.users[rows].tolist(), **options)
        return model.lists_for(people if rows is None else people.of_users(rows), n, **options)

    by_k = []
    for number in ks:
        lists, candidates = lists_of(number), None
        if clicks.items_table is not None and clicks.items_table.groups:
            n_ruled = min(RULED_USERS, people.n_users)
            some = np.unique(np.linspace(0, people.n_users - 1, n_ruled).round().astype(int))
            candidates = lists_of(max(CANDIDATES, 2 * number), some, number)
        if test is None:
            shown = ItemCounts.of(clicks, lists.items[lists.items >= 0], np.array([], np.int64), popular)
            by_k.append(ContextForK(name, number, lists, shown, candidates=candidates))
        else:
            asked = _Asked(model, model.clicks_, _ranked(lists))
            models = {name: asked, **{parts[part]: made_of[part] for part in parts}, **others}
            options: dict[str, Any] = {"repeats": repeats, "seed": seed, "n_popular": popular, "progress": False}
            given = None if histories is None else people
            compared = compare(models, clicks, test, number, histories=given, **options)
            evaluation = compared.entries[name].evaluation
            assert evaluation.calibration is not None  # these models give probabilities
            scored = people.rows_of(evaluation.users)
            of_scored = Lists(lists.items[scored], {what: of[scored] for what, of in lists.values.items()})
            cutoffs = choose_cutoffs(evaluation.calibration, of_scored)
            truth = read_truth(test, people, number, repeats=repeats)
            found = (name, number, lists, evaluation.items, compared, truth, *cutoffs, candidates)
            by_k.append(ContextForK(*found))
        show_share(len(by_k) / len(ks))
    examples = choose_example_users(model, grouping, people, [for_k.lists for for_k in by_k], users)
    changes = None
    if older is not None:
        now = {for_k.k: for_k.lists for for_k in by_k}
        changes = find_changes(older[:2], older[2], model, test, now, seed)
    return Context(
        model=model,
        clicks=clicks,
        people=people,
        test=test,
        by_k=tuple(by_k),
        baselines=() if test is None else tuple(others),
        parts={} if test is None else parts,
        baselines_are_default=rivals is None,
        not_run=not_run,
        n_popular=popular,
        examples=examples,
        grouping=grouping,
        changes=changes,
        diversity=diversity,
    )


def _ranked(lists: Lists) -> RankedLists:
    user, place = np.nonzero(lists.items >= 0)
    return RankedLists(user, lists.items[user, place], place + 1, lists.values["probability"][user, place])


def choose_cutoffs(calibration: Calibration, lists: Lists) -> tuple[tuple[Cutoff, ...], Cutoff | None]:
    """Return the cut-off for each of the wanted hit rates, and that for the highest that can be reached."""
    least = min(LEAST_KEPT, len(calibration.hit))
    if not calibration.hit.any():
        return (), None

    def cut(wanted: float, probability: float) -> Cutoff:
        kept = calibration.probability >= probability
        lengths = ((lists.values["probability"] >= probability) & (lists.items >= 0)).sum(axis=1)
        numbers = (int(kept.sum()), float(kept.mean()), float(calibration.hit[kept].mean()))
        users = float(lengths.mean()), int((lengths > 0).sum()), len(lengths)
        return Cutoff(wanted, probability, *numbers, *users)

    # Any probability that was given can be a cut-off, if it keeps enough recommendations.
    probabilities, n = np.unique(calibration.probability, return_counts=True)
    probabilities = probabilities[n[::-1].cumsum()[::-1] >= least]
    accuracy = calibration.cutoff_table(probabilities)["accuracy"].to_numpy(np.float64)
    top = int(accuracy.argmax())
    best = cut(float(accuracy[top]), float(probabilities[top]))
    rates = [rate for rate in WANTED_RATES if rate <= best.hit_rate]
    # Of the rates that all recommendations together reach, the highest is enough.
    first = max(sum(rate <= calibration.hit_rate for rate in rates) - 1, 0)
    return tuple(cut(rate, calibration.cutoff_for(rate, min_kept=least)) for rate in rates[first:]), best
