"""Slow, obvious twin of the exact sums: plain Python over arbitrary sets, in logarithms, nothing trimmed.

`block_log_weight` sums over all bijections between a set of positions and a set of ranks, by the scan of
`scan.py` read literally: a open items, b open ranks, and the table of ways. Everything else is built from it
with set operations instead of messages, so that it shares no idea with the fast kernels.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray


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
