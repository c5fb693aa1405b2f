"""Figures of back-tests: predicted and observed hit rates at several past times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

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
    labels = _short(cuts)
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
    crowded = sum(map(len, labels)) * 0.085 > (width or WIDTH) - 0.8
    step = max(1, math.ceil(len(cuts) * 0.2 / ((width or WIDTH) - 0.8))) if crowded else 1
    axes[-1].set_xticks(range(0, len(cuts), step), labels[::step])
    if crowded:
        axes[-1].tick_params(axis="x", labelrotation=45)
        for text in axes[-1].get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")
    axes[-1].set_xlabel("fitted to the clicks before" if not cuts[0].endswith("of users") else "fitted to the first")
    handles, names = next(
        (pair for pair in (ax.get_legend_handles_labels() for ax in axes) if len(pair[0]) > 1),
        axes[0].get_legend_handles_labels(),
    )
    figure.legend(handles, names, loc="outside upper right", ncols=2)
    return figure


def _short(cuts: list[str]) -> list[str]:
    """Return labels without what all of them share at the end: times of day that are midnight, seconds that are 0.

    >>> _short(["2026-05-01 00:00:00", "2026-05-02 00:00:00"]), _short(["50% of users"])
    (['2026-05-01', '2026-05-02'], ['50% of users'])
    """
    cut = [label.split(".")[0] for label in cuts]
    for end in (":00", " 00:00"):
        if all(label.count(":") and label.endswith(end) for label in cut):
            cut = [label.removesuffix(end) for label in cut]
    return cut if len(set(cut)) == len(cut) else cuts
