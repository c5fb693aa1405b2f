"""Predicted and observed hit rates at several past times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from bmcd.plots import style
from bmcd.plots.style import Figure, styled

if TYPE_CHECKING:
    from bmcd.evaluation import Backtest

# How far the two points of a time stand from its tick, and the least distance of two labels in inches.
SHIFT, LABEL_WIDTH = 0.12, 0.55


class Time(NamedTuple):
    """The hit rates of one time; NaN where a number is unknown."""

    label: str
    predicted: float
    observed: float
    low: float
    high: float


@styled
def backtest(result: Backtest, *, title: str | None = None, width: float | None = None) -> Figure:
    """Draw the observed hit rate with its interval, and the predicted one, per cut; one panel per model.

    >>> import bmcd
    >>> clicks = bmcd.load_dataset("eshop").of_users(range(1000))
    >>> tried = bmcd.backtest(bmcd.Tastes(2, chains=2), clicks, cuts=2, k=3, fit={"draws": 2, "warmup": 5})
    >>> len(backtest(tried).axes)
    1
    """
    models, cuts = result.models, result.cuts
    figure = style.new_figure(width or style.WIDTH, 0.5 + (style.HEIGHT - 0.3) * len(models), title)
    axes = figure.subplots(len(models), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, model in zip(axes, models, strict=True):
        rows = (result.row(cut, model) for cut in cuts)
        times = [Time(row.cut, row.predicted, row.hit_rate, row.hit_rate_low, row.hit_rate_high) for row in rows]
        _draw(figure, ax, times, result.level)
        if len(models) > 1:
            ax.set_title(model)
    labels, below = _short(cuts)
    step = math.ceil(len(cuts) / max(1, int(((width or style.WIDTH) - 0.9) / LABEL_WIDTH)))
    axes[-1].set_xticks(range(1, len(cuts) + 1, step), labels[::step])
    axes[-1].set_xlabel(below)
    style.legend_below(figure, max(axes, key=lambda ax: len(ax.get_legend_handles_labels()[0])))
    return figure


@styled
def past_windows(windows: Any, *, title: str | None = None, width: float | None = None) -> Figure:
    """Draw predicted and observed hit rates of past windows, the frame `Blend.windows_`; the earliest is number 1.

    >>> import bmcd
    >>> model = bmcd.Blend().fit(bmcd.load_dataset("eshop").of_users(range(2000)))
    >>> len(past_windows(model.windows_).axes)
    1
    """
    figure = style.new_figure(width or style.WIDTH, style.HEIGHT, title)
    ax = figure.subplots()
    ends = ((row, 1.96 * row.error) for row in windows.itertuples(index=False))
    times = [Time(w.label, w.predicted, w.observed, w.observed - e, w.observed + e) for w, e in ends]
    _draw(figure, ax, times)
    ax.set_xticks(range(1, len(times) + 1))
    ax.set_xlabel("past window, the earliest first")
    style.legend_below(figure, ax)
    return figure


def _draw(figure: Figure, ax: Any, times: Iterable[Time], level: float = 0.95) -> None:
    """Draw the points of all times, and set the axes except for the labels of the times."""
    n = 0
    for n, (label, predicted, observed, low, high) in enumerate(times, start=1):
        bars, interval = None, ""
        if not math.isnan(low):
            bars = style.error_bars(observed, low, high)
            interval = f" ({level:.0%} interval {style.percent(low)} to {style.percent(high)})"
        named = {"color": style.BLUE, "capsize": 3, "label": "observed" if n == 1 else None}
        ax.errorbar([n - SHIFT], [observed], yerr=bars, fmt="o", **named)
        figure.tip(ax, f"{label}: observed {style.percent(observed)}{interval}", n - SHIFT, observed)
        if not math.isnan(predicted):
            named = {"color": style.VERMILLION, "fillstyle": "none", "label": "predicted" if n == 1 else None}
            ax.plot([n + SHIFT], [predicted], "s", **named)
            figure.tip(ax, f"{label}: predicted {style.percent(predicted)}", n + SHIFT, predicted)
    ax.set_ylabel("hit rate")
    ax.grid(axis="x", visible=False)
    ax.margins(y=0.15)
    ax.set_xlim(0.5, n + 0.5)
    ax.set_ylim(bottom=0)
    style.round_ticks(ax.yaxis, share=True)


def _short(cuts: list[str]) -> tuple[list[str], str]:
    """Return labels without what all of them share, and the label of the axis, which has it.

    >>> _short(["2026-05-01 00:00:00", "2026-05-02 00:00:00"])
    (['05-01', '05-02'], 'cut (2026)')
    >>> _short(["2026-05-01 12:00:00", "2026-05-01 13:00:00"])
    (['12:00', '13:00'], 'cut (2026-05-01)')
    >>> _short(["50% of users"])
    (['50%'], 'cut (share of the users)')
    """
    if cuts[0].endswith("of users"):
        return [cut.removesuffix(" of users") for cut in cuts], "cut (share of the users)"
    days, times = zip(*(cut.split(".")[0].split(" ") for cut in cuts), strict=True)
    minutes = [time[:5] for time in times]
    if len(set(zip(days, minutes, strict=True))) < len(cuts):
        minutes = list(times)
    if len(set(days)) == 1 and len(cuts) > 1:
        return minutes, f"cut ({days[0]})"
    years = {day[:4] for day in days}
    shown = [day[5:] for day in days] if len(years) == 1 else list(days)
    if set(minutes) != {"00:00"}:
        shown = [f"{day}\n{minute}" for day, minute in zip(shown, minutes, strict=True)]
    return shown, "cut" + (f" ({years.pop()})" if len(years) == 1 else "")
