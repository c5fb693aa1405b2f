"""The style of all figures: colours, markers, sizes, and a figure that notebooks display without pyplot.

Matplotlib's global settings are not changed: figures are created and drawn within a settings context.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from bmcd.errors import InputError, InputTypeError
from bmcd.utils import Floats, import_optional

import_optional("matplotlib", needed_by="drawing a figure", extra="report")
import matplotlib  # noqa: E402
from matplotlib.figure import Figure as _Figure  # noqa: E402
from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: E402

# Okabe and Ito's colours, safe for colour-blind readers.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY, PALE = "#5f5f5f", "#bcd7ea"

WIDTH, HEIGHT = 4.8, 3.3
"""The size of one panel in inches: narrow, so that its text is legible on a phone."""

STYLE: Any = {
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "normal",
    "axes.unicode_minus": True,
    "figure.facecolor": "white",
    "figure.titlesize": 10.5,
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.dpi": 150,
    "svg.fonttype": "path",
    "svg.hashsalt": "bmcd",
    "text.parse_math": False,  # a dollar sign in a name stays a dollar sign
    "text.usetex": False,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
}

# The settings while a figure is drawn. Those of the file formats belong to `savefig`.
DRAWING: Any = {key: value for key, value in STYLE.items() if not key.startswith(("svg.", "savefig."))}

P = ParamSpec("P")
T = TypeVar("T")


class Look(NamedTuple):
    """How one method is drawn; two methods never differ by colour alone."""

    color: str
    marker: str
    line: Any
    hatch: str

    @property
    def edge(self) -> str:
        """The colour of a marker's edge: black around the yellow star, which is hard to see on white."""
        return BLACK if self.marker == "*" else self.color


METHOD_LOOKS = {
    "bmcd": Look(BLUE, "o", "-", ""),
    "ease": Look(VERMILLION, "s", "--", "//"),
    "als": Look(GREEN, "D", "-.", "\\\\"),
    "itemknn": Look(ORANGE, "^", ":", "xx"),
    "userknn": Look(SKY, "v", (0, (5, 1)), "++"),
    "popularity": Look(BLACK, "X", (0, (1, 2)), ".."),
    "sparkals": Look(PURPLE, "P", (0, (3, 1, 1, 1)), "oo"),
    "diffusion": Look(YELLOW, "*", (0, (3, 1, 1, 1, 1, 1)), "--"),
}
METHOD_LOOKS["cf"] = METHOD_LOOKS["sparkals"]  # the name of Spark's ALS in the paper
_COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)
_MARKERS = ("o", "s", "D", "^", "P", "v", "X", "<", ">")
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
_HATCHES = ("", "//", "\\\\", "xx", "..", "++")


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each name: known methods have a fixed one, every other name gets an unused one.

    >>> by_name = looks(["EASE", "BMCD", "mine"])
    >>> by_name["BMCD"].color == BLUE, len({look.marker for look in by_name.values()})
    (True, 3)
    """
    wanted = list(dict.fromkeys(names))
    known = {name: METHOD_LOOKS.get("".join(c for c in name.casefold() if c.isalnum())) for name in wanted}
    used = {(look.color, look.marker) for look in known.values() if look}
    spare = (
        Look(_COLORS[i % 7], _MARKERS[(i + i // 63) % 9], _LINES[i % 6], _HATCHES[i % 6])
        for i in range(len(wanted) + 64)
    )
    free = (look for look in spare if (look.color, look.marker) not in used)
    return {name: known[name] or next(free) for name in wanted}


Place = float | tuple[float, float]


class Tip(NamedTuple):
    """The hover text of a place in the figure. It is not drawn."""

    axes: Any
    text: str
    x: Place
    y: Place | None

    def box(self, least: float = 14.0) -> tuple[float, float, float, float]:
        """Return left, top, width and height in points from the upper left corner; the figure must have been drawn.

        A single point becomes a box of ``least`` points each way, large enough for a mouse or a finger.
        """
        rows = self.axes.get_ylim() if self.y is None else _ends(self.y)
        figure = self.axes.figure
        corners = self.axes.transData.transform(list(zip(_ends(self.x), rows, strict=True))) * 72.0 / figure.dpi
        (left, low), (right, high) = corners.min(axis=0), corners.max(axis=0)
        if isinstance(self.x, float | int) and isinstance(self.y, float | int):
            left, right, low, high = left - least / 2, right + least / 2, low - least / 2, high + least / 2
        height = figure.get_figheight() * 72.0
        return float(left), float(height - high), float(right - left), float(high - low)


def _ends(place: Place) -> tuple[float, float]:
    return place if isinstance(place, tuple) else (float(place), float(place))


class Figure(_Figure):
    """A matplotlib figure that keeps its style, displays itself in notebooks, and has hover texts.

    >>> figure = Figure()
    >>> axes = figure.subplots()
    >>> figure.tip(axes, "one at three", 1, 3)
    >>> figure.tips[0].text
    'one at three'
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.tips: list[Tip] = []
        """The hover texts; `bmcd.report` shows them."""
        super().__init__(*arguments, **options)

    def tip(self, axes: Any, text: str, x: Place, y: Place | None = None) -> None:
        """Give a place a hover text: a point, a rectangle (two ends each way), or all heights between two x."""
        self.tips.append(Tip(axes, text, x, y))

    def draw(self, renderer: Any) -> None:
        """Draw the figure in its style: matplotlib creates the ticks only now."""
        with matplotlib.rc_context(DRAWING):
            super().draw(renderer)

    def savefig(self, *arguments: Any, **options: Any) -> None:
        """Write the figure to a file, as matplotlib does."""
        with matplotlib.rc_context(STYLE):
            super().savefig(*arguments, **options)

    def page_svg(self) -> str:
        """Return the figure as SVG for an HTML page: with text as text, without a background and a date."""
        out = io.StringIO()
        with matplotlib.rc_context({**STYLE, "svg.fonttype": "none"}):
            metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            super().savefig(out, format="svg", metadata=metadata, transparent=True)
        return out.getvalue()

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png")
        return out.getvalue()

    def _repr_svg_(self) -> str:
        out = io.StringIO()
        self.savefig(out, format="svg", metadata={"Date": None})
        return out.getvalue()


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Let a function draw with the settings of `STYLE`; matplotlib's own are restored when it returns."""

    @functools.wraps(draw)
    def draw_in_style(*arguments: P.args, **options: P.kwargs) -> T:
        with matplotlib.rc_context(STYLE):
            return draw(*arguments, **options)

    return draw_in_style


def new_figure(width: float = WIDTH, height: float = HEIGHT, title: str | None = None) -> Figure:
    """Return an empty figure."""
    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def panels(
    n: int, title: str | None = None, *, across: int = 2, width: float = 3.3, height: float = HEIGHT, **options: Any
) -> tuple[Figure, list[Any]]:
    """Return a figure with n panels, at most ``across`` per row, and the panels."""
    across = max(1, min(n, across))
    down = -(-n // across)
    figure = new_figure(WIDTH if across == 1 else width * across, height * down, title)
    grid = figure.subplots(down, across, squeeze=False, **options).ravel()
    for spare in grid[n:]:
        spare.remove()
    return figure, list(grid[:n])


def label_axes(figure: Figure, axes: list[Any], x: str, y: str) -> None:
    """Label panels with common axes: x below the lowest panel of each column, y once."""
    if len(axes) == 1:
        axes[0].set(xlabel=x, ylabel=y)
        return
    figure.supylabel(y, fontsize=10)
    lowest = {ax.get_subplotspec().colspan.start: ax for ax in axes}
    for ax in lowest.values():
        ax.set_xlabel(x)
        ax.tick_params(labelbottom=True)  # also where the panel below is missing


def legend_below(figure: Figure, *axes: Any, columns: int = 2) -> None:
    """Put one legend of all these axes below the figure, in as many columns as fit into its width."""
    entries = [entry for ax in axes for entry in zip(*ax.get_legend_handles_labels(), strict=True)]
    for n in range(min(columns, len(entries)), 0, -1):
        legend = figure.legend(*zip(*entries, strict=True), loc="outside lower left", ncols=n)
        if n == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def round_ticks(axis: Any, n: int = 5, *, share: bool = False, integer: bool = False) -> None:
    """Put at most n + 1 ticks at round numbers; shares are in percent, counts have commas."""
    axis.set_major_locator(MaxNLocator(n, steps=[1, 2, 2.5, 5, 10], integer=integer))
    if share:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{round(100 * value, 6):g} %"))
    elif integer:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{round(value, 6):,.10g}"))


def error_bars(value: float | Floats, low: float | Floats, high: float | Floats) -> Floats:
    """Return the lengths of error bars from values to ``low`` and ``high``, in the form matplotlib expects.

    >>> error_bars(2.0, 1.5, 3.0).tolist()
    [[0.5], [1.0]]
    """
    values = np.atleast_1d(np.asarray(value, np.float64))
    # Rounding may put the end of a narrow interval on the wrong side of its value.
    lengths: Floats = np.maximum([values - low, high - values], 0.0)
    return lengths


def percent(share: float) -> str:
    """Return a share in percent, with one decimal.

    >>> percent(0.25)
    '25.0 %'
    """
    return f"{100 * share:.1f} %"


def by_name(given: Any, kind: str, is_kind: Callable[[Any], bool]) -> dict[str, Any]:
    """Return things by name, a single one under the name BMCD; raise an error if one is of another kind.

    >>> by_name(3, "a number", lambda value: isinstance(value, int))
    {'BMCD': 3}
    """
    single = is_kind(given) or not isinstance(given, Mapping)
    things = {"BMCD": given} if single else {str(name): thing for name, thing in given.items()}
    if not things:
        raise InputError("there is nothing to draw: the mapping is empty.")
    for name, thing in things.items():
        if not is_kind(thing):
            raise InputTypeError(f"{name} must be {kind}, not {type(thing).__name__}.")
    return things
