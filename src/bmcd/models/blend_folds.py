"""The models of a blend, fitted to all clicks and without each fold; and what they said of the fold's clicks."""

from __future__ import annotations

import copy
import inspect
import json
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from bmcd.blending.features import Scores, make_scale
from bmcd.blending.likelihood import HeldOut
from bmcd.blending.parts import gives_law, part_scores
from bmcd.blending.rule import Activity, stack_features
from bmcd.clicks import splitting
from bmcd.clicks.log import Clicks
from bmcd.clicks.splitting import Fold
from bmcd.errors import BlendError, BmcdError, FitWarning, InputError, Interrupted
from bmcd.prediction.top_k import clicked_mask
from bmcd.system import container
from bmcd.system.progress import clock, tell
from bmcd.system.threads import thread_count

# The weights are few, so not all rows are needed to learn them: rows x items at most.
MOST_CELLS = 1_600_000
FEWEST_ROWS = 500


class BlendRun(NamedTuple):
    """What `Blend.fit` was told, besides clicks and models."""

    seed: int
    n_threads: int | None
    progress: bool | None
    checkpoint: str | Path | None
    max_time: float | None
    fit_options: Mapping[str, Mapping[str, Any]]


def fit_without_folds(
    models: Mapping[str, Any], clicks: Clicks, folds: int, run: BlendRun
) -> tuple[dict[str, Any], HeldOut, Activity]:
    """Return the models fitted to all clicks, the clicks held out with their features, and how active users are."""
    if unknown := run.fit_options.keys() - models.keys():
        raise InputError(
            f"fit_options are for {', '.join(sorted(unknown))}, but the models are {', '.join(models)}."
        )
    parts = splitting.folds(clicks, folds, run.seed)
    rows = _chosen_rows(parts, clicks, run.seed)
    work = _Work(models, clicks, parts, run)
    fitted = {name: work.fitted_to_all(name, model) for name, model in models.items()}
    # "auto" is settled once, on all training clicks: choosing anew in every fold would take as long again.
    plain = {name: m.with_choice() if hasattr(m, "with_choice") else models[name] for name, m in fitted.items()}
    scores = {name: work.scores_without_folds(name, model, rows) for name, model in plain.items()}
    activity = _activity(clicks, rows)
    held = [
        _held_out(clicks, part, rows[f], [scores[name][f] for name in models], fitted, activity)
        for f, part in enumerate(parts)
        if len(rows[f])
    ]
    joined = [
        np.concatenate([getattr(one, name) for one in held]) for name in ("x", "free", "items", "users", "weight")
    ]
    starts = np.concatenate(([0], np.cumsum(np.concatenate([one.n_held for one in held]))))
    x, free, items, users, weight = joined
    return fitted, HeldOut(x, free, starts, items, users, weight), activity


class _Work:
    """All fits of a blend, one after the other; those that are in the checkpoint are not done again."""

    def __init__(self, models: Mapping[str, Any], clicks: Clicks, parts: list[Fold], run: BlendRun) -> None:
        self.models, self.clicks, self.parts, self.run = models, clicks, parts, run
        self.folder = None if run.checkpoint is None else Path(run.checkpoint)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        n_sampled = sum("max_time" in inspect.signature(model.fit).parameters for model in models.values())
        self.seconds = None if run.max_time is None else run.max_time / max(n_sampled * (len(parts) + 1), 1)
        self.n_slow, self.n_done, self.began = n_sampled * (len(parts) + 1), 0, time.monotonic()

    def fitted_to_all(self, name: str, model: Any) -> Any:
        return self._fit(name, model, self.clicks, None)

    def scores_without_folds(self, name: str, model: Any, rows: list[NDArray[np.int64]]) -> list[NDArray[Any]]:
        """Return the model's scores of the chosen users, fold by fold, each fitted without the fold."""

        def one(number: int) -> NDArray[Any]:
            fold, chosen = self.parts[number], rows[number]
            if not len(chosen):
                return np.zeros((0, self.clicks.n_items))
            file = None if self.folder is None else self.folder / f"{_file_name(name)}-without-{number + 1}.scores"
            asked = json.dumps(
                [name, repr(model), repr(self.run.fit_options.get(name)), len(self.parts), self.run.seed]
            )
            if file is not None and file.exists():
                return _read_scores(file, asked, self.clicks)
            fitted = self._fit(name, model, fold.train, number)
            people = fold.train.of_users(chosen)
            given = part_scores(name, fitted, people, known=True, n_threads=self.run.n_threads).values
            if file is not None:
                _write_scores(file, asked, self.clicks, given)
            return given

        if "max_time" in inspect.signature(model.fit).parameters:  # its chains run beside each other
            return [one(number) for number in range(len(self.parts))]
        with ThreadPoolExecutor(thread_count(self.run.n_threads)) as pool:
            return list(pool.map(one, range(len(self.parts))))

    def _fit(self, name: str, model: Any, clicks: Clicks, number: int | None) -> Any:
        run = self.run
        where = "to all clicks" if number is None else f"without fold {number + 1} of {len(self.parts)}"
        takes = inspect.signature(model.fit).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in takes.values())
        seed = run.seed if number is None else int(np.random.SeedSequence([run.seed, number]).generate_state(1)[0])
        options: dict[str, Any] = {"seed": seed, "n_threads": run.n_threads, "progress": run.progress}
        if "max_time" in takes:
            left = ""
            if self.n_done:
                rest = (self.n_slow - self.n_done) * (time.monotonic() - self.began) / self.n_done
                left = f", about {clock(rest)} left"
            self.n_done += 1
            tell(run.progress, f"{name} {where}: fit {self.n_done} of {self.n_slow}{left}")
            options["max_time"] = self.seconds
        if self.folder is not None and "checkpoint" in takes:
            options["checkpoint"] = (
                self.folder / f"{_file_name(name)}-{'all' if number is None else number + 1}.chains"
            )
        options = {key: value for key, value in options.items() if takes_any or key in takes}
        try:
            with warnings.catch_warnings():
                if number is not None:  # what is wrong with all of them is said of the fit to all clicks
                    warnings.simplefilter("ignore", FitWarning)
                fitted = unfitted(model).fit(clicks, **options | dict(run.fit_options.get(name, {})))
        except BmcdError as error:
            raise BlendError(f"{name} failed, fitted {where}: {error}") from error
        except Exception as error:
            raise BlendError(f"{name} failed, fitted {where}: {type(error).__name__}: {error}") from error
        if getattr(getattr(fitted, "draws_", None), "stopped", "") == "interrupted":
            again = (
                ""
                if self.folder is None
                else f"The same call with checkpoint={str(self.folder)!r} goes on from here."
            )
            raise Interrupted(f"stopped by Ctrl-C while {name} was fitted {where}.", again)
        return fitted


def unfitted(model: Any) -> Any:
    """Return a copy of a model that has learned nothing."""
    return clone(model) if isinstance(model, BaseEstimator) else copy.deepcopy(model)


def _chosen_rows(parts: list[Fold], clicks: Clicks, seed: int) -> list[NDArray[np.int64]]:
    """Return, fold by fold, the users from whose clicks there the weights are learnt."""
    rows = [np.flatnonzero(part.test.per_user > 0) for part in parts]
    fold = np.repeat(np.arange(len(parts)), [len(of) for of in rows])
    user = np.concatenate(rows)
    most = max(FEWEST_ROWS, MOST_CELLS // clicks.n_items)
    chosen = np.arange(len(user))
    if len(user) > most:
        chosen = np.sort(np.random.default_rng([seed, 2]).choice(len(user), most, replace=False))
    return [user[chosen[fold[chosen] == number]] for number in range(len(parts))]


def _activity(clicks: Clicks, rows: list[NDArray[np.int64]]) -> Activity:
    activity = np.log1p(clicks.per_user[np.unique(np.concatenate(rows))])
    return Activity(float(activity.mean()), float(activity.min()), float(activity.max()))


def _held_out(
    clicks: Clicks,
    part: Fold,
    users: NDArray[np.int64],
    scores: list[NDArray[Any]],
    fitted: Mapping[str, Any],
    activity: Activity,
) -> HeldOut:
    """Return the clicks of one fold, with the features that the models fitted without it give them."""
    free = ~clicked_mask(part.train.matrix, users)
    laws = [gives_law(model) for model in fitted.values()]
    scales = [None if law else make_scale(values, free) for law, values in zip(laws, scores, strict=True)]
    given = [Scores(values) for values in scores]
    x = stack_features(given, scales, activity.of(clicks.per_user[users])).astype(np.float32)
    test = part.test.matrix[users]
    # Every user is asked for the same k: all users count alike, however many clicks they have.
    weight = 1.0 / clicks.per_user[users]
    return HeldOut(x, free, test.indptr.astype(np.int64), test.indices.astype(np.int64), users, weight)


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _write_scores(file: Path, asked: str, clicks: Clicks, scores: NDArray[Any]) -> None:
    header = {"data_hash": clicks.fingerprint(), "asked": asked}
    container.write(file, "scores", header, {"scores": np.asarray(scores, np.float64)}, private=True)


def _read_scores(file: Path, asked: str, clicks: Clicks) -> NDArray[Any]:
    stored = container.read(file, "scores")
    if stored.header != {"data_hash": clicks.fingerprint(), "asked": asked}:
        raise InputError(
            f"{file}: belongs to another fit of a blend (other clicks, models, folds or seed): give another "
            "checkpoint, or remove the folder."
        )
    return stored.arrays["scores"]
