"""`ClusterChoice`: what was found for each number of clusters, the one recommended, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clusters.curves import falls
from bmcd.clusters.held_out_users import log_mean

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClusterChoice", "make_reason", "make_table"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ClusterChoice:
    """What `choose_n_clusters` found; `print` it for the reason and the table."""

    recommended: int
    """The smallest candidate within one standard error of the best held-out log-likelihood."""
    reason: str
    """Why, in words and numbers."""
    by_mwcd: int
    """Where MWCD stops falling: the first candidate after which `mwcd_fall` is small, less than 5 % or less than a
    quarter of the largest before."""
    least_mwcd: int
    """The paper's choice in its simulations: the candidate with the smallest MWCD. Mostly too many, see `mwcd`."""
    elbow: int | None
    """The paper's choice for its case study: the elbow of the k-means curve (see `find_elbow`), if it has one."""
    table: pd.DataFrame
    """One row for each candidate, which is the index, `n_clusters`:

    * `held_out`, `held_out_se`: log-likelihood of a held-out user, mean over users, and its standard error;
    * `step`, `step_se`: the gain over the candidate before, mean over users of the paired differences;
    * `behind`, `behind_se`: what it lacks to the best, likewise;
    * `chain_gap`: largest minus smallest `held_out` of single chains. The standard errors are of the choice of
      users only; where this is as large as the steps, the chains are too short or too few to tell;
    * `mwcd`: posterior mean of the within-cluster footrule distance, sum over the training users. It goes on
      falling a little beyond the true number: clusters that share the users of one have larger scales than it;
    * `mwcd_fall`: the share by which it falls from the candidate before, for each doubling of the number;
    * `kmeans`: within-cluster sum of squares of k-means on the binary clicks of all users.
    """
    boxplot: pd.DataFrame
    """Draws of the within-cluster distance: `whislo`, `q1`, `med`, `q3`, `whishi` and `mean` of each candidate.

    These are the names that matplotlib's `Axes.bxp(boxplot.to_dict("records"), showfliers=False)` wants.
    """
    within_distance: Mapping[int, Floats]
    """The draws themselves, [chain, draw], for each candidate."""
    log_likelihood: Mapping[int, Floats]
    """Log-likelihood of each held-out user, for each candidate."""
    held_out_users: NDArray[Any]
    """Their ids, in the order of `log_likelihood`."""
    n_training_users: int
    """How many users the fits saw."""

    def __repr__(self) -> str:
        return (
            f"ClusterChoice(recommended={self.recommended}, by_mwcd={self.by_mwcd}, elbow={self.elbow}, "
            f"candidates={self.table.index.tolist()})"
        )

    def __str__(self) -> str:
        decimals = {name: "{:,.0f}".format for name in ("mwcd", "kmeans")}
        others = {name: "{:.4f}".format for name in self.table.columns if name not in decimals}
        return f"{self.reason}\n\n{self.table.to_string(formatters={**others, **decimals}, na_rep='')}"


def make_table(
    scores: Mapping[int, Floats],
    by_draw: Mapping[int, Floats],
    within: Mapping[int, Floats],
    inertia: Mapping[int, float],
) -> pd.DataFrame:
    """`ClusterChoice.table`. ``by_draw``: users x chains x draws; ``scores``: log of its mean, user by user."""
    import pandas as pd

    best = max(scores, key=lambda c: (scores[c].mean(), -c))
    mwcd = {c: float(values.mean()) for c, values in within.items()}
    mwcd_falls = falls(mwcd)
    before: int | None = None
    rows = []
    for c, score in scores.items():
        by_chain = log_mean(by_draw[c], axis=2).mean(axis=0)
        held_out, held_out_se = _mean_and_se(score)
        step, step_se = (math.nan, math.nan) if before is None else _mean_and_se(score - scores[before])
        behind, behind_se = _mean_and_se(scores[best] - score)
        rows.append(
            {
                "held_out": held_out,
                "held_out_se": held_out_se,
                "step": step,
                "step_se": step_se,
                "behind": behind,
                "behind_se": behind_se,
                "chain_gap": float(np.ptp(by_chain)),
                "mwcd": mwcd[c],
                "mwcd_fall": mwcd_falls[c],
                "kmeans": inertia[c],
            }
        )
        before = c
    return pd.DataFrame(rows, index=pd.Index(list(scores), name="n_clusters"))


def _mean_and_se(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


def make_reason(
    table: pd.DataFrame,
    recommended: int,
    by_mwcd: int,
    least_mwcd: int,
    elbow: int | None,
    n_held_out: int,
    n_users: int,
) -> str:
    """The recommendation in words and numbers."""
    numbers: list[int] = table.index.tolist()
    held_out = {c: float(table["held_out"].loc[c]) for c in numbers}
    best = numbers[int(np.argmax(list(held_out.values())))]

    def behind(c: int) -> str:
        return f"{table['behind'].loc[c]:.4f} behind (standard error {table['behind_se'].loc[c]:.4f})"

    score = f"held-out log-likelihood, {held_out[recommended]:.4f} a user ({n_held_out:,} of {n_users:,} users)"
    if len(numbers) == 1:
        parts = [f"{in_words(recommended)}: the only candidate, so its {score}, has nothing to be compared with."]
    elif recommended == best:
        parts = [f"{in_words(recommended)}: the best of {len(numbers)} candidates by {score}."]
    else:
        parts = [
            f"{in_words(recommended)}: the smallest of {len(numbers)} candidates within one standard error of the "
            f"best by {score}. It is {behind(recommended)}; the best has {in_words(best)}."
        ]
    if smaller := [c for c in numbers if c < recommended]:
        parts.append(f"The next smaller, {in_words(smaller[-1])}, is {behind(smaller[-1])}.")
    if len(numbers) > 1 and best == numbers[-1]:
        parts.append("The best is the largest candidate: try larger ones too.")
    if recommended == numbers[0] > 1 and len(numbers) > 1:
        parts.append("It is the smallest candidate: try smaller ones too.")
    falls_to = f"hardly falls after {by_mwcd} (its minimum, the paper's rule, is at {least_mwcd})"
    where = "has no elbow among the candidates" if elbow is None else f"has its elbow at {elbow}"
    parts.append(f"For comparison: MWCD {falls_to}, and the k-means curve {where}.")
    return " ".join(parts)


def in_words(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number} clusters"
