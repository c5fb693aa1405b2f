"""How many clusters: exact held-out log-likelihood, the paper's within-cluster distance, and the k-means elbow.

Held-out log-likelihood decides. The other two are the paper's criteria, and are there to compare with: the
within-cluster distance of well-mixed chains mostly goes on falling as clusters are added, since a user finds a
nearer consensus among more of them, and the elbow can be anywhere in a curve without a bend.
"""

from __future__ import annotations

import math
import operator
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from bmcd.clicks import Clicks
from bmcd.draws import Draws
from bmcd.initial import kmeans_inertia
from bmcd.mallows.latent import log_likelihood
from bmcd.posterior import sample_posterior
from bmcd.priors import Priors

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClusterChoice", "choose_n_clusters"]

Floats = NDArray[np.float64]

# Sets the stream that chooses the held-out users apart from those of the chains, which are numbered from 0.
SPLIT_STREAM = 2**32 - 1
# A boxplot's whiskers reach to the last draw within this many interquartile ranges of the box.
WHISKERS = 1.5


@dataclass(frozen=True, eq=False, repr=False)
class ClusterChoice:
    """What `choose_n_clusters` found; `print` it for the reason and the table."""

    recommended: int
    """The smallest candidate within one standard error of the best held-out log-likelihood."""
    reason: str
    """Why, in words and numbers."""
    by_mwcd: int
    """The paper's choice in its simulations: the candidate with the smallest MWCD."""
    elbow: int | None
    """The paper's choice for its case study: the elbow of the k-means curve (see `find_elbow`), if it has one."""
    table: pd.DataFrame
    """One row for each candidate, which is the index, `n_clusters`:

    * `held_out`, `held_out_se`: log-likelihood of a held-out user, mean over users, and its standard error;
    * `step`, `step_se`: the gain over the candidate before, mean over users of the paired differences;
    * `behind`, `behind_se`: what it lacks to the best, likewise;
    * `chain_gap`: largest minus smallest `held_out` of single chains. The standard errors are of the choice of
      users only; where this is as large as the steps, the chains are too short or too few to tell;
    * `mwcd`: posterior mean of the within-cluster footrule distance, sum over the training users;
    * `kmeans`: within-cluster sum of squares of k-means on the binary clicks of all users.
    """
    boxplot: pd.DataFrame
    """Draws of the within-cluster distance: `whislo`, `q1`, `med`, `q3`, `whishi` and `mean` of each candidate.

    These are the names that matplotlib's `Axes.bxp(boxplot.to_dict("records"), showfliers=False)` wants.
    """
    within_distance: Mapping[int, Floats]
    """The draws themselves, [chain, draw], for each candidate."""
    log_likelihood: Mapping[int, Floats]
    """Log-likelihood of each held-out user, for each candidate."""
    held_out_users: NDArray[Any]
    """Their ids, in the order of `log_likelihood`."""
    n_training_users: int
    """How many users the fits saw."""

    def __repr__(self) -> str:
        return (
            f"ClusterChoice(recommended={self.recommended}, by_mwcd={self.by_mwcd}, elbow={self.elbow}, "
            f"candidates={self.table.index.tolist()})"
        )

    def __str__(self) -> str:
        decimals = {name: "{:,.0f}".format for name in ("mwcd", "kmeans")}
        others = {name: "{:.4f}".format for name in self.table.columns if name not in decimals}
        return f"{self.reason}\n\n{self.table.to_string(formatters={**others, **decimals}, na_rep='')}"


def choose_n_clusters(
    clicks: Clicks,
    candidates: Iterable[int] = range(2, 9),
    *,
    holdout: float = 0.2,
    draws: int = 30,
    warmup: int = 30,
    chains: int = 2,
    seed: int = 0,
    priors: Priors | None = None,
    rank_scale: str | ArrayLike = "linear",
    n_threads: int | None = None,
    progress: bool | None = None,
) -> ClusterChoice:
    """Fit the mixture with each number of clusters and recommend one.

    A share of the users is held out. For each candidate C the exact sampler is run on the others, and the held-out
    users' clicks are scored by their exact posterior predictive probability, given how many they clicked:

        log of the mean, over draws and chains, of sum_c tau_c P(A_j | rho_c, alpha_c)

    with the latent rankings summed out (`bmcd.mallows.log_likelihood`). The recommendation is the smallest C that
    is behind the best by no more than one standard error of the paired difference, user by user.

    Two criteria of the paper are reported as well. MWCD, the posterior mean of the within-cluster footrule distance
    (each user counted once, in the user's own cluster), comes from the same fits, on the training users, to save
    time. The k-means within-cluster sum of squares is of all users; its elbow is the point farthest from the chord.

    Parameters
    ----------
    clicks
        Who clicked what. Users without clicks, or who clicked everything, have log-likelihood 0 and tell nothing.
    candidates
        Different whole numbers, from 1 to the number of training users.
    holdout
        The share of users to hold out, between 0 and 1.
    draws, warmup, chains
        Short runs mostly suffice, as the warm start is close; `chain_gap` in the table shows if they do not. With
        the defaults the seven candidates took 20 s for 1,500 users and 50 items on two cores.
    seed
        Decides who is held out, and all draws. The number of threads changes no digit.
    priors, rank_scale
        The model, see `bmcd.posterior.sample_posterior`.
    n_threads
        As many chains at a time, and threads for the sums over users; by default as many as there are cores. Where
        others use the same cores, 1 can be the fastest.
    progress
        Show a bar: by default only if standard error is a terminal.

    Examples
    --------
    >>> import bmcd
    >>> up = np.arange(1, 11)
    >>> clicks = bmcd.simulate(200, 10, consensuses=[up, up[::-1]], alpha=6, mean_clicks=3, seed=1).clicks
    >>> choice = choose_n_clusters(clicks, [1, 2, 3], draws=10, warmup=10, n_threads=1)
    >>> choice.recommended
    2
    >>> bool(choice.table.loc[2, "step"] > choice.table.loc[2, "step_se"])
    True
    """
    if not isinstance(clicks, Clicks):
        raise TypeError(f"clicks must be a Clicks, such as Clicks.from_matrix(...), not {type(clicks).__name__}.")
    wanted = _check_candidates(candidates)
    training, held_out = _split(clicks, holdout, seed)
    if wanted[-1] > training.n_users:
        raise ValueError(
            f"candidate {wanted[-1]} is more clusters than there are training users: {training.n_users}, as "
            f"{held_out.n_users} of {clicks.n_users} are held out. Leave it out, or hold out fewer."
        )
    within: dict[int, Floats] = {}
    by_draw: dict[int, Floats] = {}
    with _progress(progress, wanted) as show, _at_most(n_threads):
        for c in wanted:
            show(c)
            fitted = sample_posterior(
                training,
                c,
                priors=priors,
                rank_scale=rank_scale,
                draws=draws,
                warmup=warmup,
                chains=chains,
                seed=seed,
                n_threads=n_threads,
                progress=False,
            )
            if fitted.stopped == "interrupted":
                # A candidate with fewer draws than the others is not to be compared with them.
                raise KeyboardInterrupt(f"stopped by Ctrl-C at {c} clusters; no candidate is recommended.")
            within[c] = fitted.within_distance
            by_draw[c] = _log_likelihood_by_draw(held_out, fitted)
    inertia = kmeans_inertia(clicks, wanted, seed)
    scores = {c: _log_mean(values, axis=(1, 2)) for c, values in by_draw.items()}
    table = _table(scores, by_draw, within, inertia)
    recommended = int(table.index[table["behind"] <= table["behind_se"]].min())
    by_mwcd = wanted[int(np.argmin(table["mwcd"]))]
    elbow = find_elbow(inertia)
    return ClusterChoice(
        recommended=recommended,
        reason=_reason(table, recommended, by_mwcd, elbow, held_out.n_users, clicks.n_users),
        by_mwcd=by_mwcd,
        elbow=elbow,
        table=table,
        boxplot=_boxplot(within),
        within_distance=within,
        log_likelihood=scores,
        held_out_users=held_out.users,
        n_training_users=training.n_users,
    )


def find_elbow(curve: Mapping[int, float]) -> int | None:
    """The point of a falling curve that lies farthest below the chord from its first to its last point.

    Both axes are scaled to 0..1 first. The ends are on the chord, so an end is never the elbow; None if no point
    is below the chord, or there are fewer than three.

    >>> find_elbow({2: 100.0, 3: 40.0, 4: 35.0, 5: 30.0})
    3
    >>> find_elbow({2: 100.0, 3: 40.0}) is None
    True
    """
    x = np.array(sorted(curve), dtype=np.float64)
    y = np.array([curve[int(c)] for c in x])
    if len(x) < 3 or not y[0] > y[-1]:
        return None
    # The distance from the chord x + y = 1 is this over sqrt(2).
    below = 1.0 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    best = int(below.argmax())
    return int(x[best]) if below[best] > 1e-9 else None


def _check_candidates(candidates: Iterable[int]) -> list[int]:
    """In increasing order."""
    if not isinstance(candidates, Iterable):
        raise TypeError(f"candidates must be several numbers of clusters, such as range(2, 9), not {candidates!r}.")
    given = list(candidates)
    if not given:
        raise ValueError("candidates is empty: give at least one number of clusters.")
    numbers = []
    for c in given:
        if isinstance(c, bool | np.bool_) or not hasattr(c, "__index__"):
            raise TypeError(f"each candidate must be a whole number, but {c!r} is a {type(c).__name__}.")
        numbers.append(operator.index(c))
    if min(numbers) < 1:
        raise ValueError(f"each candidate must be at least 1, but {min(numbers)} is among {numbers}.")
    if twice := sorted({c for c in numbers if numbers.count(c) > 1}):
        raise ValueError(f"candidates must differ, but {', '.join(map(str, twice))} is there more than once.")
    return sorted(numbers)


def _split(clicks: Clicks, holdout: float, seed: int) -> tuple[Clicks, Clicks]:
    """The users to fit, and those to score."""
    number = isinstance(holdout, int | float | np.integer | np.floating) and not isinstance(holdout, bool)
    if not number or not 0 < holdout < 1:
        raise ValueError(f"holdout is a share of users: it must lie between 0 and 1, but it is {holdout!r}.")
    n_held_out = round(float(holdout) * clicks.n_users)
    if n_held_out < 2 or n_held_out == clicks.n_users:
        raise ValueError(
            f"holdout={holdout} of {clicks.n_users} users holds out {n_held_out}: two or more are needed to have a "
            "standard error, and some must stay to fit. Choose another share, or get more users."
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLIT_STREAM,)))
    chosen = np.zeros(clicks.n_users, np.bool_)
    chosen[rng.permutation(clicks.n_users)[:n_held_out]] = True
    what = f"{n_held_out} of {clicks.n_users} users at random (seed {seed})"
    return _users(clicks, ~chosen, f"left out {what}"), _users(clicks, chosen, f"kept only {what}")


def _users(clicks: Clicks, mask: NDArray[np.bool_], step: str) -> Clicks:
    return replace(clicks, users=clicks.users[mask], matrix=clicks.matrix[mask], history=(*clicks.history, step))


def _log_likelihood_by_draw(clicks: Clicks, draws: Draws) -> Floats:
    """log sum_c tau_c P(A_j | rho_c, alpha_c), users x chains x draws."""
    shape = (clicks.n_users, draws.n_draws, draws.problem.n_clusters)
    out = np.empty((clicks.n_users, draws.n_chains, draws.n_draws))
    for chain in range(draws.n_chains):
        # All clusters of all draws at once: the tables they share are made once.
        log_p = log_likelihood(
            clicks,
            draws.rho[chain].reshape(-1, clicks.n_items),
            draws.alpha[chain].reshape(-1),
            rank_scale=draws.problem.options["rank_scale"],
        ).reshape(shape)
        with np.errstate(divide="ignore"):  # a tau that has underflowed to 0
            log_tau = np.log(draws.tau[chain])
        out[:, chain] = logsumexp(log_p + log_tau, axis=2)
    return out


def _log_mean(log_values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Log of the mean of what these are the logs of."""
    axes = (axis,) if isinstance(axis, int) else axis
    number = math.prod(log_values.shape[a] for a in axes)
    out: Floats = logsumexp(log_values, axis=axes) - math.log(number)
    return out


def _mean_and_se(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


def _table(
    scores: Mapping[int, Floats],
    by_draw: Mapping[int, Floats],
    within: Mapping[int, Floats],
    inertia: Mapping[int, float],
) -> pd.DataFrame:
    import pandas as pd

    best = max(scores, key=lambda c: (scores[c].mean(), -c))
    before: int | None = None
    rows = []
    for c, score in scores.items():
        by_chain = _log_mean(by_draw[c], axis=2).mean(axis=0)
        held_out, held_out_se = _mean_and_se(score)
        step, step_se = (math.nan, math.nan) if before is None else _mean_and_se(score - scores[before])
        behind, behind_se = _mean_and_se(scores[best] - score)
        rows.append(
            {
                "held_out": held_out,
                "held_out_se": held_out_se,
                "step": step,
                "step_se": step_se,
                "behind": behind,
                "behind_se": behind_se,
                "chain_gap": float(np.ptp(by_chain)),
                "mwcd": float(within[c].mean()),
                "kmeans": inertia[c],
            }
        )
        before = c
    return pd.DataFrame(rows, index=pd.Index(list(scores), name="n_clusters"))


def _boxplot(within: Mapping[int, Floats]) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for values in within.values():
        q1, med, q3 = np.percentile(values, [25, 50, 75])
        reach = WHISKERS * (q3 - q1)
        # With few draws the quartiles lie between draws, and no draw may lie between box and fence.
        low = min(values[values >= q1 - reach].min(), q1)
        high = max(values[values <= q3 + reach].max(), q3)
        rows.append({"whislo": low, "q1": q1, "med": med, "q3": q3, "whishi": high, "mean": values.mean()})
    return pd.DataFrame(rows, index=pd.Index(list(within), name="n_clusters")).astype(np.float64)


def _reason(
    table: pd.DataFrame, recommended: int, by_mwcd: int, elbow: int | None, n_held_out: int, n_users: int
) -> str:
    numbers: list[int] = table.index.tolist()
    held_out = {c: float(table["held_out"].loc[c]) for c in numbers}
    best = numbers[int(np.argmax(list(held_out.values())))]

    def behind(c: int) -> str:
        return f"{table['behind'].loc[c]:.4f} behind (standard error {table['behind_se'].loc[c]:.4f})"

    score = f"held-out log-likelihood, {held_out[recommended]:.4f} a user ({n_held_out:,} of {n_users:,} users)"
    if len(numbers) == 1:
        parts = [f"{_clusters(recommended)}: the only candidate, so its {score}, has nothing to be compared with."]
    elif recommended == best:
        parts = [f"{_clusters(recommended)}: the best of {len(numbers)} candidates by {score}."]
    else:
        parts = [
            f"{_clusters(recommended)}: the smallest of {len(numbers)} candidates within one standard error of the "
            f"best by {score}. It is {behind(recommended)}; the best has {_clusters(best)}."
        ]
    if smaller := [c for c in numbers if c < recommended]:
        parts.append(f"The next smaller, {_clusters(smaller[-1])}, is {behind(smaller[-1])}.")
    if len(numbers) > 1 and best == numbers[-1]:
        parts.append("The best is the largest candidate: try larger ones too.")
    if recommended == numbers[0] > 1 and len(numbers) > 1:
        parts.append("It is the smallest candidate: try smaller ones too.")
    where = "has no elbow among the candidates" if elbow is None else f"has its elbow at {elbow}"
    parts.append(f"For comparison: MWCD is smallest at {by_mwcd}, and the k-means curve {where}.")
    return " ".join(parts)


def _clusters(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number} clusters"


@contextmanager
def _at_most(n_threads: int | None) -> Iterator[None]:
    """Let the exact sums over users, here and in the warm start, use no more threads than the chains.

    These are many short parallel loops. Where others use the same cores, numba's threads wait for each other in
    each of them, up to a hundred times longer than the work takes; with one thread they do not.
    """
    before = numba.get_num_threads()
    try:
        if n_threads is not None:
            numba.set_num_threads(max(1, min(n_threads, before)))
        yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def _progress(progress: bool | None, candidates: Sequence[int]) -> Iterator[Callable[[int], None]]:
    """One bar over the candidates if ``progress`` is True, or None and standard error is a terminal."""
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda c: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    # A candidate takes a time about linear in its number of clusters.
    work = {c: 2 + c for c in candidates}
    total, began = sum(work.values()), time.monotonic()
    console = Console(stderr=True, force_terminal=progress or None)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=8), TextColumn("{task.fields[text]}"))
    # Refreshed by hand: a thread of its own would take time from the chains.
    with Progress(*columns, console=console, auto_refresh=False) as bar:
        task = bar.add_task("starting", total=total, text="")

        def at(c: int) -> None:
            position = candidates.index(c)
            done = sum(work[other] for other in candidates[:position])
            text = f"{position}/{len(candidates)} candidates"
            if done:
                left = int((time.monotonic() - began) / done * (total - done))
                text += f" · {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
            bar.update(task, completed=done, description=_clusters(c), text=text)
            bar.refresh()

        yield at
        bar.update(task, completed=total, description="scored", text=f"{len(candidates)} candidates")
        bar.refresh()
