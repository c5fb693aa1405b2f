"""The section "What changed": hits, lists, items and groups of a model beside those of the one before."""

from __future__ import annotations

from typing import Any

from bmcd.markup import Html, paragraphs, table, tag, title_tag
from bmcd.reporting.changes import Changes, GroupChange, HitChange, ListChange
from bmcd.reporting.page import Section, for_each_k
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import counted, group_word, in_100, percent
from bmcd.utils import and_list

MOST_ITEMS = 8


def section(results: Results) -> Section | None:
    """Return what changed since the model before; None without one."""
    changes = results.changes
    if changes is None:
        return None
    by_k = {change.k: change for change in changes.lists}

    def view(for_k: ResultsForK) -> list[Any]:
        if for_k.k not in by_k:
            return paragraphs("No user is known to both, so that lists cannot be compared.")
        return _of_lists(results, changes, by_k[for_k.k])

    body = [tag("p", _clicks(results, changes)), for_each_k(results, view), *_of_groups(results, changes)]
    return Section("changes", f"What changed since {changes.before}", body)


def _clicks(results: Results, changes: Changes) -> str:
    old, new = changes.clicks, results.clicks
    both = {word: (getattr(old, f"n_{word}"), getattr(new, f"n_{word}")) for word in ("users", "items", "clicks")}
    sizes = [f"{now:,} {word} ({before:,} before)" for word, (before, now) in both.items()]
    known, known_now = set(old.items.tolist()), set(new.items.tolist())
    came, gone = counted(len(known_now - known), "new item"), counted(len(known - known_now), "item")
    return f"For {changes.now} the model has learned from {and_list(sizes)}: {came}, {gone} gone."


def _of_lists(results: Results, changes: Changes, change: ListChange) -> list[Any]:
    texts = [
        f"Of the {change.k} items recommended to each of {counted(change.n_users, 'user')} that both know, "
        f"{change.in_common:.1f} are the same on average; {counted(change.n_same, 'user')} "
        f"({percent(change.n_same / change.n_users)}) get the same items as before."
    ]
    if change.hits is not None:
        texts.insert(0, _hits(changes, change.hits))
    tables = [
        _items(results, changes, of, f"Recommended to {word} of these users than before", sign)
        for of, word, sign in ((change.gained, "more", "+"), (change.lost, "fewer", "-"))
        if of
    ]
    return [*paragraphs(*texts), tag("div", tables, cls="beside")]


def _hits(changes: Changes, hits: HitChange) -> str:
    points = f"{100 * (hits.now - hits.before):+z.1f} points, {100 * hits.low:+z.1f} to {100 * hits.high:+z.1f}"
    clear = "a clear change" if hits.low > 0 or hits.high < 0 else "no clear change"
    return (
        f"Hits: {in_100(hits.now)} with {changes.now}, {in_100(hits.before)} with {changes.before} ({points}): "
        f"{clear}. Both are tested on the same {counted(hits.n_users, 'user')} and clicks, on items that both know."
    )


def _items(results: Results, changes: Changes, of: tuple[tuple[Any, int], ...], caption: str, sign: str) -> Html:
    titles = {item: changes.clicks.title_of(column) for column, item in enumerate(changes.clicks.items.tolist())}
    titles |= dict(zip(results.clicks.items.tolist(), results.titles, strict=True))
    rows = [(title_tag(titles[item]), f"{sign}{n:,}") for item, n in of[:MOST_ITEMS]]
    return table(("item", "users"), rows, caption=caption)


def _of_groups(results: Results, changes: Changes) -> list[Any]:
    if not changes.groups:
        return []
    word = group_word(results)
    rows = [_group_row(word, group) for group in changes.groups]
    text = f"Each {word} of {changes.now} beside the one of {changes.before} that is most like it:"
    heads = ("", "size", "most like, before", "its size", "best items in common")
    return [tag("h3", f"{word.capitalize()}s"), tag("p", text), table(heads, rows, cls="numbers")]


def _group_row(word: str, group: GroupChange) -> tuple[str, ...]:
    name, before = f"{word.capitalize()} {group.group}", f"{word} {group.before}"
    common = f"{group.n_common} of {group.n_best}"
    return (name, percent(group.share), before if group.n_common else "none", percent(group.share_before), common)
