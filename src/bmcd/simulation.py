"""Simulate clicks: the paper's study, and logs of any size with times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.mallows.distances import alpha_by_cluster, check_ranks
from bmcd.mallows.latent.exact import log_likelihood, top_probabilities
from bmcd.mallows.sampling import sample
from bmcd.utils import check_number

# The third consensus of the paper's simulation. The paper prints 49 numbers: 17 is missing. It is appended here,
# which leaves the printed ones as they are.
_PAPER_RHO_3 = """
39 36 11 1 13 12 8 48 20 49 29 32 22 28 19 5 42 18 15 7 6 27 24 16 46 4 21 26 34 44 25 43 41 38 35 37 45 2 14
50 40 47 9 23 30 31 3 10 33 17
"""


def paper_consensuses() -> NDArray[np.int64]:
    """Return the three consensus rankings of the paper's study, 50 items each: upwards, downwards, and mixed.

    >>> paper_consensuses()[:, :4].tolist()
    [[1, 2, 3, 4], [50, 49, 48, 47], [39, 36, 11, 1]]
    """
    upwards = np.arange(1, 51)
    return np.stack([upwards, upwards[::-1], np.array(_PAPER_RHO_3.split(), dtype=np.int64)])


@dataclass(frozen=True)
class Simulation:
    """Simulated clicks together with the truth they were made from.

    >>> simulation = simulate(n_users=100, seed=1)
    >>> simulation.clicks.n_users, simulation.ranks.shape, simulation.rho.shape
    (100, (100, 50), (3, 50))
    """

    clicks: Clicks
    """Who clicked what: the c_j best items of each user."""
    ranks: NDArray[np.int64]
    """The full ranking of each user, users x items; 1 is best."""
    labels: NDArray[np.int64]
    """The cluster of each user, 0, 1, ..."""
    rho: NDArray[np.int64]
    """The consensus ranking of each cluster, clusters x items."""
    alpha: NDArray[np.float64]
    """The scale of each cluster."""
    rank_scale: str | ArrayLike = "linear"
    """The spacing of the ranks."""

    def next_items(self, k: int) -> Clicks:
        """Return the truth to predict: each user's next k items, with ranks c_j + 1, ..., c_j + k, as `Clicks`.

        >>> simulation = simulate(n_users=30, seed=1)
        >>> simulation.next_items(5).n_clicks
        150
        """
        if k < 1:
            raise InputError(f"k must be at least 1, but it is {k}.")
        n_clicked = np.diff(self.clicks.matrix.indptr)[:, None]
        return Clicks.from_matrix((self.ranks > n_clicked) & (self.ranks <= n_clicked + k))

    def true_memberships(self) -> NDArray[np.float64]:
        """Return P(user belongs to cluster | clicks) with the true parameters, users x clusters.

        >>> simulate(n_users=30, seed=1).true_memberships().sum(axis=1).round(9).max()
        np.float64(1.0)
        """
        log_p = log_likelihood(self.clicks, self.rho, self.alpha, rank_scale=self.rank_scale)
        log_p += np.log(np.bincount(self.labels, minlength=len(self.rho)))
        weight: NDArray[np.float64] = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        return weight

    def true_probabilities(self, k: int) -> NDArray[np.float64]:
        """Return P(item among the user's next k | clicks) with the true parameters, users x items.

        On average no method can rank items better than by these. Clicked items have 0.

        >>> simulate(n_users=30, seed=1).true_probabilities(5).sum().round(9)
        np.float64(150.0)
        """
        weight = self.true_memberships()
        top = top_probabilities(self.clicks, self.rho, self.alpha, k, rank_scale=self.rank_scale)
        mixed: NDArray[np.float64] = np.einsum("jic,jc->ji", top, weight)
        return mixed


def simulate(
    n_users: int = 3000,
    n_items: int = 50,
    *,
    consensuses: int | ArrayLike | None = None,
    alpha: ArrayLike = 3.0,
    mean_clicks: float = 5.0,
    seed: int = 0,
    rank_scale: str | ArrayLike = "linear",
) -> Simulation:
    """Simulate click data as in the paper's study, with exact draws from the Mallows model.

    Users are divided equally over the clusters. Each draws a full ranking from the footrule Mallows model of
    its cluster, and clicks its c_j best items, c_j ~ Poisson(``mean_clicks``) conditioned on 1 <= c_j <= n.

    Parameters
    ----------
    n_users, n_items
        The paper has 3000 users and 50 items.
    consensuses
        Consensus rankings, clusters x items; or a number of clusters, whose consensuses are drawn at random;
        or None for the paper's three, which have 50 items. (The paper prints 49 numbers for the third one;
        the missing 17 is appended.)
    alpha
        Scale of all clusters, or one for each.
    mean_clicks
        Mean of the Poisson law before conditioning.
    seed
        The same seed gives the same data.
    rank_scale
        Spacing of the ranks, see `bmcd.mallows`.

    Examples
    --------
    >>> simulation = simulate(seed=0)
    >>> simulation.clicks
    Clicks(3,000 users x 50 items, 14,994 clicks)
    >>> simulate(n_users=100, n_items=20, consensuses=4, seed=1).rho.shape
    (4, 20)
    """
    from scipy import stats

    if n_users < 1 or n_items < 1:
        raise InputError(f"there must be at least one user and one item, not {n_users} and {n_items}.")
    if not mean_clicks > 0 or not np.isfinite(mean_clicks):
        raise InputError(f"mean_clicks must be a positive number, but it is {mean_clicks}.")
    consensus_seed, click_seed = _seeds(seed, 2)
    if consensuses is None:
        if n_items != 50:
            raise InputError(
                f"the paper's consensuses have 50 items, not {n_items}: pass consensuses, "
                "as rankings or as a number of clusters."
            )
        rho = paper_consensuses()
    elif isinstance(consensuses, int | np.integer):
        if not 1 <= consensuses <= n_users:
            raise InputError(f"there must be 1 to {n_users} clusters, one user each or more, not {consensuses}.")
        rng = np.random.default_rng(consensus_seed)
        rho = np.stack([rng.permutation(n_items) + 1 for _ in range(consensuses)])
    else:
        rho = np.atleast_2d(check_ranks(consensuses, "consensuses"))
        if rho.shape[1] != n_items:
            raise InputError(f"consensuses rank {rho.shape[1]} items, but n_items is {n_items}.")
    n_clusters = rho.shape[0]
    scales = alpha_by_cluster(alpha, n_clusters)
    labels = np.sort(np.arange(n_users) % n_clusters)
    ranking_seeds = _seeds(seed, 2 + n_clusters)[2:]
    ranks = np.concatenate(
        [
            sample(rho[c], scales[c], int((labels == c).sum()), seed=ranking_seeds[c], rank_scale=rank_scale)
            for c in range(n_clusters)
        ]
    )
    # The Poisson law between 1 and n, by inverting its distribution function.
    poisson = stats.poisson(mean_clicks)
    u = np.random.default_rng(click_seed).uniform(poisson.cdf(0), poisson.cdf(n_items), n_users)
    n_clicked = np.clip(poisson.ppf(u).astype(np.int64), 1, n_items)
    clicks = Clicks.from_matrix(ranks <= n_clicked[:, None])
    return Simulation(clicks, ranks, labels, rho, scales, rank_scale)


# A simulated log begins here (2026-01-01), and some items are older, by up to this number of days.
LOG_BEGIN, OLDEST_ITEM = 1_767_225_600, 20.0
# Sessions that begin with the user's favourite item, and the mean number of further clicks of a session.
FAVOURITE, FURTHER = 0.06, 2.2
# How far related items are apart, in the order of their appearance; seconds between clicks; the longest session.
SPREAD, PAUSE, LONGEST = 6.0, 90.0, 40


def simulate_log(
    n_users: int,
    n_items: int,
    *,
    mean_clicks: float = 20.0,
    days: int = 30,
    follow: float = 0.5,
    repeats: float = 0.08,
    seed: int = 0,
) -> Iterator[dict[str, NDArray[np.int64]]]:
    """Simulate a log with times, hour by hour: columns user, item and time (seconds since 1970) of each hour.

    Items appear at random times, are popular to very different degrees, and lose popularity with a half-life of
    their own, from hours to months. Users come at very different rates, mostly in the evening, for sessions. After
    the first click of a session, a share ``follow`` of its clicks go to items that appeared about the same time as
    the one before, a share ``repeats`` back to an earlier one, and the others to what is popular in that hour.
    Nothing larger than the users, the items and one hour is in memory.

    >>> hours = list(simulate_log(1000, 200, mean_clicks=10.0, days=2, seed=1))
    >>> len(hours), bool(8_000 < sum(len(hour["item"]) for hour in hours) < 12_000)
    (48, True)
    """
    if min(n_users, n_items, days) < 1 or not mean_clicks > 0:
        raise InputError(
            f"users, items, days and clicks must be positive: {n_users}, {n_items}, {days}, {mean_clicks}."
        )
    check_number("follow", follow, high=1)
    check_number("repeats", repeats, high=1 - follow)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    born = np.sort(rng.uniform(-OLDEST_ITEM * 24, days * 24, n_items))
    born[0] = min(born[0], 0.0)
    appeal = rng.pareto(1.1, n_items) + 0.05
    half_life = np.exp(rng.normal(np.log(36.0), 1.3, n_items))
    activity = np.cumsum(np.exp(rng.normal(0.0, 1.2, n_users)))
    favourite = rng.integers(0, n_items, n_users)
    of_day = 1.0 + 0.8 * np.sin((np.arange(24) - 13.0) * np.pi / 12.0)
    per_hour = n_users * mean_clicks / (1.0 + FURTHER) / (24 * days) * of_day / of_day.mean()
    for hour in range(24 * days):
        age = hour + 0.5 - born
        popularity = np.cumsum(np.where(age > -0.5, appeal * np.exp2(-np.maximum(age, 0.0) / half_life), 0.0))
        n_born = int(np.searchsorted(born, hour + 1.0))
        n = int(rng.poisson(per_hour[hour % 24]))
        user = np.searchsorted(activity, rng.uniform(0.0, activity[-1], n))
        length = np.minimum(rng.geometric(1.0 / (1.0 + FURTHER), n), LONGEST)
        items = np.zeros((n, LONGEST), np.int64)
        for step in range(int(length.max(initial=1))):
            on = np.flatnonzero(length > step)
            u = rng.uniform(size=len(on))
            found = np.searchsorted(popularity, rng.uniform(0.0, popularity[-1], len(on)))
            if step == 0:
                found = np.where((u < FAVOURITE) & (favourite[user[on]] < n_born), favourite[user[on]], found)
            else:
                beside = items[on, step - 1] + np.rint(rng.laplace(0.0, SPREAD, len(on))).astype(np.int64)
                found = np.where((u < follow) & (beside >= 0) & (beside < n_born), beside, found)
                back = items[on, rng.integers(0, step, len(on))]
                found = np.where(u > 1.0 - repeats, back, found)
            items[on, step] = found
        inside = np.arange(LONGEST) < length[:, None]
        pauses = np.where(np.arange(LONGEST) > 0, 5.0 + rng.exponential(PAUSE, (n, LONGEST)), 0.0)
        time = LOG_BEGIN + 3600 * hour + rng.uniform(0.0, 3600.0, (n, 1)) + np.cumsum(pauses, axis=1)
        rows = {"user": np.broadcast_to(user[:, None], items.shape)[inside], "item": items[inside]}
        rows["time"] = time[inside].astype(np.int64)
        order = np.argsort(rows["time"], kind="stable")
        yield {name: values[order].astype(np.int64) for name, values in rows.items()}


def _seeds(seed: int, size: int) -> list[int]:
    """Return unrelated seeds for the parts of a simulation; the first ones do not depend on how many there are."""
    return [int(child.generate_state(1, np.uint64)[0]) for child in np.random.SeedSequence(seed).spawn(size)]
