"""List rules: the most probable lists under caps, floors and a least number of groups, and what the rules cost."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.clicks.item_table import ItemGroups, ItemTable, group_numbers
from bmcd.errors import InputError, InputTypeError
from bmcd.models.top_k import Lists
from bmcd.utils import Floats, check_count, check_number, listed, shown

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
# Asks a recommender for the best k allowed items of users, who are given by their places among those asked for.
Ask = Callable[[Ints, int, Bools | None], Lists]

# The best items of each user that rules choose from, at first: at least CANDIDATES, and PER_PLACE for each place in
# a list; and users at a time.
CANDIDATES, PER_PLACE, BLOCK = 100, 4, 20_000
# Where a user's candidates do not suffice, each of this many groups is asked for, or else this many items.
FEW_GROUPS, MANY = 200, 5_000
NO_CAP = 2**31 - 1
ROUNDING = 1e-9
MOST_SWAPS = 100


@dataclass(frozen=True)
class ListRules:
    """Rules for every list of recommendations, about the groups of one column of the item table.

    Among all lists that keep the rules, a user gets the most probable one. That is exact for one set of rules about
    a column in which no item has several groups; otherwise it is a greedy choice, improved by swaps. Items without
    a group count for none.

    Parameters
    ----------
    group
        The column of the item table, such as "section"; by default its first column of groups.
    at_most
        The largest number of items of each group in a list; or of some groups, ``{"sports": 2}``.
    at_least_groups
        The least number of different groups in a list.
    shares
        The least share of some groups in a list: ``{"local": 0.2}`` are at least two of ten.
    worth
        How many expected hits another group in a list is worth, such as 0.02: a group is added to a list where it
        costs less. For the same loss of hits over all users, no rule gives more groups on average.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.load_dataset("eshop").of_users(range(2000))
    >>> model = bmcd.baselines.Popularity().fit(clicks)
    >>> found = model.recommend_for([["A2"]], k=3, rules=bmcd.ListRules("category", at_most=1))
    >>> category = clicks.items_table.groups["category"]
    >>> len({category.of_item(j) for j in clicks.columns_of(found["item"])})
    3
    """

    group: str | None = None
    at_most: int | Mapping[str, int] | None = None
    at_least_groups: int | None = None
    shares: Mapping[str, float] | None = None
    worth: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.at_most, Mapping):
            for name, cap in self.at_most.items():
                check_count(f"at_most of {shown(name)}", cap, 0)
        elif self.at_most is not None:
            check_count("at_most", self.at_most)
        if self.at_least_groups is not None:
            check_count("at_least_groups", self.at_least_groups)
        if self.shares is not None and not isinstance(self.shares, Mapping):
            raise InputTypeError(f"shares must be a dict such as {{'local': 0.2}}, not {shown(self.shares)}.")
        for name, share in (self.shares or {}).items():
            check_number(f"the share of {shown(name)}", share, high=1)
        check_number("worth, in expected hits,", self.worth)

    def to_dict(self) -> dict[str, Any]:
        """Return what was given, ready for JSON.

        >>> ListRules("section", at_most=3).to_dict()
        {'group': 'section', 'at_most': 3}
        """
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()}
        return {name: value for name, value in given.items() if value is not None and (name != "worth" or value)}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.to_dict().items()) or "no rules"


Rules = ListRules | Iterable[ListRules]


class ReadRules(NamedTuple):
    """Rules as numbers; groups of all columns they are about are numbered together."""

    given: tuple[ListRules, ...]
    names: tuple[str, ...]
    """Of each group."""
    starts: Ints
    """The groups of item i are ``numbers[starts[i]:starts[i + 1]]``."""
    numbers: NDArray[np.int32]
    column: NDArray[np.int32]
    """[group]: which column it is of."""
    cap: Ints
    floor: Ints
    least: Ints
    """[column]: the least number of groups."""
    worth: Floats
    """[column]"""
    is_there: Bools
    """[group]: whether an item of it may be recommended."""
    is_exact: bool


class RulesReport(NamedTuple):
    """What rules did to the lists of some users."""

    rules: tuple[dict[str, Any], ...]
    value: str
    """What was summed: "probability", whose sum is the expected number of hits, or "score"."""
    plain: float
    """The sum over the lists without rules."""
    kept: float
    """The sum over the lists under the rules."""
    n_users: int
    n_changed: int
    """Users whose list is another one."""
    n_unkept: int
    """Users who have too few items left to keep the rules: theirs are kept as far as possible."""
    n_groups: float
    """The mean number of groups in a list, of the first rules."""
    exact: bool

    @property
    def price(self) -> float:
        """What the rules cost, in expected hits of all users."""
        return max(0.0, self.plain - self.kept)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        per_user = self.price / self.n_users if self.n_users else 0.0
        return {**self._asdict(), "rules": list(self.rules), "price": self.price, "price_per_user": per_user}


def joined(reports: list[RulesReport]) -> RulesReport:
    """Return what rules did to all users of several reports."""
    sums = {name: sum(getattr(one, name) for one in reports) for name in SUMMED}
    mean = sum(one.n_groups * one.n_users for one in reports) / max(sums["n_users"], 1)
    return reports[0]._replace(**sums, n_groups=mean)


SUMMED = ("plain", "kept", "n_users", "n_changed", "n_unkept")


def read_rules(rules: Rules, table: ItemTable | None, k: int, allowed: Bools) -> ReadRules:
    """Return rules as numbers, or an error that explains why no list of k allowed items can keep them."""
    given = (rules,) if isinstance(rules, ListRules) else tuple(rules)
    if not given or not all(isinstance(one, ListRules) for one in given):
        raise InputTypeError(f"rules must be bmcd.ListRules(...), or a list of them, not {shown(rules)}.")
    if table is None:
        raise InputError(
            "rules are about groups of items, and the clicks came without an item table: "
            "read_clicks(..., items='items.csv')."
        )
    found = [table.grouping(one.group) for one in given]
    if len({name for name, _ in found}) < len(found):
        raise InputError(f"there are two sets of rules about {listed([name for name, _ in found])}. Join them.")
    names: list[str] = []
    caps, floors, there, owners = list[Ints](), list[Ints](), list[Bools](), list[Ints]()
    numbers: list[NDArray[Any]] = []
    column: list[int] = []
    for place, (one, (name, groups)) in enumerate(zip(given, found, strict=True)):
        cap, floor = np.full(len(groups.names), NO_CAP, np.int64), np.zeros(len(groups.names), np.int64)
        if isinstance(one.at_most, Mapping):
            most = [min(int(cap_of), NO_CAP) for cap_of in one.at_most.values()]
            cap[group_numbers(groups, list(one.at_most), f"at_most of {name}")] = most
        elif one.at_most is not None:
            cap[:] = min(int(one.at_most), NO_CAP)
        shares = one.shares or {}
        floor[group_numbers(groups, list(shares), f"shares of {name}")] = [
            math.ceil(share * k - ROUNDING) for share in shares.values()
        ]
        n_items = np.bincount(groups.numbers[np.repeat(allowed, np.diff(groups.starts))], minlength=len(cap))
        _refuse_impossible(one, name, groups, cap, floor, n_items, allowed, k)
        owners.append(np.repeat(np.arange(table.n_items), np.diff(groups.starts)))
        numbers.append(groups.numbers + len(names))
        caps.append(cap)
        floors.append(floor)
        there.append(n_items > 0)
        column += [place] * len(cap)
        names += groups.names
    owner = np.concatenate(owners)
    n_groups = np.bincount(owner, minlength=table.n_items)
    return ReadRules(
        given,
        tuple(names),
        np.concatenate(([0], np.cumsum(n_groups))).astype(np.int64),
        np.concatenate(numbers)[np.argsort(owner, kind="stable")].astype(np.int32),
        np.array(column, np.int32),
        np.concatenate(caps),
        np.concatenate(floors),
        np.array([one.at_least_groups or 0 for one in given], np.int64),
        np.array([one.worth for one in given], np.float64),
        np.concatenate(there),
        len(found) == 1 and found[0][1].is_single,
    )


def _refuse_impossible(
    rules: ListRules, column: str, groups: ItemGroups, cap: Ints, floor: Ints, n_items: Ints, allowed: Bools, k: int
) -> None:
    """Raise an error if no list of k items can keep the rules, by name and number."""
    for g in np.flatnonzero(floor > np.minimum(cap, n_items)).tolist():
        asks = f"shares asks for {floor[g]} of {shown(groups.names[g])} in a list of {k}"
        if floor[g] > n_items[g]:
            raise InputError(f"{asks}, but only {n_items[g]} of its items may be recommended. Ask for less.")
        raise InputError(f"{asks}, but at_most allows {cap[g]}. Change one of them.")
    least, asked = rules.at_least_groups or 0, np.flatnonzero(floor > 0)
    there = int(((n_items > 0) & (cap > 0)).sum())
    if least > there:
        raise InputError(
            f"at_least_groups asks for {least} groups of {column!r}, but only {there} have items that may be "
            f"recommended. Ask for at most {there}."
        )
    if not groups.is_single:  # an item may serve several rules at once
        return
    named = " + ".join(f"{floor[g]} of {shown(groups.names[g])}" for g in asked[:6].tolist())
    needed, more = int(floor.sum()), max(0, least - len(asked))
    if needed > k:
        raise InputError(f"shares asks for {named}, {needed} items together, but a list has {k}. Ask for less.")
    if needed + more > k:
        also = f"shares asks for {named}, and " if needed else ""
        raise InputError(
            f"{also}at_least_groups={least} needs {more} more groups: {needed + more} items, but a list has {k}. "
            "Ask for less, or raise k."
        )
    without = int((allowed & (np.diff(groups.starts) == 0)).sum())
    most = int(np.minimum(cap, n_items).sum()) + without
    if most < min(k, int(allowed.sum())):
        raise InputError(
            f"at_most allows {most} items of the {there} groups of {column!r} in a list"
            f"{f', {without} without a group among them' if without else ''}, but a list has {k}. Raise "
            "at_most, or lower k."
        )


def ruled_lists(
    ask: Ask, n_users: int, k: int, rules: ReadRules, allowed: Bools | None, value: str
) -> tuple[Lists, RulesReport]:
    """Return the best lists of k items under the rules, and what the rules did.

    A user's best items by probability are candidates, and more are added for those users whose candidates do not
    suffice to be sure that their list is the most probable one under the rules.
    """
    n_items = len(rules.starts) - 1
    every = np.ones(n_items, np.bool_) if allowed is None else allowed
    size, found = min(max(CANDIDATES, PER_PLACE * k), n_items), []
    plain = kept = n_groups = 0.0
    n_changed = n_unkept = 0
    for first in range(0, max(n_users, 1), BLOCK):
        users = np.arange(first, min(first + BLOCK, n_users))
        lists = ask(users, size, allowed)
        score = lists.values[value]
        plain += float(np.where(lists.items[:, :k] >= 0, score[:, :k], 0.0).sum())
        before = np.sort(lists.items[:, :k], axis=1)
        wide = lists.items.shape[1]
        items = np.full((len(users), min(k, wide)), -1, np.int64)
        values = {name: np.zeros(items.shape) for name in lists.values}
        lacking = np.zeros((len(users), 4), np.int64)
        cut = (lists.items[:, -1] >= 0) & (wide < int(every.sum())) if wide else np.zeros(len(users), np.bool_)
        rows, own = np.arange(len(users)), lists
        for wider in (_with_floors, _with_groups, None):
            places, lacking[rows] = choose(own.items, own.values[value], k, rules)
            there, places = places >= 0, np.maximum(places, 0)
            items[rows] = np.where(there, np.take_along_axis(own.items, places, axis=1), -1)
            for name, of in own.values.items():
                values[name][rows] = np.where(there, np.take_along_axis(of, places, axis=1), 0.0)
            # Items that a floor forces into the list cost no certainty about the others.
            unsure = lacking[rows, 0 if wider is _with_floors or not rules.is_exact else 1 :]
            short = np.flatnonzero(cut[rows] & (unsure > 0).any(axis=1))
            if wider is None or not len(short):
                break
            rows = rows[short]
            own = Lists(own.items[short], {name: of[short] for name, of in own.values.items()})
            own = wider(own, partial(ask, users[rows]), every, k, rules, value)
        kept += float(values[value].sum())
        n_changed += int((np.sort(items, axis=1) != before[:, : items.shape[1]]).any(axis=1).sum())
        n_unkept += int((lacking[:, :3] > 0).any(axis=1).sum())
        n_groups += float(groups_in_lists(items, rules).sum())
        found.append(Lists(items, values, lists.about))
    together = Lists(
        np.concatenate([one.items for one in found]),
        {name: np.concatenate([one.values[name] for one in found]) for name in found[0].values},
        {name: _mean_of([(one.about[name], len(one.items)) for one in found]) for name in found[0].about},
    )
    report = RulesReport(
        tuple(one.to_dict() for one in rules.given), value, plain, kept, n_users, n_changed, n_unkept,
        n_groups / max(n_users, 1), rules.is_exact,
    )  # fmt: skip
    return together._replace(about={**together.about, "rules": report.to_dict()}), report


def _mean_of(parts: list[tuple[Any, int]]) -> Any:
    """Return a number about several frames, such as the clicks expected outside the model: the mean over users."""
    first, n_users = parts[0][0], sum(number for _, number in parts)
    if len(parts) == 1 or not n_users or not isinstance(first, float):
        return first
    return sum(value * number for value, number in parts) / n_users


AskForMore = Callable[[int, Bools], Lists]


def _with_floors(own: Lists, ask: AskForMore, every: Bools, k: int, rules: ReadRules, value: str) -> Lists:
    """Return more candidates: as many of each group as its floor."""
    for g in np.flatnonzero(rules.floor > 0).tolist():
        own = _with_more(own, ask, int(rules.floor[g]), every & _in_group(rules, g), value)
    return own


def _with_groups(own: Lists, ask: AskForMore, every: Bools, k: int, rules: ReadRules, value: str) -> Lists:
    """Return more candidates: the best k of each group and of the items without one, or just more."""
    if len(rules.names) > FEW_GROUPS:
        return _with_more(own, ask, min(len(every), MANY), every, value)
    for g in range(len(rules.names)):
        own = _with_more(own, ask, k, every & _in_group(rules, g), value)
    return _with_more(own, ask, k, every & (np.diff(rules.starts) == 0), value)


def _with_more(own: Lists, ask: AskForMore, number: int, mask: Bools, value: str) -> Lists:
    return merged(own, ask(number, mask), value) if mask.any() else own


def merged(one: Lists, other: Lists, value: str) -> Lists:
    """Return the items of both, each once, the highest value first."""
    items = np.concatenate([one.items, other.items], axis=1)
    values = {name: np.concatenate([of, other.values[name]], axis=1) for name, of in one.values.items()}
    by_item = np.argsort(items, axis=1, kind="stable")
    sorted_items = np.take_along_axis(items, by_item, axis=1)
    again = np.zeros(items.shape, np.bool_)
    again[:, 1:] = sorted_items[:, 1:] == sorted_items[:, :-1]
    twice = np.zeros(items.shape, np.bool_)
    np.put_along_axis(twice, by_item, again, axis=1)
    items = np.where(twice, -1, items)
    order = np.argsort(np.where(items >= 0, -values[value], np.inf), axis=1, kind="stable")
    most = int((items >= 0).sum(axis=1).max(initial=1))
    order = order[:, :most]
    return Lists(
        np.take_along_axis(items, order, axis=1),
        {name: np.take_along_axis(of, order, axis=1) for name, of in values.items()},
    )


def _in_group(rules: ReadRules, group: int) -> Bools:
    n_items = len(rules.starts) - 1
    owner = np.repeat(np.arange(n_items), np.diff(rules.starts))
    return np.bincount(owner[rules.numbers == group], minlength=n_items) > 0


def groups_in_lists(items: Ints, rules: ReadRules) -> Ints:
    """Return the number of groups, of the column of the first rules, in each list."""
    found = np.zeros(len(items), np.int64)
    _count_groups(items, rules.starts, rules.numbers, rules.column, found)
    return found


def choose(items: Ints, score: Floats, k: int, rules: ReadRules) -> tuple[Ints, Ints]:
    """Return the places of the chosen candidates, [user, k], and what is lacking in floors, groups and length.

    The last column of what is lacking shows whether an item that is no candidate might belong in the list.

    ``items`` and ``score`` are candidates, [user, candidate], the highest score first, -1 where there are fewer.
    """
    k = min(k, items.shape[1])
    chosen, lacking = np.full((len(items), k), -1, np.int64), np.zeros((len(items), 4), np.int64)
    _choose(
        np.ascontiguousarray(items), np.ascontiguousarray(score), rules.starts, rules.numbers, rules.column,
        rules.cap, rules.floor, rules.least, rules.worth, rules.is_there, not rules.is_exact, chosen, lacking,
    )  # fmt: skip
    return chosen, lacking


@numba.njit(cache=True, nogil=True)
def _count_groups(items, starts, numbers, column, found):
    seen = np.full(column.size, -1, np.int64)
    for u in range(items.shape[0]):
        for item in items[u]:
            if item < 0:
                continue
            for e in range(starts[item], starts[item + 1]):
                g = numbers[e]
                if column[g] == 0 and seen[g] != u:
                    seen[g] = u
                    found[u] += 1


@numba.njit(cache=True, nogil=True)
def _choose(items, score, starts, numbers, column, cap, floor, least, worth, is_there, swaps, chosen, lacking):
    """Choose greedily: what floors force, then the best items of new groups, then the best of all.

    With one column and at most one group per item each step is optimal: a list may as well hold the best items of a
    group as others, and the best new groups as others, so that what is left is a partition matroid.
    """
    n_users, n = items.shape
    k, n_groups, n_columns = chosen.shape[1], column.size, least.size
    count = np.zeros(n_groups, np.int64)
    different = np.zeros(n_columns, np.int64)
    taken = np.zeros(n, np.bool_)
    asked, grouped, most_worth = np.any(floor > 0), np.any(least > 0), worth.max()
    valued = most_worth > 0.0
    seen = np.full(n_groups, -1, np.int64)
    for u in range(n_users):
        count[:], different[:], taken[:] = 0, 0, False
        size = 0
        while size < n and items[u, size] >= 0:
            size += 1
        length = 0
        for phase in range(3):
            if (phase == 0 and not asked) or (phase == 1 and not grouped):
                continue
            while length < min(k, size):
                best, best_value = -1, -np.inf
                for i in range(size):
                    if taken[i]:
                        continue
                    if best >= 0 and not (valued and phase == 2):
                        break  # candidates come with the highest score first
                    item, value = items[u, i], score[u, i]
                    fits, wanted = True, phase == 2
                    for e in range(starts[item], starts[item + 1]):
                        g = numbers[e]
                        if count[g] >= cap[g]:
                            fits = False
                        if phase == 0 and count[g] < floor[g]:
                            wanted = True
                        if count[g] == 0:
                            value += worth[column[g]]
                            if phase == 1 and different[column[g]] < least[column[g]]:
                                wanted = True
                    if fits and wanted and value > best_value:
                        best, best_value = i, value
                if best < 0:
                    break
                taken[best] = True
                length += 1
                _add(items[u, best], 1, starts, numbers, column, count, different)
        if swaps:
            _swap(
                items[u], score[u], size, starts, numbers, column, cap, floor, least, worth, count, different, taken
            )
        chosen[u, :length] = np.flatnonzero(taken)
        lacking[u, 0] = np.maximum(floor - count, 0).sum()
        lacking[u, 1] = np.maximum(least - different, 0).sum()
        lacking[u, 2] = min(k, n) - length
        if valued and size:
            # A group that no candidate is in might be worth more than the least of the items that can go.
            least_score, n_seen = np.inf, 0
            for i in range(size):
                for e in range(starts[items[u, i]], starts[items[u, i] + 1]):
                    g = numbers[e]
                    n_seen += seen[g] != u and cap[g] > 0
                    seen[g] = u
                if taken[i] and score[u, i] < least_score:
                    can_go = True
                    for e in range(starts[items[u, i]], starts[items[u, i] + 1]):
                        can_go = can_go and count[numbers[e]] > 1
                    if can_go:
                        least_score = score[u, i]
            for g in range(n_groups if n_seen < k else 0):  # of k groups the best are among those seen
                if seen[g] != u and is_there[g] and cap[g] > 0 and score[u, size - 1] + most_worth > least_score:
                    lacking[u, 3] = 1


@numba.njit(cache=True, nogil=True)
def _add(item, change, starts, numbers, column, count, different):
    """Count the groups of an item that enters a list (``change`` 1) or leaves it (-1)."""
    for e in range(starts[item], starts[item + 1]):
        g = numbers[e]
        before = count[g] > 0
        count[g] += change
        different[column[g]] += int(count[g] > 0) - int(before)


@numba.njit(cache=True, nogil=True)
def _swap(items, score, size, starts, numbers, column, cap, floor, least, worth, count, different, taken):
    """Exchange one item for another as long as that raises the value and breaks no more rules."""
    for _ in range(MOST_SWAPS):
        best_gain, best_out, best_in = 1e-12, -1, -1
        for out in range(size):
            if not taken[out]:
                continue
            _add(items[out], -1, starts, numbers, column, count, different)
            loss = score[out]
            for e in range(starts[items[out]], starts[items[out] + 1]):
                loss += worth[column[numbers[e]]] if count[numbers[e]] == 0 else 0.0
            for i in range(size):
                if taken[i]:
                    continue
                gain, fits = score[i] - loss, True
                for e in range(starts[items[i]], starts[items[i] + 1]):
                    g = numbers[e]
                    fits = fits and count[g] < cap[g]
                    gain += worth[column[g]] if count[g] == 0 else 0.0
                if not fits or gain <= best_gain:
                    continue
                # What was kept before must be kept after, as far as it was.
                _add(items[i], 1, starts, numbers, column, count, different)
                for e in range(starts[items[out]], starts[items[out] + 1]):
                    g = numbers[e]
                    fits = fits and count[g] >= floor[g]
                    fits = fits and (count[g] > 0 or different[column[g]] >= least[column[g]])
                _add(items[i], -1, starts, numbers, column, count, different)
                if fits:
                    best_gain, best_out, best_in = gain, out, i
            _add(items[out], 1, starts, numbers, column, count, different)
        if best_out < 0:
            return
        for change, i in ((-1, best_out), (1, best_in)):
            taken[i] = change > 0
            _add(items[i], change, starts, numbers, column, count, different)
