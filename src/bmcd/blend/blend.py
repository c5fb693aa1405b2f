"""Blend, the default model: the next clicks of every user, with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.ordered import more_clicks
from bmcd.blend import file
from bmcd.blend.explain import BlendExplanation, contributions, reasons
from bmcd.blend.fitting import Fitted, Models, fit_ordered, fit_unordered, updated
from bmcd.blend.predictor import BlendPredictor
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.ids import places_of
from bmcd.clicks.log import Clicks
from bmcd.clicks.times import read_duration
from bmcd.errors import InputError, Message, Option
from bmcd.inference.draws import MaxDraws
from bmcd.models.base import ProbabilityModel
from bmcd.models.predictor import Options
from bmcd.models.top_k import Lists, check_horizon, check_k
from bmcd.utils import Floats

if TYPE_CHECKING:
    import pandas as pd

# Larger arrays of probabilities are refused.
MOST_BYTES = 2**31
# An hour as numbers of `datetime64[us]`.
MICROSECOND = np.timedelta64(1, "us")


class Blend(ProbabilityModel):
    """The next clicks of each user, out of counts and any recommenders, with calibrated probabilities.

    Members give each item a score: how popular it is now, what follows the user's last clicks, what goes
    together with them. Their scores are turned into rates, with weights learnt from what users clicked next, and
    the race for the next clicks gives the probability of each item; see the guide "How Blend works".

    Parameters
    ----------
    models
        None: members chosen by what the log has. With order these are `Trending`, `Transitions`,
        `RecentCooccurrence`, `SessionKNN` and `EASE`, without those that do not lower the loss by more than its
        standard error; without order popularity, `EASE`, and `Tastes` where that takes seconds. Or one recommender,
        or a dict of recommenders by name: `BMCD`, `Tastes`, any of `bmcd.baselines`, or anything that keeps the
        contract of `bmcd.testing.check_recommender`. They are copied, asked for the most clicked items only on
        large catalogues, and one alone gets calibrated probabilities and keeps its order.
    refresh
        How long the model will be in use before it is fitted again: "15min", "1h", "1d". Weights are learnt from
        past windows of that length. By default the time that the last fifth of the clicks took. Needs a log with
        times.
    repeats
        Whether clicked items stay candidates, and a repeated click counts as a next click (music, daily
        programmes).

    Attributes
    ----------
    clicks_ : the clicks it was fitted to (without users, if it was saved without them)
    as_of_ : the time of the last click, None without a clock; recommendations are those of that moment
    members_ : the names of the members in use
    gains_ : what each member gained on the moments, a frame: nats, and standard error
    models_ : the fitted models, if models were given
    weights_ : the weights with their standard errors, a frame
    windows_ : predicted and observed hits of past windows, a frame
    verdict_ : whether the probabilities are stable, in words

    Examples
    --------
    >>> import bmcd
    >>> earlier, later = bmcd.load_dataset("eshop").split_users(0.8)
    >>> model = bmcd.Blend().fit(earlier)
    >>> histories, test = later.moments(k=3, seed=1)
    >>> found = bmcd.evaluate(model.recommend_for(histories, k=3), earlier, test, histories=histories)
    >>> model.recommend_for({"ann": ["A2", "A11"], "bob": []}, k=3, horizon=1).columns.tolist()
    ['user', 'item', 'title', 'rank', 'probability', 'mcse']
    """

    _answers: BlendPredictor
    _number = ""

    def __init__(self, models: Any = None, *, refresh: str | None = None, repeats: bool = False) -> None:
        self.models = models
        self.refresh = refresh
        self.repeats = repeats

    def fit(
        self,
        clicks: Any,
        *,
        seed: int = 0,
        n_threads: int | None = None,
        progress: bool | None = None,
        start: Blend | None = None,
        checkpoint: str | Path | None = None,
        max_time: float | None = None,
        fit_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Blend:
        """Count, learn the weights, and return self. What was learned before is forgotten.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item (and time).
        seed
            The same seed gives the same probabilities, whatever the number of threads.
        n_threads, progress
            Threads (default: as many as cores); lines and bars (default: if standard error is a terminal).
        start
            A blend fitted to an earlier state of the log: its members, settings and weights are begun with, which
            takes a fraction of the time.
        checkpoint, max_time
            For sampled models that were given: a folder from which a stopped fit resumes, and the seconds of all
            their fits together.
        fit_options
            More options for the `fit` of single models, by name: ``{"Tastes": {"warmup": 50}}``.
        """
        clicks = clicks if isinstance(clicks, Clicks) else Clicks.from_frame(clicks)
        refresh = self._check(clicks, start)
        named = None if self.models is None else named_models(self.models)
        options = _options(named or {}, fit_options or {}, checkpoint, max_time)
        models = None if named is None else Models(named, seed, n_threads, progress, options)
        for attribute in ("clicks_", "_answers"):  # a fit that fails leaves a model that is not fitted
            self.__dict__.pop(attribute, None)
        if clicks.order is None:
            fitted = fit_unordered(clicks, models, seed=seed, n_threads=n_threads, progress=progress)
        else:
            fitted = fit_ordered(
                clicks, models, refresh=refresh, repeats=self.repeats, seed=seed, n_threads=n_threads,
                progress=progress, start=None if start is None else start.check_fitted().fitted_,
            )  # fmt: skip
        self._learn(clicks, fitted)
        return self

    def _check(self, clicks: Clicks, start: Blend | None) -> int | None:
        """Return `refresh` in microseconds, or raise an error that says what does not fit together."""
        if not isinstance(self.repeats, bool | np.bool_):
            raise InputError(f"repeats must be True or False, but it is {self.repeats!r}.")
        if start is not None and not isinstance(start, Blend):
            raise InputError(f"start must be a fitted Blend, but it is {type(start).__name__}.")
        if self.repeats and clicks.order is None:
            said = "repeats=True needs a log with order, which keeps repeated clicks. Say where the order is: "
            raise InputError(Message(said, Option("time_column", "..."), " or ", Option("order", "rows"), "."))
        refresh = None if self.refresh is None else read_duration(self.refresh, "refresh")
        if refresh is not None and not clicks.has_clock:
            said = (
                f"refresh={self.refresh!r} needs a log with times, and this one has no clock. Name the column "
                "of the times when reading: "
            )
            raise InputError(Message(said, Option("time_column", "..."), ", or leave refresh out."))
        return refresh

    def _learn(self, clicks: Clicks, fitted: Fitted) -> None:
        self.clicks_, self.fitted_ = clicks, fitted
        self._answers = BlendPredictor(clicks, fitted)

    def update(self, clicks: Any, keep: str | None = None) -> Blend:
        """Count more clicks, and return self: the counts are those of a fit to all clicks so far.

        Members, weights and EASE stay as they were learnt: `fit` with ``start`` learns them again. It takes a tenth
        of a fit, so that a model can follow a busy site minute by minute. Only blends of counts can be updated, and
        only with the clicks they were fitted to: not those saved with ``clicks=False``.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item (and time). New users and items, late clicks, and
            clicks that were counted before are welcome; see `Clicks.add`.
        keep
            Forget clicks that are older than this, such as "72h", at the last click. By default none.
        """
        return self.recount(more_clicks(self.check_fitted().clicks_, clicks, keep))

    def recount(self, clicks: Clicks, learnt: Blend | None = None) -> Blend:
        """Count these clicks instead of those counted so far, and return self.

        Members, weights and EASE stay, or are those of ``learnt``, another blend of counts.
        """
        of = self if learnt is None else learnt
        self._learn(clicks, updated(of.check_fitted().fitted_, of.clicks_, clicks))
        return self

    # ---- recommendations ----

    def _people(self, histories: Any, unknown: str) -> Clicks:
        """Return histories as clicks, after what the log knows of users by name."""
        known = self.check_fitted().clicks_
        people = clicks_of_histories(histories, known, unknown)
        named = isinstance(histories, Mapping) or (hasattr(histories, "columns") and people.times is None)
        return self._with_earlier(people) if named and known.has_clock and known.n_users else people

    def lists_at(
        self,
        people: Clicks,
        k: int = 10,
        items: Iterable[Any] | None = None,
        *,
        horizon: int | None = None,
        now: int | None = None,
        n_threads: int | None = None,
    ) -> tuple[Lists, Floats]:
        """Return `lists_for` at a point in time, and the expected number of each one's next clicks outside.

        ``now`` is in microseconds since 1970. A session whose last click was longer ago than `session_gap` is over.
        """
        self.check_fitted()
        answers, k = self._answers, check_k(k)
        sequence, histories = answers.histories(people, None)
        if now is not None and people.times is not None and people.has_clock:
            some = np.flatnonzero(np.diff(people.starts))
            last = people.times.view(np.int64)[people.starts[1:][some] - 1]
            over = some[now - last > people.session_gap]
            histories[over, 1] = histories[over, 2]
        options = Options("auto", n_threads, False)
        found, probability, outside = answers.answer_histories(
            people, sequence, histories, k, items, options, check_horizon(horizon, k)
        )
        return Lists(found, {"probability": probability, "mcse": np.zeros_like(probability)}), outside

    def _n_clicked(self, people: Clicks) -> NDArray[np.int64]:
        return np.zeros(people.n_users, np.int64) if self.repeats else people.per_user

    def _with_earlier(self, people: Clicks) -> Clicks:
        """Return histories with the clicks of known users before the running session, in sessions by number."""
        known = self.clicks_
        place = self._answers.once("places", lambda: places_of(known.users))
        rows = np.array([place.get(user, -1) for user in people.users.tolist()], np.int64)
        if not (rows >= 0).any():
            return people
        parts, sessions, lengths = [], [], []
        for u, row in enumerate(rows.tolist()):
            own = people.sequence[people.starts[u] : people.starts[u + 1]]
            earlier = known.sequence[known.starts[row] : known.starts[row + 1]] if row >= 0 else own[:0]
            parts += [earlier, own]
            sessions += [np.zeros(len(earlier), np.int64), np.ones(len(own), np.int64)]
            lengths.append(len(earlier) + len(own))
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        changes: dict[str, Any] = {"session_ids": np.concatenate(sessions), "times": None, "order": "rows"}
        return replace(people, starts=starts, sequence=np.concatenate(parts).astype(np.int32), **changes)

    def probabilities(
        self,
        k: int = 10,
        users: Iterable[Any] | None = None,
        *,
        horizon: int | None = None,
        max_draws: MaxDraws = "auto",
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Floats:
        """Return P(item among the user's next k clicks), users x items in the order of `clicks_`.

        0 for clicked items (unless `repeats`) and for items outside the model. A row sums to k less `outside`, or
        to the number of items left if that is less. It is a full array: for a large log use `recommend`.
        """
        clicks = self.clicks_with_users()
        rows = self._answers.rows(users)
        if (size := len(rows) * clicks.n_items * 8) > MOST_BYTES:
            gib = f"{size / 2**30:.1f} GiB, more than {MOST_BYTES / 2**30:.0f}"
            raise InputError(
                f"the probabilities of {len(rows):,} users for {clicks.n_items:,} items would take {gib}. Use "
                "recommend(k), which keeps the best k of each user, or ask for some users at a time."
            )
        options = Options(max_draws, n_threads, progress)
        blocks = self._answers.predictions(clicks, rows, check_horizon(horizon, check_k(k)), options)
        return np.concatenate([np.zeros((0, clicks.n_items)), *(block.probability for _, block in blocks)])

    def outside(self, horizon: int = 10, users: Iterable[Any] | None = None, *, histories: Any = None) -> Floats:
        """Return the expected number of each user's next clicks that go to items outside the model.

        Those are items that nobody had clicked when it was fitted. The probabilities of a user's items and this
        number sum to ``horizon``. With ``histories``, as in `recommend_for`, it is that of new users. The frames of
        `recommend` and `recommend_for` have the mean over their users as ``frame.attrs["outside"]``.
        """
        horizon, options = check_k(horizon), Options("auto", None, False)
        if histories is not None:
            people = self._people(histories, "ignore")
            return self._answers.answer(people, None, 1, None, options, horizon)[2]
        clicks = self.clicks_with_users()
        return self._answers.answer(clicks, self._answers.rows(users), 1, None, options, horizon)[2]

    def explain(
        self,
        user: Any,
        item: Any,
        k: int = 10,
        *,
        horizon: int | None = None,
        history: Iterable[Any] | None = None,
    ) -> BlendExplanation:
        """Explain why the probability of an item is what it is: what each member contributes, and reasons in words.

        ``history`` gives the clicks of a user the model has not seen; ``user`` is then only a name (or None).
        """
        clicks, horizon = self.check_fitted().clicks_, check_horizon(horizon, check_k(k))
        if history is None:
            row = self._answers.rows([user])
            person = self.clicks_with_users().of_users(row)
            _, histories = self._answers.histories(self.clicks_, row)
            histories = histories - histories[:, :1]
        else:
            person = clicks_of_histories([history], clicks, "error")
            _, histories = self._answers.histories(person, None)
        column = int(clicks.columns_of([item], "Explain one of them.")[0])
        title = clicks.title_of(column)
        if not self.repeats and person.matrix[:, [column]].nnz:
            raise InputError(f"user {user!r} has clicked {title}: only other items have a probability.")
        options = Options("auto", 1, False)
        _, probability, _ = self._answers.answer_histories(
            person, person.sequence, histories, 1, [item], options, horizon
        )
        return BlendExplanation(
            user, item, title, horizon, int(person.matrix.nnz), float(probability[0, 0]), 0.0,
            contributions(self.fitted_, person, histories, column, horizon),
            reasons(self.fitted_, person, histories, column),
        )  # fmt: skip

    # ---- what was learned ----

    @property
    def as_of_(self) -> Any:
        """The time of the last click: recommendations are those of that moment. None without a clock."""
        return self.check_fitted().fitted_.as_of

    @property
    def members_(self) -> tuple[str, ...]:
        """The names of the members in use."""
        self.check_fitted()
        return (*self.fitted_.settings.members, *self.fitted_.dense.models)

    @property
    def models_(self) -> dict[str, Any]:
        """The fitted models that give every item a score, by name."""
        self.check_fitted()
        return dict(self.fitted_.dense.models)

    @property
    def weights_(self) -> pd.DataFrame:
        """The weights with their standard errors: one row per number of next clicks, feature and dependence."""
        self.check_fitted()
        return self.fitted_.rule.table()

    @property
    def gains_(self) -> pd.DataFrame:
        """By how much each member lowers the loss on the moments (nats), with the standard error."""
        import pandas as pd

        self.check_fitted()
        rows = [(name, *gain, name in self.members_) for name, gain in self.fitted_.gains.items()]
        return pd.DataFrame(rows, columns=["member", "gain", "standard_error", "kept"])

    @property
    def windows_(self) -> pd.DataFrame:
        """Predicted and observed hits of the next click in lists of ten, in past windows."""
        import pandas as pd

        from bmcd.blend.learning import PastWindow

        self.check_fitted()
        return pd.DataFrame(self.fitted_.windows, columns=PastWindow._fields)

    def shares(self, k: int = 10) -> dict[str, float]:
        """Return the share of each member in what distinguishes a user's candidates; the shares sum to 1."""
        from bmcd.blend.explain import shares_of

        clicks = self.clicks_with_users()
        rows = np.unique(np.linspace(0, clicks.n_users - 1, min(500, clicks.n_users)).round().astype(np.int64))
        sequence, histories = self._answers.histories(clicks, rows)
        return shares_of(self.fitted_, clicks, sequence, histories, check_k(k))

    def diagnostics(self) -> Any:
        """Return the diagnostics of the sampled models, one below the other, with a column for the model."""
        import pandas as pd

        self.check_fitted()
        tables = {name: m.diagnostics() for name, m in self.models_.items() if hasattr(m, "diagnostics")}
        if not tables:
            raise InputError(f"no model of this blend is sampled: {', '.join(self.members_)}.")
        return pd.concat(tables, names=["model"]).reset_index(level="model")

    def packed(self, *, clicks: bool = True) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return header and arrays of the file that `save` writes."""
        self.check_fitted()
        settings = {"refresh": self.refresh, "repeats": bool(self.repeats)}
        return file.pack(self.clicks_, self.fitted_, settings, with_users=clicks)

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Blend:
        """Return the blend that `save` wrote as this header and these arrays; see `bmcd.load`."""
        clicks, fitted, settings = file.unpack(header, arrays)
        model = cls(dict(fitted.dense.models) or None, **settings)
        model._learn(clicks, fitted)
        return model

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the name is scikit-learn's
        given = [] if self.models is None else [", ".join(named_models(self.models))]
        given += [f"refresh={self.refresh!r}"] if self.refresh is not None else []
        given += ["repeats=True"] if self.repeats else []
        text = f"Blend({', '.join(given)})"
        if not hasattr(self, "clicks_"):
            return text
        members = "" if self.models is not None else f" by {', '.join(self.members_)}"
        return f"{text}, fitted to {self.clicks_.n_users:,} users x {self.clicks_.n_items:,} items{members}"


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


def _options(
    named: Mapping[str, Any], given: Mapping[str, Mapping[str, Any]], checkpoint: Any, max_time: float | None
) -> dict[str, dict[str, Any]]:
    """Return the options of each model's fits; the time is shared by the fits of all sampled models."""
    import inspect

    if unknown := given.keys() - named.keys():
        known = ", ".join(named) or "none (leave fit_options out, or give models)"
        raise InputError(f"fit_options are for {', '.join(sorted(unknown))}, but the models are {known}.")
    sampled = [name for name, model in named.items() if "max_time" in inspect.signature(model.fit).parameters]
    shared: dict[str, Any] = {}
    if checkpoint is not None:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        shared["checkpoint"] = checkpoint
    if max_time is not None and sampled:
        shared["max_time"] = max_time / (3 * len(sampled))
    return {name: {**(shared if name in sampled else {}), **given.get(name, {})} for name in named}
