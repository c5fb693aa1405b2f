"""Which items are clicked, shown and hit, from the least to the most popular."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bmcd.errors import InputError
from bmcd.evaluation.evaluate import ItemCounts
from bmcd.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    Figure,
    label_axes,
    looks,
    named,
    panels,
    round_ticks,
    styled,
    table_of,
)

# How many places of a panel can be pointed at: items beside each other share one where there are more.
PLACES = 60


@styled
def exposure(
    items: Mapping[str, ItemCounts] | ItemCounts,
    *,
    hits: bool = True,
    title: str | None = None,
    titles: Mapping[Any, str] | None = None,
    across: int = 2,
) -> Figure:
    """How often each item is recommended (light), and how often that is a hit (dark), a panel for each method.

    Items stand from the least to the most clicked; the line parts rare from popular ones. All panels have the same
    axis. ``titles``, by item, are only said when a place is pointed at, never drawn; ``across`` is how many panels
    stand beside each other.

    >>> found = ItemCounts(np.array(["a", "b"]), np.array([1, 5]), np.array([2, 7]), np.array([0, 3]), n_popular=1)
    >>> figure = exposure({"BMCD": found})
    >>> figure.axes[0].patches[0].get_data().values.tolist()
    [2, 7]
    """
    given = named(items, "BMCD", ItemCounts)
    styles = looks(given)
    figure, axes = panels(len(given), title, across=across, height=2.3, sharex=True, sharey=True)
    for ax, (name, one) in zip(axes, given.items(), strict=True):
        look = styles[name]
        edges = np.arange(len(one.item) + 1)
        ax.stairs(one.recommended, edges, fill=True, facecolor=look.color, alpha=0.35, label="recommended")
        if hits:
            ax.stairs(one.hits, edges, fill=True, facecolor=look.color, label="of these, hits")
        _part_rare(ax, len(one.item), one.n_popular)
        shown = int((one.recommended > 0).sum())
        ax.set_title(f"{name}: {shown:,} of {len(one.item):,} items", fontsize=10)
        _say_items(figure, ax, name, one, titles or {}, hits)
    for ax in axes:
        ax.set_ylim(0, 1.05 * max(1, *(int(one.recommended.max()) for one in given.values())))
        round_ticks(ax.yaxis, 4, integer=True)
    label_axes(figure, axes, "items, least to most clicked", "times recommended")
    return figure


@styled
def item_popularity(
    clicks: ArrayLike | Mapping[str, ArrayLike], n_popular: int, title: str | None = None, *, across: int = 2
) -> Figure:
    """Clicks of each item, from the least to the most clicked; the ``n_popular`` last are marked as popular.

    Several data sets, by name, get a panel each.

    >>> figure = item_popularity([5, 1, 3], n_popular=1)
    >>> [patch.get_data().values.tolist() for patch in figure.axes[0].patches[:2]]
    [[1, 3], [5]]
    """
    given = {str(n): c for n, c in clicks.items()} if isinstance(clicks, Mapping) else {"": clicks}
    figure, axes = panels(len(given), title, across=across, height=2.6)
    for ax, (name, values) in zip(axes, given.items(), strict=True):
        counts = np.sort(np.asarray(values).ravel())
        if not 1 <= n_popular <= len(counts):
            raise InputError(f"n_popular must be 1 to {len(counts)}, the number of items, but it is {n_popular}.")
        n_rare = len(counts) - n_popular
        ax.stairs(
            counts[:n_rare], np.arange(n_rare + 1), fill=True, facecolor=BLUE, label=f"{n_rare:,} rare"
        ) if n_rare else None
        ax.stairs(
            counts[n_rare:],
            np.arange(n_rare, len(counts) + 1),
            fill=True,
            facecolor=ORANGE,
            hatch="//",
            edgecolor="white",
            linewidth=0,
            label=f"{n_popular:,} popular",
        )
        _part_rare(ax, len(counts), n_popular)
        ax.set_title(name) if name else None
        ax.legend(loc="upper left")
        ax.set_ylim(0, 1.05 * max(1, int(counts.max())))
        round_ticks(ax.yaxis, integer=True)
        group = -(-len(counts) // PLACES)
        for first in range(0, len(counts), group):
            some = counts[first : first + group]
            figure.tip(ax, f"{_which(first, len(some))}: {_range(some)} clicks", (first, first + len(some)))
    label_axes(figure, axes, "items, least to most clicked", "clicks")
    return figure


@styled
def rare_items(table: Any, title: str | None = None) -> Figure:
    """How many rare items are recommended (left), and to how many users (right): boxes and dots over runs.

    ``table`` has a row for each run: method, n_rare, n_users_with_rare.

    >>> figure = rare_items({"method": ["BMCD", "BMCD"], "n_rare": [3, 5], "n_users_with_rare": [2, 4]})
    >>> [line.get_ydata().tolist() for line in figure.axes[0].get_lines() if line.get_label() == "runs"]
    [[3, 5]]
    """
    frame = table_of(table, ("method", "n_rare", "n_users_with_rare"))
    methods = list(dict.fromkeys(frame["method"].astype(str)))
    styles = looks(methods)
    figure, axes = panels(2, title, height=3.0)
    for ax, column, label in zip(
        axes,
        ("n_rare", "n_users_with_rare"),
        ("recommendations of rare items", "users who get one"),
        strict=True,
    ):
        for at, method in enumerate(methods):
            values = frame.loc[frame["method"].astype(str) == method, column].to_numpy()
            look = styles[method]
            if len(values) > 1:
                ax.boxplot(
                    values,
                    positions=[at],
                    widths=0.55,
                    showfliers=False,
                    patch_artist=True,
                    manage_ticks=False,
                    boxprops={"facecolor": look.color, "alpha": 0.3, "hatch": look.hatch, "edgecolor": look.color},
                    medianprops={"color": look.color},
                    whiskerprops={"color": look.color},
                    capprops={"color": look.color},
                )
            spread = np.linspace(-0.15, 0.15, len(values)) if len(values) > 1 else np.zeros(1)
            ax.plot(at + spread, values, look.marker, color=look.color, markersize=4, label="runs")
        ax.set_xticks(range(len(methods)), methods, rotation=30 if len(methods) > 3 else 0)
        ax.set_xlim(-0.6, len(methods) - 0.4)
        ax.set_title(label)
        # From 0, and with room for the largest: limits that matplotlib chose before must not cut it off.
        ax.set_ylim(0, 1.06 * max(float(frame[column].max()), 1.0))
        ax.grid(axis="x", visible=False)
        round_ticks(ax.yaxis, integer=True)
    return figure


def _part_rare(ax: Any, n_items: int, n_popular: int) -> None:
    """A line between rare and popular items, and room to the sides."""
    if n_popular < n_items:
        ax.axvline(n_items - n_popular, color=GREY, linewidth=1, linestyle=(0, (3, 2)), label="rare | popular")
    ax.set_xlim(0, n_items)
    round_ticks(ax.xaxis, integer=True)
    ax.grid(axis="x", visible=False)


def _say_items(figure: Figure, ax: Any, name: str, one: ItemCounts, titles: Mapping[Any, str], hits: bool) -> None:
    ids = one.item.tolist()
    group = -(-len(ids) // PLACES)
    for first in range(0, len(ids), group):
        part = slice(first, first + group)
        own = ids[part]
        if len(own) == 1:
            called = titles.get(own[0], f"item {own[0]}")
            what = f"{called} ({one.clicks[first]:,} clicks)"
        else:
            what = f"{_which(first, len(own))} ({_range(one.clicks[part])} clicks)"
        said = f"{name}, {what}: recommended {int(one.recommended[part].sum()):,} times"
        said += f", {int(one.hits[part].sum()):,} hits" if hits else ""
        figure.tip(ax, said, (first, first + len(own)))


def _which(first: int, n: int) -> str:
    return f"item {first + 1}" if n == 1 else f"items {first + 1} to {first + n}"


def _range(values: Any) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
