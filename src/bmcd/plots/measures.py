"""The plot of a comparison: one measure against another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmcd.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bmcd.evaluation.compare import Comparison

# Nine markers for ten colours: the pair is another one for each of ninety models.
MARKERS = "osD^vP*X<"


def plot(comparison: Comparison, x: str, y: str) -> Figure:
    """A point a model, with its name and, where the measures have them, its intervals."""
    from matplotlib.figure import Figure  # here, because it takes time that most comparisons need not spend

    known = comparison.measures
    for name in (x, y):
        if name not in known:
            raise InputError(f"{name!r} is no measure; there are {', '.join(known)}.")
    # Not through pyplot, which would keep the figure, and may want a display.
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for at, (name, entry) in enumerate(comparison.entries.items()):
        place = [comparison.value(name, measure) for measure in (x, y)]
        bars: list[list[list[float]] | None] = []
        for measure, value in zip((x, y), place, strict=True):
            own = entry.intervals.get(measure)
            # Rounding may put an end of a narrow interval on the wrong side of the value.
            bars.append([[max(value - own.low, 0.0)], [max(own.high - value, 0.0)]] if own else None)
        axes.errorbar(
            [place[0]],
            [place[1]],
            xerr=bars[0],
            yerr=bars[1],
            fmt=MARKERS[at % len(MARKERS)],
            capsize=3,
            label=name,
        )
    # Beside the plot: names at the points would cover each other, since good models are close together.
    figure.legend(loc="outside right upper", frameon=False)
    axes.grid(alpha=0.3)
    axes.set_xlabel(x.replace("_", " "))
    axes.set_ylabel(y.replace("_", " "))
    axes.set_title(
        f"{comparison.k} recommendations; bars: {comparison.level:.0%} intervals over users", fontsize="medium"
    )
    return figure
