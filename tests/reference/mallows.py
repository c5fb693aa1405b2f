"""Slow, obvious references of the Mallows model: sums over all rankings, and a scan with clicks in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import combinations, permutations
from math import exp, fsum, log1p

import numpy as np
from numpy.typing import NDArray


def enumerate_rankings(n: int) -> Iterator[tuple[int, ...]]:
    """Iterate over every ranking of n items: entry i is the rank of item i, 1 is best.

    >>> list(enumerate_rankings(2))
    [(1, 2), (2, 1)]
    """
    return permutations(range(1, n + 1))


def _footrule(r: Sequence[int], rho: Sequence[int], g: Sequence[float] | None) -> float:
    if g is None:
        return sum(abs(a - b) for a, b in zip(r, rho, strict=True))
    return fsum(abs(g[a - 1] - g[b - 1]) for a, b in zip(r, rho, strict=True))


def _spearman(r: Sequence[int], rho: Sequence[int]) -> int:
    return sum((a - b) ** 2 for a, b in zip(r, rho, strict=True))


def _kendall(r: Sequence[int], rho: Sequence[int]) -> int:
    """Count the pairs of items that the two rankings put in opposite order."""
    return sum((r[i] - r[j]) * (rho[i] - rho[j]) < 0 for i, j in combinations(range(len(r)), 2))


def _hamming(r: Sequence[int], rho: Sequence[int]) -> int:
    return sum(a != b for a, b in zip(r, rho, strict=True))


def _cayley(r: Sequence[int], rho: Sequence[int]) -> int:
    """Count the swaps of two entries that turn r into rho, putting one entry right at a time."""
    now, swaps = list(r), 0
    for i, wanted in enumerate(rho):
        if now[i] != wanted:
            j = now.index(wanted)
            now[i], now[j] = now[j], now[i]
            swaps += 1
    return swaps


def _ulam(r: Sequence[int], rho: Sequence[int]) -> int:
    """Count the items to take out and put back elsewhere: all but the longest run that both order alike."""
    in_consensus_order = [rank for _, rank in sorted(zip(rho, r, strict=True))]
    longest: list[int] = []  # longest[i] = longest increasing subsequence ending at i
    for i, rank in enumerate(in_consensus_order):
        longest.append(1 + max((longest[j] for j in range(i) if in_consensus_order[j] < rank), default=0))
    return len(r) - max(longest, default=0)


_SLOW: dict[str, Callable[[Sequence[int], Sequence[int]], float]] = {
    "spearman": _spearman,
    "kendall": _kendall,
    "cayley": _cayley,
    "hamming": _hamming,
    "ulam": _ulam,
}


def slow_distance(r: Sequence[int], rho: Sequence[int], name: str, g: Sequence[float] | None = None) -> float:
    """Return the distance `name` between two rankings; g[t - 1] is the place of rank t on the footrule's scale.

    >>> slow_distance((1, 2, 3), (3, 1, 2), "footrule"), slow_distance((1, 2, 3), (3, 1, 2), "cayley")
    (4, 2)
    """
    if name == "footrule":
        return _footrule(r, rho, g)
    return _SLOW[name](r, rho)


@cache
def _distances_to_identity(n: int, distance: str, g: tuple[float, ...] | None) -> list[float]:
    identity = range(1, n + 1)
    return [slow_distance(r, identity, distance, g) for r in enumerate_rankings(n)]


def log_partition_enumerated(n: int, alpha: float, distance: str, g: Sequence[float] | None = None) -> float:
    """Return the log of the sum over all rankings r of exp(-alpha / n * d(r, identity)).

    >>> round(log_partition_enumerated(2, 2.0, "footrule"), 6)  # log(1 + exp(-2))
    0.126928
    """
    # The identity alone has distance 0 and weight 1; log1p of the rest keeps a tiny log Z exact.
    distances = _distances_to_identity(n, distance, None if g is None else tuple(g))
    return log1p(fsum(exp(-alpha / n * d) for d in distances if d > 0))


def expected_distance_enumerated(n: int, alpha: float, distance: str, g: Sequence[float] | None = None) -> float:
    """Return the mean distance to the consensus under the model.

    >>> expected_distance_enumerated(2, 0.0, "footrule")
    1.0
    """
    distances = _distances_to_identity(n, distance, None if g is None else tuple(g))
    weights = [exp(-alpha / n * d) for d in distances]
    return fsum(w * d for w, d in zip(weights, distances, strict=True)) / fsum(weights)


def probabilities_enumerated(
    rho: Sequence[int], alpha: float, distance: str, g: Sequence[float] | None = None
) -> dict[tuple[int, ...], float]:
    """Return the probability of every ranking under the model with consensus rho.

    >>> probabilities_enumerated((2, 1), 0.0, "kendall")
    {(1, 2): 0.5, (2, 1): 0.5}
    """
    n = len(rho)
    weights = {r: exp(-alpha / n * slow_distance(r, rho, distance, g)) for r in enumerate_rankings(n)}
    total = fsum(weights.values())
    return {r: w / total for r, w in weights.items()}


def block_log_weight(
    positions: Collection[int], ranks: Collection[int], scale: NDArray[np.float64], beta: float
) -> float:
    """Return the log of the sum over bijections of exp(-beta sum |g(position) - g(rank)|)."""
    n = len(scale)
    states = {(0, 0): 0.0}
    for t in range(1, n + 1):
        item, rank = t in positions, t in ranks
        terms: dict[tuple[int, int], list[float]] = {}
        for (a, b), log_weight in states.items():
            for state, ways in _moves(a, b, item, rank):
                if ways > 0:
                    terms.setdefault(state, []).append(log_weight + math.log(ways))
        gap = scale[t] - scale[t - 1] if t < n else 0.0
        states = {(a, b): _log_sum(logs) - beta * gap * (a + b) for (a, b), logs in terms.items()}
    return states.get((0, 0), -math.inf)


def _moves(a: int, b: int, item: bool, rank: bool) -> list[tuple[tuple[int, int], int]]:
    """List the states that a step can lead to, each with the number of ways."""
    if item and rank:
        return [((a, b), 1 + a + b), ((a + 1, b + 1), 1), ((a - 1, b - 1), a * b)]
    if item:
        return [((a + 1, b), 1), ((a, b - 1), b)]
    if rank:
        return [((a, b + 1), 1), ((a - 1, b), a)]
    return [((a, b), 1)]


def _log_sum(logs: list[float]) -> float:
    largest = max(logs)
    return largest + math.log(sum(math.exp(value - largest) for value in logs))


def slow_log_likelihood(clicked: Collection[int], scale: NDArray[np.float64], alpha: float) -> float:
    """Return log P(clicks | rho, alpha); ``clicked`` holds consensus positions 1..n."""
    n, c = len(scale), len(clicked)
    everything = range(1, n + 1)
    others = set(everything) - set(clicked)
    beta = alpha / n
    return (
        block_log_weight(set(clicked), range(1, c + 1), scale, beta)
        + block_log_weight(others, range(c + 1, n + 1), scale, beta)
        - block_log_weight(everything, everything, scale, beta)
    )


def slow_top_probabilities(
    clicked: Collection[int], scale: NDArray[np.float64], alpha: float, k: int
) -> NDArray[np.float64]:
    """Return P(rank <= c + k) by position: for each item and rank, fix the pair and sum over the rest."""
    n, c = len(scale), len(clicked)
    beta = alpha / n
    others = set(range(1, n + 1)) - set(clicked)
    ranks = set(range(c + 1, n + 1))
    total = block_log_weight(others, ranks, scale, beta)
    out = np.zeros(n)
    for position in others:
        for rank in range(c + 1, min(c + k, n) + 1):
            rest = block_log_weight(others - {position}, ranks - {rank}, scale, beta)
            out[position - 1] += math.exp(rest - beta * abs(scale[position - 1] - scale[rank - 1]) - total)
    return out
