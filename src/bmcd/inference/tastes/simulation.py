"""Simulate clicks from the model with several tastes, of millions of users too: nothing is users x items large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference.tastes.rank_laws import rank_laws
from bmcd.mallows.distances import alpha_by_cluster
from bmcd.utils import Floats, check_count

# Users that are simulated at a time: what is in memory besides the clicks grows with these, not with all users.
CHUNK = 2**15
# a x tastes: how many tastes a user has, roughly.
CONCENTRATION = 3.0


@dataclass(frozen=True, eq=False)
class TasteSimulation:
    """Simulated clicks together with the tastes they were made from.

    >>> import bmcd
    >>> simulation = bmcd.simulate_tastes(n_users=1000, n_items=50, n_tastes=5, seed=1)
    >>> simulation.first_items.sum(axis=0).round(9).tolist()  # every visit clicks one item
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    clicks: Clicks
    rho: NDArray[np.int64]
    """The consensus ranking of each taste, tastes x items; 1 is best."""
    alpha: Floats
    """The scale of each taste."""
    first_items: Floats
    """The probability that a visit to a taste clicks an item, items x tastes."""
    a: float
    """Shape of the law of the rates."""
    b: float
    """Rate of the law of the rates."""

    @property
    def n_tastes(self) -> int:
        """How many tastes there are."""
        return len(self.rho)


def simulate_tastes(
    n_users: int = 3000,
    n_items: int = 200,
    *,
    n_tastes: int = 20,
    alpha: ArrayLike = 20.0,
    a: float | None = None,
    mean_clicks: float = 10.0,
    seed: int = 0,
    rank_scale: str | ArrayLike = "linear",
) -> TasteSimulation:
    """Simulate clicks from the model that `Tastes` fits, with consensus rankings at random.

    User j visits taste c at rate lambda_jc ~ Gamma(a, b); a visit clicks the first item of a fresh ranking from the
    Mallows model of the taste. Users without any click are drawn again. A million users with ten clicks each take
    about 100 MB.

    Parameters
    ----------
    n_users, n_items, n_tastes
        How many.
    alpha
        Scale of all tastes, or one for each. With 20 a visit goes to about a fortieth of the items.
    a
        Shape of the law of the rates, by default 3 / n_tastes: a user has a few tastes.
    mean_clicks
        Mean number of different items that a user clicks, before those without any are drawn again; b follows.
    seed
        The same seed gives the same data.
    rank_scale
        Spacing of the ranks, see `bmcd.mallows`.

    Examples
    --------
    >>> simulation = simulate_tastes(n_users=1000, n_items=50, n_tastes=5, mean_clicks=6, seed=1)
    >>> simulation.clicks.n_users, simulation.rho.shape
    (1000, (5, 50))
    """
    for name, value in (("n_users", n_users), ("n_items", n_items), ("n_tastes", n_tastes)):
        check_count(name, value)
    a = CONCENTRATION / n_tastes if a is None else float(a)
    if not (a > 0 and np.isfinite(a)):
        raise InputError(f"a must be a positive number, but it is {a!r}.")
    if not 0 < mean_clicks < n_items:
        raise InputError(
            f"mean_clicks must lie between 0 and the number of items, {n_items}, but it is {mean_clicks!r}."
        )
    scales, laws = alpha_by_cluster(alpha, n_tastes), rank_laws(n_items, "footrule", rank_scale)
    parts = np.random.SeedSequence(seed).spawn(1 + -(-n_users // CHUNK))
    rng = np.random.default_rng(parts[0])
    rho = np.stack([rng.permutation(n_items) + 1 for _ in range(n_tastes)])
    q = np.stack([np.exp(laws.log_law_at(float(scale)))[rank - 1] for scale, rank in zip(scales, rho, strict=True)])
    b = _rate_for(mean_clicks, q, a)
    indices, counts = [], []
    for number, part in enumerate(parts[1:]):
        size = min(CHUNK, n_users - number * CHUNK)
        codes = _click_codes(size, q, a, b, np.random.default_rng(part))
        indices.append((codes % n_items).astype(np.int32))
        counts.append(np.bincount(codes // n_items, minlength=size))
    starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    columns = np.concatenate(indices)
    clicks = Clicks(np.arange(n_users), np.arange(n_items), starts.astype(np.int64), columns.astype(np.int32))
    return TasteSimulation(clicks, rho, scales, np.ascontiguousarray(q.T), a, b)


def click_probabilities(q: Floats, a: float, b: float) -> Floats:
    """Return P(a user clicks the item) of every item, the rates summed out: 1 - prod_c (b / (b + q_c))^a.

    >>> click_probabilities(np.array([[0.5, 0.5]]), 1.0, 0.5).tolist()
    [0.5, 0.5]
    """
    return np.asarray(-np.expm1(-a * np.log1p(q / b).sum(axis=0)))


def _rate_for(mean_clicks: float, q: Floats, a: float) -> float:
    """Return the b with which a user clicks that many items on average."""

    def excess(log_b: float) -> float:
        return float(click_probabilities(q, a, float(np.exp(log_b))).sum()) - mean_clicks

    # The mean falls from all items to none as b grows.
    low, high = -5.0, 5.0
    while excess(low) < 0:
        low -= 10.0
        if low < -600:
            raise InputError(
                f"mean_clicks is {mean_clicks:g}, more than users of these tastes can click: give less, a smaller "
                "alpha or a larger a."
            )
    while excess(high) > 0:
        high += 10.0
    return float(np.exp(brentq(excess, low, high, xtol=1e-12)))


def _click_codes(n_users: int, q: Floats, a: float, b: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return user x n_items + item of every click, sorted; every user has at least one."""
    n_tastes, n_items = q.shape
    below = np.cumsum(q, axis=1)
    below /= below[:, -1:]
    found, waiting = [], np.arange(n_users)
    while waiting.size:
        visits = rng.poisson(rng.gamma(a, 1.0 / b, (waiting.size, n_tastes)))
        for c in range(n_tastes):
            visitor = np.repeat(waiting, visits[:, c])
            item = np.searchsorted(below[c], rng.random(visitor.size), side="right")
            found.append(np.unique(visitor * n_items + np.minimum(item, n_items - 1)))
        waiting = waiting[visits.sum(axis=1) == 0]
    return np.unique(np.concatenate(found))
