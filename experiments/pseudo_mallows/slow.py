"""Slow, obvious twins of the kernels: the same draws in plain Python, and the laws that they are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from math import exp

Ranking = tuple[int, ...]
Cost = Callable[[int, int], float]
"""What it costs an item to have a rank (from 1)."""


def v_orders(items: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the V-shaped orders of items that are sorted by mean rank: the middle first, the ends last.

    The paper's conjecture is that the best orders are among them. We take each with the same probability.

    >>> v_orders([5, 6, 7])
    [(6, 5, 7), (6, 7, 5)]
    >>> len(v_orders(range(6)))
    8
    """
    size = len(items)
    centre = [items[size // 2]] if size % 2 else []
    pairs = [(items[size // 2 - 1 - i], items[(size + 1) // 2 + i]) for i in range(size // 2)]
    orders = []
    for turned in product((False, True), repeat=len(pairs)):
        ends = [item for pair, turn in zip(pairs, turned, strict=True) for item in (pair[::-1] if turn else pair)]
        orders.append((*centre, *ends))
    return orders


def sequential_law(
    order: Sequence[int], ranks: Sequence[int], cost: Cost, beta: float
) -> dict[tuple[tuple[int, int], ...], float]:
    """Return the product of univariate distributions: of each way to rank the items of ``order``.

    Each item in turn takes a rank r of those left with a probability in proportion to exp(-beta cost(item, r)).
    """
    law = {}
    for chosen in permutations(ranks):
        probability, left = 1.0, list(ranks)
        for item, rank in zip(order, chosen, strict=True):
            here = cost(item, rank)  # differences of costs, as their powers would all be 0 for many rankings
            probability /= sum(exp(-beta * (cost(item, r) - here)) for r in left)
            left.remove(rank)
        law[tuple(sorted(zip(order, chosen, strict=True)))] = probability
    return law


def mixed_law(
    orders: Sequence[Sequence[int]], ranks: Sequence[int], cost: Cost, beta: float
) -> dict[tuple[tuple[int, int], ...], float]:
    """Return the mean of the sequential laws over some orders."""
    law: dict[tuple[tuple[int, int], ...], float] = {}
    for order in orders:
        for pairs, probability in sequential_law(order, ranks, cost, beta).items():
            law[pairs] = law.get(pairs, 0.0) + probability / len(orders)
    return law


def consensus_law(rankings: Sequence[Ranking], beta: float) -> dict[Ranking, float]:
    """Return the Pseudo-Mallows law of rho given full rankings, by enumeration.

    >>> law = consensus_law([(1, 2, 3), (1, 3, 2)], beta=1.0)
    >>> round(sum(law.values()), 12), max(law, key=law.get)
    (1.0, (1, 2, 3))
    """
    n = len(rankings[0])
    by_mean_rank = sorted(range(n), key=lambda item: sum(ranking[item] for ranking in rankings))

    def cost(item: int, rank: int) -> float:
        return float(sum(abs(ranking[item] - rank) for ranking in rankings))

    law = mixed_law(v_orders(by_mean_rank), range(1, n + 1), cost, beta)
    return {tuple(rank for _, rank in pairs): probability for pairs, probability in law.items()}


def ranking_law(rho: Ranking, clicked: Sequence[int], beta: float, v_shaped: bool = False) -> dict[Ranking, float]:
    """Return the Pseudo-Mallows law of a ranking that agrees with clicks, given rho, by enumeration.

    Items have their turns in a V-shaped order, or in any: the mean over all of them.

    >>> ranking_law((1, 2, 3), [2], beta=0.0)
    {(2, 3, 1): 0.5, (3, 2, 1): 0.5}
    """
    n, c = len(rho), len(clicked)
    first = sorted(clicked, key=lambda item: rho[item])
    others = sorted(set(range(n)) - set(clicked), key=lambda item: rho[item])

    def cost(item: int, rank: int) -> float:
        return float(abs(rho[item] - rank))

    one_law, other_law = (
        mixed_law(v_orders(block) if v_shaped else list(permutations(block)), ranks, cost, beta)
        for block, ranks in ((first, range(1, c + 1)), (others, range(c + 1, n + 1)))
    )
    return {
        tuple(rank for _, rank in sorted(one + other)): p * q
        for (one, p), (other, q) in product(one_law.items(), other_law.items())
    }


def draw_by_turns(
    by_mean_rank: Sequence[int], ranks: Sequence[int], cost: Cost, beta: float, uniforms: Iterator[float]
) -> dict[int, int]:
    """Return the rank of each item, drawn as `draw_consensus` does from the same uniform numbers: coins, ranks."""
    size, left = len(by_mean_rank), list(ranks)
    order = [by_mean_rank[size // 2]] if size % 2 else []
    for i in range(size // 2):
        pair = by_mean_rank[size // 2 - 1 - i], by_mean_rank[(size + 1) // 2 + i]
        order += pair if next(uniforms) < 0.5 else pair[::-1]
    drawn = {}
    for item in order:
        least = min(cost(item, r) for r in left)
        weights = [exp(-beta * (cost(item, r) - least)) for r in left]
        u, place = next(uniforms) * sum(weights), 0
        while place < len(left) - 1 and u >= weights[place]:
            u -= weights[place]
            place += 1
        drawn[item] = left.pop(place)
    return drawn
