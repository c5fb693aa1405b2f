"""Figures about chains: their traces, the ranks of their draws, and the clicks that they predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.errors import InputError
from bmcd.plots.style import (
    BLACK,
    BLUE,
    Figure,
    error_bars,
    label_axes,
    looks,
    new_figure,
    panels,
    round_ticks,
    styled,
)

# Bars of a rank plot: as many as leave each about so many draws of a chain, within these bounds.
DRAWS_IN_A_BAR, LEAST_BINS, MOST_BINS = 10, 4, 20


@styled
def traces(quantities: Any, variables: Sequence[str] = ("alpha",), *, title: str | None = None) -> Figure:
    """Draw quantities draw by draw: a panel for each, a line for each chain. Chains that agree lie on each other.

    ``quantities`` are arrays [chain, draw] by name, or what `to_arviz` of a model gives, of which ``variables``
    are then drawn, a panel for each cluster.

    >>> figure = traces({"alpha 1": np.ones((2, 5)), "alpha 2": np.ones((2, 5))})
    >>> len(figure.axes), len(figure.axes[0].get_lines())
    (2, 2)
    """
    found = _by_name(quantities, variables)
    figure, axes = panels(len(found), title, height=2.3)
    for ax, (name, values) in zip(axes, found.items(), strict=True):
        for chain, (label, look) in zip(values, _chains(values).items(), strict=True):
            style: Any = {"color": look.color, "linestyle": look.line, "linewidth": 0.8, "alpha": 0.85}
            ax.plot(np.arange(1, len(chain) + 1), chain, label=label, **style)
        ax.set_title(name)
        round_ticks(ax.xaxis, integer=True)
        round_ticks(ax.yaxis, 4)
    label_axes(figure, axes, "draw", "value")
    _legend(figure, axes)
    return figure


@styled
def rank_histograms(quantities: Any, variables: Sequence[str] = ("alpha",), *, title: str | None = None) -> Figure:
    """Draw how the draws of each chain rank among those of all chains: flat where chains agree.

    See Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021). ``quantities`` and ``variables`` are as in `traces`.
    The dashed line is where all bars stand if the chains agree, but for chance.

    >>> same, apart = np.tile(np.arange(40.0), (2, 1)), np.arange(80.0).reshape(2, 40)
    >>> figure = rank_histograms({"agree": same, "differ": apart})
    >>> [len(ax.get_lines()) for ax in figure.axes]
    [3, 3]
    """
    found = _by_name(quantities, variables)
    figure, axes = panels(len(found), title, height=2.3)
    for ax, (name, values) in zip(axes, found.items(), strict=True):
        counts = _rank_counts(values)
        for row, (label, look) in zip(counts, _chains(values).items(), strict=True):
            edges = np.linspace(0.0, 1.0, row.size + 1)
            ax.stairs(row, edges, color=look.color, linestyle=look.line, linewidth=1.2)
            ax.plot([], [], color=look.color, linestyle=look.line, label=label)  # for the legend
        ax.axhline(counts.mean(), color=BLACK, linestyle=(0, (4, 3)), linewidth=1.0, label="if they agree")
        ax.set_ylim(bottom=0.0)
        ax.set_title(name)
        round_ticks(ax.yaxis, 4, integer=True)
    label_axes(figure, axes, "rank among all draws, as a share", "draws")
    _legend(figure, axes)
    return figure


@styled
def predicted_counts(
    observed: ArrayLike,
    replicated: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    most: int = 25,
    title: str | None = None,
) -> Figure:
    """Draw how often items were clicked, and the range in which 90 % of the replicated counts lie.

    ``observed`` is [item]; ``replicated`` is [..., item], such as clicks_per_item of ``observed_data`` and of
    ``posterior_predictive`` of `to_arviz`. The ``most`` clicked items are shown, the first on top.

    >>> figure = predicted_counts([30, 20, 5], [[28, 22, 4], [33, 19, 6]], names=["a", "b", "c"])
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['a', 'b', 'c']
    """
    seen = np.asarray(observed, dtype=np.float64)
    drawn = np.asarray(replicated, dtype=np.float64)
    if seen.ndim != 1 or not seen.size or drawn.ndim < 2 or drawn.shape[-1] != seen.size:
        raise InputError(f"observed must be [item] and replicated [..., item]: {seen.shape} and {drawn.shape}.")
    labels = [f"item {i}" for i in range(seen.size)] if names is None else [str(name) for name in names]
    order = np.argsort(-seen, kind="stable")[: max(most, 1)]
    low, middle, high = np.percentile(drawn.reshape(-1, seen.size), (5, 50, 95), axis=0)[:, order]
    rows = np.arange(order.size)
    figure = new_figure(height=1.1 + 0.22 * order.size, title=title)
    ax = figure.subplots()
    bars = error_bars(middle, low, high)
    ax.errorbar(middle, rows, xerr=bars, fmt="|", color=BLUE, capsize=2.5, label="predicted, 90 % of the draws")
    ax.plot(seen[order], rows, "o", color=BLACK, markersize=4, label="clicked")
    for row, i in enumerate(order):
        figure.tip(ax, f"{labels[i]}: {seen[i]:,.0f} clicks", float(seen[i]), row)
    ax.set_yticks(rows, [labels[i] for i in order])
    ax.invert_yaxis()
    ax.set_xlabel("users who clicked the item")
    round_ticks(ax.xaxis, integer=True)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _by_name(quantities: Any, variables: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return arrays [chain, draw] by the title of their panel."""
    found: dict[str, Any] = {}
    if hasattr(quantities, "posterior"):
        for name in variables:
            values = quantities.posterior[name]
            if values.ndim == 2:
                found[name] = values.values
            elif values.ndim == 3:
                found |= {
                    f"{name} {at}": values.values[:, :, i] for i, at in enumerate(values[values.dims[2]].values)
                }
            else:
                raise InputError(f"{name} has dimensions {values.dims}: a panel shows one number for each draw.")
    elif isinstance(quantities, Mapping):
        found = dict(quantities)
    arrays = {str(name): np.asarray(values, dtype=np.float64) for name, values in found.items()}
    if not arrays or any(values.ndim != 2 or not values.size for values in arrays.values()):
        raise InputError("quantities must be arrays [chain, draw] by name, or what to_arviz gives.")
    return arrays


def _chains(values: NDArray[np.float64]) -> dict[str, Any]:
    return looks([f"chain {chain + 1}" for chain in range(len(values))])


def _rank_counts(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many draws of each chain fall into each part of the ranks; ties have their mean rank.

    >>> _rank_counts(np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])).tolist()
    [[2, 2, 0, 0], [0, 0, 2, 2]]
    """
    from scipy.stats import rankdata

    n_bins = int(np.clip(values.shape[1] // DRAWS_IN_A_BAR, LEAST_BINS, MOST_BINS))
    share = (rankdata(values).reshape(values.shape) - 0.5) / values.size
    place = np.minimum((share * n_bins).astype(np.int64), n_bins - 1)
    return np.array([np.bincount(row, minlength=n_bins) for row in place])


def _legend(figure: Figure, axes: list[Any]) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)))
