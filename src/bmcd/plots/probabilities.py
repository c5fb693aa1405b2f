"""Figures about probabilities: are they right, and what does a cut-off gain?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmcd.arrays import Floats
from bmcd.models.cutoffs import wilson
from bmcd.plots.style import (
    GREY,
    Figure,
    Look,
    by_name,
    error_bars,
    looks,
    new_figure,
    percent,
    round_ticks,
    styled,
)

if TYPE_CHECKING:
    from bmcd.evaluation import Calibration

    # What `Calibration.to_dict` wrote can stand for a calibration.
    CalibrationLike: TypeAlias = Calibration | Mapping[str, Any]


# Cut-offs are tried this far apart.
STEP = 0.01
# The hit rate of fewer recommendations than this is not drawn: it may be anything.
LEAST_KEPT = 5


class Bins(NamedTuple):
    """The bins of a calibration, and Wilson's interval of each hit rate, from ``low`` to ``high``."""

    width: float
    lower: Floats
    upper: Floats
    n: NDArray[np.int64]
    probability: Floats
    hit_rate: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, calibration: CalibrationLike) -> Bins:
        """Return the bins of a calibration, or of its `to_dict`."""
        numbers = calibration if isinstance(calibration, Mapping) else calibration.to_dict()
        names = ("lower", "upper", "n", "probability", "hit_rate")
        columns = {name: np.array([row[name] for row in numbers["bins"]]) for name in names}
        low, high = wilson(np.round(columns["hit_rate"] * columns["n"]), columns["n"])
        return cls(numbers["bin_width"], **columns, low=low, high=high)


@styled
def calibration(
    calibration: CalibrationLike, *, rivals: Mapping[str, float] | None = None, title: str | None = None
) -> Figure:
    """Draw hit rate against probability, bin by bin, with Wilson's 95 % intervals; below, how many there were.

    Above the diagonal the probabilities are too low (cautious), below it too high. ``rivals`` are the accuracies
    of methods without probabilities, drawn as lines. Several calibrations, by name, go into one figure. What
    `Calibration.to_dict` wrote can stand for a calibration.

    >>> from bmcd.evaluation import Calibration
    >>> binned = Calibration.of([0.1, 0.1, 0.3, 0.3], [False, False, True, False], bin_width=0.1)
    >>> figure = calibration(binned, rivals={"EASE": 0.25})
    >>> figure.axes[0].get_legend_handles_labels()[1]
    ['as predicted', 'EASE: 25.0 %', 'BMCD, 95 % intervals']
    >>> figure.savefig("calibration.svg")
    """
    by_method = {name: Bins.of(given) for name, given in _calibrations(calibration).items()}
    styles = looks([*by_method, *(rivals or {})])
    figure = new_figure(height=4.5, title=title)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    last_x = min(1.0, max(float(bins.upper.max()) for bins in by_method.values()))
    heights = [last_x, *(rivals or {}).values()]
    above.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)), label="as predicted")
    _draw_rivals(above, rivals, styles)
    for place, (name, bins) in enumerate(by_method.items()):
        look = styles[name]
        shift = (place - (len(by_method) - 1) / 2) * bins.width * 0.2
        bars = error_bars(bins.hit_rate, bins.low, bins.high)
        points: Any = {"fmt": look.marker, "color": look.color, "markeredgecolor": "white", "markeredgewidth": 0.5}
        label = f"{name}, 95 % intervals"
        above.errorbar(bins.probability + shift, bins.hit_rate, yerr=bars, elinewidth=1.2, label=label, **points)
        middle, width = (bins.lower + bins.upper) / 2 + shift, bins.width * 0.85 / len(by_method)
        below.bar(middle, bins.n, width=width, color=look.color, hatch=look.hatch, alpha=0.75)
        heights += [float(bins.high[bins.n >= LEAST_KEPT].max(initial=0)), float(bins.hit_rate.max())]
        if len(by_method) == 1:
            _add_bin_tips(figure, above, bins)
    above.set(xlim=(0, last_x * 1.02), ylim=(0, min(1.03, 1.05 * max(heights))), ylabel="share that were hits")
    below.set(xlabel="probability given", ylabel="how many")
    for axis in (above.xaxis, above.yaxis):
        round_ticks(axis, share=True)
    round_ticks(below.yaxis, 2, integer=True)
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    figure.align_ylabels()
    return figure


@styled
def cutoff_curve(
    calibration: CalibrationLike, *, rivals: Mapping[str, float] | None = None, title: str | None = None
) -> Figure:
    """Draw what a cut-off gains: the hit rate of the recommendations kept (left), and how many they are (right).

    The band is Wilson's 95 % interval. Hit rates of fewer than 5 recommendations are not drawn. ``rivals`` are
    accuracies of methods that cannot choose, drawn as lines. `Calibration.to_dict` can stand for a calibration.

    >>> from bmcd.evaluation import Calibration
    >>> figure = cutoff_curve(Calibration.of([0.12, 0.2, 0.3, 0.3] * 5, [False, False, True, False] * 5))
    >>> figure.axes[1].get_lines()[0].get_ydata()[[0, -1]].tolist()
    [20, 10]
    """
    tables = {name: _cutoff_table(given) for name, given in _calibrations(calibration).items()}
    styles = looks([*tables, *(rivals or {})])
    figure = new_figure(height=3.7, title=title)
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
        label, color = ("how many are kept", GREY) if alone else (f"{name}: how many", look.color)
        dashes: Any = {"linewidth": 1.2, "linestyle": (0, (2, 1.5))}
        right.step(table["cutoff"], table["n"], where="pre", color=color, label=label, **dashes)
        heights.append(float(high.max()))
        if alone:
            _add_cutoff_tips(figure, left, table)
    left.set(xlabel="least probability that is recommended", ylabel="share that were hits")
    left.set_ylim(0, min(1.03, 1.08 * max(heights)))
    right.set_ylabel("recommendations kept")
    right.set_ylim(bottom=0)
    right.grid(False)
    right.spines["right"].set_visible(True)
    for axis in (left.xaxis, left.yaxis):
        round_ticks(axis, share=True)
    round_ticks(right.yaxis, integer=True)
    entries = [entry for ax in (left, right) for entry in zip(*ax.get_legend_handles_labels(), strict=True)]
    figure.legend(*zip(*entries, strict=True), loc="outside lower left", ncols=2)
    return figure


def _calibrations(given: Any) -> dict[str, Any]:
    def is_calibration(thing: Any) -> bool:
        return "bins" in thing if isinstance(thing, Mapping) else hasattr(thing, "cutoff_table")

    return by_name(given, "a Calibration, or what its to_dict wrote", is_calibration)


def _draw_rivals(ax: Any, rivals: Mapping[str, float] | None, styles: Mapping[str, Look]) -> None:
    """Draw the accuracies of methods without probabilities as horizontal lines."""
    for name, accuracy in (rivals or {}).items():
        color, line = styles[name].color, styles[name].line
        dashes = line if line != "-" else "--"
        ax.axhline(accuracy, color=color, linestyle=dashes, linewidth=1.3, label=f"{name}: {percent(accuracy)}")


def _cutoff_table(calibration: CalibrationLike) -> Any:
    """Return the table of cut-offs: of a dict the cut-offs it has; else 0.01 apart, as far as anything is kept."""
    import pandas as pd

    if isinstance(calibration, Mapping):
        table = pd.DataFrame(calibration["cutoffs"])
        return table[table["n"] > 0].astype({"accuracy": float})
    steps = round(1 / STEP)
    grid = np.arange(steps + 1) / steps
    probability = calibration.probability
    first, last = np.searchsorted(grid, (probability.min(), probability.max()), side="right")
    return calibration.cutoff_table(grid[first - 1 : last])


def _add_bin_tips(figure: Figure, ax: Any, bins: Bins) -> None:
    for i in range(len(bins.n)):
        text = (
            f"Probability {bins.lower[i]:.0%} to {bins.upper[i]:.0%}: {bins.n[i]:,} recommendations, "
            f"{round(float(bins.hit_rate[i] * bins.n[i])):,} hits ({bins.hit_rate[i]:.1%}; 95 % interval "
            f"{bins.low[i]:.1%} to {bins.high[i]:.1%}), {bins.probability[i]:.1%} predicted"
        )
        figure.tip(ax, text, float(bins.probability[i]), float(bins.hit_rate[i]))


def _add_cutoff_tips(figure: Figure, ax: Any, table: Any) -> None:
    step = float(table["cutoff"].diff().min()) if len(table) > 1 else STEP
    for row in table.itertuples():
        kept = f"{row.n:,} recommendations kept ({row.share:.1%}), {row.accuracy:.1%} hits"
        figure.tip(ax, f"From {row.cutoff:.0%} on: {kept}", (row.cutoff - step / 2, row.cutoff + step / 2))
