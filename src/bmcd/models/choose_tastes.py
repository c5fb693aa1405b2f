"""choose_tastes: how many tastes, and how many of them a user has, by the log probability of held-out clicks.

A fifth of the training clicks of the same users is held out. Each candidate is fitted to the rest with several
chains, whose laws are averaged as they will be; a held-out click is scored by the logarithm of its share in the law
of the user's next click, raised to the power that fits best. (Averages over few chains are too sharp and those over
many too flat; the power makes them comparable.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar

from bmcd.clicks.table import Clicks
from bmcd.errors import InputError, Interrupted, Message, Option
from bmcd.prediction.taste_predictor import TastePredictor
from bmcd.sampling.priors import check_priors
from bmcd.sampling.run import Run
from bmcd.sampling.tastes.draws import sample_tastes
from bmcd.sampling.tastes.priors import TastePriors
from bmcd.system.progress import counting

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

# Concentrations a x tastes that are tried first, with FIRST tastes; then half and twice as many tastes, on and on.
CONCENTRATIONS = (1.0, 2.0, 4.0, 8.0)
FIRST, FEWEST, MOST = 40, 5, 320
# Held out: this share of the clicks of users with at least LEAST_CLICKS, of whom two stay.
HELD_OUT, LEAST_CLICKS = 0.2, 3
# A candidate gets this many chains of so many sweeps: seven candidates then take about as long as the fit.
CHAINS, WARMUP, DRAWS, THIN = 8, 40, 4, 5
POWERS = (0.3, 3.0)


@dataclass(frozen=True, eq=False)
class TasteChoice:
    """What `choose_tastes` found; `print` it."""

    n_tastes: int
    priors: TastePriors
    table: pd.DataFrame
    """By candidate: log probability of a held-out click, how far it is behind the best, and that one's error."""
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}\n{self.table.round(4).to_string(index=False)}"


def choose_tastes(
    clicks: Clicks, run: Run | None = None, *, priors: TastePriors | None = None, **model: Any
) -> TasteChoice:
    """Choose the number of tastes and, unless the priors fix it, the concentration; ``model``: see `sample_tastes`.

    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=200, seed=1).clicks
    >>> choose_tastes(clicks, Run(chains=2), priors=TastePriors(a=1.0)).table.columns.tolist()
    ['n_tastes', 'concentration', 'log_probability', 'behind', 'behind_se']
    """
    run, priors = run or Run(), TastePriors() if priors is None else priors
    check_priors(priors, TastePriors)
    kept, pairs = hold_out_clicks(clicks, run.seed)
    tried: dict[tuple[int, float], Floats] = {}
    most = max(FEWEST, min(MOST, clicks.n_items))
    first = min(FIRST, most)
    with counting(run.progress, "candidates", len(CONCENTRATIONS) + 2) as show:

        def score(n_tastes: int, concentration: float) -> float:
            key = (n_tastes, concentration)
            if key not in tried:
                tried[key] = _score(clicks, kept, pairs, n_tastes, concentration, priors, run, model)
                show(len(tried))
            return float(tried[key].mean())

        concentrations = CONCENTRATIONS if priors.a is None else (0.0,)
        concentration = max(concentrations, key=lambda value: score(first, value))
        n_tastes = first
        for factor in (0.5, 2.0):
            while FEWEST <= (other := int(n_tastes * factor)) <= most:
                if score(other, concentration) <= score(n_tastes, concentration):
                    break
                n_tastes = other
    n_tastes = _largest_within_error(tried, n_tastes, concentration)
    return _choice(tried, (n_tastes, concentration), priors, (FEWEST, most))


def _largest_within_error(tried: Mapping[tuple[int, float], Floats], best: int, concentration: float) -> int:
    """Return the most tastes that are behind the best by no more than two standard errors.

    Averages over more and longer chains, as in the fit, gain more from many tastes than a candidate's few do; and
    the fit has all clicks, a quarter more.
    """
    level = []
    for n_tastes, other in tried:
        behind = tried[best, concentration] - tried[n_tastes, other]
        if other == concentration and behind.mean() <= 2 * behind.std() / np.sqrt(behind.size):
            level.append(n_tastes)
    return max(level)


def hold_out_clicks(clicks: Clicks, seed: int) -> tuple[Clicks, NDArray[np.int64]]:
    """Return the clicks that are left, and the (user, item) pairs held out, [pair, 2]."""
    rng = np.random.default_rng([seed, 1])
    per_user, starts = clicks.per_user, clicks.matrix.indptr
    user = np.repeat(np.arange(clicks.n_users), per_user)
    order = np.lexsort((rng.random(clicks.n_clicks), user))
    number = np.floor(HELD_OUT * per_user + rng.random(clicks.n_users)).astype(np.int64)
    number = np.where(per_user >= LEAST_CLICKS, np.minimum(number, per_user - 2), 0)
    taken = np.zeros(clicks.n_clicks, np.bool_)
    taken[order[np.arange(clicks.n_clicks) - starts[user] < number[user]]] = True
    if not taken.any():
        said = (
            f"no user has {LEAST_CLICKS} clicks or more, so that none can be held out to choose the number of "
            "tastes: give "
        )
        raise InputError(Message(said, Option("n_tastes"), " a number."))
    new_starts = np.concatenate(([0], np.cumsum(~taken)))[starts]
    parts = (clicks.matrix.data[~taken], clicks.matrix.indices[~taken], new_starts)
    left = replace(clicks, matrix=sparse.csr_array(parts, shape=clicks.matrix.shape), times=None)
    return left, np.stack([user[taken], clicks.matrix.indices[taken]], axis=1).astype(np.int64)


def _score(
    clicks: Clicks,
    kept: Clicks,
    pairs: NDArray[np.int64],
    n_tastes: int,
    concentration: float,
    priors: TastePriors,
    run: Run,
    model: Mapping[str, Any],
) -> Floats:
    """Return the log probability of each held-out click, with the power that fits best."""
    tried = priors if priors.a is not None else replace(priors, a=concentration / n_tastes)
    short = Run(DRAWS, WARMUP, min(CHAINS, run.chains), THIN, run.seed, run.n_threads, False)
    draws = sample_tastes(kept, n_tastes, short, priors=tried, **model)
    if draws.stopped == "interrupted":
        raise Interrupted("stopped by Ctrl-C while the number of tastes was chosen.")
    predictor = TastePredictor(draws, None)
    log_laws, chosen, start = [], [], 0
    for rows, predicted in predictor.blocks(kept.matrix, 1, run.n_threads):
        # The law of the next click; all that the user has clicked does not compete, but for the click in question.
        end = np.searchsorted(pairs[:, 0], rows[-1], side="right")
        users, items = pairs[start:end, 0] - rows[0], pairs[start:end, 1]
        log_law = np.log(np.maximum(-predicted.tie_breaker, 1e-12))
        own = log_law[users, items]
        log_law[clicks.matrix[rows].toarray()] = -np.inf
        log_laws.append((log_law, users, own))
        chosen.append(own)
        start = end

    def log_probability(power: float) -> Floats:
        parts = []
        for log_law, users, own in log_laws:
            others = np.exp(power * log_law).sum(axis=1)[users]
            parts.append(power * own - np.log(others + np.exp(power * own)))
        return np.concatenate(parts)

    best = minimize_scalar(lambda power: -log_probability(power).mean(), bounds=POWERS, method="bounded")
    return log_probability(float(best.x))


def _choice(
    tried: Mapping[tuple[int, float], Floats], best: tuple[int, float], priors: TastePriors, ends: tuple[int, int]
) -> TasteChoice:
    import pandas as pd

    rows = []
    for (n_tastes, concentration), scores in sorted(tried.items()):
        behind = tried[best] - scores
        rows.append(
            {
                "n_tastes": n_tastes,
                "concentration": concentration if priors.a is None else np.nan,
                "log_probability": scores.mean(),
                "behind": behind.mean(),
                "behind_se": behind.std() / np.sqrt(behind.size),
            }
        )
    n_tastes, concentration = best
    said = f"{n_tastes} tastes" + (f" with a = {concentration:g} / {n_tastes}" if priors.a is None else "")
    reason = (
        f"{said}: no other of {len(tried)} candidates gives {tried[best].size:,} held-out clicks a log probability "
        f"clearly above theirs, {tried[best].mean():.4f} a click."
    )
    if n_tastes in ends:
        reason += " That is the end of what was tried."
    chosen = priors if priors.a is not None else replace(priors, a=concentration / n_tastes)
    return TasteChoice(n_tastes, chosen, pd.DataFrame(rows), reason)
