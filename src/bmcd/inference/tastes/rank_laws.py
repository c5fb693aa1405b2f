"""The distribution of the first item: log P(the item at consensus rank r comes first), on a grid of alphas.

**The prior of alpha lives on this grid.** Its points are a factor exp(SPACING) apart, from nearly uniform laws to
laws in which the best item comes first nearly always; each point carries the prior mass of its cell, bounded by
the geometric means with its neighbours, and the two outer points carry the tails. So no data can leave the grid:
below it all laws look like that of the first point, above it like that of the last.

Footrule, any rank scale: tag rank 1 and scan t = 1, ..., n as in `mallows/footrule_scan.py`. While rank 1 is open,
m + 1 items and m other ranks are. A step leads to m + 1 in 1 way, to m in 2 m + 2, to m - 1 in m (m + 1). If item t
takes rank 1, then rank t comes alone: it takes one of the m + 1 items, or stays open; what follows is the scan
without a tag, whose completions are in a table. One pass forwards gives all n probabilities: O(n^2), in logarithms
where they are small, hence exact to the last rank at every alpha.

* kendall: an item at rank r that comes first passes r - 1 others, whatever comes after: q(r) ~ exp(-theta (r - 1)).
* cayley: rank 1 is a fixed point with weight Z(n - 1) of Z(n), that is 1 / (1 + (n - 1) exp(-theta)); else all
  others are alike.
* hamming: an item is out of place with probability E[d] / n; else the same.

theta = alpha / n.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from functools import lru_cache
from threading import Lock

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.errors import InputError
from bmcd.mallows.exact_partition import hamming
from bmcd.mallows.footrule_scan import FLUSH, backward_messages
from bmcd.mallows.rank_scale import scale_values

DISTANCES = ("footrule", "kendall", "cayley", "hamming")
SPACING = (
    0.03  # of the logarithms of neighbouring alphas: below the posterior's spread with 1,000 visits to a taste
)
LOWEST = 0.05  # there no item is 3 % likelier than with alpha = 0
# At the highest alpha the second item comes first exp(-TOP) times as often as the first, or less often.
TOP = 20.0
# A table of 4 n^2 bytes is made for each law.
MAX_ITEMS = 10_000
# With many items and small alphas, what matters of a row lies far below its largest cell. So the largest is made
# this, for both messages, and not 1; with 1, cells that matter would vanish from 8,000 items on.
LARGEST_CELL = 1e250
# How far the probabilities of all items may sum off 1 before the law is refused.
TOLERANCE = 1e-8


@numba.njit(cache=True, nogil=True)
def footrule_log_law(gaps, beta):
    """log P(the item at consensus rank r comes first), r = 1, ..., n; beta = alpha / n."""
    n = gaps.size + 1
    table, scale = backward_messages(gaps, beta, LARGEST_CELL)
    out = np.empty(n)
    log_z = math.log(table[0, 0]) + scale[0]
    out[0] = math.log(table[1, 0]) + scale[1] - log_z
    # Cell m at index m + 1, so that the neighbours of the first and the last cell exist and are zero.
    weight, following = np.zeros(table.shape[1] + 2), np.zeros(table.shape[1] + 2)
    decay = np.ones(table.shape[1] + 2)
    weight[1] = LARGEST_CELL
    log_scale, previous_gap = -math.log(LARGEST_CELL), 0.0
    for t in range(2, n + 1):
        gap = gaps[t - 2]
        if gap != previous_gap:
            for m in range(decay.size):
                decay[m] = math.exp(-2.0 * beta * gap * m)
            previous_gap = gap
        log_scale -= 2.0 * beta * gap  # rank 1 itself and the item that is open because of it
        high = min(t - 2, n - t)  # more cannot have been opened, or cannot close any more
        for m in range(high + 1):
            weight[m + 1] *= decay[m]
        out[t - 1] = _log_joined(weight, table[t], high) + log_scale + scale[t] - log_z
        for m in range(high + 1, weight.size - 1):
            weight[m + 1] = 0.0
        largest = 0.0
        for m in range(high + 2):
            value = (2 * m + 2) * weight[m + 1] + m * weight[m] + (m + 2) * weight[m + 2]
            following[m + 1] = value
            largest = max(largest, value)
        factor = largest / LARGEST_CELL
        for m in range(high + 2):
            following[m + 1] = following[m + 1] / factor if following[m + 1] > FLUSH * factor else 0.0
        log_scale += math.log(factor)
        weight, following = following, weight
    return out


@numba.njit(cache=True, nogil=True)
def _log_joined(weight, completions, high):
    """Log of what both messages weigh together when the item takes rank 1; cell m of the first is at m + 1.

    Both go up to LARGEST_CELL: where their large cells coincide the products need a factor to stay in range, and
    where they lie far apart the products would be lost by it.
    """
    for factor in (1.0 / LARGEST_CELL, 1.0):
        joined = 0.0
        for m in range(high + 1):
            joined += (factor * weight[m + 1]) * ((m + 1.0) * (completions[m] + completions[m + 1]))
        if joined > 1.0:
            break
    return math.log(joined) - math.log(factor)


def kendall_log_law(n: int, theta: float) -> NDArray[np.float64]:
    """log P(the item at consensus rank r comes first): a geometric law cut off after n.

    >>> np.exp(kendall_log_law(2, 0.0)).tolist()
    [0.5, 0.5]
    """
    log_weight = -theta * np.arange(n, dtype=np.float64)
    return np.asarray(log_weight - math.log(math.fsum(np.exp(log_weight))))


def cayley_log_law(n: int, theta: float) -> NDArray[np.float64]:
    """log P(the item at consensus rank r comes first): weight 1 for the first, exp(-theta) for each other.

    >>> np.exp(cayley_log_law(2, 0.0)).tolist()
    [0.5, 0.5]
    """
    out = np.full(n, -theta)
    out[0] = 0.0
    return out - math.log1p((n - 1) * math.exp(-theta))


def hamming_log_law(n: int, theta: float) -> NDArray[np.float64]:
    """log P(the item at consensus rank r comes first): E[d] / n is shared by all but the first.

    >>> np.exp(hamming_log_law(2, 0.0)).round(12).tolist()
    [0.5, 0.5]
    """
    if n == 1:
        return np.zeros(1)
    out_of_place = hamming(n, theta)[1] / n
    out = np.full(n, math.log(out_of_place / (n - 1)))
    out[0] = math.log1p(-out_of_place)
    return out


class RankLaws:
    """Laws of the first item on the grid, each made when it is first asked for and then kept. Safe for threads.

    ``alphas[g]`` is the g-th point; ``log_law[g, r - 1]`` is log q(r) there, NaN until `make` was asked for it.

    >>> laws = RankLaws(3)
    >>> laws.make([0])
    >>> bool(np.isclose(np.exp(laws.log_law[0]).sum(), 1.0))
    True
    """

    def __init__(self, n_items: int, distance: str = "footrule", rank_scale: str | ArrayLike = "linear") -> None:
        if distance not in DISTANCES:
            raise InputError(
                f"the law of the first item is known exactly for {', '.join(DISTANCES)}, but not for {distance!r}. "
                "Choose one of those as the distance of the tastes."
            )
        if distance == "footrule" and n_items > MAX_ITEMS:
            raise InputError(
                f"the exact law of the first item keeps its digits up to {MAX_ITEMS} items, "
                f"but there are {n_items}. Keep the most clicked ones."
            )
        self.n_items = n_items
        self.distance = distance
        self._gaps = np.diff(scale_values(n_items, rank_scale))
        first_gap = 2.0 * self._gaps[0] if distance == "footrule" and n_items > 1 else 1.0
        highest = TOP * n_items / first_gap
        size = math.ceil(math.log(highest / LOWEST) / SPACING) + 1
        self.alphas: NDArray[np.float64] = LOWEST * np.exp(SPACING * np.arange(size))
        self.log_law: NDArray[np.float64] = np.full((size, n_items), np.nan)
        self._made = np.zeros(size, np.bool_)
        self._lock = Lock()

    def make(self, indices: ArrayLike) -> None:
        """Make the laws of these points of the grid, those of them that are not there yet."""
        wanted = np.asarray(indices, dtype=np.int64)
        if self._made[wanted].all():
            return
        with self._lock:
            for index in np.unique(wanted[~self._made[wanted]]).tolist():
                self.log_law[index] = self._law(float(self.alphas[index]))
                self._made[index] = True

    def log_law_at(self, alpha: float) -> NDArray[np.float64]:
        """Return log q of every rank at one alpha; at a point of the grid it is that of the grid.

        >>> laws = RankLaws(3)
        >>> bool((laws.log_law_at(laws.alphas[5]) == laws.log_law[5]).all())
        True
        """
        index = round(math.log(max(alpha, LOWEST) / LOWEST) / SPACING)
        if index < self.alphas.size and self.alphas[index] == alpha:
            self.make([index])
            return np.asarray(self.log_law[index])
        return self._law(alpha)

    def log_prior(self, rate: float) -> NDArray[np.float64]:
        """Log prior mass of each point: Exponential(rate) over the point's cell, tails included.

        >>> bool(np.isclose(np.exp(RankLaws(5).log_prior(0.02)).sum(), 1.0))
        True
        """
        edges = np.sqrt(self.alphas[1:] * self.alphas[:-1])
        lower, width = np.append(0.0, edges), np.append(np.diff(edges, prepend=0.0), np.inf)
        return np.asarray(-rate * lower + np.log(-np.expm1(-rate * width)))

    def _law(self, alpha: float) -> NDArray[np.float64]:
        theta = alpha / self.n_items
        if self.distance == "kendall":
            return kendall_log_law(self.n_items, theta)
        if self.distance == "cayley":
            return cayley_log_law(self.n_items, theta)
        if self.distance == "hamming":
            return hamming_log_law(self.n_items, theta)
        law: NDArray[np.float64] = footrule_log_law(self._gaps, theta)
        total = math.fsum(np.exp(law))
        error = abs(total - 1.0)
        if not error < TOLERANCE:
            raise ArithmeticError(
                f"the probabilities of being first sum to 1 with an error of {error:.1e} (n = {self.n_items}, "
                f"alpha = {alpha:.4g}): too large to be rounding. Use fewer items."
            )
        return law - math.log(total)


def rank_laws(n_items: int, distance: str = "footrule", rank_scale: str | ArrayLike = "linear") -> RankLaws:
    """The laws of this number of items, the same object for the same arguments.

    >>> rank_laws(4) is rank_laws(4)
    True
    """
    scale = tuple(scale_values(n_items, rank_scale).tolist()) if distance == "footrule" else None
    return _kept(n_items, distance, scale)


@lru_cache(maxsize=8)
def _kept(n_items: int, distance: str, scale: tuple[float, ...] | None) -> RankLaws:
    return RankLaws(n_items, distance, "linear" if scale is None else scale)
