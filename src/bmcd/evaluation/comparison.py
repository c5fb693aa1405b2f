"""Comparison: what `bmcd.compare` found, as a table, a text, files and a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bmcd.clicks.table import Clicks
from bmcd.evaluation.intervals import Interval, PairedDifference
from bmcd.evaluation.result import CALIBRATION_MEASURES, MEASURES, Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from bmcd.simulation import Simulation

# What the printed table shows beside the accuracy: the paper's measures. All others are in `table`.
PRINTED = ("coverage", "correct_coverage", "intra_list_similarity", "novelty", "rare_share")
# Left out where a line has about 80 columns.
WIDE = ("correct_coverage", "intra_list_similarity", "rare_share")
TITLES = {
    "correct_coverage": "correct coverage",
    "intra_list_similarity": "list similarity",
    "rare_share": "rare",
    "fit_seconds": "fit s",
    "recommend_seconds": "rec. s",
}


class Entry(NamedTuple):
    """One model of a comparison."""

    model: Any
    fit: dict[str, Any]
    """The options it was fitted with here; empty if it came fitted."""
    fitted_before: bool
    fit_seconds: float
    """NaN if it came fitted."""
    recommend_seconds: float
    evaluation: Evaluation
    intervals: dict[str, Interval]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Models by measures; `print` it for the main ones."""

    entries: Mapping[str, Entry]
    """By the name of the model."""
    differences: Mapping[str, Mapping[str, PairedDifference]]
    """By model and measure: the model minus `against`, user by user."""
    against: str
    k: int
    seed: int
    level: float
    resamples: int
    train: Clicks
    test: Clicks | Simulation

    @property
    def table(self) -> Any:
        """A pandas frame with a row for each model.

        Its columns are model, fit_seconds (NaN if it came fitted), recommend_seconds, then each measure, followed,
        if it has an interval, by its _low and _high, and by _difference, _difference_low, _difference_high and
        _p_value against the model `against`.
        """
        import pandas as pd

        return pd.DataFrame([self._row(name) for name in self.entries])

    def _row(self, name: str) -> dict[str, Any]:
        entry = self.entries[name]
        seconds = {"fit_seconds": entry.fit_seconds, "recommend_seconds": entry.recommend_seconds}
        row: dict[str, Any] = {"model": name, **seconds}
        for measure in self._measures():
            row[measure] = self.value(name, measure)
            if not any(measure in other.intervals for other in self.entries.values()):
                continue
            interval = entry.intervals.get(measure)
            row[f"{measure}_low"] = interval.low if interval else math.nan
            row[f"{measure}_high"] = interval.high if interval else math.nan
            if len(self.entries) > 1:
                found = self.differences.get(name, {}).get(measure)
                row[f"{measure}_difference"] = found.difference if found else math.nan
                row[f"{measure}_difference_low"] = found.low if found else math.nan
                row[f"{measure}_difference_high"] = found.high if found else math.nan
                row[f"{measure}_p_value"] = found.p_value if found else math.nan
        return row

    def value(self, name: str, measure: str) -> float:
        """One measure of one model; NaN for calibration of a model without probabilities."""
        evaluation = self.entries[name].evaluation
        if measure in CALIBRATION_MEASURES:
            return math.nan if evaluation.calibration is None else float(getattr(evaluation.calibration, measure))
        return float(getattr(evaluation, measure))

    def _measures(self) -> list[str]:
        calibrated = any(entry.evaluation.calibration is not None for entry in self.entries.values())
        return [*MEASURES, *(CALIBRATION_MEASURES if calibrated else ())]

    def _cells(self, measures: Sequence[str] = PRINTED, gap: str = " ") -> tuple[list[str], list[list[str]]]:
        """The printed table: headings and rows, as text; ``gap`` stands between a number and its interval."""
        heads = ["model", "accuracy %"]
        heads += [f"minus {self.against}"] if len(self.entries) > 1 else []
        heads += [TITLES.get(name, name) for name in (*measures, "fit_seconds", "recommend_seconds")]
        rows = []
        for name, entry in self.entries.items():
            own = entry.intervals["accuracy"]
            row = [name, f"{100 * own.value:.2f}{gap}({100 * own.low:.2f}, {100 * own.high:.2f})"]
            if len(self.entries) > 1:
                found = self.differences.get(name, {}).get("accuracy")
                row.append(_signed(found, gap) if found else "")
            row += [f"{self.value(name, measure):.3f}" for measure in measures]
            row.append("before" if math.isnan(entry.fit_seconds) else f"{entry.fit_seconds:.2f}")
            row.append(f"{entry.recommend_seconds:.2f}")
            rows.append(row)
        return heads, rows

    def to_markdown(self) -> str:
        """The main measures as a table in Markdown."""
        heads, rows = self._cells()
        lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
        escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        return "\n".join("| " + " | ".join(line) + " |" for line in escaped) + "\n"

    def __rich__(self) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.markup import escape
        from rich.table import Table

        heads, rows = self._cells([name for name in PRINTED if name not in WIDE], gap="\n")
        table = Table(title=escape(self._title()), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for place, head in enumerate(heads):
            table.add_column(escape(head), justify="right" if place else "left")
        for row in rows:
            table.add_row(*map(escape, row))
        return table

    def __str__(self) -> str:
        heads, rows = self._cells()
        widths = [max(len(line[at]) for line in [heads, *rows]) for at in range(len(heads))]
        lines = [
            "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(both))
            for both in (list(zip(line, widths, strict=True)) for line in [heads, *rows])
        ]
        return "\n".join([self._title(), *lines])

    __repr__ = __str__

    def _title(self) -> str:
        return (
            f"{len(self.entries)} models, {self.k} recommendations for each of {self.train.n_users:,} users; "
            f"{self.level:.0%} intervals"
        )

    def plot(self, x: str = "coverage", y: str = "accuracy") -> Figure:
        """One measure against another, a point a model, with the intervals; a matplotlib figure."""
        from bmcd.plots import measures

        return measures(self, x, y)

    def save(self, folder: str | Path, *, plots: bool = True) -> Path:
        """Write table.csv, table.md, comparison.json, config.json and plots into a folder, and return it.

        config.json says what the comparison was made of: versions, seed, options, models with their settings, and
        the hashes of the clicks. ``plots`` adds accuracy against coverage and against novelty.
        """
        from bmcd.evaluation.comparison_files import save

        return save(self, Path(folder), plots)


def _signed(found: PairedDifference, gap: str) -> str:
    return f"{100 * found.difference:+.2f}{gap}({100 * found.low:+.2f}, {100 * found.high:+.2f})"
