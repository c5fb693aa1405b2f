"""choose_tastes: how many tastes, and how many of them a user has, by held-out clicks of the same users.

A fifth of the training clicks is held out. Each candidate is fitted to the rest with several chains, whose laws are
averaged as they will be.

* The concentration has the highest log probability of a held-out click: the logarithm of its share in the law of
  the user's next click, raised to the power that fits best. (Averages over few chains are too sharp and those over
  many too flat; the power makes them comparable.)
* The number of tastes is judged by the ranks of held-out clicks: log probability prefers fewer tastes than give the
  most hits. It is FIRST unless the clicks clearly say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from bmcd.clicks import splitting
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, Interrupted, Message, Option
from bmcd.inference.priors import check_priors
from bmcd.inference.run import Run
from bmcd.inference.subsample import LEAST_CLICKS
from bmcd.inference.tastes.draws import sample_tastes
from bmcd.inference.tastes.priors import TastePriors
from bmcd.markup import Html, tag
from bmcd.models.taste_predictor import TastePredictor
from bmcd.progress import counting
from bmcd.utils import Floats

if TYPE_CHECKING:
    import pandas as pd


# Concentrations a x tastes: this one first, with half of FIRST tastes; then twice and half as much, while it helps.
CONCENTRATION, LEAST_CONCENTRATION, MOST_CONCENTRATION = 2.0, 0.25, 32.0
FIRST, FEWEST, MOST = 40, 5, 320
# Ahead by more than so many standard errors is clearly ahead.
CLEARLY = 2.0
# Held out: this share of the clicks of users with at least LEAST_CLICKS, of whom two stay.
HELD_OUT = 0.2
# A candidate gets this many chains of so many sweeps: all together then take one to two times as long as the fit.
CHAINS, WARMUP, DRAWS, THIN = 8, 60, 4, 10
POWERS = (0.3, 3.0)


class Scores(NamedTuple):
    """Of each held-out click, given a candidate."""

    log_probability: Floats
    gain: Floats  # 1 / log2(1 + rank among the items the user may be shown): 1 for the first, then falling


@dataclass(frozen=True, eq=False)
class TasteChoice:
    """What `choose_tastes` found; `print` it."""

    n_tastes: int
    priors: TastePriors
    table: pd.DataFrame
    """By candidate: log probability and gain of a held-out click, by how much its gain is behind, and the error."""
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}\n{self.table.round(4).to_string(index=False)}"

    def __repr__(self) -> str:
        return f"TasteChoice(n_tastes={self.n_tastes}, a={self.priors.a}, {len(self.table)} candidates)"

    def _repr_html_(self) -> str:
        table = Html(self.table.to_html(float_format="{:.4f}".format, na_rep="", index=False))
        return tag("div", tag("p", self.reason), table)


def choose_tastes(
    clicks: Clicks, run: Run | None = None, *, priors: TastePriors | None = None, **model: Any
) -> TasteChoice:
    """Choose the number of tastes and, unless the priors fix it, the concentration; ``model``: see `sample_tastes`.

    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=200, seed=1).clicks
    >>> choose_tastes(clicks, Run(chains=2), priors=TastePriors(a=1.0)).table.columns.tolist()
    ['n_tastes', 'concentration', 'log_probability', 'gain', 'behind', 'behind_se']
    """
    run, priors = run or Run(), TastePriors() if priors is None else priors
    check_priors(priors, TastePriors)
    kept, pairs = hold_out_clicks(clicks, run.seed)
    tried: dict[tuple[int, float], Scores] = {}
    most = max(FEWEST, min(MOST, clicks.n_items))
    first = min(FIRST, most)
    half = max(first // 2, min(FEWEST, first))
    with counting(run.progress, "candidates", 6) as show:

        def score(n_tastes: int, concentration: float) -> Scores:
            key = (n_tastes, concentration)
            if key not in tried:
                tried[key] = _score(clicks, kept, pairs, n_tastes, concentration, priors, run, model)
                show(len(tried))
            return tried[key]

        concentration = CONCENTRATION
        for factor in (2.0, 0.5) if priors.a is None else ():
            while LEAST_CONCENTRATION <= (other := concentration * factor) <= MOST_CONCENTRATION:
                here, there = (score(half, value).log_probability.mean() for value in (concentration, other))
                if there <= here:
                    break
                concentration = other

        n_tastes = first
        while n_tastes * 2 <= most and _is_ahead(
            score(n_tastes * 2, concentration), score(n_tastes, concentration), pairs
        ):
            n_tastes *= 2
        best = number = n_tastes
        while (number := number // 2) >= FEWEST:
            if score(number, concentration).gain.mean() <= score(best, concentration).gain.mean():
                break
            best = number
        while n_tastes > best and _is_ahead(score(best, concentration), score(n_tastes, concentration), pairs):
            n_tastes //= 2
    return _choice(tried, (n_tastes, concentration), pairs, priors, (FEWEST, most))


def _is_ahead(one: Scores, other: Scores, pairs: NDArray[np.int64]) -> bool:
    """Return whether the gain of one is clearly above that of the other."""
    ahead, error = _difference(one.gain, other.gain, pairs[:, 0])
    return ahead > CLEARLY * error


def _difference(one: Floats, other: Floats, users: NDArray[np.int64]) -> tuple[float, float]:
    """Return the mean difference and its standard error; clicks of one user go together."""
    difference = one - other
    by_user = np.bincount(users, difference - difference.mean())
    return float(difference.mean()), float(np.sqrt((by_user**2).sum()) / difference.size)


def hold_out_clicks(clicks: Clicks, seed: int) -> tuple[Clicks, NDArray[np.int64]]:
    """Return the clicks that are left, and the (user, item) pairs held out, [pair, 2]."""
    left, pairs = splitting.hold_out_share(clicks, HELD_OUT, LEAST_CLICKS, [seed, 1])
    if not len(pairs):
        said = (
            f"no user has {LEAST_CLICKS} clicks or more, so that none can be held out to choose the number of "
            "tastes: give "
        )
        raise InputError(Message(said, Option("n_tastes"), " a number."))
    return left, pairs


def _score(
    clicks: Clicks,
    kept: Clicks,
    pairs: NDArray[np.int64],
    n_tastes: int,
    concentration: float,
    priors: TastePriors,
    run: Run,
    model: Mapping[str, Any],
) -> Scores:
    """Fit a candidate to the clicks that are left, and score each held-out click."""
    tried = priors if priors.a is not None else replace(priors, a=concentration / n_tastes)
    short = Run(DRAWS, WARMUP, min(CHAINS, run.chains), THIN, run.seed, run.n_threads, False)
    draws = sample_tastes(kept, n_tastes, short, priors=tried, **model)
    if draws.stopped == "interrupted":
        raise Interrupted("stopped by Ctrl-C while the number of tastes was chosen.")
    predictor = TastePredictor(draws, None)
    log_laws, gains, start = [], [], 0
    for rows, predicted in predictor.blocks(kept.matrix, 1, run.n_threads):
        # The law of the next click; all that the user has clicked does not compete, but for the click in question.
        end = np.searchsorted(pairs[:, 0], rows[-1], side="right")
        users, items = pairs[start:end, 0] - rows[0], pairs[start:end, 1]
        log_law = np.log(np.maximum(-predicted.tie_breaker, 1e-12))
        own = log_law[users, items]
        log_law[clicks.matrix[rows].toarray()] = -np.inf
        log_laws.append((log_law, users, own))
        above = [np.count_nonzero(log_law[user] > x) for user, x in zip(users, own, strict=True)]
        gains.append(1.0 / np.log2(2.0 + np.array(above)))
        start = end

    def log_probability(power: float) -> Floats:
        parts = []
        for log_law, users, own in log_laws:
            others = np.exp(power * log_law).sum(axis=1)[users]
            parts.append(power * own - np.log(others + np.exp(power * own)))
        return np.concatenate(parts)

    best = minimize_scalar(lambda power: -log_probability(power).mean(), bounds=POWERS, method="bounded")
    return Scores(log_probability(float(best.x)), np.concatenate(gains))


def _choice(
    tried: Mapping[tuple[int, float], Scores],
    chosen: tuple[int, float],
    pairs: NDArray[np.int64],
    priors: TastePriors,
    ends: tuple[int, int],
) -> TasteChoice:
    import pandas as pd

    rows = []
    for (n_tastes, concentration), scores in sorted(tried.items()):
        behind, error = _difference(tried[chosen].gain, scores.gain, pairs[:, 0])
        rows.append(
            {
                "n_tastes": n_tastes,
                "concentration": concentration if priors.a is None else np.nan,
                "log_probability": scores.log_probability.mean(),
                "gain": scores.gain.mean(),
                "behind": behind,
                "behind_se": error,
            }
        )
    n_tastes, concentration = chosen
    said = f"{n_tastes} tastes" + (f" with a = {concentration:g} / {n_tastes}" if priors.a is None else "")
    reason = (
        f"{said}: no other number that was tried ranks {len(pairs):,} held-out clicks clearly better; "
        f"{len(tried)} candidates."
    )
    if n_tastes in ends:
        reason += " That is the end of what was tried."
    priors = priors if priors.a is not None else replace(priors, a=concentration / n_tastes)
    return TasteChoice(n_tastes, priors, pd.DataFrame(rows), reason)
