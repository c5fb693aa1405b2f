"""What BMCD and Tastes share: `SampledModel`, earlier fits, the number of users of a chain, warnings.

`choose_max_users` sets some users apart, each with one click held out. Chains learn from samples of the others, of
1,000 users, 2,000, and so on. Those set apart are scored from their other clicks alone, with the probabilities
averaged over chains, as those of all users will be. It stops when twice as many users raise the mean log
probability of a held-out click by less than the standard error of that gain.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks import splitting
from bmcd.clicks.log import Clicks
from bmcd.errors import ConvergenceWarning, FitWarning, InputError, Interrupted, Message, Option
from bmcd.inference.diagnostics import Verdict
from bmcd.inference.draws import ChainDraws, MaxDraws, Previous, match_items
from bmcd.inference.run import LEAST_CLICKS, Run, check_max_users, users_of_chain
from bmcd.models.base import ProbabilityModel
from bmcd.models.predictor import Options, Predictor
from bmcd.models.top_k import check_horizon, check_k
from bmcd.progress import counting
from bmcd.utils import Floats, shown

if TYPE_CHECKING:
    import pandas as pd


def earlier_fit(
    kind: type[Any], start: Any, clicks: Clicks, number: int | str
) -> tuple[Previous | None, int | str]:
    """Return the earlier fit, laid out for these clicks, and how many clusters there are; None without ``start``.

    ``number`` is how many clusters are asked for; "auto" takes those of the earlier fit.
    """
    if start is None:
        return None, number
    if type(start) is not kind:
        raise InputError(
            f"start must be a fitted {kind.__name__}, a model of the same kind, but it is {shown(start)}."
        )
    before, found = start.check_fitted().draws_, start.n_clusters_
    if number not in ("auto", found):
        raise InputError(f"start has {found} of them, so the number must be {found} or 'auto', not {number!r}.")
    previous = match_items(before, start.clicks_.items, clicks.items)
    if (previous.columns < 0).all():
        raise InputError("start was fitted to none of these items: fit without it.")
    return previous, found


# The first size that is tried; then twice as many, and so on.
FIRST = 1_000
# Users set apart: at most this number and this share of all; those with fewer clicks have none to spare.
MOST_APART, SHARE = 2_000, 0.2
# A size is tried with at most this number of chains, of sweeps of warm-up, and of sweeps after it.
CHAINS, WARMUP, SWEEPS = 4, 100, 40
# Users with which the number of clusters or tastes is chosen, if max_users is "auto".
CHOOSING = 20_000
COLUMNS = ("n_users", "log_probability", "gain", "gain_se")


@dataclass(frozen=True, eq=False)
class UserSample:
    """The number of users of each chain, which draws its own random sample; `print` it."""

    max_users: int
    n_users: int
    """All users; as many as max_users if every chain was given all of them."""
    table: pd.DataFrame
    """What was tried to find the size: users, mean log probability of a held-out click, what it gained over the
    size before, and the standard error of the gain. Empty if the size was given."""

    @property
    def chosen(self) -> bool:
        """Whether the size was found by doubling, and not given."""
        return len(self.table) > 0

    @property
    def reason(self) -> str:
        """Why it is this size, in words."""
        if not self.chosen:
            return f"each chain was given {self.max_users:,} of {self.n_users:,} users, as asked for."
        sizes, last = self.table["n_users"].tolist(), self.table.iloc[-1]
        if len(sizes) == 1:
            return f"each chain was given all {self.n_users:,} users: there are too few to try several sizes."
        gained = (
            f"{sizes[-1]:,} users instead of {sizes[-2]:,} gain {last['gain']:+.4f} (standard error "
            f"{last['gain_se']:.4f}) in the mean log probability of a held-out click"
        )
        if self.max_users >= self.n_users:
            return f"each chain was given all {self.n_users:,} users: {gained}."
        return f"each chain was given {self.max_users:,} of {self.n_users:,} users: {gained}."

    def __str__(self) -> str:
        return self.reason + (f"\n{self.table.round(4).to_string(index=False)}" if self.chosen else "")


def choose_max_users(clicks: Clicks, run: Run, draw: Callable[[Clicks, Run, int], Predictor]) -> UserSample:
    """Return the number of users beyond which more gain less than a standard error; ``draw`` fits some."""
    apart_users, pairs, others = _set_apart(clicks, run.seed)
    short = replace(
        run,
        draws=max(1, min(run.draws, SWEEPS // run.thin)),
        warmup=min(run.warmup, WARMUP),
        chains=min(run.chains, CHAINS),
        checkpoint=None,
        max_time=None,
        progress=False,
    )
    rows: list[dict[str, float]] = []
    size, before = min(FIRST, others.n_users), np.empty(0)
    with counting(run.progress, "sizes", max(1, int(np.ceil(np.log2(others.n_users / size))) + 1)) as show:
        while True:
            scored = _log_probabilities(draw(others, short, size), apart_users, pairs, run.n_threads)
            gain = scored - before if before.size else np.array([np.nan, np.nan])
            error = float(gain.std(ddof=1) / np.sqrt(gain.size)) if gain.size > 1 else np.nan
            rows.append(dict(zip(COLUMNS, (size, scored.mean(), gain.mean(), error), strict=True)))
            show(len(rows))
            if size == others.n_users or (before.size and not gain.mean() >= error):
                break
            size, before = min(2 * size, others.n_users), scored
    return UserSample(size if size < others.n_users else clicks.n_users, clicks.n_users, sample_table(rows))


def draws_and_sample(
    clicks: Clicks,
    max_users: int | Literal["auto"] | None,
    run: Run,
    predictor: Callable[[Clicks, Any], Predictor],
    draw: Callable[[Clicks, Run, int | None, bool], Any],
) -> tuple[Any, UserSample | None]:
    """Return the draws of a fit, and the `UserSample` if chains see samples of the users or that was tried.

    ``draw`` is given clicks, a run, the number of users of a chain, and whether this is only a trial.
    """

    def trial(others: Clicks, short: Run, size: int) -> Predictor:
        tried = draw(others, short, size, True)
        if tried.stopped == "interrupted":
            raise Interrupted("stopped by Ctrl-C while the number of users for each chain was chosen.")
        return predictor(others, tried)

    if max_users == "auto":
        sample: UserSample | None = choose_max_users(clicks, run, trial)
    else:
        size = check_max_users(max_users, clicks.n_users)
        sample = None if size is None else UserSample(size, clicks.n_users, sample_table([]))
    return draw(clicks, run, None if sample is None else sample.max_users, False), sample


def some_users(clicks: Clicks, max_users: Any, seed: int) -> Clicks:
    """Return the clicks with which the number of clusters or tastes is chosen: of as many users as a chain has."""
    most = CHOOSING if max_users == "auto" else check_max_users(max_users, clicks.n_users)
    if most is None or most >= clicks.n_users:
        return clicks
    return clicks.of_users(users_of_chain(seed, 0, clicks.n_users, most))


def sample_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the sizes that were tried as `UserSample.table`."""
    import pandas as pd

    columns = {name: np.array([row[name] for row in rows], np.float64) for name in COLUMNS}
    return pd.DataFrame({**columns, "n_users": columns["n_users"].astype(np.int64)})


def _set_apart(clicks: Clicks, seed: int) -> tuple[Clicks, NDArray[np.int64], Clicks]:
    """Return the users set apart, without a click each; these as (row, item), [pair, 2]; and all other users."""
    rng = np.random.default_rng([seed, 2])
    enough = np.flatnonzero(clicks.per_user >= LEAST_CLICKS)
    number = min(MOST_APART, int(SHARE * clicks.n_users), enough.size)
    if number < 2:
        said = (
            f"there are {clicks.n_users} users, {enough.size} of them with {LEAST_CLICKS} clicks or more: too few "
            "to find out how many each chain needs. Leave out "
        )
        raise InputError(Message(said, Option("max_users"), ", or give a number."))
    rows = np.sort(rng.permutation(enough)[:number])
    apart, rest = clicks.of_users(rows), np.setdiff1d(np.arange(clicks.n_users), rows)
    apart_users, pairs = splitting.hold_out_one(apart, rng)
    return apart_users, pairs, clicks.of_users(rest)


def _log_probabilities(
    answers: Predictor, apart_users: Clicks, pairs: NDArray[np.int64], n_threads: int | None
) -> Floats:
    """Return the log probability that each held-out click is the next, averaged over draws before the logarithm."""
    found = np.empty(len(pairs))
    for block, predicted in answers.predictions(apart_users, None, 1, Options("auto", n_threads, False)):
        found[block] = predicted.probability[np.arange(block.size), pairs[block, 1]]
    return np.log(np.maximum(found, 1e-12))


def warn_about_fit(verdict: Verdict, draws: ChainDraws, at_the_edge: str = "") -> None:
    """Warn of all that was not as it should be, in one warning; ``at_the_edge`` is about what "auto" chose.

    To be called by `fit` itself, so that the warning points to who called that.
    """
    stopped = draws.stopped != "finished"
    parts = [at_the_edge]
    if not verdict.converged:
        parts += [verdict.text, *verdict.advice]
    elif stopped:
        parts.append(f"The fit was {draws.note}")
    parts += [draws.resume] if stopped else []
    if text := " ".join(filter(None, parts)):
        warnings.warn(text, FitWarning if verdict.converged else ConvergenceWarning, stacklevel=3)


class Fit(NamedTuple):
    """What a fit of `BMCD` or `Tastes` leaves."""

    clicks: Clicks
    draws: Any
    choice: Any  # ClusterChoice or TasteChoice, with "auto"
    sample: UserSample | None
    cluster_names: Mapping[int, str]


class SampledModel(ProbabilityModel):
    """A model fitted by sampling: what BMCD and Tastes share."""

    clicks_: Clicks
    choice_: Any
    sample_: UserSample | None
    n_clusters_: int
    _answers: Any
    _predictor: Callable[[Clicks, Any], Any]

    def _learn(self, fit: Fit) -> None:
        self.clicks_, self.draws_, self.choice_, self.sample_, names = fit
        self.n_clusters_ = self.draws_.problem.n_clusters
        self._answers = self._predictor(self.clicks_, self.draws_)
        self._answers.cluster_names = dict(names)

    def explain(
        self,
        user: Any,
        item: Any,
        k: int = 10,
        *,
        horizon: int | None = None,
        max_draws: MaxDraws = "auto",
        history: Iterable[Any] | None = None,
    ) -> Any:
        """Explain the probability of an item: the user's clusters or tastes, and what each contributes.

        The probability is that of being among the next `horizon` clicks, by default k. ``history`` gives the clicks
        of a user the model has not seen; ``user`` is then only a name (or None).

        >>> import bmcd
        >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=100, seed=1).clicks, draws=10, warmup=10, chains=2)
        >>> explanation = model.explain(user=0, item=40, k=5)
        >>> abs(explanation.probability - sum(c.contribution for c in explanation.clusters)) < 1e-9
        True
        """
        person, column, title = self._to_explain(user, item, history)
        k = check_horizon(horizon, check_k(k))
        return self._answers.explain(person, column, k, max_draws, (user, item, title))
