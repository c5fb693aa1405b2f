"""compare: measure several models on the same clicks, in one table."""

from __future__ import annotations

import io
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.evaluation.backtest import taken
from bmcd.evaluation.evaluate import (
    CALIBRATION_MEASURES,
    GROUP_MEASURES,
    MEASURES,
    TEST_FACTS,
    Evaluation,
    evaluate,
)
from bmcd.evaluation.intervals import Interval, PairedDifference, paired_differences
from bmcd.files import open_replacement, write_csv, write_file, write_json
from bmcd.markup import table, tag, text_table
from bmcd.models.top_k import check_k
from bmcd.progress import counting
from bmcd.utils import listed, versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from bmcd.simulation import Simulation


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


PACKAGES = ("bmcd", "numpy", "scipy", "numba", "implicit", "pyspark")
PLOTTED = ("coverage", "novelty")


def config_of(comparison: Comparison) -> dict[str, Any]:
    """Return what the comparison was made of, for `write_json`."""

    def settings(entry: Entry) -> dict[str, Any]:
        options = entry.model.get_params() if hasattr(entry.model, "get_params") else repr(entry.model)
        fitted = {"fitted_before": True} if entry.fitted_before else {"fit": entry.fit}
        return {"class": type(entry.model).__name__, "options": options, **fitted}

    def described(clicks: Clicks) -> dict[str, Any]:
        sizes = {name: getattr(clicks, name) for name in ("n_users", "n_items", "n_clicks")}
        return {**sizes, "fingerprint": clicks.fingerprint(), "history": clicks.history}

    test = comparison.test
    return {
        **{name: getattr(comparison, name) for name in ("k", "seed", "against", "level", "resamples")},
        "models": {name: settings(entry) for name, entry in comparison.entries.items()},
        "train": described(comparison.train),
        "test": described(test) if isinstance(test, Clicks) else {"simulation": described(test.clicks)},
        "versions": {"python": platform.python_version(), **versions(PACKAGES)},
    }


class Entry(NamedTuple):
    """One model of a comparison."""

    model: Any
    fit: dict[str, Any]
    """The options `compare` fitted it with; empty if it came fitted."""
    fitted_before: bool
    fit_seconds: float
    """NaN if it came fitted."""
    recommend_seconds: float
    evaluation: Evaluation
    intervals: dict[str, Interval]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The result of `bmcd.compare`: models by measures; `print` it for the main ones.

    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> models = {"EASE": bmcd.baselines.EASE(), "popularity": bmcd.baselines.Popularity()}
    >>> comparison = bmcd.compare(models, simulation.clicks, simulation, k=5, against="popularity")
    >>> comparison.table["model"].tolist()
    ['EASE', 'popularity']
    >>> comparison.value("EASE", "accuracy") > comparison.value("popularity", "accuracy")
    True
    """

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
    horizon: int | None = None
    """The number of next clicks that was asked for; None for k."""

    @property
    def about_the_test(self) -> list[str]:
        """How the test clicks were chosen, and who was not scored, in words."""
        return self.entries[self.against].evaluation.about_the_test()

    @property
    def measures(self) -> list[str]:
        """The names of all measures; those of calibration only if some model gives probabilities."""
        calibrated = any(entry.evaluation.calibration is not None for entry in self.entries.values())
        grouped = any(entry.evaluation.by_group for entry in self.entries.values())
        more = (*(CALIBRATION_MEASURES if calibrated else ()), *(GROUP_MEASURES if grouped else ()))
        return [*MEASURES, *more]

    def value(self, name: str, measure: str) -> float:
        """Return one measure of one model; NaN for calibration of a model without probabilities."""
        return self.entries[name].evaluation.value(measure)

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
        entry, differences = self.entries[name], self.differences.get(name, {})
        row = {"model": name, "fit_seconds": entry.fit_seconds, "recommend_seconds": entry.recommend_seconds}
        for measure in self.measures:
            row[measure] = self.value(name, measure)
            if any(measure in other.intervals for other in self.entries.values()):
                interval, gap = entry.intervals.get(measure), differences.get(measure)
                row |= {f"{measure}_{end}": getattr(interval, end, math.nan) for end in ("low", "high")}
                if len(self.entries) > 1:
                    row[f"{measure}_difference"] = getattr(gap, "difference", math.nan)
                    row |= {f"{measure}_difference_{end}": getattr(gap, end, math.nan) for end in ("low", "high")}
                    row[f"{measure}_p_value"] = getattr(gap, "p_value", math.nan)
        return row

    def to_dict(self) -> dict[str, Any]:
        """Return all measures, intervals and differences, ready for JSON."""
        models = {
            name: {
                "fit_seconds": None if entry.fitted_before else entry.fit_seconds,
                "recommend_seconds": entry.recommend_seconds,
                "evaluation": entry.evaluation.to_dict(),
                "intervals": {measure: [ends.low, ends.high] for measure, ends in entry.intervals.items()},
                "differences": {
                    measure: difference.to_dict() for measure, difference in self.differences.get(name, {}).items()
                },
            }
            for name, entry in self.entries.items()
        }
        evaluation = self.entries[self.against].evaluation
        facts = {"k": self.k, **{name: getattr(evaluation, name) for name in TEST_FACTS}}
        return {**facts, "against": self.against, "level": self.level, "models": models}

    def to_markdown(self) -> str:
        """Return the main measures as a table in Markdown."""
        headings, *rows = _cells(self, SHOWN)
        lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
        escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        return "\n".join("| " + " | ".join(line) + " |" for line in escaped) + "\n"

    def __rich__(self) -> Table:
        """Return a table for a terminal, with intervals below their numbers."""
        from rich.box import SIMPLE_HEAD
        from rich.markup import escape
        from rich.table import Table

        headings, *rows = _cells(self, SHOWN_IN_TERMINAL, gap="\n")
        shown = Table(title=escape(self._title()), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for number, heading in enumerate(headings):
            shown.add_column(escape(heading), justify="right" if number else "left")
        for row in rows:
            shown.add_row(*map(escape, row))
        return shown

    def _repr_html_(self) -> str:
        headings, *rows = _cells(self, SHOWN)
        return tag("div", tag("p", self._title()), table(headings, rows))

    def __repr__(self) -> str:
        return "\n".join([self._title(), *text_table(_cells(self, SHOWN))])

    def _title(self) -> str:
        evaluation = self.entries[self.against].evaluation
        test = f"; test: {evaluation.split}" if evaluation.split else ""
        if evaluation.horizon not in (None, self.k):
            test += f"; the next {evaluation.horizon}"
        n_users = self.train.n_users if evaluation.horizon is None else evaluation.n_users
        return (
            f"{len(self.entries)} models, {self.k} recommendations for each of {n_users:,} users; "
            f"{self.level:.0%} intervals{test}"
        )

    def plot(self, x: str = "coverage", y: str = "accuracy") -> Figure:
        """Return a matplotlib figure of one measure against another, a point for each model, with intervals."""
        from bmcd import plots

        return plots.measures(self, x, y)

    def save(self, folder: str | Path, *, plots: bool = True) -> Path:
        """Write table.csv, table.md, comparison.json, config.json and plots into a folder, and return it.

        config.json has versions, seed, options, models with their settings, and the fingerprints of the clicks.
        ``plots`` adds figures of accuracy against coverage and against novelty.
        """
        folder = Path(folder)
        write_file(folder / "table.md", self.to_markdown().encode())
        with open_replacement(folder / "table.csv") as file:
            write_csv(file, self.table)
        write_json(folder / "comparison.json", self.to_dict(), indent=2)
        write_json(folder / "config.json", config_of(self), indent=2)
        for measure in PLOTTED if plots else ():
            image = io.BytesIO()
            self.plot(measure, "accuracy").savefig(image, dpi=150)
            write_file(folder / f"accuracy_{measure}.png", image.getvalue())
        return folder


def compare(
    models: Mapping[str, Any],
    train: Clicks,
    test: Clicks | Simulation,
    k: int = 10,
    *,
    horizon: int | None = None,
    histories: Any = None,
    repeats: bool = False,
    against: str | None = None,
    seed: int = 0,
    fit: Mapping[str, Mapping[str, Any]] | None = None,
    n_popular: int | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    progress: bool | None = None,
) -> Comparison:
    """Fit models, let each recommend k items to every user, and measure all of them on the same test.

    A model that is fitted already is used as it is, and the time its fit took is not known; it must have been
    fitted to ``train``. A model that is not fitted is fitted here, and stays fitted. `tune` the baselines first: a
    comparison with baselines that are not tuned is not fair.

    Parameters
    ----------
    models
        By name: anything with the fit and recommend of `BMCD` and `bmcd.baselines`.
    train, test
        As in `evaluate`.
    k
        How many recommendations for each user.
    horizon
        The number of next clicks in which a hit must fall, by default k; see `evaluate`. Models with probabilities
        are asked for the same horizon.
    histories, repeats
        As in `evaluate`: what the users of `test` had clicked, if they are not users of `train`; and whether
        repeated clicks count.
    against
        The model that the others are compared with, user by user; by default the first.
    seed
        Of every fit, and of the bootstrap.
    fit
        Options of `fit` by the name of the model, such as ``{"BMCD": {"draws": 500}}``.
    n_popular
        As in `evaluate`.
    level, resamples
        Of the intervals, which are over resamples of the users.
    progress
        Show a bar (default: if standard error is a terminal).

    Examples
    --------
    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> rivals = {"popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    >>> comparison = compare(rivals, simulation.clicks, simulation, k=5)
    >>> comparison.table[["model", "accuracy", "coverage"]].round(3).values.tolist()
    [['popularity', 0.184, 0.2], ['EASE', 0.252, 0.64]]
    """
    k, options, names = check_k(k), fit or {}, list(models)
    if not models:
        raise InputError("there are no models to compare.")
    if unknown := [name for name in options if name not in models]:
        raise InputError(f"fit has options for {listed(unknown)}, but the models are {listed(names, 20)}.")
    against = names[0] if against is None else against
    if against not in models:
        raise InputError(f"against is {against!r}, but the models are {listed(names, 20)}.")
    for name, model in models.items():
        check_fitted_to(name, model, train)
    how: dict[str, Any] = {"horizon": horizon, "histories": histories, "repeats": repeats, "k": k}
    how["n_popular"] = n_popular
    bootstrap: dict[str, Any] = {"level": level, "resamples": resamples, "seed": seed}
    entries: dict[str, Entry] = {}
    with counting(progress, "models", len(models)) as show:
        for name, model in models.items():
            fitted_before = is_fitted(model)
            fit_options = {} if fitted_before else {"seed": seed, **options.get(name, {})}
            fit_seconds = math.nan if fitted_before else _timed(model.fit, train, **fit_options)[1]
            ask = model.recommend if histories is None else partial(model.recommend_for, histories)
            own: dict[str, Any] = {} if horizon is None else taken(ask, horizon=horizon)
            own |= {} if histories is None else {"unknown": "ignore"}
            recommended, recommend_seconds = _timed(ask, k, **own)
            evaluation = evaluate(recommended, train, test, **how)
            intervals = evaluation.intervals(**bootstrap)
            entries[name] = Entry(
                model, fit_options, fitted_before, fit_seconds, recommend_seconds, evaluation, intervals
            )
            show(len(entries))
    base = entries[against].evaluation
    differences = {}
    for name, entry in entries.items():
        if name != against:
            shared = [measure for measure in entry.evaluation.per_user if measure in base.per_user]
            differences[name] = paired_differences(entry.evaluation, base, shared, **bootstrap)
    return Comparison(entries, differences, against, k, seed, level, resamples, train, test, horizon)


def _timed(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    """Return what the call returns, and how many seconds it took."""
    began = time.perf_counter()
    return function(*arguments, **options), time.perf_counter() - began


def is_fitted(model: Any) -> bool:
    """Return whether the model has learned something, as attributes that end in an underscore show."""
    return any(name.endswith("_") and not name.startswith("_") for name in vars(model))


def check_fitted_to(name: str, model: Any, train: Clicks) -> None:
    """Raise `InputError` if the model keeps the clicks it was fitted to, and they are not the training clicks."""
    clicks = getattr(model, "clicks_", None)
    if isinstance(clicks, Clicks) and clicks is not train and clicks.fingerprint() != train.fingerprint():
        raise InputError(
            f"{name} is fitted to other clicks than train ({clicks!r} against {train!r}), and may have seen the "
            "test. Fit it to train, or pass one that is not fitted."
        )
