"""Figures about items, from the least to the most clicked: how often they are clicked, recommended and hit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bmcd.errors import InputError
from bmcd.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    Figure,
    box_options,
    by_name,
    label_axes,
    looks,
    panels,
    round_ticks,
    styled,
    to_pandas,
)

if TYPE_CHECKING:
    from bmcd.evaluation import ItemCounts

# At most so many places of a panel can be pointed at; where there are more items, neighbours share one.
MOST_PLACES = 60


@styled
def exposure(
    items: Mapping[str, ItemCounts] | ItemCounts,
    *,
    hits: bool = True,
    title: str | None = None,
    titles: Mapping[Any, str] | None = None,
    across: int = 2,
) -> Figure:
    """Draw how often each item is recommended (light) and hit (dark), a panel for each method.

    Items stand from the least to the most clicked; the dashed line parts rare from popular ones. All panels have
    the same scale. ``titles``, by item, are only told to who points at an item, never drawn; ``across`` is how many
    panels stand beside each other.

    >>> from bmcd.evaluation import ItemCounts
    >>> counts = ItemCounts(np.array(["a", "b"]), np.array([1, 5]), np.array([2, 7]), np.array([0, 3]), n_popular=1)
    >>> figure = exposure({"BMCD": counts})
    >>> figure.axes[0].patches[0].get_data().values.tolist()
    [2, 7]
    """
    by_method = by_name(items, "ItemCounts", lambda thing: hasattr(thing, "recommended"))
    styles = looks(by_method)
    figure, axes = panels(len(by_method), title, across=across, height=2.3, sharex=True, sharey=True)
    for ax, (name, counts) in zip(axes, by_method.items(), strict=True):
        color, n_items = styles[name].color, len(counts.item)
        edges = np.arange(n_items + 1)
        ax.stairs(counts.recommended, edges, fill=True, facecolor=color, alpha=0.35, label="recommended")
        if hits:
            ax.stairs(counts.hits, edges, fill=True, facecolor=color, label="of these, hits")
        _part_rare(ax, n_items, counts.n_popular)
        ax.set_title(f"{name}: {int((counts.recommended > 0).sum()):,} of {n_items:,} items")
        for group in _groups(n_items):
            if group.stop - group.start == 1:
                item = counts.item[group].tolist()[0]
                which = (titles or {}).get(item, f"item {item}")
            else:
                which = _numbers(group)
            text = f"{name}, {which} ({_range(counts.clicks[group])} clicks): "
            text += f"recommended {int(counts.recommended[group].sum()):,} times"
            text += f", {int(counts.hits[group].sum()):,} hits" if hits else ""
            figure.tip(ax, text, (group.start, group.stop))
    for ax in axes:
        ax.set_ylim(0, 1.05 * max(1, *(int(counts.recommended.max()) for counts in by_method.values())))
        round_ticks(ax.yaxis, 4, integer=True)
    label_axes(figure, axes, "items, least to most clicked", "times recommended")
    return figure


@styled
def item_popularity(
    clicks: ArrayLike | Mapping[str, ArrayLike], n_popular: int, title: str | None = None, *, across: int = 2
) -> Figure:
    """Draw the clicks of each item, from the least to the most clicked, and mark the ``n_popular`` last as popular.

    Several data sets, by name, get a panel each.

    >>> figure = item_popularity([5, 1, 3], n_popular=1)
    >>> [patch.get_data().values.tolist() for patch in figure.axes[0].patches[:2]]
    [[1, 3], [5]]
    """
    by_data_set = clicks if isinstance(clicks, Mapping) else {"": clicks}
    figure, axes = panels(len(by_data_set), title, across=across, height=2.6)
    hatched = {"facecolor": ORANGE, "hatch": "//", "edgecolor": "white", "linewidth": 0}
    for ax, (name, values) in zip(axes, by_data_set.items(), strict=True):
        counts = np.sort(np.asarray(values).ravel())
        if not 1 <= n_popular <= len(counts):
            raise InputError(f"n_popular must be 1 to {len(counts)}, the number of items, but it is {n_popular}.")
        n_rare, edges = len(counts) - n_popular, np.arange(len(counts) + 1)
        if n_rare:
            ax.stairs(counts[:n_rare], edges[: n_rare + 1], fill=True, facecolor=BLUE, label=f"{n_rare:,} rare")
        ax.stairs(counts[n_rare:], edges[n_rare:], fill=True, label=f"{n_popular:,} popular", **hatched)
        _part_rare(ax, len(counts), n_popular)
        ax.set_title(str(name))
        ax.legend(loc="upper left")
        ax.set_ylim(0, 1.05 * max(1, int(counts.max())))
        round_ticks(ax.yaxis, integer=True)
        for group in _groups(len(counts)):
            figure.tip(ax, f"{_numbers(group)}: {_range(counts[group])} clicks", (group.start, group.stop))
    label_axes(figure, axes, "items, least to most clicked", "clicks")
    return figure


@styled
def rare_items(table: Any, title: str | None = None) -> Figure:
    """Draw how many rare items are recommended (left), and to how many users (right): boxes and dots over runs.

    ``table`` has a row for each run: method, n_rare, n_users_with_rare.

    >>> figure = rare_items({"method": ["BMCD", "BMCD"], "n_rare": [3, 5], "n_users_with_rare": [2, 4]})
    >>> [line.get_ydata().tolist() for line in figure.axes[0].get_lines() if line.get_label() == "runs"]
    [[3, 5]]
    """
    headings = {"n_rare": "recommendations of rare items", "n_users_with_rare": "users who get one"}
    frame = to_pandas(table, ("method", *headings))
    by_method = frame.groupby(frame["method"].astype(str), sort=False)
    styles = looks(by_method.groups)
    figure, axes = panels(2, title, height=3.0)
    for ax, (column, heading) in zip(axes, headings.items(), strict=True):
        for place, (method, rows) in enumerate(by_method):
            values, look = rows[column].to_numpy(), styles[method]
            spread = np.zeros(1)
            if len(values) > 1:
                boxes = box_options(look.color, look.color, facecolor=look.color, alpha=0.3, hatch=look.hatch)
                ax.boxplot(values, positions=[place], widths=0.55, **boxes)
                spread = np.linspace(-0.15, 0.15, len(values))
            ax.plot(place + spread, values, look.marker, color=look.color, markersize=4, label="runs")
        ax.set_xticks(range(len(styles)), list(styles), rotation=30 if len(styles) > 3 else 0)
        ax.set_xlim(-0.6, len(styles) - 0.4)
        ax.set_title(heading)
        # From 0, and with room for the largest: limits that matplotlib chose before must not cut it off.
        ax.set_ylim(0, 1.06 * max(float(frame[column].max()), 1.0))
        ax.grid(axis="x", visible=False)
        round_ticks(ax.yaxis, integer=True)
    return figure


def _part_rare(ax: Any, n_items: int, n_popular: int) -> None:
    """Draw the line between rare and popular items, and set the horizontal axis."""
    if n_popular < n_items:
        ax.axvline(n_items - n_popular, color=GREY, linewidth=1, linestyle=(0, (3, 2)), label="rare | popular")
    ax.set_xlim(0, n_items)
    round_ticks(ax.xaxis, integer=True)
    ax.grid(axis="x", visible=False)


def _groups(n_items: int) -> Iterator[slice]:
    """Yield runs of neighbouring items that share a place to point at."""
    size = -(-n_items // MOST_PLACES)
    return (slice(first, min(first + size, n_items)) for first in range(0, n_items, size))


def _numbers(group: slice) -> str:
    single = group.stop - group.start == 1
    return f"item {group.stop}" if single else f"items {group.start + 1} to {group.stop}"


def _range(values: Any) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
