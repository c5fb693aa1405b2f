"""What a cut-off does: how many recommendations are kept, and how many of those are hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.clicks.log import Library
from bmcd.errors import InputError
from bmcd.utils import Floats

# The largest part of the capital that is bet.
BOLDEST = 0.75
STEPS = 40


def betting_p_value(values: Floats, least: float, confidence: float = 0.95, seed: int = 0) -> float:
    """Return a p-value for "the mean of these values, one of each user, is below `least`"; all are within 0 and 1.

    ``confidence`` is what the bets are made for; the p-value is valid at every level. The users are put into an
    order by the seed, since bets are made one after the other.

    >>> rng = np.random.default_rng(1)
    >>> betting_p_value(rng.random(500), 0.45) < 0.05 < betting_p_value(rng.random(500), 0.5)
    True
    """
    if least <= 0:
        return 0.0
    order = np.random.default_rng([seed, len(values)]).permutation(len(values))
    return float(np.exp(-_log_capital(np.asarray(values[order], np.float64), least, 1 - confidence)))


def lower_bound(values: Floats, confidence: float = 0.95, seed: int = 0) -> float:
    """Return what the mean is at least, with this confidence: the largest mean whose p-value is small enough.

    >>> 0.44 < lower_bound(np.random.default_rng(1).random(500)) < 0.5
    True
    """
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if betting_p_value(values, middle, confidence, seed) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def qualified(n: int, p_value: Callable[[int], float], starts: Sequence[int], confidence: float) -> list[int]:
    """Return the settings whose hypotheses are rejected, of ``n`` in order from the safest on.

    Testing starts at each of these and continues until the first that is not rejected. Several starts share the
    level (Bonferroni), so that one may lie where there is nothing to find.

    >>> qualified(5, [0.2, 0.01, 0.02, 0.3, 0.0].__getitem__, [0], 0.95)
    []
    >>> qualified(5, [0.2, 0.01, 0.02, 0.3, 0.0].__getitem__, [0, 1], 0.95)
    [1, 2]
    """
    found: set[int] = set()
    for start in starts:
        for setting in range(start, n):
            if setting in found:
                break  # another start has been here, and went on
            if p_value(setting) > (1 - confidence) / len(starts):
                break
            found.add(setting)
    return sorted(found)


def _log_capital(values: Floats, least: float, level: float) -> float:
    """Return the logarithm of the largest capital that bets on a mean above ``least`` ever had."""
    number = np.arange(2, values.size + 2)
    mean = (0.5 + np.cumsum(values)) / number
    variance = np.maximum((0.25 + np.cumsum((values - mean) ** 2)) / number, 1e-12)
    before = np.concatenate(([0.25], variance[:-1]))  # a bet is made before its value is known
    bet = np.minimum(np.sqrt(2.0 * np.log(1.0 / level) / (values.size * before)), BOLDEST / least)
    return float(np.cumsum(np.log1p(bet * (values - least))).max(initial=0.0))


# Cut-offs of the paper's tables are multiples of this.
CUTOFF_STEP = 0.05
# With confidence: cut-offs that are tried, users that are needed, and bootstrap draws.
CANDIDATES, FEWEST_USERS, RESAMPLES = 101, 30, 2000
# Where the bound is for finite samples: cut-offs are tested from those on that keep these shares of all
# recommendations.
STARTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)


def cutoff_table(
    probability: ArrayLike, hit: ArrayLike, cutoffs: ArrayLike | None = None, *, library: Library = "pandas"
) -> Any:
    """Return the paper's cut-off table: for each cut-off, what is kept (probability >= cutoff) and how good it is.

    Columns: `cutoff`; `n`, `share`: number of recommendations kept, and their share of all; `accuracy`: the share
    of those kept that are hits, missing where none is kept. Without `cutoffs`, they are the multiples of 0.05 from
    the last that keeps everything to the last that keeps anything.

    >>> cutoff_table([0.12, 0.2, 0.3, 0.3], [False, False, True, False]).round(3).to_dict("list")
    {'cutoff': [0.1, 0.15, 0.2, 0.25, 0.3], 'n': [4, 3, 3, 2, 2], 'share': [1.0, 0.75, 0.75, 0.5, 0.5], \
'accuracy': [0.25, 0.333, 0.333, 0.5, 0.5]}
    """
    import narwhals as nw

    table = cutoff_columns(*check_hits(probability, hit), cutoffs)
    schema = {"cutoff": nw.Float64(), "n": nw.Int64(), "share": nw.Float64(), "accuracy": nw.Float64()}
    return nw.from_dict(table, schema=schema, backend=library).to_native()


def cutoff_for(probability: ArrayLike, hit: ArrayLike, hit_rate: float, *, min_kept: int = 30) -> float:
    """Return the smallest cut-off with which the recommendations kept have the wanted hit rate.

    Of all cut-offs (the probabilities themselves) that keep at least `min_kept` recommendations, it is the one that
    keeps the most while their accuracy is at least `hit_rate`; 0.0 when all of them together reach it already.
    Few recommendations can be all hits by luck, which is why `min_kept` matters. The cut-off is chosen on these
    data, so the hit rate on others will be a little lower: `sure_cutoff_for` allows for that.

    When no cut-off reaches the wanted hit rate an error reports what can be reached, and not None, which
    as a `min_probability` would mean no cut-off at all.

    >>> cutoff_for([0.1, 0.2, 0.3, 0.4], [False, True, False, True], hit_rate=0.6, min_kept=1)
    0.2
    """
    p, h = check_hits(probability, hit)
    _check_rate(hit_rate, "hit_rate")
    if not 1 <= min_kept <= len(p):
        raise InputError(
            f"min_kept must be 1 to {len(p)}, the number of recommendations given, but it is {min_kept}."
        )
    order = np.argsort(-p, kind="stable")
    kept = np.arange(1, len(p) + 1)
    accuracy = np.cumsum(h[order]) / kept
    # A cut-off keeps all of equal probability or none: it can stand only where the next one is smaller.
    can_stand = np.append(p[order][1:] < p[order][:-1], True) & (kept >= min_kept)
    good = np.flatnonzero(can_stand & (accuracy >= hit_rate))
    if not good.size:
        best = np.flatnonzero(can_stand)[accuracy[can_stand].argmax()]
        raise InputError(
            f"no cut-off reaches a hit rate of {hit_rate:g}: the best is {accuracy[best]:.4f}, with cut-off "
            f"{p[order[best]]:.4f}, which keeps {kept[best]:,} of {len(p):,} recommendations "
            f"(at least {min_kept:,} must be kept). Ask for less."
        )
    return 0.0 if good[-1] == len(p) - 1 else float(p[order[good[-1]]])


def sure_cutoff_for(
    probability: ArrayLike,
    hit: ArrayLike,
    user: ArrayLike,
    hit_rate: float,
    *,
    confidence: float = 0.95,
    min_kept: int = 30,
    seed: int = 0,
    finite_sample: bool = False,
) -> float:
    """Return the smallest cut-off whose hit rate is at least the wanted one, with this confidence.

    The hit rate is that of other users like these, and the confidence holds although the cut-off is chosen on these
    data: the bound is for all cut-offs at once. For each it looks at what every user adds to hits - hit_rate x
    recommendations, as a sum over its standard error. The sum that chance alone would exceed somewhere is found
    by giving the users random signs and sizes (a Gaussian multiplier bootstrap); a cut-off is good if its sum is
    larger. Users, not recommendations, are what is random: those of one user are correlated.

    With ``finite_sample`` the bound does not rest on many users being there: cut-offs are tested one after the
    other, from some of them towards smaller ones, by betting (`bmcd.models.cutoffs`). It is a little
    stricter.

    Up to `CANDIDATES` cut-offs are looked at, which keep at least ``min_kept`` recommendations of at least
    `FEWEST_USERS` users. When none is good an error reports which hit rate is reached with this confidence.

    >>> rng = np.random.default_rng(1)
    >>> p, user = rng.random(4000), np.repeat(np.arange(400), 10)
    >>> cut = sure_cutoff_for(p, rng.random(4000) < p, user, 0.7)
    >>> 0.4 < cut < 0.5  # what lies above 0.4 has a hit rate of 0.7
    True
    """
    p, h = check_hits(probability, hit)
    _check_rate(hit_rate, "hit_rate")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, like 0.95, but it is {confidence}.")
    _, who = np.unique(np.asarray(user), return_inverse=True)
    n_users = int(who.max()) + 1
    cuts = np.unique(np.quantile(p, np.linspace(0, 1, CANDIDATES), method="lower"))
    kept, hits = (np.zeros((n_users, len(cuts))) for _ in range(2))
    last = np.searchsorted(cuts, p, side="right") - 1  # the largest cut-off that keeps it
    np.add.at(kept, (who, last), 1.0)
    np.add.at(hits, (who[h], last[h]), 1.0)
    kept, hits = (np.cumsum(of[:, ::-1], axis=1)[:, ::-1] for of in (kept, hits))
    enough = (kept.sum(axis=0) >= min_kept) & ((kept > 0).sum(axis=0) >= FEWEST_USERS)
    if not enough.any():
        raise InputError(
            f"no cut-off keeps {min_kept:,} recommendations of {FEWEST_USERS} users, which confidence needs: there "
            f"are {len(p):,} of {n_users:,} users. Ask without confidence (None), or give more test clicks."
        )
    cuts, kept, hits = cuts[enough], kept[:, enough], hits[:, enough]
    rate = hits.sum(axis=0) / kept.sum(axis=0)
    if finite_sample:
        return _finite(cuts, kept, hits, hit_rate, confidence, seed, smallest=p.min())
    limit, sums = _chance_limit(hits - hit_rate * kept, confidence, seed)
    if (good := np.flatnonzero(sums > limit)).size:
        return 0.0 if good[0] == 0 and cuts[0] == p.min() else float(cuts[good[0]])
    sure = _lower_ends(hits, kept, limit)
    best = int(sure.argmax())
    raise InputError(
        f"no cut-off has a hit rate of {hit_rate:g} with {confidence:.0%} confidence: the best is "
        f"{cuts[best]:.4f}, with a hit rate of {rate[best]:.4f} here and, to be sure, at least "
        f"{sure[best]:.4f}; it keeps "
        f"{int(kept[:, best].sum()):,} of {len(p):,} recommendations. Ask for less, or give more test clicks."
    )


def _finite(
    cuts: Floats, kept: Floats, hits: Floats, hit_rate: float, confidence: float, seed: int, smallest: float
) -> float:
    """Return the smallest cut-off that is rejected as too small, by bets on what each user adds.

    What a user adds to hits - hit_rate x recommendations has a mean of 0 or more where the hit rate is reached.
    Moved and scaled it lies between 0 and 1, and its mean is then at least the hit rate.
    """
    longest = kept.max()

    def p_value(setting: int) -> float:
        column = len(cuts) - 1 - setting  # the largest cut-off first
        values = hit_rate + (hits[:, column] - hit_rate * kept[:, column]) / longest
        return betting_p_value(values, hit_rate, confidence, seed)

    share = kept.sum(axis=0)[::-1] / kept.sum(axis=0).max()
    starts = np.unique(np.minimum(np.searchsorted(share, STARTS), len(cuts) - 1)).tolist()
    if good := qualified(len(cuts), p_value, starts, confidence):
        column = len(cuts) - 1 - good[-1]
        return 0.0 if column == 0 and cuts[0] == smallest else float(cuts[column])
    rate = hits.sum(axis=0) / kept.sum(axis=0)
    best = int(rate.argmax())
    raise InputError(
        f"no cut-off has a hit rate of {hit_rate:g} with {confidence:.0%} confidence for a finite sample of "
        f"{len(kept):,} users: the best is {cuts[best]:.4f}, with a hit rate of {rate[best]:.4f} here. Ask for "
        "less, or give more test clicks."
    )


def _lower_ends(hits: Floats, kept: Floats, limit: float) -> Floats:
    """Return, for each cut-off, the highest hit rate whose sum is still at the limit.

    That is the smaller root t of (H - t N)^2 = limit^2 sum over users of (hits - t kept)^2, a quadratic in t.
    """
    n, h = kept.sum(axis=0), hits.sum(axis=0)
    a = n**2 - limit**2 * (kept**2).sum(axis=0)
    b = h * n - limit**2 * (hits * kept).sum(axis=0)
    c = h**2 - limit**2 * (hits**2).sum(axis=0)
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    return np.asarray(np.clip(np.divide(b - root, a, out=np.zeros_like(a), where=a > 0), 0.0, 1.0))


def _chance_limit(terms: Floats, confidence: float, seed: int) -> tuple[float, Floats]:
    """Return what chance alone stays below in every column, and the sums of the columns over their standard errors.

    ``terms`` has what each user adds, [user, cut-off].
    """
    scale = np.maximum(np.sqrt((terms**2).sum(axis=0)), 1e-300)
    sums = terms.sum(axis=0) / scale
    own = terms - terms.mean(axis=0)
    own /= np.maximum(np.sqrt((own**2).sum(axis=0)), 1e-300)
    rng = np.random.default_rng(seed)
    largest = [(rng.standard_normal((100, len(own))) @ own).max(axis=1) for _ in range(RESAMPLES // 100)]
    return float(np.quantile(np.concatenate(largest), confidence)), sums


def cutoff_columns(p: Floats, h: NDArray[np.bool_], cutoffs: ArrayLike | None) -> dict[str, list[Any]]:
    """Return the columns of `cutoff_table` as lists."""
    if cutoffs is None:
        n_steps = round(1 / CUTOFF_STEP)
        grid = np.arange(n_steps + 1) / n_steps
        first, last = np.searchsorted(grid, (p.min(), p.max()), side="right")
        cuts = grid[first - 1 : last]
    else:
        cuts = np.atleast_1d(np.asarray(cutoffs, dtype=np.float64))
        if cuts.ndim != 1 or not np.isfinite(cuts).all():
            raise InputError("cutoffs must be numbers, like [0.1, 0.2, 0.3].")
    order = np.argsort(p)
    below = np.searchsorted(p[order], cuts, side="left")
    n = len(p) - below
    hits = h.sum() - np.concatenate(([0], np.cumsum(h[order])))[below]
    accuracy = [int(some) / int(of) if of else None for some, of in zip(hits, n, strict=True)]
    return {"cutoff": cuts.tolist(), "n": n.tolist(), "share": (n / len(p)).tolist(), "accuracy": accuracy}


def check_hits(probability: ArrayLike, hit: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Return probabilities and hits as arrays, one entry for each recommendation, or an error."""
    p, h = np.asarray(probability, dtype=np.float64), np.asarray(hit)
    if p.ndim != 1 or p.shape != h.shape or not p.size:
        raise InputError(
            f"probability and hit must be as long as each other and not empty, one entry for each recommendation, "
            f"but their shapes are {p.shape} and {h.shape}."
        )
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"probabilities must be between 0 and 1, but there is {p[~((p >= 0) & (p <= 1))][0]}.")
    if not np.isin(h, (0, 1)).all():
        raise InputError("hit must be True or False (or 1 or 0) for each recommendation.")
    return p, h.astype(np.bool_)


def _check_rate(value: float, name: str) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name} must be between 0 and 1, but it is {value}.")


def wilson(hits: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the two ends of Wilson's interval of shares; it is good also for few tries, and for 0 hits or all.

    Of no tries it is 0 to 1. Every recommendation counts as a separate try. Those of one user are correlated, so
    over all recommendations the bootstrap over users is better; within a narrow bin of probability there are few of
    a user.

    >>> [end.round(3).tolist() for end in wilson([0, 5, 10], [10, 10, 10])]
    [[0.0, 0.237, 0.722], [0.278, 0.763, 1.0]]
    """
    from scipy.special import ndtri

    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, like 0.95, but it is {level}.")
    n_hits, n_tries = np.asarray(hits, np.float64), np.asarray(n, np.float64)
    if ((n_hits < 0) | (n_hits > n_tries)).any():
        raise InputError("there cannot be fewer hits than 0 or more hits than tries.")
    z = float(ndtri((1 + level) / 2))
    share = np.divide(n_hits, n_tries, out=np.full_like(n_hits, 0.5), where=n_tries > 0)
    middle, reach = n_hits + z**2 / 2, z * np.sqrt(n_tries * share * (1 - share) + z**2 / 4)
    low, high = (middle - reach) / (n_tries + z**2), (middle + reach) / (n_tries + z**2)
    # At the ends the formula is exactly 0 and 1; rounding must not leave a hair.
    return np.where(n_hits == 0, 0.0, low), np.where(n_hits == n_tries, 1.0, high)
