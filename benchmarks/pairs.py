"""User-item pairs without order, by the protocol of published comparisons: random 80/10/10 of each user's items.

    python benchmarks/pairs.py pairs.csv --user-column user --item-column item
    python benchmarks/pairs.py --simulate          # 6,000 users x 3,700 items x 800,000 clicks, like film ratings

Settings of every method are chosen by nDCG@10 on the validation tenth; then it is fitted to the other nine tenths
and judged once on the test tenth. Items of the training part are not recommended. nDCG@10 has binary relevance and
the ideal list of min(10, test items); recall@k is hits / min(k, test items); both are means over users with test
items, in percent, with the standard error. For MovieLens-1M: ratings.dat with --delimiter "::" (all ratings count).

`iALS` is the method of Hu, Koren and Volinsky with the regularisation scaled by frequency, as Rendle et al. (2021)
tune it; `ALS` is that of the package implicit, whose regularisation is the same for all.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import bmcd
from bmcd.baselines import ALS, EASE, ItemKNN, Popularity

K = 50
EASE_GRID = (100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0)
KNN_GRID = (20, 50, 100, 200, 400)
DIMENSIONS, PENALTIES, UNOBSERVED = (32, 64, 128), (0.001, 0.003, 0.01), (0.1, 0.4)
ROUNDS, EXPONENT = 12, 1.0


def simulated(n_users: int = 6_000, n_items: int = 3_700, mean: int = 133, seed: int = 0) -> bmcd.Clicks:
    """Return pairs like those of film ratings: 12 latent factors, popular items, 20 items per user or more."""
    rng = np.random.default_rng(seed)
    popularity = rng.normal(0.0, 1.5, n_items)
    taste, kind = rng.normal(0.0, 0.5, (n_users, 12)), rng.normal(0.0, 1.0, (n_items, 12))
    number = np.clip(np.exp(rng.normal(np.log(mean) - 0.4, 0.9, n_users)), 20, n_items // 3).astype(int)
    rows, columns = [], []
    for user in range(n_users):
        keys = popularity + kind @ taste[user] + rng.gumbel(size=n_items)
        columns.append(np.argpartition(-keys, number[user])[: number[user]])
        rows.append(np.full(number[user], user))
    pairs = (np.concatenate(rows), np.concatenate(columns))
    return bmcd.Clicks.from_matrix(
        sparse.csr_array((np.ones(len(pairs[0]), bool), pairs), shape=(n_users, n_items))
    )


def read_pairs(given: argparse.Namespace) -> bmcd.Clicks:
    """Return the pairs of a file; separators of several characters and files without a header are read too."""
    if given.delimiter and len(given.delimiter) > 1:
        import pandas as pd

        frame = pd.read_csv(given.pairs, sep=given.delimiter, engine="python", header=None, encoding="latin-1")
        return bmcd.Clicks.from_frame(frame.iloc[:, :2].set_axis(["user", "item"], axis=1), order="none")
    return bmcd.read_clicks(
        given.pairs, given.user_column, given.item_column, delimiter=given.delimiter, order="none"
    )


def split(clicks: bmcd.Clicks, seed: int) -> tuple[Any, Any, Any]:
    """Return the three parts of each user's items, at random, as matrices."""
    matrix = clicks.matrix.tocsr()
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((rng.random(matrix.nnz), user))
    place = np.arange(matrix.nnz) - matrix.indptr[user]
    n = np.diff(matrix.indptr)[user]
    part = np.where(place < np.round(0.8 * n), 0, np.where(place < np.round(0.9 * n), 1, 2))
    pairs = user, matrix.indices[order]
    return tuple(
        sparse.csr_array(
            (np.ones((part == p).sum(), bool), (pairs[0][part == p], pairs[1][part == p])), matrix.shape
        )
        for p in range(3)
    )


class IALS:
    """Alternating least squares whose penalty of a user or item is penalty * (clicks + unobserved * others)."""

    def __init__(self, dimension: int, penalty: float, unobserved: float) -> None:
        self.dimension, self.penalty, self.unobserved = dimension, penalty, unobserved

    def fit(self, matrix: Any) -> IALS:
        """Solve for users and items in turns."""
        rng = np.random.default_rng(0)
        scale = 0.1 / np.sqrt(self.dimension)
        self.users, self.items = (rng.normal(0.0, scale, (n, self.dimension)) for n in matrix.shape)
        by_item = matrix.T.tocsr()
        for _ in range(ROUNDS):
            self._solve(matrix, self.users, self.items)
            self._solve(by_item, self.items, self.users)
        return self

    def _solve(self, matrix: Any, own: Any, others: Any) -> None:
        gram = self.unobserved * others.T @ others
        n_others = matrix.shape[1]
        for row in range(len(own)):
            seen = others[matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]]
            weight = self.penalty * (len(seen) + self.unobserved * n_others) ** EXPONENT
            left = gram + seen.T @ seen
            left[np.diag_indices(self.dimension)] += weight
            own[row] = np.linalg.solve(left, seen.sum(axis=0))

    def best(self, matrix: Any, k: int) -> Any:
        """Return the k best items of each user that the matrix does not have."""
        scores = self.users @ self.items.T
        scores[matrix.nonzero()] = -np.inf
        order = np.argpartition(-scores, k, axis=1)[:, :k]
        return np.take_along_axis(order, np.argsort(-np.take_along_axis(scores, order, 1), axis=1), 1)


def lists_of(make: Callable[[], Any], matrix: Any, k: int = K) -> Any:
    """Return the k best items of each user by a model fitted to a matrix, -1 where there are fewer."""
    model = make()
    if isinstance(model, IALS):
        return model.fit(matrix).best(matrix, k)
    clicks = bmcd.Clicks.from_matrix(matrix)
    fitted = model.fit(clicks)
    found = np.full((matrix.shape[0], k), -1)
    frame = fitted.recommend(k) if not isinstance(fitted, bmcd.Blend) else fitted.recommend(k, horizon=10)
    found[frame["user"].to_numpy(), frame["rank"].to_numpy() - 1] = frame["item"].to_numpy()
    return found


def measures(lists: Any, test: Any) -> dict[str, tuple[float, float]]:
    """Return nDCG@10, recall@20 and recall@50 in percent, with standard errors over users."""
    n_test = np.diff(test.indptr)
    users = np.flatnonzero(n_test)
    dense = test.toarray()
    hit = np.take_along_axis(dense, np.maximum(lists, 0), axis=1) & (lists >= 0)
    gain = 1.0 / np.log2(np.arange(2, 12))
    ideal = np.concatenate(([0.0], np.cumsum(gain)))[np.minimum(n_test, 10)]
    found = {"nDCG@10": (hit[:, :10] * gain).sum(axis=1)[users] / ideal[users]}
    for k in (20, 50):
        found[f"recall@{k}"] = hit[:, :k].sum(axis=1)[users] / np.minimum(n_test, k)[users]
    return {name: (100 * v.mean(), 100 * v.std(ddof=1) / np.sqrt(len(v))) for name, v in found.items()}


def methods(wanted: Iterable[str]) -> dict[str, list[tuple[str, Callable[[], Any]]]]:
    """Return the settings that are tried of each method."""
    every: dict[str, list[tuple[str, Callable[[], Any]]]] = {
        "popularity": [("", Popularity)],
        "ItemKNN": [(f"neighbours {n}", lambda n=n: ItemKNN(neighbours=n)) for n in KNN_GRID],
        "EASE": [(f"regularization {r:g}", lambda r=r: EASE(regularization=r)) for r in EASE_GRID],
        "ALS": [
            (f"factors {d}, alpha {a:g}", lambda d=d, a=a: ALS(d, alpha=a, regularization=30.0, iterations=15))
            for d in DIMENSIONS
            for a in (2.0, 8.0)
        ],
        "iALS": [
            (f"dimension {d}, penalty {p:g}, unobserved {u:g}", lambda d=d, p=p, u=u: IALS(d, p, u))
            for d in DIMENSIONS
            for p in PENALTIES
            for u in UNOBSERVED
        ],
        "Blend": [("", bmcd.Blend)],
    }
    return {name: every[name] for name in wanted}


def cpu() -> float:
    """Return the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Read the arguments, choose settings, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="?")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--user-column", default="user")
    parser.add_argument("--item-column", default="item")
    parser.add_argument("--delimiter")
    parser.add_argument("--methods", default="popularity,ItemKNN,EASE,ALS,iALS,Blend")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.simulate == (given.pairs is not None):
        parser.error("give a file of pairs, or --simulate")
    clicks = simulated() if given.simulate else read_pairs(given)
    print(f"{clicks.n_users:,} users x {clicks.n_items:,} items, {clicks.n_clicks:,} pairs", flush=True)
    train, valid, test = split(clicks, given.seed)
    both = (train + valid).astype(bool).tocsr()
    for name, tried in methods(given.methods.split(",")).items():
        began, best, most = cpu(), tried[0], -1.0
        for setting in tried if len(tried) > 1 else []:
            found = measures(lists_of(setting[1], train), valid)["nDCG@10"][0]
            if found > most:
                best, most = setting, found
        chosen = cpu()
        found = measures(lists_of(best[1], both), test)
        text = "  ".join(f"{what} {value:.2f} ({error:.2f})" for what, (value, error) in found.items())
        seconds = f"{cpu() - chosen:.0f} CPU s, choosing {chosen - began:.0f}"
        print(f"{name:10}  {text}  {seconds}  {best[0]}", flush=True)


if __name__ == "__main__":
    main()
