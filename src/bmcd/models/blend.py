"""Blend, the estimator: any recommenders, weighed and calibrated on held-out clicks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.blending.answers import BlendAnswers
from bmcd.blending.features import Scale, make_scale
from bmcd.blending.parts import gives_law, part_scores
from bmcd.blending.rule import Rule, learn_rule
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.models.base import ProbabilityModel
from bmcd.models.blend_file import pack_blend, unpack_blend
from bmcd.models.blend_folds import BlendRun, fit_without_folds
from bmcd.models.persistence import Packed
from bmcd.prediction.explanation import BlendExplanation
from bmcd.prediction.top_k import check_k, clicked_mask

if TYPE_CHECKING:
    import pandas as pd

# Users whose scores say where any score of a model stands.
SCALE_USERS = 2_000
# Users by whose items it is told how much each model says.
SHARE_USERS = 500


class Blend(ProbabilityModel):
    """Recommendations of one or several models with probabilities that come true.

    Every user's clicks are dealt into folds, the models are fitted without each fold, and the clicks of the fold
    show how much each model's scores are worth. Items arrive at rates exp(sum of weights x scores), and the race
    for the next k gives the probability of each: see docs/blend.md. A single recommender gets probabilities and
    keeps its order; of several the blend is mostly better than the best of them.

    Parameters
    ----------
    models
        One recommender, or a dict of them by name: `BMCD`, `Tastes`, any of `bmcd.baselines`, or anything that
        keeps the contract of `bmcd.testing.check_recommender`. They are copied, and not fitted themselves.
    folds
        Into how many parts each user's clicks are dealt; the models are fitted once more than that.

    Attributes
    ----------
    clicks_ : the clicks it was fitted to (without users, if it was saved without them)
    models_ : the models, fitted to all clicks, by name
    weights_ : the weights with their standard errors, a frame
    converged_, verdict_ : whether the models have settled, and that in words
    clusters_ : those of the first model that has some

    Examples
    --------
    >>> import bmcd
    >>> train, test = bmcd.simulate(n_users=300, seed=1).clicks.at_least(4).hold_out(2, seed=1)
    >>> model = bmcd.Blend(bmcd.baselines.EASE(regularization=50.0), folds=2).fit(train, seed=1)
    >>> model.recommend(k=2, users=[7]).columns.tolist()
    ['user', 'item', 'rank', 'probability', 'mcse']
    >>> model.weights_.columns.tolist()
    ['k', 'model', 'feature', 'weight', 'standard_error']
    """

    _answers: BlendAnswers
    _number = ""

    def __init__(self, models: Any, folds: int = 5) -> None:
        self.models = models
        self.folds = folds

    def fit(
        self,
        clicks: Any,
        *,
        seed: int = 0,
        n_threads: int | None = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        max_time: float | None = None,
        fit_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Blend:
        """Fit the models with and without each fold, learn the weights, and return self.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item.
        seed
            The same seed gives the same probabilities, whatever the number of threads. The models fitted to all
            clicks get this seed itself.
        n_threads, progress
            Threads (default: as many as cores); lines and bars (default: if standard error is a terminal).
        checkpoint
            A folder from which the same call goes on if it was stopped, to the same end.
        max_time
            Seconds for the sampled models, shared by all their fits.
        fit_options
            More options for the `fit` of single models, by name: ``{"Tastes": {"warmup": 50}}``.
        """
        models = named_models(self.models)
        clicks = clicks if isinstance(clicks, Clicks) else Clicks.from_frame(clicks)
        run = BlendRun(seed, n_threads, progress, checkpoint, max_time, dict(fit_options or {}))
        fitted, held, activity = fit_without_folds(models, clicks, self.folds, run)
        laws = {name: gives_law(model) for name, model in fitted.items()}
        rule = learn_rule(laws, held, activity, len(held.items), n_threads=n_threads, progress=progress)
        scales = tuple(None if laws[name] else _scale(name, model, clicks) for name, model in fitted.items())
        self._learn(clicks, fitted, scales, rule, seed)
        return self

    def _learn(
        self, clicks: Clicks, models: dict[str, Any], scales: tuple[Scale | None, ...], rule: Rule, seed: int
    ) -> None:
        self.clicks_, self.models_, self._rule, self._scales, self._seed = clicks, models, rule, scales, seed
        self._answers = BlendAnswers(clicks, models, scales, rule)

    @property
    def weights_(self) -> pd.DataFrame:
        """The weights with their standard errors: one row for each k they were learnt for, model and feature."""
        self.check_fitted()
        return self._rule.table()

    @property
    def brier_(self) -> dict[int, float]:
        """The Brier score of the probabilities on clicks of the folds, of users who did not shape them, by k."""
        self.check_fitted()
        return dict(zip(self._rule.ks.tolist(), self._rule.brier.min(axis=1).tolist(), strict=True))

    def explain(
        self, user: Any, item: Any, k: int = 10, *, history: Iterable[Any] | None = None
    ) -> BlendExplanation:
        """Explain why the probability of an item is what it is: where each model has it, and what each adds.

        ``history`` gives the clicks of someone the model has not seen; ``user`` is then only a name (or None).
        """
        person, column, title = self._to_explain(user, item, history)
        k = check_k(k)
        found = self._answers.explain(person, column, k, known=history is None)
        return BlendExplanation(user, item, title, k, int(person.matrix.nnz), *found)

    def shares(self, k: int = 10) -> dict[str, float]:
        """Return how much of what sets apart the items that users may click next is each model's say; sums to 1."""
        clicks = self.clicks_with_users()
        return self._answers.shares(clicks.of_users(_spread(clicks.n_users, SHARE_USERS)), check_k(k))

    def diagnostics(self) -> Any:
        """Return the diagnostics of the sampled models, one below the other, with a column for the model."""
        import pandas as pd

        self.check_fitted()
        tables = {name: m.diagnostics() for name, m in self.models_.items() if hasattr(m, "diagnostics")}
        if not tables:
            raise InputError(f"no model of this blend is sampled: {', '.join(self.models_)}.")
        return pd.concat(tables, names=["model"]).reset_index(level="model")

    def packed(self, *, clicks: bool = True) -> Packed:
        """Return header and arrays of the file that `save` writes."""
        self.check_fitted()
        return pack_blend(
            self.clicks_, self.models_, self._scales, self._rule, self._seed, self.folds, with_users=clicks
        )

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Blend:
        """Return the blend that `save` wrote as this header and these arrays; see `bmcd.load`."""
        clicks, fitted, scales, rule, folds = unpack_blend(header, arrays)
        model = cls(fitted, folds)
        model._learn(clicks, fitted, scales, rule, header["seed"])
        return model

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the name is scikit-learn's
        names = ", ".join(named_models(self.models))
        text = f"Blend({names}, folds={self.folds})"
        if not hasattr(self, "clicks_"):
            return text
        return f"{text}, fitted to {self.clicks_.n_users:,} users x {self.clicks_.n_items:,} items"


def named_models(models: Any) -> dict[str, Any]:
    """Return recommenders by name, or an error that says what is wrong with them.

    >>> from bmcd.baselines import EASE
    >>> list(named_models(EASE()))
    ['EASE']
    """
    named = dict(models) if isinstance(models, Mapping) else {type(models).__name__: models}
    if not named:
        raise InputError("a blend needs at least one model: Blend(EASE()), or Blend({'EASE': EASE(), ...}).")
    for name, model in named.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"the models of a blend have names as keys, but there is {name!r}.")
        if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "recommend")):
            what = f"the class {model.__name__}, not a model" if isinstance(model, type) else repr(model)[:80]
            raise InputError(f"{name} is {what}: a blend is made of recommenders, such as bmcd.baselines.EASE().")
    return named


def _spread(n_users: int, most: int) -> NDArray[np.int64]:
    """Return the rows of users evenly spread over all."""
    return np.unique(np.linspace(0, n_users - 1, min(most, n_users)).round().astype(np.int64))


def _scale(name: str, model: Any, clicks: Clicks) -> Scale:
    """Return where the scores of a fitted model stand, by those of users evenly spread over all."""
    people = clicks.of_users(_spread(clicks.n_users, SCALE_USERS))
    free = ~clicked_mask(people.matrix, np.arange(people.n_users))
    return make_scale(part_scores(name, model, people, known=True).values, free)
