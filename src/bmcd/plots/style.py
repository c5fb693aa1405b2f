"""The look of all figures: colours, sizes, and a figure that notebooks show without pyplot.

Nothing here changes matplotlib's global settings: they are set while a figure is made or drawn, and put back.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

import matplotlib
from matplotlib.figure import Figure as _Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bmcd.errors import InputError, InputTypeError

# Okabe and Ito's colours, which colour-blind people can tell apart.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY, LIGHT, PALE = "#5f5f5f", "#c9c9c9", "#bcd7ea"

WIDTH, HEIGHT = 4.8, 3.3
"""Of one panel, in inches: narrow, so that the text can be read on a phone."""

STYLE: Any = {
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
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
    "text.parse_math": False,  # a dollar in a name is a dollar
    "text.usetex": False,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
}

# What a file has its own say in.
DRAWN: Any = {key: value for key, value in STYLE.items() if not key.startswith(("svg.", "savefig."))}

P = ParamSpec("P")
T = TypeVar("T")


class Look(NamedTuple):
    """How one method is drawn: never told apart by colour alone."""

    color: str
    marker: str
    line: Any
    hatch: str


# The same for a method in every figure.
KNOWN = {
    "bmcd": Look(BLUE, "o", "-", ""),
    "ease": Look(VERMILLION, "s", "--", "//"),
    "als": Look(GREEN, "D", "-.", "\\\\"),
    "itemknn": Look(ORANGE, "^", ":", "xx"),
    "userknn": Look(SKY, "v", (0, (5, 1)), "++"),
    "popularity": Look(BLACK, "X", (0, (1, 2)), ".."),
    "sparkals": Look(PURPLE, "P", (0, (3, 1, 1, 1)), "oo"),
    "diffusion": Look(YELLOW, "*", (0, (3, 1, 1, 1, 1, 1)), "--"),
}
# The paper's name of its rival, which is Spark's ALS.
KNOWN["cf"] = KNOWN["sparkals"]
_COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)
_MARKERS = ("o", "s", "D", "^", "P", "v", "X", "<", ">")
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
_HATCHES = ("", "//", "\\\\", "xx", "..", "++")


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name: a method's own where it is known, another for each of the rest.

    >>> found = looks(["EASE", "BMCD", "mine"])
    >>> found["BMCD"].color == BLUE, len({look.marker for look in found.values()})
    (True, 3)
    """
    wanted = list(dict.fromkeys(names))
    known = {name: KNOWN.get("".join(c for c in name.casefold() if c.isalnum())) for name in wanted}
    used = {(look.color, look.marker) for look in known.values() if look}
    spare = (
        Look(_COLORS[i % 7], _MARKERS[(i + i // 63) % 9], _LINES[i % 6], _HATCHES[i % 6])
        for i in range(len(wanted) + 64)
    )
    free = (look for look in spare if (look.color, look.marker) not in used)
    return {name: known[name] or next(free) for name in wanted}


Place = float | tuple[float, float]


class Tip(NamedTuple):
    """What a place says when it is pointed at. It is not drawn."""

    axes: Any
    text: str
    x: Place
    y: Place | None

    def box(self, least: float = 14.0) -> tuple[float, float, float, float]:
        """Left, top, width and height, in points from the upper left of a figure that has been drawn.

        A point gets ``least`` points each way, so that it can be met.
        """
        rows = self.axes.get_ylim() if self.y is None else _ends(self.y)
        corners = self.axes.transData.transform(list(zip(_ends(self.x), rows, strict=True)))
        figure = self.axes.figure
        corners = corners * 72.0 / figure.dpi
        (left, low), (right, high) = corners.min(axis=0), corners.max(axis=0)
        if isinstance(self.x, float | int) and isinstance(self.y, float | int):
            left, right, low, high = left - least / 2, right + least / 2, low - least / 2, high + least / 2
        height = figure.get_figheight() * 72.0
        return float(left), float(height - high), float(right - left), float(high - low)


def _ends(place: Place) -> tuple[float, float]:
    return place if isinstance(place, tuple) else (float(place), float(place))


class Figure(_Figure):
    """A matplotlib figure that keeps its look, shows itself in notebooks, and knows what its parts say.

    >>> figure = Figure()
    >>> axes = figure.subplots()
    >>> figure.tip(axes, "one at three", 1, 3)
    >>> figure.tips[0].text
    'one at three'
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.tips: list[Tip] = []
        """What places of the figure say when they are pointed at; `bmcd.report` shows it."""
        super().__init__(*arguments, **options)

    def tip(self, axes: Any, text: str, x: Place, y: Place | None = None) -> None:
        """Let a place say something: a point, a rectangle (two ends each), or all heights between two x."""
        self.tips.append(Tip(axes, text, x, y))

    def draw(self, renderer: Any) -> None:
        """Draw it; ticks are made only now, so the look is needed again."""
        with matplotlib.rc_context(DRAWN):
            super().draw(renderer)

    def savefig(self, *arguments: Any, **options: Any) -> None:
        """Write it to a file, as matplotlib does."""
        with matplotlib.rc_context(STYLE):
            super().savefig(*arguments, **options)

    def page_svg(self) -> str:
        """SVG for a page: letters stay letters, and nothing tells when it was made."""
        out = io.StringIO()
        with matplotlib.rc_context({**STYLE, "svg.fonttype": "none"}):
            super().savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        return out.getvalue()

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png")
        return out.getvalue()

    def _repr_svg_(self) -> str:
        out = io.StringIO()
        self.savefig(out, format="svg", metadata={"Date": None})
        return out.getvalue()


def styled(make: Callable[P, T]) -> Callable[P, T]:
    """Make a figure in the look of all."""

    @functools.wraps(make)
    def inside(*arguments: P.args, **options: P.kwargs) -> T:
        with matplotlib.rc_context(STYLE):
            return make(*arguments, **options)

    return inside


def new_figure(
    width: float = WIDTH, height: float = HEIGHT, title: str | None = None, title_size: float = 10.5
) -> Figure:
    """An empty figure."""
    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=title_size)
    return figure


def panels(
    n: int, title: str | None = None, *, across: int = 2, height: float = HEIGHT, **options: Any
) -> tuple[Figure, list[Any]]:
    """A figure with n panels, at most ``across`` beside each other."""
    across = max(1, min(n, across))
    down = -(-n // across)
    figure = new_figure(WIDTH if across == 1 else 3.3 * across, height * down, title)
    grid = figure.subplots(down, across, squeeze=False, **options)
    for spare in grid.ravel()[n:]:
        spare.remove()
    return figure, list(grid.ravel()[:n])


def label_axes(figure: Figure, axes: list[Any], x: str, y: str) -> None:
    """Name the axes of panels that share their meaning: x below the lowest of each column, y once."""
    if len(axes) == 1:
        axes[0].set(xlabel=x, ylabel=y)
        return
    figure.supylabel(y, fontsize=10)
    lowest = {ax.get_subplotspec().colspan.start: ax for ax in axes}
    for ax in lowest.values():
        ax.set_xlabel(x)
        ax.tick_params(labelbottom=True)  # also where the panel below is missing


def round_ticks(axis: Any, n: int = 5, *, share: bool = False, integer: bool = False) -> None:
    """At most n + 1 ticks, at round numbers: shares in %, counts with commas."""
    axis.set_major_locator(MaxNLocator(n, steps=[1, 2, 2.5, 5, 10], integer=integer))
    if share:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{round(100 * value, 6):g} %"))
    elif integer:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{round(value, 6):,.10g}"))


def named(value: Any, name: str, kind: type) -> dict[str, Any]:
    """One thing as a mapping from its name, several as they are.

    >>> named(3, "BMCD", int)
    {'BMCD': 3}
    """
    if isinstance(value, Mapping):
        if not value:
            raise InputError("there is nothing to draw: the mapping is empty.")
        found = {str(key): one for key, one in value.items()}
    else:
        found = {name: value}
    for key, one in found.items():
        if not isinstance(one, kind):
            raise InputTypeError(f"{key} must be a {kind.__name__}, not {type(one).__name__}.")
    return found


def table_of(table: Any, needed: Iterable[str]) -> Any:
    """A pandas frame out of a frame of any library, a mapping of columns, or a list of rows."""
    import narwhals as nw
    import pandas as pd

    if isinstance(table, Mapping | list | tuple):
        found = pd.DataFrame(table)
    else:
        found = nw.from_native(table, eager_only=True).to_pandas()
    if missing := [name for name in needed if name not in found.columns]:
        raise InputError(
            f"the table has no column {', '.join(map(repr, missing))}; its columns are "
            f"{', '.join(repr(str(name)) for name in found.columns)}."
        )
    if not len(found):
        raise InputError("there is nothing to draw: the table has no rows.")
    return found
