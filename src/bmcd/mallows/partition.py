"""log Z_n(alpha) and E[d] of the Mallows model for six distances: exact where that is feasible.

The model is P(r) = exp(-alpha / n * d(r, rho)) / Z_n(alpha). Because the distances are right-invariant, Z and
E[d] do not depend on rho.

| distance | exact for  | how                      | cost        |
|----------|------------|--------------------------|-------------|
| footrule | every n    | one scan over the ranks  | O(n^2)      |
| kendall  | every n    | product formula          | O(n)        |
| cayley   | every n    | product formula          | O(n)        |
| hamming  | every n    | sum over derangements    | O(n)        |
| spearman | n <= 20    | sum over subsets         | O(n 2^n)    |
| ulam     | n <= 80    | sum over partitions of n | p(n), once  |

The footrule's scan is in `footrule_scan`, the other sums are in `exact_partition`.
Beyond these limits annealed importance sampling (`estimation`) gives an estimate with a standard error.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.errors import EstimateWarning, InputError
from bmcd.mallows import estimation, exact_partition
from bmcd.mallows.distances import check_alpha, check_distance
from bmcd.mallows.footrule_scan import expected_distance_scan, log_partition_scan
from bmcd.mallows.rank_scale import scale_values
from bmcd.utils import Floats, check_count

METHODS = ("auto", "exact", "importance", "asymptotic")

Alphas = Sequence[float] | NDArray[Any]

_BOTH: dict[str, Callable[[int, float], tuple[float, float]]] = {
    "kendall": exact_partition.kendall,
    "cayley": exact_partition.cayley,
    "hamming": exact_partition.hamming,
    "spearman": exact_partition.spearman,
    "ulam": exact_partition.ulam,
}
_LIMITS = {"spearman": exact_partition.SPEARMAN_LIMIT, "ulam": exact_partition.ULAM_LIMIT}


def log_partition(
    n_items: int,
    alpha: float | Alphas,
    distance: str = "footrule",
    rank_scale: ArrayLike = "linear",
    *,
    method: str = "auto",
    seed: int = 0,
    return_error: bool = False,
) -> Any:
    """Return log Z_n(alpha) = log sum_r exp(-alpha / n_items * d(r, rho)), over all n_items! rankings r.

    `alpha` is a number (a float comes back) or an array of them (an array of that shape comes back).
    `rank_scale` stretches the footrule (see `bmcd.mallows.rank_scale`).

    `method`: "exact", "importance" (annealed importance sampling, Neal 2001; random through `seed` alone),
    "asymptotic" (Mukherjee 2016, for footrule and spearman, a comparison of unknown error), or
    "auto": exact where feasible, else importance. Costs are in the table at the top of this module;
    importance sampling takes about a second at n = 100 for each alpha.

    With `return_error` the result is (value, standard error); the error is 0 if exact, nan if asymptotic. If "auto"
    has to estimate and no error was asked for, an `EstimateWarning` gives it.

    >>> round(log_partition(50, 3.0), 6)
    108.682043
    >>> log_partition(3, [0.0, 1.0], "kendall").round(4).tolist()
    [1.7918, 1.3423]
    """
    return _evaluate("log_partition", n_items, alpha, distance, rank_scale, method, seed, return_error)


def expected_distance(
    n_items: int,
    alpha: float | Alphas,
    distance: str = "footrule",
    rank_scale: ArrayLike = "linear",
    *,
    method: str = "auto",
    seed: int = 0,
    return_error: bool = False,
) -> Any:
    """Return the mean distance to the consensus, E[d] = -n_items * d log Z_n(alpha) / d alpha.

    Arguments, methods, costs and errors are those of `log_partition`. Each method differentiates its formula or
    recursion; importance sampling takes the weighted mean of its draws.

    >>> round(expected_distance(50, 3.0), 4)
    508.4527
    >>> round(expected_distance(10, 0.0, "kendall"), 4)  # half of the 45 pairs
    22.5
    """
    return _evaluate("expected_distance", n_items, alpha, distance, rank_scale, method, seed, return_error)


Quantity = Literal["log_partition", "expected_distance"]


def _evaluate(
    quantity: Quantity,
    n_items: int,
    alpha: float | Alphas,
    distance: str,
    rank_scale: ArrayLike,
    method: str,
    seed: int,
    return_error: bool,
) -> Any:
    check_distance(distance, rank_scale)
    n, alphas = check_count("n_items", n_items), check_alpha(alpha)
    chosen = _choose_method(n, distance, method)
    values, errors = np.zeros(alphas.shape), np.zeros(alphas.shape)
    g = scale_values(n, rank_scale)
    for index in np.ndindex(alphas.shape) if n > 1 else ():  # one item: one ranking, log Z = E[d] = 0
        theta = float(alphas[index]) / n
        if chosen == "exact":
            values[index] = _exact(quantity, n, theta, distance, g)
        elif chosen == "asymptotic":
            pair = estimation.asymptotic(n, theta, distance, rank_scale=rank_scale)
            values[index], errors[index] = pair[quantity == "expected_distance"], np.nan
        else:
            # Every alpha starts from the same seed, so a value does not depend on the other alphas asked for.
            rng = np.random.default_rng(seed)
            estimate = estimation.importance(n, theta, distance, rng, rank_scale=rank_scale)
            values[index] = getattr(estimate, quantity)
            errors[index] = getattr(estimate, f"{quantity}_error")
            if np.isnan(errors[index]):
                raise InputError(
                    f"E[d] cannot be estimated at n_items={n}, alpha={float(alphas[index]):g}: hardly a draw "
                    f"leaves the consensus (mean distance {values[index]:.2g}); use a smaller alpha"
                )
    if chosen == "importance" and method == "auto" and not return_error and n > 1:
        warnings.warn(
            f"{quantity} for {n} items and the {distance} distance is an estimate with standard error "
            f"{np.max(errors, initial=0.0):.2g}; it is exact up to {_LIMITS[distance]} items. Pass "
            "return_error=True to get the standard error, or method='importance' to agree to an estimate.",
            EstimateWarning,
            stacklevel=3,
        )
    if alphas.ndim == 0:
        return (float(values), float(errors)) if return_error else float(values)
    return (values, errors) if return_error else values


def _exact(quantity: Quantity, n: int, theta: float, distance: str, g: Floats) -> float:
    if distance != "footrule":
        return _BOTH[distance](n, theta)[quantity == "expected_distance"]
    scan = log_partition_scan if quantity == "log_partition" else expected_distance_scan
    return scan(np.diff(g), theta)


def _choose_method(n: int, distance: str, method: str) -> str:
    if method not in METHODS:
        raise InputError(f"method is {method!r}: choose one of {', '.join(METHODS)}")
    limit = _LIMITS.get(distance, n)
    if method == "auto":
        return "exact" if n <= limit else "importance"
    if method == "exact" and n > limit:
        raise InputError(
            f"method='exact' with the {distance} distance goes up to {limit} items, and n_items is {n}: "
            "use method='importance', or 'auto', which takes it where it must"
        )
    return method
