"""Six right-invariant distances between rankings, for many rankings at once; checks of rankings and scales.

A ranking is a vector of ranks: entry i is the rank of item i, ranks run from 1 (best) to n. All six distances are
right-invariant: they do not change when the items of both rankings are relabelled alike. Each of them is therefore
a function of sigma = r o rho^-1 alone, where sigma[t] is the rank that r gives to the item whose rank in rho is t.
Diaconis (1988), "Group Representations in Probability and Statistics", chapter 6B, has the catalogue with the names
used here.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.errors import InputError, Message, Option
from bmcd.mallows.rank_scale import scale_values
from bmcd.utils import Floats, Integers

DISTANCES = ("footrule", "spearman", "kendall", "cayley", "hamming", "ulam")
FOOTRULE, SPEARMAN, KENDALL, CAYLEY, HAMMING, ULAM = range(6)  # what compiled code calls them

Result = Integers | np.int64  # one number for two single rankings
AnyArray = NDArray[Any]
Flags = NDArray[np.bool_]


# ---------------------------------------------------------------------------------------------- checks


def check_ranks(ranks: ArrayLike, name: str = "ranks") -> Integers:
    """Return rankings as an int64 array of shape (..., n), or refuse them with what is wrong and where.

    The last axis runs over the items; each row must hold every rank 1..n once. Costs a sort per row.

    >>> check_ranks([2.0, 1.0, 3.0])
    array([2, 1, 3])
    >>> check_ranks([[1, 2], [0, 1]])
    Traceback (most recent call last):
        ...
    bmcd.errors.InputError: ranks[1] = [0, 1] holds 0: ranks start at 1 (1 is best), so add 1 if yours start at 0
    """
    try:
        given = np.asarray(ranks)
    except ValueError as error:
        raise InputError(f"{name} has rows of unequal length: give one rank per item in each row") from error
    if given.ndim == 0 or given.shape[-1] == 0:
        raise InputError(f"{name} has shape {given.shape}: the last axis must hold one rank per item")
    if given.dtype.kind not in "iuf":
        raise InputError(f"{name} has type {given.dtype}: give whole numbers, 1 for the best item, 2, ..., n")
    n = given.shape[-1]
    if given.dtype.kind == "f":
        unranked = "every item needs a rank; leave items without one out of the data"
        _refuse_entry(given, ~np.isfinite(given), name, unranked)
        _refuse_entry(given, given != np.floor(given), name, "ranks are whole numbers; break ties first")
    # Range before the cast: a float such as 1e300 does not fit in an int64.
    _refuse_row(given, given < 1, name, "ranks start at 1 (1 is best), so add 1 if yours start at 0")
    _refuse_row(given, given > n, name, f"with {n} items the ranks are 1..{n}")
    checked = given.astype(np.int64)
    ordered = np.sort(checked, axis=-1)
    twice = np.zeros(ordered.shape, dtype=bool)
    twice[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    _refuse_row(ordered, twice, name, f"more than once; each of 1..{n} must appear exactly once", shown=checked)
    return checked


def _where(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _refuse_entry(given: AnyArray, bad: Flags, name: str, advice: str) -> None:
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(f"{_where(name, index)} is {given[index]}: {advice}")


def _refuse_row(given: AnyArray, bad: Flags, name: str, advice: str, shown: AnyArray | None = None) -> None:
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        row = (given if shown is None else shown)[index[:-1]]
        listed = ", ".join(f"{value:g}" for value in row[:10].tolist()) + (", ..." if row.size > 10 else "")
        separator = ": " if shown is None else " "
        raise InputError(f"{_where(name, index[:-1])} = [{listed}] holds {given[index]:g}{separator}{advice}")


def check_alpha(alpha: ArrayLike) -> NDArray[np.float64]:
    """Return scales as an array of any shape, or refuse them with the place of the first one that is wrong."""
    try:
        alphas: NDArray[np.float64] = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"alpha is {alpha!r}: give a number, 0 or more, or an array of them") from error
    bad = ~(np.isfinite(alphas) & (alphas >= 0))
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"alpha[{', '.join(map(str, index))}]" if index else "alpha"
        raise InputError(f"{where} is {alphas[index]:g}: alpha must be finite and 0 or more (0 is uniform)")
    return alphas


def alpha_by_cluster(alpha: ArrayLike, n_clusters: int) -> NDArray[np.float64]:
    """Return one checked scale for each cluster, from one number or from one for each.

    >>> alpha_by_cluster(3.0, 2)
    array([3., 3.])
    """
    alphas = check_alpha(alpha)
    if alphas.ndim > 1 or (alphas.ndim == 1 and alphas.size not in (1, n_clusters)):
        raise InputError(
            f"alpha has shape {alphas.shape}, but there are {n_clusters} clusters: "
            "pass one number, or one for each."
        )
    return np.broadcast_to(alphas, (n_clusters,)).copy()


def check_distance(distance: str, rank_scale: ArrayLike = "linear") -> None:
    """Refuse an unknown distance, and a rank scale for a distance that has none.

    >>> check_distance("rho")
    Traceback (most recent call last):
        ...
    bmcd.errors.InputError: distance is 'rho': choose one of footrule, spearman, kendall, cayley, hamming, ulam
    """
    if distance not in DISTANCES:
        raise InputError(f"distance is {distance!r}: choose one of {', '.join(DISTANCES)}")
    is_linear = isinstance(rank_scale, str) and rank_scale == "linear"
    if distance != "footrule" and not is_linear:
        said = (
            f"the rank scale is {rank_scale!r} but the distance is {distance!r}: "
            "only the footrule has a rank scale; leave "
        )
        raise InputError(Message(said, Option("rank_scale", "linear"), " or use ", Option("distance", "footrule")))


def _check_pair(ranks: ArrayLike, rho: ArrayLike) -> tuple[Integers, Integers]:
    r, consensus = check_ranks(ranks, "ranks"), check_ranks(rho, "rho")
    if r.shape[-1] != consensus.shape[-1]:
        raise InputError(
            f"ranks has {r.shape[-1]} items (shape {r.shape}) and rho has {consensus.shape[-1]} "
            f"(shape {consensus.shape}): both must rank the same items"
        )
    try:
        np.broadcast_shapes(r.shape, consensus.shape)
    except ValueError as error:
        raise InputError(
            f"ranks of shape {r.shape} and rho of shape {consensus.shape} do not fit together: "
            "give one rho, or one for each ranking"
        ) from error
    return r, consensus


# ------------------------------------------------------------------------------------------- distances


def footrule(ranks: ArrayLike, rho: ArrayLike) -> Result:
    """Return the sum over items of |r_i - rho_i| (Spearman's footrule; Diaconis and Graham 1977). O(n) a ranking.

    >>> int(footrule([1, 2, 3], [3, 1, 2]))
    4
    """
    r, consensus = _check_pair(ranks, rho)
    return cast(Result, np.abs(r - consensus).sum(axis=-1))


def spearman(ranks: ArrayLike, rho: ArrayLike) -> Result:
    """Return the sum over items of (r_i - rho_i)^2 (Spearman 1904; Mallows 1957). O(n) a ranking.

    >>> int(spearman([1, 2, 3], [3, 1, 2]))
    6
    """
    r, consensus = _check_pair(ranks, rho)
    return cast(Result, ((r - consensus) ** 2).sum(axis=-1))


def hamming(ranks: ArrayLike, rho: ArrayLike) -> Result:
    """Return the number of items with r_i != rho_i. O(n) a ranking.

    >>> hamming([[1, 2, 3], [1, 3, 2]], [1, 2, 3])
    array([0, 2])
    """
    r, consensus = _check_pair(ranks, rho)
    return cast(Result, (r != consensus).sum(axis=-1, dtype=np.int64))


def kendall(ranks: ArrayLike, rho: ArrayLike) -> Result:
    """Return the number of pairs of items that r and rho put in opposite order (Kendall 1938).

    Counts the inversions of r o rho^-1 with a Fenwick tree, O(n log n) a ranking.

    >>> int(kendall([1, 2, 3], [3, 1, 2]))
    2
    """
    return _by_composition(ranks, rho, KENDALL)


def cayley(ranks: ArrayLike, rho: ArrayLike) -> Result:
    """Return the fewest swaps of two ranks that turn r into rho (Cayley 1849).

    It is n minus the number of cycles of r o rho^-1; O(n) a ranking.

    >>> int(cayley([1, 2, 3], [3, 1, 2]))
    2
    """
    return _by_composition(ranks, rho, CAYLEY)


def ulam(ranks: ArrayLike, rho: ArrayLike) -> Result:
    """Return the fewest items to take out and put back elsewhere that turn r into rho (Ulam 1972).

    It is n minus the longest increasing subsequence of r o rho^-1, found by patience sorting; O(n log n) a ranking.

    >>> int(ulam([1, 2, 3], [3, 1, 2]))
    1
    """
    return _by_composition(ranks, rho, ULAM)


def distance(
    ranks: ArrayLike, rho: ArrayLike, distance: str = "footrule", rank_scale: ArrayLike = "linear"
) -> Result | Floats | np.float64:
    """Return the distance of each ranking in `ranks`, shape (..., n), to `rho`, which broadcasts against it.

    The result has shape (...), and is a scalar for two single rankings. It is int64, or float64 for the footrule on
    a stretched rank scale, sum_i |g(r_i) - g(rho_i)| with g from `bmcd.mallows.rank_scale`. `distance` is one of
    `DISTANCES`; costs are given at the function of that name.

    >>> distance([[1, 2, 3], [3, 2, 1]], [1, 2, 3], "kendall")
    array([0, 3])
    >>> int(distance([1, 2, 3], [3, 2, 1]))
    4
    """
    check_distance(distance, rank_scale)
    if distance != "footrule" or (isinstance(rank_scale, str) and rank_scale == "linear"):
        return _FUNCTIONS[DISTANCES.index(distance)](ranks, rho)
    r, consensus = _check_pair(ranks, rho)
    g = scale_values(r.shape[-1], rank_scale)
    return cast(Floats | np.float64, np.abs(g[r - 1] - g[consensus - 1]).sum(axis=-1))


_FUNCTIONS = (footrule, spearman, kendall, cayley, hamming, ulam)  # in the order of DISTANCES


# --------------------------------------------------------------------------------------------- kernels


def _by_composition(ranks: ArrayLike, rho: ArrayLike, code: int) -> Result:
    """Apply a kernel to the rows of sigma = r o rho^-1, written with values 0..n-1."""
    r, consensus = np.broadcast_arrays(*_check_pair(ranks, rho))
    sigma = np.empty(r.shape, dtype=np.int64)
    np.put_along_axis(sigma, consensus - 1, r - 1, axis=-1)
    out = np.empty(r.shape[:-1], dtype=np.int64)
    _fill_distances(sigma.reshape(-1, r.shape[-1]), code, out.reshape(-1))
    return cast(Result, out[()])


@numba.njit(cache=True)
def _fill_distances(sigma, code, out):
    n = sigma.shape[1]
    scratch = np.empty(n + 1, np.int64)
    for row in range(out.size):
        if code == KENDALL:
            out[row] = count_inversions(sigma[row], scratch)
        elif code == CAYLEY:
            out[row] = n - count_cycles(sigma[row], scratch)
        else:
            out[row] = n - longest_increasing(sigma[row], scratch)


@numba.njit(cache=True)
def count_inversions(sigma, tree):
    """Return the number of inversions of the permutation sigma of 0..n-1; `tree` is scratch for n + 1 numbers."""
    n = sigma.shape[0]
    tree[: n + 1] = 0
    inversions = 0
    for t in range(n):
        # Of the t values seen so far, those not below sigma[t] are inversions.
        not_above = 0
        k = sigma[t] + 1
        while k > 0:
            not_above += tree[k]
            k -= k & -k
        inversions += t - not_above
        k = sigma[t] + 1
        while k <= n:
            tree[k] += 1
            k += k & -k
    return inversions


@numba.njit(cache=True)
def count_cycles(sigma, seen):
    """Return the number of cycles of the permutation sigma of 0..n-1; `seen` is scratch for n marks."""
    n = sigma.shape[0]
    seen[:n] = False
    cycles = 0
    for start in range(n):
        if not seen[start]:
            cycles += 1
            t = start
            while not seen[t]:
                seen[t] = True
                t = sigma[t]
    return cycles


@numba.njit(cache=True)
def longest_increasing(sigma, tops):
    """Return the length of the longest increasing subsequence, by patience sorting; `tops` is scratch."""
    length = 0
    for value in sigma:
        low, high = 0, length
        while low < high:
            middle = (low + high) >> 1
            if tops[middle] < value:
                low = middle + 1
            else:
                high = middle
        tops[low] = value
        if low == length:
            length += 1
    return length


# ------------------------------------------------------------------------ distances that change by a swap

# The ranking that moves is given by its order (position -> item), the other one by its ranks (item -> rank). Both
# are rows of matrices, by number, because making a view of the row would cost as much as the swap.


@numba.njit(cache=True, nogil=True)
def is_additive(code):
    """Return whether the distance is a sum over items of a cost of their two places (`place_cost`)."""
    return code in (FOOTRULE, SPEARMAN, HAMMING)


@numba.njit(cache=True, nogil=True)
def make_scratch(n_items):
    """Return what the functions below work in: a permutation and its piles or marks, or a list of items moved."""
    return np.empty((3, n_items), np.int64)


@numba.njit(cache=True, nogil=True)
def distance_of_permutation(code, scratch):
    """Return the cayley or ulam distance to the identity of the permutation in ``scratch[0]``."""
    if code == CAYLEY:
        return scratch.shape[1] - count_cycles(scratch[0], scratch[1])
    return scratch.shape[1] - longest_increasing(scratch[0], scratch[1])


@numba.njit(cache=True, nogil=True)
def place_cost(code, a, b):
    """Return what an item at places a and b on the rank scale adds to footrule, spearman or hamming."""
    if code == FOOTRULE:
        cost = abs(a - b)
    elif code == SPEARMAN:
        cost = (a - b) * (a - b)
    else:
        cost = np.int64(a != b)
    return cost


@numba.njit(cache=True, nogil=True)
def cost_of_swap(code, a, b, x, y):
    """Return the change of an additive distance when items at a and b, in the other ranking at x and y, trade."""
    if code == SPEARMAN:
        return 2 * (b - a) * (y - x)
    return place_cost(code, b, x) + place_cost(code, a, y) - place_cost(code, a, x) - place_cost(code, b, y)


@numba.njit(cache=True, nogil=True)
def distance_from_scratch(code, orders, j, others, k, scale, scratch):
    """Return the distance itself: O(n), but O(n log n) for ulam and O(n^2) for kendall."""
    d = 0
    n = orders.shape[1]
    if is_additive(code):
        for t in range(n):
            d += place_cost(code, scale[t], scale[others[k, orders[j, t]] - 1])
    elif code == KENDALL:
        for t in range(n):
            for s in range(t):
                d += others[k, orders[j, s]] > others[k, orders[j, t]]
    else:
        for t in range(n):
            scratch[0, t] = others[k, orders[j, t]] - 1
        d += distance_of_permutation(code, scratch)
    return d


@numba.njit(cache=True, nogil=True)
def change_by_swap(code, orders, j, others, k, a, b, distance, scratch):
    """Return the change when the items at positions ``a`` and ``b`` trade places; ``distance`` is that before.

    Additive distances change by `cost_of_swap`; this is for the others.
    """
    x, y = others[k, orders[j, a]] - 1, others[k, orders[j, b]] - 1
    if code == KENDALL:
        # An item between the two in both rankings changes sides twice over.
        between = 0
        low, high = min(x, y), max(x, y)
        for t in range(min(a, b) + 1, max(a, b)):
            between += low < others[k, orders[j, t]] - 1 < high
        return (2 * between + 1) * (1 if (x < y) == (a < b) else -1)
    if code == CAYLEY:
        # A swap splits the cycle that holds both positions, or joins the two that hold one each.
        t = x
        while t != a and t != b:
            t = others[k, orders[j, t]] - 1
        return -1 if t == b else 1
    for t in range(orders.shape[1]):
        scratch[0, t] = others[k, orders[j, t]] - 1
    scratch[0, a], scratch[0, b] = y, x
    return distance_of_permutation(code, scratch) - distance
