"""Why the probability of an item is what it is: what each member contributes, and reasons in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.blend.dense import people_of
from bmcd.blend.features import Csr, Tables, rows_of
from bmcd.blend.fitting import Fitted, ask
from bmcd.blend.learning import n_running
from bmcd.clicks.log import Clicks
from bmcd.markup import paragraphs, table, tag

# A click counts as a reason if the item is this many times as frequent after or beside it as it is overall.
LEAST_LIFT = 1.5
# An item is trending if its share of the latest clicks is this many times that of all.
LEAST_TREND = 1.5
MOST_REASONS = 3
RECENT_CLICKS = 20


@dataclass(frozen=True)
class MemberContribution:
    """What one member of a blend contributes to a probability."""

    model: str
    factor: float
    """By how much it raises (above 1) or lowers the rate of the item, compared with the average candidate."""


@dataclass(frozen=True)
class BlendExplanation:
    """Why `probability` is what it is; `print` it."""

    user: Any
    item: Any
    title: str
    k: int
    """The number of next clicks that the probability refers to."""
    n_clicked: int
    probability: float
    mcse: float
    models: tuple[MemberContribution, ...]
    """The largest factor first. The factors multiply to the rate of the item."""
    reasons: tuple[str, ...]
    """In words: the user's clicks that the item follows or goes together with, and whether it is trending."""

    @property
    def short(self) -> str:
        """The first reason, or "" if there is no particular reason."""
        return self.reasons[0] if self.reasons else ""

    def _opening(self) -> list[str]:
        who = "Someone" if self.user is None else f"User {self.user}"
        what = self.title[:1].upper() + self.title[1:]
        clicks = "the next click" if self.k == 1 else f"the next {self.k} clicks"
        return [
            f"{what} is among {clicks} of {who[0].lower() + who[1:]} with probability {self.probability:.1%}.",
            f"{who} has {self.n_clicked} click{'' if self.n_clicked == 1 else 's'}.",
            *self.reasons,
        ]

    def __str__(self) -> str:
        lines = [f"- {m.model}: {m.factor:.2g} times the rate of the average candidate" for m in self.models]
        return "\n".join([*self._opening(), *lines])

    def _repr_html_(self) -> str:
        rows = [(m.model, f"{m.factor:.2g}") for m in self.models]
        return tag("div", paragraphs(*self._opening()), table(("member", "rate, times the average"), rows))


def contributions(fitted: Fitted, person: Clicks, histories: NDArray[np.int64], column: int, horizon: float) -> Any:
    """Return the factor of each member for an item of one user."""
    rule, tables = fitted.rule, fitted.tables
    people = people_of(person, person.sequence, histories) if fitted.dense.models else None
    asked = ask(tables, person.sequence, histories, fitted.dense, people)
    whole = tables._replace(head=np.union1d(tables.head, [column]).astype(np.int32))
    rows = rows_of(asked, whole, fitted.settings, rule.layout.columns, 1)
    z = rule.layout.z(n_running(person.sequence, histories, tables.known))[0]
    weights = rule.at(horizon) @ z
    place = np.flatnonzero(rows.item == column)
    parts: dict[str, float] = {}
    for member in dict.fromkeys(member for _, member in rule.layout.names):
        columns = [f for f, (_, of) in enumerate(rule.layout.names) if of == member]
        own = rows.x[:, columns].astype(np.float64) @ weights[columns]
        if len(place):
            parts[member] = float(np.exp(own[place[0]]) / np.exp(own).mean())
    found = [MemberContribution(_shown(member), factor) for member, factor in parts.items()]
    return tuple(sorted(found, key=lambda part: -part.factor))


def _shown(member: str) -> str:
    return "clicked before" if member == "repeats" else member


def reasons(fitted: Fitted, person: Clicks, histories: NDArray[np.int64], column: int) -> tuple[str, ...]:
    """Return in words why an item is probable for a user: what it follows, goes with, if it is trending."""
    tables, found = fitted.tables, []
    _, running, end = histories[0].tolist()
    latest = person.sequence[max(running, end - RECENT_CLICKS) : end]
    recent = list(dict.fromkeys(int(a) for a in latest[::-1] if a >= 0))
    if recent and (lift := _lift(tables.follows, recent[0], column, tables)) >= LEAST_LIFT:
        found.append(
            (lift, f"It often follows {person.title_of(recent[0])}, the last click ({lift:.1f} times its share).")
        )
    lifts = [
        (max(_lift(tables.follows_recent, a, column, tables), _lift(tables.goes_with, a, column, tables)), a)
        for a in recent[1 if found else 0 :]
    ]
    lifts = sorted((one for one in lifts if one[0] >= LEAST_LIFT), reverse=True)[:2]
    if lifts:
        names = " and ".join(person.title_of(a) for _, a in lifts)
        found.append(
            (lifts[0][0], f"It goes together with {names}, clicked before ({lifts[0][0]:.1f} times its share).")
        )
    if fitted.settings.half_lives:
        plain = tables.popularity[column, : tables.n_plain]
        trend = float(np.exp(plain[min(1, len(plain) - 1)] - plain[-1]))
        if trend >= LEAST_TREND:
            found.append((trend, f"It is trending: clicked {trend:.1f} times as much lately as before."))
    found.sort(key=lambda one: -one[0])
    texts = [text for _, text in found[:MOST_REASONS]]
    if not texts and tables.n_dense:
        rank = 1 + int((tables.popularity[:, 0] > tables.popularity[column, 0]).sum())
        if rank <= max(10, len(tables.share) // 10):
            texts.append(f"It is popular: number {rank} of {int(tables.known.sum()):,} items at present.")
    return tuple(texts)


def _lift(csr: Csr, a: int, column: int, tables: Tables) -> float:
    """Return how many times as frequent an item is after or beside another as it is overall."""
    begin, end = csr.start[a], csr.start[a + 1]
    place = begin + np.flatnonzero(csr.item[begin:end] == column)
    if not len(place) or csr.total[a] <= 0:
        return 0.0
    share = float(tables.share[column])
    return float((csr.value[place[0]] + 10.0 * share) / (csr.total[a] + 10.0) / share)


def shares_of(
    fitted: Fitted, people: Clicks, sequence: NDArray[np.int32], histories: NDArray[np.int64], k: int
) -> dict[str, float]:
    """Return the share of each member in the variance of the log rate, among the candidates of users.

    Each candidate counts as much as it is likely to be the next click; the shares sum to 1.
    """
    rule = fitted.rule
    some = people_of(people, sequence, histories) if fitted.dense.models else None
    asked = ask(fitted.tables, sequence, histories, fitted.dense, some)
    rows = rows_of(asked, fitted.tables, fitted.settings, rule.layout.columns)
    z = rule.layout.z(n_running(sequence, histories, fitted.tables.known))
    weights = z @ rule.at(k).T
    members = list(dict.fromkeys(member for _, member in rule.layout.names))
    total = dict.fromkeys(members, 0.0)
    for e in range(len(histories)):
        x = rows.x[rows.start[e] : rows.start[e + 1]].astype(np.float64)
        own = {
            name: x[:, columns] @ weights[e, columns]
            for name in members
            for columns in [[f for f, (_, of) in enumerate(rule.layout.names) if of == name]]
        }
        together = np.sum(list(own.values()), axis=0)
        if not len(together):
            continue
        chance = np.exp(together - together.max())
        chance /= chance.sum()
        apart = together - together @ chance
        for name in members:
            total[name] += float(((own[name] - own[name] @ chance) * apart * chance).sum())
    whole = sum(total.values())
    return {name: value / whole if whole > 0 else 1 / len(members) for name, value in total.items()}
