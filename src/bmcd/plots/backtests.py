"""Figures of back-tests: predicted and observed hit rates at several past times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bmcd.plots.style import (
    BLUE,
    HEIGHT,
    VERMILLION,
    WIDTH,
    Figure,
    error_bars,
    new_figure,
    percent,
    round_ticks,
    styled,
)

if TYPE_CHECKING:
    from bmcd.evaluation import Backtest

SHIFT = 0.12


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
    figure = new_figure(width or WIDTH, 0.5 + (HEIGHT - 0.3) * len(models), title)
    axes = figure.subplots(len(models), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    labels, below = _short(cuts)
    for ax, model in zip(axes, models, strict=True):
        rows = [result.row(cut, model) for cut in cuts]
        places = range(len(cuts))
        for place, row in zip(places, rows, strict=True):
            bars = None
            ends = ""
            if not math.isnan(row.hit_rate_low):
                bars = error_bars(row.hit_rate, row.hit_rate_low, row.hit_rate_high)
                ends = f" ({result.level:.0%} interval {percent(row.hit_rate_low)} to {percent(row.hit_rate_high)})"
            look = {"fmt": "o", "color": BLUE, "capsize": 3, "label": "observed" if place == 0 else None}
            ax.errorbar([place - SHIFT], [row.hit_rate], yerr=bars, **look)
            figure.tip(ax, f"{row.cut}: observed {percent(row.hit_rate)}{ends}", place - SHIFT, row.hit_rate)
            if math.isnan(row.predicted):
                continue
            label = "predicted" if place == 0 else None
            ax.plot([place + SHIFT], [row.predicted], "s", color=VERMILLION, fillstyle="none", label=label)
            figure.tip(ax, f"{row.cut}: predicted {percent(row.predicted)}", place + SHIFT, row.predicted)
        if len(models) > 1:
            ax.set_title(model)
        ax.set_ylabel("hit rate")
        ax.grid(axis="x", visible=False)
        ax.margins(y=0.15)
        round_ticks(ax.yaxis, share=True)
    axes[-1].set_xlim(-0.5, len(cuts) - 0.5)
    axes[-1].set_ylim(bottom=0)
    fit = max(1, int(((width or WIDTH) - 0.9) / 0.55))
    step = math.ceil(len(cuts) / fit)
    axes[-1].set_xticks(range(0, len(cuts), step), labels[::step])
    axes[-1].set_xlabel(below)
    handles, names = next(
        (pair for pair in (ax.get_legend_handles_labels() for ax in axes) if len(pair[0]) > 1),
        axes[0].get_legend_handles_labels(),
    )
    figure.legend(handles[::-1], names[::-1], loc="outside lower left", ncols=2)
    return figure


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


@styled
def past_windows(windows: Any, *, title: str | None = None, width: float | None = None) -> Figure:
    """Draw predicted and observed hit rates of past windows, the frame `Blend.windows_`; the earliest is number 1.

    >>> import bmcd
    >>> model = bmcd.Blend().fit(bmcd.load_dataset("eshop").of_users(range(2000)))
    >>> len(past_windows(model.windows_).axes)
    1
    """
    figure = new_figure(width or WIDTH, HEIGHT, title)
    ax = figure.subplots()
    for number, row in enumerate(windows.itertuples(index=False), start=1):
        half = 1.96 * row.error
        look: dict[str, Any] = {
            "fmt": "o",
            "color": BLUE,
            "capsize": 3,
            "label": "observed" if number == 1 else None,
        }
        ax.errorbar([number - SHIFT], [row.observed], yerr=[half], **look)
        figure.tip(ax, f"{row.label}: observed {percent(row.observed)}", number - SHIFT, row.observed)
        label = "predicted" if number == 1 else None
        ax.plot([number + SHIFT], [row.predicted], "s", color=VERMILLION, fillstyle="none", label=label)
        figure.tip(ax, f"{row.label}: predicted {percent(row.predicted)}", number + SHIFT, row.predicted)
    ax.set_ylabel("hit rate")
    ax.set_xlabel("past window, the earliest first")
    ax.grid(axis="x", visible=False)
    ax.set_xlim(0.5, len(windows) + 0.5)
    ax.set_ylim(bottom=0)
    ax.set_xticks(range(1, len(windows) + 1))
    ax.margins(y=0.15)
    round_ticks(ax.yaxis, share=True)
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside lower left", ncols=2)
    return figure
