"""backtest: fit a model at several past times, and evaluate it on the clicks that followed each."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks import splitting
from bmcd.clicks.log import Clicks, Library
from bmcd.clicks.splitting import Window
from bmcd.errors import ClicksError, InputError, InputTypeError, Message, Option
from bmcd.evaluation.calibration import GROUPS, equal_groups
from bmcd.evaluation.intervals import bootstrap, percentiles
from bmcd.evaluation.metrics import PerUser, RankedLists, read_lists
from bmcd.files import json_ready
from bmcd.markup import paragraphs, table, tag, text_table
from bmcd.models.estimator import clone
from bmcd.models.top_k import check_horizon, check_k, read_truth, was_clicked
from bmcd.progress import counting
from bmcd.utils import Floats, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Ints = NDArray[np.int64]

DEFAULT_WINDOW = "1d"


class WindowHits(NamedTuple):
    """What one model predicted in one window, and what happened; users are those of the window."""

    user: Ints
    """The user of each recommendation."""
    hit: NDArray[np.bool_]
    probability: Floats | None
    """None for models that give scores."""
    n_clicks: Ints
    """Of each user: the clicks that were observed, at most the horizon; what the predictions are for."""
    n_outside: Ints
    """Of each user: those of them on items outside the model."""
    expected_outside: Floats | None
    """Of each user: how many of them the model expected outside; None for models that do not say."""


def windows_of(
    clicks: Clicks, cuts: int | Sequence[Any], window: str | None, horizon: int, at: str, seed: int, repeats: bool
) -> Iterator[Window]:
    """Return windows in time where the log has a clock, and otherwise cuts between users."""
    if clicks.has_clock:
        return splitting.time_windows(clicks, cuts, window or DEFAULT_WINDOW, horizon, at, seed, repeats)
    if window is not None:
        said = f"the log has no clock, so a window of {window} has no meaning. Say which column has the times when "
        then = ", or leave the window out: cuts are then made between users."
        raise ClicksError(Message(said, "reading: ", Option("time_column", "..."), then))
    if at == "cut":
        raise InputError(
            "at='cut' needs a log with a clock: without one cuts are made between users, and nothing is known of "
            "the later users at the cut. Use at='moment'."
        )
    if at != "moment":
        raise InputError(f"at must be 'moment' or 'cut', but it is {at!r}.")
    return splitting.user_windows(clicks, cuts, horizon, seed, repeats)


def takes(function: Callable[..., Any], option: str) -> bool:
    """Return whether a method of a model has an option of that name.

    >>> takes(lambda k, *, horizon=None: None, "horizon"), takes(lambda k: None, "horizon")
    (True, False)
    """
    return option in inspect.signature(function).parameters


def taken(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Return those of some options that a method of a model has."""
    return {name: value for name, value in options.items() if takes(function, name)}


def window_hits(
    model: Any, window: Window, k: int, horizon: int, *, repeats: bool, n_threads: int | None = None
) -> WindowHits:
    """Ask a fitted model for lists of k items, and count the hits among the clicks that followed.

    Predictions are for min(horizon, observed) clicks of each user: users with the same number are asked together.
    Models without a horizon, which give scores, only have hits.
    """
    histories = window.histories
    truth = read_truth(window.test, histories, k, horizon, repeats=repeats, fewer=True)
    options = {"unknown": "ignore", **taken(model.recommend_for, n_threads=n_threads, progress=False)}
    asked = takes(model.recommend_for, "horizon")
    # A model without a horizon is asked for all users at once.
    of_user = truth.n_clicks if asked else np.minimum(truth.n_clicks, 1)
    found: list[tuple[Ints, RankedLists]] = []
    expected, known = np.zeros(histories.n_users), asked
    for g in np.unique(of_user[of_user > 0]).tolist():
        rows = np.flatnonzero(of_user == g)
        people = histories.of_users(rows)
        frame = model.recommend_for(people, k, **options, **({"horizon": g} if asked else {}))
        if len(frame):
            found.append((rows, read_lists(frame, people, repeats)))
        outside = _expected_outside(model, frame, g) if known else None
        known &= outside is not None
        expected[rows] = outside or 0.0
    if not found:
        raise InputError(f"the model recommended nothing in the window from {window.label} on.")
    user = np.concatenate([rows[lists.user] for rows, lists in found])
    order = np.argsort(user, kind="stable")
    hit = was_clicked(truth.matrix, user, np.concatenate([lists.item for _, lists in found]))
    probability = _joined([lists.probability for _, lists in found]) if asked else None
    return WindowHits(
        user[order],
        hit[order],
        None if probability is None else probability[order],
        truth.n_clicks,
        truth.n_outside,
        expected if known else None,
    )


def _joined(parts: Sequence[Any]) -> Any:
    """Return arrays as one; None if one of them is missing."""
    return None if any(part is None for part in parts) else np.concatenate(parts)


def _expected_outside(model: Any, recommended: Any, g: int) -> float | None:
    """Return how many of the next g clicks a model expects outside its items, on average over the users."""
    attributes = getattr(recommended, "attrs", None) or {}
    if "outside" in attributes:
        found = attributes["outside"]
    elif hasattr(model, "outside"):
        found = model.outside(g)
    else:
        return None
    return float(np.mean(np.asarray(found, np.float64)))


ALL = "all"
"""The cut of the rows that sum up all cuts."""


class Row(NamedTuple):
    """One model at one cut, or at all cuts, with the columns of `Backtest.to_frame`; NaN where nothing is known."""

    model: str
    cut: str
    n_users: int
    n_new_users: int
    n_with_fewer: int
    n_recommendations: int
    n_hits: int
    hit_rate: float
    hit_rate_low: float
    hit_rate_high: float
    predicted: float
    difference: float
    difference_low: float
    difference_high: float
    ece_at_k: float
    expected_outside: float
    observed_outside: float
    fit_seconds: float


class _Cut(NamedTuple):
    """What one model did at one cut."""

    label: str
    users: list[Any]
    is_new: NDArray[np.bool_]
    found: WindowHits
    fit_seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Backtest:
    """The result of `bmcd.backtest`: a table per cut and in all; `print` it, or take `to_frame()`.

    >>> import bmcd
    >>> clicks = bmcd.load_dataset("eshop").of_users(range(2000))
    >>> model = bmcd.Tastes(3, chains=2)
    >>> result = bmcd.backtest(model, clicks, cuts=2, k=5, fit={"draws": 2, "warmup": 10})
    >>> result.to_frame()["cut"].tolist()
    ['50% of users', '75% of users', 'all']
    """

    rows: tuple[Row, ...]
    """Model by model, each cut and then all."""
    k: int
    horizon: int
    """The number of next clicks predicted, fewer for users with fewer."""
    at: str
    splits: tuple[str, ...]
    """How the test clicks of each cut were chosen."""
    level: float
    without_clicks: tuple[str, ...] = ()
    """The cuts whose windows have no clicks; they are left out."""

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return the table as a frame: one row per model and cut, and one per model for all cuts.

        `hit_rate` is the share of the recommendations that were clicked, `predicted` their mean probability,
        `difference` predicted minus observed, `ece_at_k` the calibration error in ten groups of equal size.
        `expected_outside` and `observed_outside` are shares of the next clicks on items outside the model.
        `n_with_fewer` counts users with fewer clicks than the horizon, who are scored for those that they have.
        """
        import narwhals as nw

        data = {name: list(column) for name, column in zip(Row._fields, zip(*self.rows, strict=True), strict=True)}
        return nw.from_dict(data, backend=library).to_native()

    def row(self, cut: str = ALL, model: str | None = None) -> Row:
        """Return the row of one cut, by default of all, of a model, by default the first."""
        for row in self.rows:
            if row.cut == cut and row.model == (self.models[0] if model is None else model):
                return row
        raise InputError(
            f"there is no cut {cut!r} of a model {model!r}; cuts are {', '.join(self.cuts)} and {ALL}."
        )

    @property
    def models(self) -> list[str]:
        """The names of the models."""
        return list(dict.fromkeys(row.model for row in self.rows))

    @property
    def cuts(self) -> list[str]:
        """The cuts, in order."""
        return list(dict.fromkeys(row.cut for row in self.rows if row.cut != ALL))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON; None where there is nothing to say."""
        names = ("k", "horizon", "at", "level", "splits", "without_clicks")
        found = {name: getattr(self, name) for name in names} | {"rows": [row._asdict() for row in self.rows]}
        return json_ready(found)  # type: ignore[no-any-return]

    def plot(self) -> Figure:
        """Return the figure `bmcd.plots.backtest`: predicted and observed per cut."""
        from bmcd import plots

        return plots.backtest(self)

    def __str__(self) -> str:
        heads, cells = self._cells()
        rows = text_table([heads, *cells], left=2 if len(self.models) > 1 else 1)
        return "\n".join([self._title(), *rows, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tag("div", paragraphs(self._title()), table(*self._cells()), paragraphs(*self._notes()))

    def _notes(self) -> list[str]:
        if not self.without_clicks:
            return []
        return [f"left out, because nobody clicked in their windows: {listed(list(self.without_clicks))}"]

    def _title(self) -> str:
        asked = "next click" if self.horizon == 1 else f"next {self.horizon} clicks"
        where = "a random moment of each user" if self.at == "moment" else "the cut"
        return f"Back-test: lists of {self.k} for the {asked} after {where}; {self.level:.0%} intervals over users"

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        several = len(self.models) > 1
        outside = any(not math.isnan(row.expected_outside) for row in self.rows)
        heads = [*(["model"] if several else []), "cut", "users", "fewer clicks", "hits", "hit rate %"]
        heads += ["predicted %", "difference", "ECE@k", "outside % (expected)" if outside else "outside %", "fit s"]
        cells = []
        for row in self.rows:
            expected = f" ({_pct(row.expected_outside)})" if not math.isnan(row.expected_outside) else ""
            line = [
                row.cut,
                *(f"{number:,}" for number in (row.n_users, row.n_with_fewer, row.n_hits)),
                _ends(row.hit_rate, row.hit_rate_low, row.hit_rate_high),
                _pct(row.predicted),
                _ends(row.difference, row.difference_low, row.difference_high, "+"),
                "" if math.isnan(row.ece_at_k) else f"{row.ece_at_k:.3f}",
                _pct(row.observed_outside) + expected,
                f"{row.fit_seconds:.1f}",
            ]
            cells.append([row.model, *line] if several else line)
        return heads, cells


def backtest(
    model: Any,
    clicks: Clicks,
    cuts: int | Sequence[Any] = 5,
    window: str | None = None,
    k: int = 10,
    horizon: int | None = None,
    at: Literal["moment", "cut"] = "moment",
    seed: int = 0,
    *,
    repeats: bool | None = None,
    fit: Mapping[str, Any] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Backtest:
    """Fit a model at several past times, and evaluate each fit on the clicks that followed.

    At each cut a new copy of the model is fitted to all clicks before it, without a warm start. It then recommends
    to the users who were active in the window that followed, from what they had clicked at a random moment or, with
    ``at="cut"``, at the cut (nightly lists). Predictions are for min(horizon, observed) clicks of each user.

    Parameters
    ----------
    model
        Anything with the `fit` and `recommend_for` of the models and baselines, or a dict of such by name.
    clicks
        A log with an order. Without a clock, cuts are made between earlier and later users.
    cuts
        The number of windows, which end with the log; or a list of the times at which windows begin. Without a
        clock: of parts of the second half of the users, or a list of shares of the users.
    window
        How long each fit is in use, such as "1h"; by default "1d". Only for logs with a clock.
    k
        The length of the lists.
    horizon
        The number of next clicks that a probability refers to; by default k. Models that give scores have no
        horizon, and only hits.
    at
        "moment": at a random moment of each user active in the window. "cut": at the cut.
    seed
        Of the fits, the moments and the bootstrap.
    repeats
        Whether a click on an item clicked before counts as a next click; by default as the model has it.
    fit
        More options for `fit`; of several models by their names, as in `compare`.
    level, resamples
        Of the intervals, which are over resamples of the users.
    n_threads, progress
        As in `fit`.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.load_dataset("eshop").of_users(range(2000))
    >>> model = bmcd.Tastes(3, chains=2)
    >>> result = bmcd.backtest(model, clicks, cuts=2, k=5, horizon=1, fit={"draws": 2, "warmup": 10})
    >>> 0 < result.row().hit_rate < result.row().hit_rate_high
    True
    """
    if not isinstance(clicks, Clicks):
        raise InputTypeError(f"clicks must be Clicks, not {type(clicks).__name__}.")
    models = dict(model) if isinstance(model, Mapping) else {type(model).__name__: model}
    if not models:
        raise InputError("there are no models to back-test.")
    for name, one in models.items():
        if not hasattr(one, "fit") or not hasattr(one, "recommend_for"):
            raise InputTypeError(f"{name} must have fit and recommend_for, but it is a {type(one).__name__}.")
    k = check_k(k)
    horizon = check_horizon(horizon, k)
    if repeats is None:
        kinds = {bool(getattr(one, "repeats", False)) for one in models.values()}
        if len(kinds) > 1:
            raise InputError("some models count repeated clicks and others do not. Say repeats=True or False.")
        repeats = kinds.pop()
    windows = windows_of(clicks, cuts, window, horizon, at, seed, repeats)
    n_fits = len(models) * (int(cuts) if isinstance(cuts, int | np.integer) else len(cuts))
    done: dict[str, list[_Cut]] = {name: [] for name in models}
    splits, without_clicks = [], []
    with counting(progress, "fits", n_fits) as show:
        for one_window in windows:
            if not len(one_window.test.sequence):
                without_clicks.append(one_window.label)
                continue
            splits.append(one_window.test.split)
            users = one_window.histories.users.tolist()
            earlier = set(one_window.train.users.tolist())
            is_new = np.array([user not in earlier for user in users])
            for name, one in models.items():
                own = (fit or {}).get(name, {}) if isinstance(model, Mapping) else fit or {}
                fitted, seconds = fitted_copy(
                    one, one_window.train, seed, **{**taken(one.fit, n_threads=n_threads), **own}
                )
                found = window_hits(fitted, one_window, k, horizon, repeats=repeats, n_threads=n_threads)
                done[name].append(_Cut(one_window.label, users, is_new, found, seconds))
                show(sum(map(len, done.values())))
    if not splits:
        raise InputError(
            f"nobody clicked anything in the windows that begin at {listed(without_clicks)}. Use longer windows, "
            "or other cuts."
        )
    interval = (level, resamples, seed)
    rows = []
    for name, cuts_done in done.items():
        rows += [_row(name, cut.label, [cut], horizon, interval) for cut in cuts_done]
        rows.append(_row(name, ALL, cuts_done, horizon, interval))
    return Backtest(tuple(rows), k, horizon, at, tuple(splits), level, tuple(without_clicks))


def fitted_copy(model: Any, train: Clicks, seed: int, **options: Any) -> tuple[Any, float]:
    """Return a new copy of a model fitted to the clicks, and how many seconds that took."""
    fresh = clone(model)
    own = taken(fresh.fit, seed=seed, progress=False)
    began = time.perf_counter()
    fitted = fresh.fit(train, **{**own, **options})
    return fitted, time.perf_counter() - began


def _row(name: str, label: str, cuts: list[_Cut], horizon: int, interval: tuple[float, int, int]) -> Row:
    """Sum up one cut or several; a user of several cuts is one user for the intervals."""
    place: dict[Any, int] = {}
    codes = [np.array([place.setdefault(user, len(place)) for user in cut.users], np.int64) for cut in cuts]
    user = np.concatenate([code[cut.found.user] for code, cut in zip(codes, cuts, strict=True)])
    _, hit, probability, n_clicks, n_outside, expected = map(
        _joined, zip(*(cut.found for cut in cuts), strict=True)
    )
    rate, n = float(hit.mean()), float(n_clicks.sum())
    predicted, ece, own = math.nan, math.nan, [_per_user(hit, user, len(place))]
    if probability is not None:
        gap = probability - hit
        predicted = float(probability.mean())
        groups = np.bincount(equal_groups(probability), weights=gap, minlength=GROUPS)
        ece = float(np.abs(groups).sum() / len(gap))
        own.append(_per_user(gap, user, len(place)))
    ends = [*_intervals(own, *interval), (math.nan, math.nan)]
    return Row(
        model=name,
        cut=label,
        n_users=sum(len(cut.users) for cut in cuts),
        n_new_users=int(sum(cut.is_new.sum() for cut in cuts)),
        n_with_fewer=int((n_clicks < horizon).sum()),
        n_recommendations=len(hit),
        n_hits=int(hit.sum()),
        hit_rate=rate,
        hit_rate_low=ends[0][0],
        hit_rate_high=ends[0][1],
        predicted=predicted,
        difference=predicted - rate,
        difference_low=ends[1][0],
        difference_high=ends[1][1],
        ece_at_k=ece,
        expected_outside=math.nan if expected is None else float(expected.sum() / n),
        observed_outside=float(n_outside.sum() / n),
        fit_seconds=sum(cut.fit_seconds for cut in cuts),
    )


def _per_user(values: NDArray[Any], user: NDArray[np.int64], n_users: int) -> PerUser:
    return PerUser(
        np.bincount(user, weights=values, minlength=n_users).astype(np.float64),
        np.bincount(user, minlength=n_users).astype(np.float64),
    )


def _intervals(measures: list[PerUser], level: float, resamples: int, seed: int) -> list[tuple[float, float]]:
    if (measures[0].denominator > 0).sum() < 2:
        return [(math.nan, math.nan)] * len(measures)
    return [percentiles(draws, level)[:2] for draws in bootstrap(measures, resamples, seed).T]


def _pct(share: float) -> str:
    return "" if math.isnan(share) else f"{100 * share:.1f}"


def _ends(value: float, low: float, high: float, sign: str = "") -> str:
    if math.isnan(value):
        return ""
    ends = "" if math.isnan(low) else f" ({100 * low:{sign}.1f}, {100 * high:{sign}.1f})"
    return f"{100 * value:{sign}.1f}{ends}"
