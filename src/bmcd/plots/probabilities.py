"""Calibration of probabilities, and the effect of cut-offs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bmcd.models.cutoffs import wilson
from bmcd.plots import style
from bmcd.plots.style import Figure, Look, styled

if TYPE_CHECKING:
    from bmcd.evaluation import Calibration

    Calibrations: TypeAlias = Calibration | Mapping[str, Calibration]

STEP = 0.01
"""The distance between two cut-offs."""
LEAST_KEPT = 5
"""The hit rate of fewer recommendations than this is not drawn: it is mostly noise."""


@styled
def calibration(
    calibration: Calibrations, *, rivals: Mapping[str, float] | None = None, title: str | None = None
) -> Figure:
    """Draw hit rate against probability, bin by bin, with Wilson's 95 % intervals; below, the number in each bin.

    Above the diagonal the probabilities are too low (cautious), below it too high. ``rivals`` are the accuracies
    of methods without probabilities, drawn as lines. Pass a mapping of names to draw several calibrations.

    >>> from bmcd.evaluation import Calibration
    >>> binned = Calibration.of([0.1, 0.1, 0.3, 0.3], [False, False, True, False], bin_width=0.1)
    >>> figure = calibration(binned, rivals={"EASE": 0.25})
    >>> figure.axes[0].get_legend_handles_labels()[1]
    ['as predicted', 'EASE: 25.0 %', 'BMCD, 95 % intervals']
    >>> figure.savefig("calibration.svg")
    """
    by_method = _calibrations(calibration)
    styles = style.looks([*by_method, *(rivals or {})])
    figure = style.new_figure(height=4.5, title=title)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    last_x = min(1.0, max(float(each.upper.max()) for each in by_method.values()))
    heights = [last_x, *(rivals or {}).values()]
    above.plot([0, 1], [0, 1], color=style.GREY, linewidth=1, linestyle=(0, (4, 3)), label="as predicted")
    _draw_rivals(above, rivals, styles)
    for place, (name, bins) in enumerate(by_method.items()):
        look, rate, n = styles[name], bins.bin_hit_rate, bins.bin_n
        shift = (place - (len(by_method) - 1) / 2) * bins.bin_width * 0.2
        low, high = wilson(np.round(rate * n), n)
        points: Any = {"fmt": look.marker, "color": look.color, "markeredgecolor": "white", "markeredgewidth": 0.5}
        points |= {"yerr": style.error_bars(rate, low, high), "elinewidth": 1.2, "label": f"{name}, 95 % intervals"}
        above.errorbar(bins.bin_probability + shift, rate, **points)
        width = bins.bin_width * 0.85 / len(by_method)
        middle = (bins.lower + bins.upper) / 2 + (place - (len(by_method) - 1) / 2) * width
        below.bar(middle, n, width=width, color=look.color, hatch=look.hatch, alpha=0.75)
        heights += [float(high[n >= LEAST_KEPT].max(initial=0)), float(rate.max())]
        for i in range(len(n) if len(by_method) == 1 else 0):
            text = (
                f"Probability {bins.lower[i]:.0%} to {bins.upper[i]:.0%}: {n[i]:,} recommendations, "
                f"{round(float(rate[i] * n[i])):,} hits ({rate[i]:.1%}; 95 % interval {low[i]:.1%} to "
                f"{high[i]:.1%}), {bins.bin_probability[i]:.1%} predicted"
            )
            figure.tip(above, text, float(bins.bin_probability[i]), float(rate[i]))
    above.set(xlim=(0, last_x * 1.02), ylim=(0, min(1.03, 1.05 * max(heights))), ylabel="share that were hits")
    below.set(xlabel="predicted probability", ylabel="number")
    for axis in (above.xaxis, above.yaxis):
        style.round_ticks(axis, share=True)
    style.round_ticks(below.yaxis, 2, integer=True)
    style.legend_below(figure, above)
    figure.align_ylabels()
    return figure


@styled
def cutoff_curve(
    calibration: Calibrations, *, rivals: Mapping[str, float] | None = None, title: str | None = None
) -> Figure:
    """Draw the effect of cut-offs: the hit rate of the recommendations kept (left), and their number (right).

    The band is Wilson's 95 % interval. Hit rates of fewer than 5 recommendations are not drawn. ``rivals`` are the
    accuracies of methods without probabilities, drawn as lines.

    >>> from bmcd.evaluation import Calibration
    >>> figure = cutoff_curve(Calibration.of([0.12, 0.2, 0.3, 0.3] * 5, [False, False, True, False] * 5))
    >>> figure.axes[1].get_lines()[0].get_ydata()[[0, -1]].tolist()
    [20, 10]
    """
    tables = {name: _cutoff_table(given) for name, given in _calibrations(calibration).items()}
    styles = style.looks([*tables, *(rivals or {})])
    figure = style.new_figure(height=3.7, title=title)
    left = figure.subplots()
    right = left.twinx()
    _draw_rivals(left, rivals, styles)
    heights = [0.0, *(rivals or {}).values()]
    for name, table in tables.items():
        look = styles[name]
        enough = table[table["n"] >= min(LEAST_KEPT, table["n"].max())]
        low, high = wilson(np.round(enough["accuracy"] * enough["n"]), enough["n"])
        left.fill_between(enough["cutoff"], low, high, color=look.color, alpha=0.18, linewidth=0)
        rates = (enough["cutoff"], enough["accuracy"])
        left.plot(*rates, color=look.color, linestyle=look.line, label=f"{name}: hit rate")
        alone = len(tables) == 1
        label, color = ("number kept", style.GREY) if alone else (f"{name}: number kept", look.color)
        dashes: Any = {"linewidth": 1.2, "linestyle": (0, (2, 1.5))}
        right.step(table["cutoff"], table["n"], where="pre", color=color, label=label, **dashes)
        heights.append(float(high.max()))
        for row in table.itertuples() if alone else ():
            kept = f"{row.n:,} recommendations kept ({row.share:.1%}), {row.accuracy:.1%} hits"
            figure.tip(left, f"From {row.cutoff:.0%} on: {kept}", (row.cutoff - STEP / 2, row.cutoff + STEP / 2))
    left.set(xlabel="least probability that is recommended", ylabel="share that were hits")
    left.set_ylim(0, min(1.03, 1.08 * max(heights)))
    right.set_ylabel("recommendations kept")
    right.set_ylim(bottom=0)
    right.grid(False)
    right.spines["right"].set_visible(True)
    for axis in (left.xaxis, left.yaxis):
        style.round_ticks(axis, share=True)
    style.round_ticks(right.yaxis, integer=True)
    style.legend_below(figure, left, right)
    return figure


def _calibrations(given: Any) -> dict[str, Any]:
    return style.by_name(given, "a Calibration", lambda thing: hasattr(thing, "cutoff_table"))


def _draw_rivals(ax: Any, rivals: Mapping[str, float] | None, styles: Mapping[str, Look]) -> None:
    """Draw the accuracies of methods without probabilities as horizontal lines."""
    for name, accuracy in (rivals or {}).items():
        color, line = styles[name].color, styles[name].line
        dashes = line if line != "-" else "--"
        ax.axhline(
            accuracy, color=color, linestyle=dashes, linewidth=1.3, label=f"{name}: {style.percent(accuracy)}"
        )


def _cutoff_table(calibration: Calibration) -> Any:
    """Return the table of cut-offs, 0.01 apart, from the last that keeps all to the last that keeps any."""
    steps = round(1 / STEP)
    grid = np.arange(steps + 1) / steps
    probability = calibration.probability
    first, last = np.searchsorted(grid, (probability.min(), probability.max()), side="right")
    return calibration.cutoff_table(grid[first - 1 : last])
