"""A comparison as text: the main measures in a plain table, in Markdown, for a terminal and for a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bmcd.markup import Html, table, tag

if TYPE_CHECKING:
    from rich.table import Table

    from bmcd.evaluation.compare import Comparison

# The measures shown beside the accuracy: the paper's own. All others are in `Comparison.table`.
SHOWN = ("coverage", "correct_coverage", "intra_list_similarity", "novelty", "rare_share")
# The ones that fit into the 80 columns of a terminal.
SHOWN_IN_TERMINAL = ("coverage", "novelty")
HEADINGS = {
    "correct_coverage": "correct coverage",
    "intra_list_similarity": "list similarity",
    "rare_share": "rare",
    "fit_seconds": "fit s",
    "recommend_seconds": "rec. s",
}


def text(comparison: Comparison) -> str:
    """Return a table of plain text, with a title."""
    lines = _cells(comparison, SHOWN)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        [
            _title(comparison),
            *("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines),
        ]
    )


def markdown(comparison: Comparison) -> str:
    """Return a table in Markdown, without a title."""
    headings, *rows = _cells(comparison, SHOWN)
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in escaped) + "\n"


def html_table(comparison: Comparison) -> Html:
    """Return a table for a notebook, with a title."""
    headings, *rows = _cells(comparison, SHOWN)
    return tag("div", tag("p", _title(comparison)), table(headings, rows))


def rich_table(comparison: Comparison) -> Table:
    """Return a table for a terminal, in which intervals stand below their numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    headings, *rows = _cells(comparison, SHOWN_IN_TERMINAL, gap="\n")
    shown = Table(title=escape(_title(comparison)), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        shown.add_column(escape(heading), justify="right" if number else "left")
    for row in rows:
        shown.add_row(*map(escape, row))
    return shown


def _title(comparison: Comparison) -> str:
    evaluation = comparison.entries[comparison.against].evaluation
    test = f"; test: {evaluation.split}" if evaluation.split else ""
    if evaluation.horizon not in (None, comparison.k):
        test += f"; the next {evaluation.horizon}"
    n_users = comparison.train.n_users if evaluation.horizon is None else evaluation.n_users
    return (
        f"{len(comparison.entries)} models, {comparison.k} recommendations for each of "
        f"{n_users:,} users; {comparison.level:.0%} intervals{test}"
    )


def _cells(comparison: Comparison, measures: Sequence[str], gap: str = " ") -> list[list[str]]:
    """Return headings and rows; ``gap`` stands between a number and its interval."""
    several = len(comparison.entries) > 1
    headings = ["model", "accuracy %", *([f"minus {comparison.against}"] if several else [])]
    headings += [HEADINGS.get(name, name) for name in (*measures, "fit_seconds", "recommend_seconds")]
    lines = [headings]
    for name, entry in comparison.entries.items():
        accuracy = entry.intervals["accuracy"]
        cells = [name, _percent(accuracy.value, accuracy.low, accuracy.high, gap)]
        if several:
            gain = comparison.differences.get(name, {}).get("accuracy")
            cells.append(_percent(gain.difference, gain.low, gain.high, gap, sign="+") if gain else "")
        cells += [f"{comparison.value(name, measure):.3f}" for measure in measures]
        cells.append("before" if math.isnan(entry.fit_seconds) else f"{entry.fit_seconds:.2f}")
        cells.append(f"{entry.recommend_seconds:.2f}")
        lines.append(cells)
    return lines


def _percent(value: float, low: float, high: float, gap: str, sign: str = "") -> str:
    return f"{100 * value:{sign}.2f}{gap}({100 * low:{sign}.2f}, {100 * high:{sign}.2f})"
