"""Items from the least to the most clicked: how often each is clicked, recommended and hit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bmcd.errors import InputError
from bmcd.plots.style import BLUE, GREY, ORANGE, Figure, by_name, label_axes, looks, panels, round_ticks, styled

if TYPE_CHECKING:
    from bmcd.evaluation import ItemCounts

MOST_PLACES = 60
"""The maximum number of hover areas in a panel; with more items, neighbours share one."""


@styled
def exposure(
    items: Mapping[str, ItemCounts] | ItemCounts,
    *,
    hits: bool = True,
    title: str | None = None,
    titles: Mapping[Any, str] | None = None,
    across: int = 2,
    most: int = 1,
) -> Figure:
    """Draw how often each item is recommended (light) and hit (dark), a panel for each method.

    Items are ordered from the least to the most clicked; the dashed line separates rare from popular ones. All
    panels share a square-root scale, so that a method with very popular items does not flatten the others; it ends
    at ``most`` recommendations or higher. ``titles``, by item, appear on hover only; ``across`` is the number of
    panels per row.

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
        _mark_rare(ax, n_items, counts.n_popular)
        ax.set_title(f"{name}: {int((counts.recommended > 0).sum()):,} of {n_items:,} items")
        for group in _groups(n_items):
            which = _numbers(group)
            if group.stop - group.start == 1:
                item = counts.item[group].tolist()[0]
                which = (titles or {}).get(item, f"item {item}")
            text = f"{name}, {which} ({_range(counts.clicks[group])} clicks): "
            text += f"recommended {int(counts.recommended[group].sum()):,} times"
            text += f", {int(counts.hits[group].sum()):,} hits" if hits else ""
            figure.tip(ax, text, (group.start, group.stop))
    most = max(most, *(int(counts.recommended.max()) for counts in by_method.values()), 1)
    for ax in axes:
        ax.set_yscale("function", functions=(lambda n: np.sqrt(np.maximum(n, 0)), np.square))
        ax.set_ylim(0, 1.05 * most)
        round_ticks(ax.yaxis, 4, integer=True)
    label_axes(figure, axes, "items, least to most clicked", "times recommended")
    return figure


@styled
def item_popularity(
    clicks: ArrayLike | Mapping[str, ArrayLike], n_popular: int, title: str | None = None, *, across: int = 2
) -> Figure:
    """Draw the clicks of each item, from the least to the most clicked; the last ``n_popular`` are popular.

    Pass a mapping of names to draw one panel per data set.

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
        _mark_rare(ax, len(counts), n_popular)
        ax.set_title(str(name))
        ax.legend(loc="upper left")
        ax.set_ylim(0, 1.05 * max(1, int(counts.max())))
        round_ticks(ax.yaxis, integer=True)
        for group in _groups(len(counts)):
            figure.tip(ax, f"{_numbers(group)}: {_range(counts[group])} clicks", (group.start, group.stop))
    label_axes(figure, axes, "items, least to most clicked", "clicks")
    return figure


def _mark_rare(ax: Any, n_items: int, n_popular: int) -> None:
    """Draw the line between rare and popular items, and set the horizontal axis."""
    if n_popular < n_items:
        ax.axvline(n_items - n_popular, color=GREY, linewidth=1, linestyle=(0, (3, 2)), label="rare | popular")
    ax.set_xlim(0, n_items)
    round_ticks(ax.xaxis, integer=True)
    ax.grid(axis="x", visible=False)


def _groups(n_items: int) -> Iterator[slice]:
    """Yield runs of neighbouring items that share a hover area."""
    size = -(-n_items // MOST_PLACES)
    return (slice(first, min(first + size, n_items)) for first in range(0, n_items, size))


def _numbers(group: slice) -> str:
    single = group.stop - group.start == 1
    return f"item {group.stop}" if single else f"items {group.start + 1} to {group.stop}"


def _range(values: Any) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
