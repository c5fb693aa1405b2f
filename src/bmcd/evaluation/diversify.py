"""diversify: the list rules with the most diverse lists whose hit rate holds, with confidence, for other users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.log import Clicks, Library
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation.backtest import fitted_copy, windows_of
from bmcd.evaluation.compare import Comparison
from bmcd.evaluation.intervals import PairedDifference
from bmcd.models.cutoffs import betting_p_value, lower_bound, qualified
from bmcd.models.list_rules import ListRules, groups_in_lists, read_rules, ruled_lists
from bmcd.models.top_k import Lists, Truth, check_horizon, check_k, read_truth, was_clicked
from bmcd.utils import Floats

if TYPE_CHECKING:
    import pandas as pd


# Models whose accuracies are no further apart than this are called nearly equal.
NEARLY = 0.01
# Measures with intervals; more of each is more diverse.
DIVERSITY = ("novelty", "rare_share")


class Gap(NamedTuple):
    """How far a model is ahead of another in one measure; low and high are None where there is no interval."""

    difference: float
    low: float | None = None
    high: float | None = None

    @property
    def clear(self) -> bool:
        """Whether the interval leaves no doubt which is ahead; never without one."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class Price(NamedTuple):
    """A model minus one other."""

    other: str
    accuracy: Gap
    coverage: Gap
    novelty: Gap
    rare_share: Gap

    @property
    def nearly_equal(self) -> bool:
        """Whether both hit about as often: no clear difference, or one of at most a hundredth."""
        return not self.accuracy.clear or abs(self.accuracy.difference) <= NEARLY


def diversity_price(comparison: Comparison) -> tuple[Price, ...]:
    """Return what the model `Comparison.against` gives up or gains against each of the others."""
    name, prices = comparison.against, []
    for other, differences in comparison.differences.items():
        shown = comparison.value(name, "coverage") - comparison.value(other, "coverage")
        accuracy, *diversity = (_turned(differences[measure]) for measure in ("accuracy", *DIVERSITY))
        prices.append(Price(other, accuracy, Gap(shown), *diversity))
    return tuple(prices)


def price_table(prices: tuple[Price, ...]) -> pd.DataFrame:
    """Return the same as a frame, a row for each other model; coverage has no interval."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for price in prices:
        row: dict[str, Any] = {"against": price.other, "nearly_equal": price.nearly_equal}
        for measure in ("accuracy", "coverage", *DIVERSITY):
            gap: Gap = getattr(price, measure)
            row[measure] = gap.difference
            if gap.low is not None:
                row |= {f"{measure}_low": gap.low, f"{measure}_high": gap.high}
        rows.append(row)
    return pd.DataFrame(rows)


def _turned(gap: PairedDifference) -> Gap:
    """Return a difference from the other side: a comparison has those of the others minus the model."""
    return Gap(-gap.difference, -gap.high, -gap.low)


Ints = NDArray[np.int64]
Measure = Literal["groups", "coverage"]
# What another group in a list is worth, in expected hits, from the least diverse setting to the most diverse.
WORTHS = (0.0, *np.geomspace(0.0005, 1.0, 45).round(6).tolist())
FEWEST_USERS = 30


class Setting(NamedTuple):
    """What one setting does to the test users' lists."""

    rules: ListRules
    hit_rate: float
    """The share of a list that is hit, mean over users."""
    groups: float
    """The number of groups in a list, mean over users."""
    coverage: float
    """Different items shown, over all items."""
    expected_hits: float
    """The sum of the probabilities in a list, mean over users."""
    p_value: float
    """Of "the hit rate is below the wanted one"."""
    qualifies: bool


class Trial(NamedTuple):
    """A setting chosen in one window, in use in the next one."""

    chosen_in: str
    used_in: str
    rules: ListRules | None
    """None where no setting qualified."""
    n_users: int
    hit_rate: float
    """In the window of use; of lists without rules where none qualified."""
    standard_error: float
    groups: float
    held: bool | None
    """Whether the hit rate in use was at least the wanted one; None where none qualified."""


@dataclass(frozen=True, eq=False, repr=False)
class Diversity:
    """The result of `bmcd.diversify`; `print` it for the settings, and recommend with ``rules=result.rules``.

    >>> setting = Setting(ListRules("section", worth=0.05), 0.21, 3.2, 0.9, 2.3, 0.01, True)
    >>> found = Diversity(setting.rules, setting, (setting,), 0.2, 0.95, 0.202, 10, 10, 2000, "groups", "")
    >>> found.to_frame()["groups"].tolist(), found.plain is found.chosen
    ([3.2], True)
    """

    rules: ListRules
    """The setting with the most diverse lists of those that qualify."""
    chosen: Setting
    settings: tuple[Setting, ...]
    """All settings, from the least diverse one on."""
    wanted: float
    """The hit rate that was asked for."""
    confidence: float
    low: float
    """What the hit rate of the chosen setting is at least, with this confidence, if it alone had been looked at."""
    k: int
    horizon: int
    n_users: int
    """The test users it was tuned on."""
    measure: Measure
    split: str
    """How the test clicks were chosen."""
    trials: tuple[Trial, ...] = ()
    """The back-test: settings chosen in a window of the log and used in the next one."""

    @property
    def plain(self) -> Setting:
        """The lists of the first setting, which has no rules unless some were given."""
        return self.settings[0]

    @property
    def n_held(self) -> int:
        """In how many windows of the back-test the hit rate held."""
        return sum(bool(one.held) for one in self.trials)

    @property
    def n_tried(self) -> int:
        """In how many windows of the back-test a setting had qualified in the window before."""
        return sum(one.held is not None for one in self.trials)

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return a frame with a row for each setting."""
        import narwhals as nw

        rows = [one._asdict() | {"rules": str(one.rules), "worth": one.rules.worth} for one in self.settings]
        names = ["worth", "hit_rate", "groups", "coverage", "expected_hits", "p_value", "qualifies"]
        return nw.from_dict({name: [row[name] for row in rows] for name in names}, backend=library).to_native()

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON."""
        names = ("wanted", "confidence", "low", "k", "horizon", "n_users", "measure", "split")

        def written(one: Setting | Trial) -> dict[str, Any]:
            return one._asdict() | {"rules": None if one.rules is None else one.rules.to_dict()}

        found = {name: getattr(self, name) for name in names} | {"rules": self.rules.to_dict()}
        return {**found, "settings": list(map(written, self.settings)), "trials": list(map(written, self.trials))}

    def __repr__(self) -> str:
        plain, chosen = self.plain, self.chosen
        lines = [
            f"Diversity({self.rules}, k={self.k})",
            f"  {'':<16}{'plain':>9}{'chosen':>9}",
            f"  {'groups in a list':<16}{plain.groups:>9.2f}{chosen.groups:>9.2f}",
            f"  {'coverage':<16}{plain.coverage:>9.3f}{chosen.coverage:>9.3f}",
            f"  {'hit rate':<16}{plain.hit_rate:>9.4f}{chosen.hit_rate:>9.4f}",
            f"  hit rate at least {self.wanted:g} for other users like these {self.n_users:,}, with "
            f"{self.confidence:.0%} confidence ({sum(one.qualifies for one in self.settings)} of "
            f"{len(self.settings)} settings qualify)",
        ]
        if self.split:
            lines.append(f"  (test: {self.split})")
        if self.trials:
            untried = len(self.trials) - self.n_tried
            more = f"; in {untried} none qualified" if untried else ""
            lines.append(f"  back-test: the hit rate held in {self.n_held} of {self.n_tried} windows of use{more}")
        return "\n".join(lines)


def diversify(
    model: Any,
    test: Clicks,
    k: int = 10,
    hit_rate: float = 0.2,
    confidence: float = 0.95,
    *,
    group: str | None = None,
    histories: Any = None,
    rules: ListRules | Sequence[ListRules] | None = None,
    measure: Measure = "groups",
    horizon: int | None = None,
    log: Clicks | None = None,
    cuts: int = 6,
    window: str | None = None,
    seed: int = 0,
    n_threads: int | None = None,
) -> Diversity:
    """Choose the list rules with the most diverse lists whose hit rate is at least the wanted one.

    It is so for other users like those of ``test`` with this confidence, although the rules are chosen on these: a
    bound for finite samples, over users, on a grid of settings. If no setting qualifies, an error says what would.
    The grid is what another group in a list is worth (see `bmcd.ListRules`), from 0 on.

    Parameters
    ----------
    model
        A fitted model with probabilities, whose clicks have an item table.
    test
        Test clicks of users of the fit, or of the users of ``histories``, as in `bmcd.evaluate`.
    k, horizon
        The length of the lists, and the number of next clicks in which they are to be hit; by default k.
    hit_rate
        The least share of a user's list that is hit, on average over users.
    confidence
        The probability that the hit rate is reached.
    group
        The column of the item table; by default its first column of groups.
    histories
        What the test users had clicked, if they are not users of the fit; see `recommend_for`.
    rules
        Rules that hold in all settings; or a list of settings, from the least diverse to the most diverse, instead
        of the grid.
    measure
        What diversity is: "groups", their mean number in a list, or "coverage", the share of items that are shown.
    log, cuts, window
        A log with a clock for a back-test: at each of the cuts the model is fitted again, a setting is chosen in
        the window that follows, and used in the next one, with the model of the next cut.
    seed
        Of the order of the users in the bound, and of the back-test.
    n_threads
        As in `recommend`.

    Examples
    --------
    >>> import bmcd
    >>> earlier, later = bmcd.load_dataset("eshop").of_users(range(3000)).split_users(0.8)
    >>> model = bmcd.Tastes(3, chains=2).fit(earlier, draws=2, warmup=10, seed=1)
    >>> histories, test = later.moments(k=3, seed=1)
    >>> found = bmcd.diversify(model, test, k=3, hit_rate=0.02, histories=histories)
    >>> found.chosen.groups >= found.plain.groups
    True
    """
    if not hasattr(model, "lists_for") or not hasattr(model, "clicks_"):
        raise InputTypeError(f"diversify needs a fitted model with probabilities, not a {type(model).__name__}.")
    for name, share, such in (("hit_rate", hit_rate, 0.2), ("confidence", confidence, 0.95)):
        if not 0 < share < 1:
            raise InputError(f"{name} must be between 0 and 1, like {such}, but it is {share}.")
    if measure not in ("groups", "coverage"):
        raise InputError(f"measure must be 'groups' or 'coverage', but it is {measure!r}.")
    if model.clicks_.items_table is None:
        raise InputError("diversify needs groups of items: read_clicks(..., items='items.csv').")
    k = check_k(k)
    asked = _Asked(k, check_horizon(horizon, k), hit_rate, confidence, measure, seed, n_threads)
    settings = _grid(model, group, rules)
    people = None if histories is None else clicks_of_histories(histories, model.clicks_, "ignore")
    result = _chosen(_tested(model, test, people, settings, asked), asked)
    return result if log is None else replace(result, trials=_backtest(model, log, cuts, window, settings, asked))


class _Asked(NamedTuple):
    """What is asked for: lists, and how often they must be hit."""

    k: int
    horizon: int
    hit_rate: float
    confidence: float = 0.95
    measure: Measure = "groups"
    seed: int = 0
    n_threads: int | None = None


class _Tested(NamedTuple):
    """What every setting does to the lists of the same users."""

    settings: tuple[ListRules, ...]
    hit_share: Floats
    """[setting, user]"""
    groups: Floats
    """[setting, user]"""
    coverage: list[float]
    expected: list[float]
    split: str


def _grid(model: Any, group: str | None, rules: Any) -> tuple[ListRules, ...]:
    if rules is not None and not isinstance(rules, ListRules):
        settings = tuple(rules)
        if not settings or not all(isinstance(one, ListRules) for one in settings):
            raise InputTypeError("rules must be a bmcd.ListRules, or a list of them, the least diverse first.")
        return settings
    base = rules or ListRules()
    name, _ = model.clicks_.items_table.grouping(group or base.group)
    return tuple(replace(base, group=name, worth=worth) for worth in WORTHS)


def _tested(
    model: Any, test: Clicks, people: Clicks | None, settings: tuple[ListRules, ...], asked: _Asked
) -> _Tested:
    """Recommend with every setting to the users who are scored, and count hits and groups."""
    repeats = bool(getattr(model, "repeats", False))
    known = model.clicks_ if people is None else people
    truth = read_truth(test, known, asked.k, asked.horizon, repeats=repeats)
    scored = np.flatnonzero(truth.scored & (truth.n_relevant > 0))
    if len(scored) < FEWEST_USERS:
        raise InputError(
            f"only {len(scored)} users have {asked.horizon} test clicks, and {FEWEST_USERS} are needed. Give more "
            "test clicks, or a smaller horizon."
        )
    options: dict[str, Any] = {"horizon": asked.horizon, "n_threads": asked.n_threads}
    kept: dict[tuple[int, int], Lists] = {}

    def ask(users: Ints, size: int, mask: NDArray[np.bool_] | None) -> Lists:
        key = (int(users[0]), size)
        if mask is None and key in kept:
            return kept[key]
        rows = scored[users]
        lists: Lists = (
            model.lists(size, model.clicks_.users[rows].tolist(), mask, **options)
            if people is None
            else model.lists_for(people.of_users(rows), size, mask, **options)
        )
        if mask is None:
            kept[key] = lists
        return lists

    table, every = model.clicks_.items_table, np.ones(known.n_items, np.bool_)
    shares, groups, coverage, expected = [], [], [], []
    for one in settings:
        read = read_rules(one, table, asked.k, every)
        lists, _ = ruled_lists(ask, len(scored), asked.k, read, None, "probability")
        shares.append(_hit_share(lists.items, truth, scored))
        groups.append(groups_in_lists(lists.items, read).astype(np.float64))
        coverage.append(len(np.unique(lists.items[lists.items >= 0])) / known.n_items)
        expected.append(float(lists.values["probability"].sum() / len(scored)))
    return _Tested(settings, np.array(shares), np.array(groups), coverage, expected, truth.split)


def _hit_share(items: Ints, truth: Truth, rows: Ints) -> Floats:
    """Return the share of each list that is hit; 0 for an empty one."""
    user, place = np.nonzero(items >= 0)
    hit = was_clicked(truth.matrix, rows[user], items[user, place])
    length = np.bincount(user, minlength=len(rows))
    return np.asarray(np.bincount(user, weights=hit, minlength=len(rows)) / np.maximum(length, 1), np.float64)


def _chosen(found: _Tested, asked: _Asked) -> Diversity:
    wanted, confidence, seed = asked.hit_rate, asked.confidence, asked.seed
    n_users = found.hit_share.shape[1]
    p_values = [betting_p_value(own, wanted, confidence, seed) for own in found.hit_share]
    good = set(qualified(len(p_values), p_values.__getitem__, [0], confidence))
    rates, groups = found.hit_share.mean(axis=1).tolist(), found.groups.mean(axis=1).tolist()
    settings = tuple(
        Setting(one, rates[s], groups[s], found.coverage[s], found.expected[s], p_values[s], s in good)
        for s, one in enumerate(found.settings)
    )
    best = max(good, key=lambda s: (getattr(settings[s], asked.measure), settings[s].hit_rate), default=0)
    low, chosen = lower_bound(found.hit_share[best], confidence, seed), settings[best]
    if not good:
        raise InputError(
            f"no setting keeps a hit rate of {wanted:g} with {confidence:.0%} confidence: already the least "
            f"diverse lists ({chosen.rules}) have {chosen.hit_rate:.4f} for these {n_users:,} users and, "
            f"to be sure, at least {low:.4f} for others. Ask for less, or give more test users."
        )
    return Diversity(
        chosen.rules, chosen, settings, wanted, confidence, low, asked.k, asked.horizon, n_users, asked.measure,
        found.split,
    )  # fmt: skip


def _backtest(
    model: Any, log: Clicks, cuts: int, window: str | None, settings: tuple[ListRules, ...], asked: _Asked
) -> tuple[Trial, ...]:
    """Choose in every window but the last, use in the next one, and look whether the hit rate held."""
    if not log.has_clock and log.order is None:
        raise InputError("a back-test needs a log in order. Read it with time_column=, or order='rows'.")
    if log.items_table is None:
        if not np.array_equal(model.clicks_.items, log.items):
            raise InputError("the log of the back-test has no item table: read it with items='items.csv'.")
        log = log.with_items(model.clicks_.items_table)
    trials: list[Trial] = []
    before: tuple[str, ListRules | None] | None = None
    repeats = bool(getattr(model, "repeats", False))
    for one in windows_of(log, cuts, window, asked.horizon, "moment", asked.seed, repeats):
        fitted, _ = fitted_copy(model, one.train, asked.seed)
        found = _tested(fitted, one.test, one.histories, settings, asked)
        if before is not None:
            label, rules = before
            place = 0 if rules is None else found.settings.index(rules)
            share = found.hit_share[place]
            rate, error = float(share.mean()), float(share.std(ddof=1) / np.sqrt(len(share)))
            held = None if rules is None else rate >= asked.hit_rate
            groups = float(found.groups[place].mean())
            trials.append(Trial(label, one.label, rules, len(share), rate, error, groups, held))
        try:
            before = (one.label, _chosen(found, asked).rules)
        except InputError:
            before = (one.label, None)
    return tuple(trials)
