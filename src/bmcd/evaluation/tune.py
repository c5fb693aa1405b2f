"""tune: choose the settings of a model on later clicks, or by cross-validation over clicks without an order."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bmcd.clicks import splitting
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, Message, Option
from bmcd.evaluation.backtest import window_hits
from bmcd.evaluation.evaluate import evaluate
from bmcd.models.top_k import check_horizon, check_k
from bmcd.progress import counting
from bmcd.utils import Floats, thread_count

LATER = 0.2
"""The share of the clicks, the last ones, on which settings are chosen."""
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """The result of `tune`: the best settings, and the scores of all that were tried."""

    model_class: Callable[..., Any]
    settings: tuple[dict[str, Any], ...]
    """All settings that were tried, in the order of the grid."""
    fold_accuracy: Floats
    """Accuracy at k, settings x folds."""
    seconds: Floats
    """Seconds to fit and recommend, settings x folds."""
    k: int
    seed: int
    horizon: int | None = None
    """The number of next clicks in which a hit must fall; None without order: all clicks of a fold count."""
    split: str = "random clicks of each user"
    """Which clicks the settings were chosen on."""

    @property
    def accuracy(self) -> Floats:
        """The accuracy of each setting, mean over the folds."""
        mean: Floats = self.fold_accuracy.mean(axis=1)
        return mean

    @property
    def best(self) -> dict[str, Any]:
        """The setting with the highest accuracy; of equal ones the first."""
        return dict(self.settings[int(self.accuracy.argmax())])

    @property
    def model(self) -> Any:
        """A model with the best settings, not fitted yet."""
        return self.model_class(**self.best)

    @property
    def at_the_edge(self) -> tuple[str, ...]:
        """Names of settings whose best value is the largest or smallest tried: values beyond it may be better."""
        names = []
        for name, value in self.best.items():
            tried = {setting.get(name) for setting in self.settings}
            numbers = [number for number in tried if isinstance(number, int | float)]
            if len(numbers) > 2 and value in (min(numbers), max(numbers)):
                names.append(name)
        return tuple(names)

    @property
    def table(self) -> Any:
        """A pandas frame with a row for each setting, best first: settings, accuracy, standard_error, seconds.

        The standard error is that of the mean over the folds. Differences between settings are more certain than
        it suggests, because all settings see the same folds.
        """
        import pandas as pd

        frame = pd.DataFrame(list(self.settings))
        frame["accuracy"] = self.accuracy
        n_folds = self.fold_accuracy.shape[1]
        frame["standard_error"] = self.fold_accuracy.std(axis=1, ddof=1) / np.sqrt(n_folds)
        frame["seconds"] = self.seconds.sum(axis=1)
        return frame.sort_values("accuracy", ascending=False, kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        name = getattr(self.model_class, "__name__", str(self.model_class))
        best = ", ".join(f"{key}={value!r}" for key, value in self.best.items())
        text = (
            f"Tuning({name}({best}): accuracy at {self.k} is {self.accuracy.max():.4f}, the best of "
            f"{len(self.settings)} settings in {self.fold_accuracy.shape[1]} folds of {self.split})"
        )
        if edge := self.at_the_edge:
            text += f"\nAt the edge of the grid: {', '.join(edge)}. Try values beyond it."
        return text


def tune(
    model_class: Callable[..., Any],
    clicks: Clicks,
    grid: Grid,
    folds: int = 10,
    k: int = 10,
    *,
    horizon: int | None = None,
    repeats: bool = False,
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | None = None,
    fit: Mapping[str, Any] | None = None,
) -> Tuning:
    """Choose the settings with the highest accuracy at k.

    In a log with an order they are chosen on later clicks: the time of the last fifth of the clicks is cut into
    windows, as many as there are folds, and the model is fitted to all clicks before each. Windows without clicks
    are left out. Without a clock the second half of the users is cut into parts instead. The accuracy is the share
    of hits, among the next clicks after a random moment of each user, of the k items recommended at that moment.

    In a log without an order every user's clicks are dealt out over the folds. Each fold in turn is taken away and
    the model fitted to the rest. The accuracy is the share of hits among the k items recommended to each user who
    has a click in the fold.

    Parameters
    ----------
    model_class
        `ALS`, `EASE`, ...: anything that returns a model when called with the settings.
    clicks
        The training clicks. The test clicks of a later comparison must not be among them.
    grid
        The values to try by the name of the setting, in all combinations; or a list of such dicts.
    folds, k
        How many folds, and how many recommendations.
    horizon
        The number of next clicks in which a hit must fall, by default k; for users with fewer, all that there are.
        Only for logs with an order.
    repeats
        Whether a click on an item clicked before counts as a next click.
    seed
        Of the folds, and of every fit.
    n_threads
        Fits at a time (default: as many as cores); it does not change the result.
    progress
        Show a bar (default: if standard error is a terminal).
    fit
        More options for `fit`.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=300, seed=1).clicks
    >>> tuning = tune(bmcd.baselines.EASE, clicks, {"regularization": [1.0, 100.0, 10_000.0]}, folds=3, k=5)
    >>> tuning.best
    {'regularization': 10000.0}
    >>> tuning.at_the_edge  # so larger values should be tried as well
    ('regularization',)
    >>> tuning.table.columns.tolist()
    ['regularization', 'accuracy', 'standard_error', 'seconds']
    """
    k, settings = check_k(k), _settings(grid)
    parts, split = _parts(clicks, folds, k, horizon, seed, repeats)
    options = {"seed": seed, "n_threads": 1, **(fit or {})}
    accuracy, seconds = (np.full((len(settings), len(parts)), np.nan) for _ in range(2))

    def measure(s: int, f: int) -> None:
        began, fold = time.perf_counter(), parts[f]
        model = model_class(**settings[s]).fit(fold.train, **options)
        if isinstance(fold, splitting.Window):
            limit = check_horizon(horizon, k)
            accuracy[s, f] = window_hits(model, fold, k, limit, repeats=repeats, n_threads=1).hit.mean()
            seconds[s, f] = time.perf_counter() - began
            return
        recommended = model.recommend(k, users=fold.users)
        seconds[s, f] = time.perf_counter() - began
        accuracy[s, f] = evaluate(recommended, fold.train, fold.test, k=k).accuracy

    # Threads, not processes: almost all time is spent in compiled code, and nothing needs to be copied.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(thread_count(n_threads)) as pool:
        jobs = [pool.submit(measure, s, f) for s in range(len(settings)) for f in range(len(parts))]
        try:
            with counting(progress, "tuning", len(jobs)) as show:
                for n_done, job in enumerate(as_completed(jobs), start=1):
                    job.result()
                    show(n_done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    limit = None if clicks.order is None else check_horizon(horizon, k)
    return Tuning(model_class, tuple(settings), accuracy, seconds, k, seed, limit, split)


def _settings(grid: Grid) -> list[dict[str, Any]]:
    """Return every combination of the values of a grid, or of each of several; the last name changes fastest."""
    found: list[dict[str, Any]] = []
    for one in [grid] if isinstance(grid, Mapping) else grid:
        for name, values in one.items():
            if isinstance(values, str | bytes) or not isinstance(values, Iterable) or not len(list(values)):
                raise InputError(f"the grid has no list of values to try for {name!r}, but {values!r}.")
        names = sorted(one)
        found += [dict(zip(names, values, strict=True)) for values in product(*(one[name] for name in names))]
    return found


def _parts(
    clicks: Clicks, folds: int, k: int, horizon: int | None, seed: int, repeats: bool
) -> tuple[list[Any], str]:
    """Return what to fit to and to evaluate on, as often as there are folds, and which clicks these are."""
    if clicks.order is None:
        if horizon is not None:
            said = "the log has no order, so there are no next clicks. Leave the horizon out, or say "
            raise InputError(Message(said, "where the order is when reading: ", Option("time_column", "..."), "."))
        return list(splitting.folds(clicks, folds, seed)), "random clicks of each user"
    limit = check_horizon(horizon, k)
    if not clicks.has_clock:
        return list(splitting.user_windows(clicks, folds, limit, seed, repeats)), "later users"
    times = clicks.times
    assert times is not None
    span = int((times.max() - np.sort(times)[int((1 - LATER) * len(times))]).astype(np.int64))
    window = f"{max(span // max(operator.index(folds), 1), 1) / 1000:.3f}ms"
    windows = splitting.time_windows(clicks, folds, window, limit, "moment", seed, repeats)
    return [one for one in windows if len(one.test.sequence)], "later clicks"
