"""Slow, obvious twins of the fast code: definitions taken literally, sums over all n! rankings.

Nothing here is meant to be fast (n <= 8 or so). The tests compare every fast routine with these. Read them first
when a formula elsewhere looks like magic.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, permutations
from math import exp, fsum, log1p


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
