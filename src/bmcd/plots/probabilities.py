"""Are the probabilities right, and what does a cut-off buy? Both as figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation.calibration import Calibration
from bmcd.evaluation.intervals import wilson
from bmcd.plots.style import GREY, Figure, looks, new_figure, round_ticks, styled

# Cut-offs are tried this far apart.
STEP = 0.01
# A hit rate of fewer recommendations than this is not drawn: it may be anything.
LEAST_KEPT = 5


class Bins(NamedTuple):
    """What a calibration says of each bin of probability."""

    width: float
    lower: Any
    upper: Any
    n: Any
    probability: Any
    hit_rate: Any
    low: Any
    high: Any
    """Ends of Wilson's interval of the hit rate."""

    @classmethod
    def of(cls, one: Calibration | Mapping[str, Any]) -> Bins:
        """Of a calibration, or of its `to_dict`."""
        told = one.to_dict() if isinstance(one, Calibration) else one
        rows = told["bins"]
        columns = [np.array([row[c] for row in rows]) for c in ("lower", "upper", "n", "probability", "hit_rate")]
        low, high = wilson(np.round(columns[4] * columns[2]), columns[2])
        lower, upper, n, probability, hit_rate = columns
        return cls(told["bin_width"], lower, upper, n, probability, hit_rate, low, high)


@styled
def calibration(
    calibration: Calibration | Mapping[str, Any],
    *,
    rivals: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Hit rate against probability, bin by bin, with Wilson's 95 % intervals; below it, how many there were.

    Above the diagonal the probabilities are too low (cautious), below it too high. ``rivals`` are the accuracies
    of methods without probabilities, drawn as lines. Several calibrations, by name, go into one figure. What
    `Calibration.to_dict` wrote can stand for a calibration.

    >>> found = Calibration.of([0.1, 0.1, 0.3, 0.3], [False, False, True, False], bin_width=0.1)
    >>> figure = calibration(found, rivals={"EASE": 0.25})
    >>> figure.axes[0].get_legend_handles_labels()[1]
    ['as promised', 'EASE: 25.0 %', 'BMCD, 95 % intervals']
    >>> figure.savefig("calibration.svg")
    """
    given = {name: Bins.of(one) for name, one in _by_name(calibration).items()}
    styles = looks([*given, *(rivals or {})])
    figure = new_figure(height=4.5, title=title)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    last_x = min(1.0, max(float(one.upper.max()) for one in given.values()))
    highest = [float(one.high[one.n >= LEAST_KEPT].max(initial=0)) for one in given.values()]
    rates = [float(one.hit_rate.max()) for one in given.values()]
    last_y = min(1.03, 1.05 * max([last_x, *highest, *rates, *(rivals or {}).values()]))
    above.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)), label="as promised")
    draw_rivals(above, rivals, styles)
    for at, (name, one) in enumerate(given.items()):
        look = styles[name]
        shift = (at - (len(given) - 1) / 2) * one.width * 0.2
        above.errorbar(
            one.probability + shift,
            one.hit_rate,
            yerr=np.maximum([one.hit_rate - one.low, one.high - one.hit_rate], 0.0),
            fmt=look.marker,
            color=look.color,
            markeredgecolor="white",
            markeredgewidth=0.5,
            elinewidth=1.2,
            label=f"{name}, 95 % intervals",
        )
        below.bar(
            (one.lower + one.upper) / 2 + shift,
            one.n,
            width=one.width * 0.85 / len(given),
            color=look.color,
            hatch=look.hatch,
            alpha=0.75,
        )
        if len(given) == 1:
            _say_bins(figure, above, one)
    above.set(xlim=(0, last_x * 1.02), ylim=(0, last_y), ylabel="share that were hits")
    below.set(xlabel="probability given", ylabel="how many")
    for axis in (above.xaxis, above.yaxis):
        round_ticks(axis, share=True)
    round_ticks(below.yaxis, 2, integer=True)
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    figure.align_ylabels()
    return figure


@styled
def cutoff_curve(
    calibration: Calibration | Mapping[str, Any],
    *,
    rivals: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Figure:
    """What a cut-off buys: the hit rate of the recommendations kept (left), and how many they are (right).

    The band is Wilson's 95 % interval. Hit rates of fewer than 5 recommendations are not drawn. ``rivals`` are
    accuracies of methods that cannot choose, drawn as lines. `Calibration.to_dict` can stand for a calibration.

    >>> found = Calibration.of([0.12, 0.2, 0.3, 0.3] * 5, [False, False, True, False] * 5)
    >>> figure = cutoff_curve(found)
    >>> figure.axes[1].get_lines()[0].get_ydata()[[0, -1]].tolist()
    [20, 10]
    """
    given = {name: _cutoffs(one) for name, one in _by_name(calibration).items()}
    styles = looks([*given, *(rivals or {})])
    figure = new_figure(height=3.7, title=title)
    left = figure.subplots()
    right = left.twinx()
    draw_rivals(left, rivals, styles)
    tops = [0.0, *(rivals or {}).values()]
    for name, table in given.items():
        look = styles[name]
        enough = table[table["n"] >= min(LEAST_KEPT, table["n"].max())]
        low, high = wilson(np.round(enough["accuracy"] * enough["n"]), enough["n"])
        left.fill_between(enough["cutoff"], low, high, color=look.color, alpha=0.18, linewidth=0)
        left.plot(
            enough["cutoff"], enough["accuracy"], color=look.color, linestyle=look.line, label=f"{name}: hit rate"
        )
        right.step(
            *(table["cutoff"], table["n"]),
            where="pre",
            color=GREY if len(given) == 1 else look.color,
            linewidth=1.2,
            linestyle=(0, (2, 1.5)),
            label="how many are kept" if len(given) == 1 else f"{name}: how many",
        )
        tops += [float(high.max())]
        if len(given) == 1:
            _say_cutoffs(figure, left, table)
    left.set(xlabel="least probability that is recommended", ylabel="share that were hits")
    left.set_ylim(0, min(1.03, 1.08 * max(tops)))
    right.set_ylabel("recommendations kept")
    right.set_ylim(bottom=0)
    right.grid(False)
    right.spines["right"].set_visible(True)
    for axis in (left.xaxis, left.yaxis):
        round_ticks(axis, share=True)
    round_ticks(right.yaxis, integer=True)
    handles = [both for axes in (left, right) for both in zip(*axes.get_legend_handles_labels(), strict=True)]
    figure.legend(*zip(*handles, strict=True), loc="outside lower left", ncols=2)
    return figure


def cutoffs_of(one: Calibration) -> Any:
    """Cut-offs from the last that keeps everything to the last that keeps anything, 0.01 apart.

    >>> cutoffs_of(Calibration.of([0.125, 0.155], [True, False])).tolist()
    [0.12, 0.13, 0.14, 0.15]
    """
    steps = round(1 / STEP)
    grid = np.arange(steps + 1) / steps
    first, last = np.searchsorted(grid, (one.probability.min(), one.probability.max()), side="right")
    return grid[first - 1 : last]


def draw_rivals(axes: Any, rivals: Mapping[str, float] | None, styles: Mapping[str, Any]) -> None:
    """The accuracies of methods without probabilities, as lines over the whole width."""
    for name, accuracy in (rivals or {}).items():
        look = styles[name]
        axes.axhline(
            accuracy,
            color=look.color,
            linestyle=look.line if look.line != "-" else "--",
            linewidth=1.3,
            label=f"{name}: {accuracy:.1%}".replace("%", " %"),
        )


def _by_name(calibration: Calibration | Mapping[str, Any]) -> dict[str, Calibration | Mapping[str, Any]]:
    """One, or several by name; each may be what its `to_dict` wrote."""
    if isinstance(calibration, Calibration) or "bins" in calibration:
        return {"BMCD": calibration}
    if not calibration:
        raise InputError("there is nothing to draw: the mapping has no calibrations.")
    for name, one in calibration.items():
        if not isinstance(one, Calibration) and not (isinstance(one, Mapping) and "bins" in one):
            raise InputTypeError(
                f"{name} must be a Calibration, or what its to_dict wrote, not {type(one).__name__}."
            )
    return dict(calibration)


def _cutoffs(one: Calibration | Mapping[str, Any]) -> Any:
    """The table of cut-offs, those that keep nothing left out."""
    import pandas as pd

    if isinstance(one, Calibration):
        return one.cutoff_table(cutoffs_of(one))
    table = pd.DataFrame(one["cutoffs"])
    return table[table["n"] > 0].astype({"accuracy": float})


def _say_bins(figure: Figure, axes: Any, one: Bins) -> None:
    for i in range(len(one.n)):
        hits = round(float(one.hit_rate[i] * one.n[i]))
        figure.tip(
            axes,
            f"Probability {one.lower[i]:.0%} to {one.upper[i]:.0%}: {one.n[i]:,} recommendations, {hits:,} hits "
            f"({one.hit_rate[i]:.1%}; 95 % interval {one.low[i]:.1%} to {one.high[i]:.1%}), "
            f"{one.probability[i]:.1%} promised",
            float(one.probability[i]),
            float(one.hit_rate[i]),
        )


def _say_cutoffs(figure: Figure, axes: Any, table: Any) -> None:
    step = float(table["cutoff"].diff().min()) if len(table) > 1 else STEP
    for row in table.itertuples():
        figure.tip(
            axes,
            f"From {row.cutoff:.0%} on: {row.n:,} recommendations kept ({row.share:.1%}), {row.accuracy:.1%} hits",
            (row.cutoff - step / 2, row.cutoff + step / 2),
        )
