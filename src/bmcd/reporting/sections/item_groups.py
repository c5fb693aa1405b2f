"""The section "Groups of items": what is shown, clicked and hit by group, and what rules for lists would cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from bmcd.evaluation.diversify import Diversity
from bmcd.evaluation.metrics import GroupMeasures, shares_of
from bmcd.markup import Html, json_script, paragraphs, short_title, table, tag
from bmcd.reporting.page import Section, for_each_k
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import percent, split

# How many columns of groups, and groups of each, are shown.
MOST_COLUMNS, MOST_GROUPS = 3, 20


def section(results: Results) -> Section | None:
    """Return a table for each column of groups, sliders for list rules, and how often a promise held."""
    if results.table is None or not results.table.groups:
        return None
    columns = list(results.table.groups)[:MOST_COLUMNS]

    def view(for_k: ResultsForK) -> list[Any]:
        parts: list[Any] = []
        shares = "Shares of all clicks and of all recommendations"
        if for_k.comparison is not None:
            shares += ", and of the clicks that followed; the hit rate is that of a group's recommendations"
        parts += paragraphs(f"{shares}.")
        for name in columns:
            parts += _shown(results, for_k, name)
        if for_k.comparison is not None:
            parts.append(tag("p", split(for_k), cls="note"))
        if for_k.candidates is not None:
            parts.append(_sliders(for_k, columns))
        return parts

    body: list[Any] = [for_each_k(results, view)]
    if results.diversity is not None:
        body += _promise(results.diversity)
    data = {str(for_k.k): _data(results, for_k, columns) for for_k in results.by_k if for_k.candidates is not None}
    return Section("item-groups", "Groups of items", [*body, json_script("rules", data)])


def _shown(results: Results, for_k: ResultsForK, name: str) -> list[Html]:
    """Return what is shown, clicked and hit by the groups of one column."""
    assert results.table is not None
    groups = results.table.groups[name]
    if for_k.comparison is not None and name in for_k.evaluation.by_group:
        found: GroupMeasures | None = for_k.evaluation.by_group[name]
        assert found is not None
        items, clicks, shown = found.items, found.clicks, found.shown
    else:
        found, share = None, shares_of(groups)
        items, clicks = np.ones(len(share)) @ share, results.clicks.per_item @ share
        exposed = for_k.lists.items[for_k.lists.items >= 0]
        shown = np.bincount(exposed, minlength=len(share)) @ share
    heads = ["group", "items", "clicked", "shown"]
    heads += ["clicked next", "hit rate"] if found is not None else []
    order = sorted(np.flatnonzero(items > 0).tolist(), key=lambda g: -shown[g])
    rows = []
    for g in order[:MOST_GROUPS]:
        label = short_title(groups.names[g]) if g < len(groups.names) else "(no group)"
        row = [
            tag("bdi", label),
            f"{items[g]:,.4g}",
            percent(clicks[g] / clicks.sum()),
            percent(shown[g] / max(shown.sum(), 1)),
        ]
        if found is not None:
            nexts = found.next_clicks
            row += [percent(nexts[g] / max(nexts.sum(), 1)), percent(found.hits[g] / shown[g]) if shown[g] else ""]
        rows.append(row)
    title = short_title(name)
    texts = []
    if found is not None:
        texts = [
            f"A list of {for_k.k} has items of {found.groups_per_list:.2f} groups on average. To match what users "
            f"clicked next, {percent(found.group_gap)} of the recommendations would have to be of other groups.",
        ]
    if len(order) > MOST_GROUPS:
        texts.append(f"The {MOST_GROUPS} groups shown most, of {len(order):,}.")
    return [tag("h3", title), table(heads, rows, cls="numbers"), *(tag("p", text, cls="note") for text in texts)]


def _sliders(for_k: ResultsForK, columns: list[str]) -> Html:
    """Return sliders for the rules of a list, whose price report.js works out."""
    k = for_k.k

    def slider(rule: str, label: str, least: int, most: int, value: int) -> Html:
        name = f"{rule}-{k}"
        return tag(
            "p",
            tag("label", label, for_=name),
            tag("input", type="range", id=name, min=least, max=most, step=1, value=value, data_rule=rule, data_k=k),
            tag("output", str(value), id=f"{name}-value", for_=name),
            cls="control slider",
        )

    choice = tag(
        "p",
        tag("label", "Groups: ", for_=f"column-{k}"),
        tag("select", [tag("option", short_title(name), value=place) for place, name in enumerate(columns)],
            id=f"column-{k}", data_rule="column", data_k=k),
        cls="control",
    )  # fmt: skip
    return tag(
        "div",
        tag("h3", "What rules for lists would cost"),
        choice,
        slider("most", "At most of a group: ", 1, k, k),
        slider("least", "At least groups: ", 1, k, 1),
        tag("p", "Move the sliders.", id=f"price-{k}", cls="answer", aria_live="polite"),
    )


def _data(results: Results, for_k: ResultsForK, columns: list[str]) -> dict[str, Any]:
    """Return the probabilities and groups of some users' best items, from which prices are worked out."""
    assert for_k.candidates is not None
    assert results.table is not None
    found, tables = for_k.candidates, [results.table.groups[name] for name in columns]
    of = [
        [one.numbers[one.starts[i] : one.starts[i + 1]].tolist() for i in range(len(one.starts) - 1)]
        for one in tables
    ]
    chances: list[list[int]] = []
    groups: list[list[list[list[int]]]] = [[] for _ in columns]
    for items, probability in zip(found.items.tolist(), found.values["probability"].tolist(), strict=True):
        # No list has more than k items of a group: the best k of each group of each column are enough.
        seen: list[dict[Any, int]] = [{} for _ in columns]
        kept = []
        for place, item in enumerate(items):
            useful = False
            for own, counts in zip(of, seen, strict=True):
                for group in own[item] or [None]:
                    counts[group] = counts.get(group, 0) + 1
                    useful |= counts[group] <= for_k.k
            if item >= 0 and useful:
                kept.append(place)
        chances.append([round(10_000 * probability[place]) for place in kept])
        for own, column in zip(of, groups, strict=True):
            column.append([own[items[place]] for place in kept])
    return {"p": chances, "groups": groups, "n": [len(one.names) for one in tables]}


def _promise(found: Diversity) -> list[Html]:
    """Return what `bmcd.diversify` chose, and how often its promise held."""
    plain, chosen = found.plain, found.chosen
    texts = [
        f"With the rules “{found.rules}” a list of {found.k} has {chosen.groups:.2f} groups instead of "
        f"{plain.groups:.2f}, and {chosen.hit_rate:.1%} of it is hit instead of {plain.hit_rate:.1%}. For other "
        f"users like these {found.n_users:,} it is at least {found.wanted:.1%}, with a confidence of "
        f"{percent(found.confidence)}.",
    ]
    parts = [tag("h3", "The most diverse lists that keep a hit rate"), *paragraphs(*texts)]
    if found.trials:
        share = (
            f"in {found.n_held} of {found.n_tried} windows of use"
            if found.n_tried
            else "in no window: none qualified"
        )
        parts += paragraphs(
            f"Back-test: rules chosen in one window of the log and used in the next one. The hit rate held {share}."
        )
        rows = [
            (one.used_in, f"{one.n_users:,}", "none qualified" if one.rules is None else str(one.rules),
             f"{one.groups:.2f}", f"{100 * one.hit_rate:.1f} ± {100 * one.standard_error:.1f} %",
             {True: "yes", False: "no", None: ""}[one.held])
            for one in found.trials
        ]  # fmt: skip
        parts.append(table(("used from", "users", "rules", "groups", "hit rate", "held"), rows, cls="numbers"))
    return parts
