"""ClusterChoice: what `choose_n_clusters` found, in a table and in words; and how the table is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.markup import Html, tag
from bmcd.models.cluster_curves import falls
from bmcd.models.held_out_users import log_mean
from bmcd.utils import Floats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class ClusterChoice:
    """The result of `choose_n_clusters`; `print` it for the reason and the table."""

    recommended: int
    """The smallest candidate within one standard error of the best held-out log-likelihood."""
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
    * `behind`, `behind_se`: how far it is behind the best, likewise;
    * `chain_gap`: largest minus smallest `held_out` of single chains. The standard errors cover the choice of
      users only; where this is as large as the steps, the chains are too short or too few to tell;
    * `mwcd`: posterior mean of the within-cluster footrule distance, sum over the training users. It goes on
      falling a little beyond the true number: clusters that share the users of one have larger scales than it;
    * `mwcd_fall`: the share by which it falls from the candidate before, for each doubling of the number;
    * `kmeans`: within-cluster sum of squares of k-means on the binary clicks of all users.
    """
    boxplot: pd.DataFrame
    """Draws of the within-cluster distance: `whislo`, `q1`, `med`, `q3`, `whishi` and `mean` of each candidate.

    These are the names that matplotlib's `Axes.bxp(boxplot.to_dict("records"), showfliers=False)` expects.
    """
    within_distance: Mapping[int, Floats]
    """The draws themselves, [chain, draw], for each candidate."""
    log_likelihood: Mapping[int, Floats]
    """Log-likelihood of each held-out user, for each candidate."""
    held_out_users: NDArray[Any]
    """Their ids, in the order of `log_likelihood`; none if the model was saved without users."""
    n_held_out_users: int
    n_training_users: int
    """How many users the fits saw."""

    @property
    def reason(self) -> str:
        """Why this number is recommended, in words and numbers."""
        numbers: list[int] = self.table.index.tolist()
        chosen, best = self.recommended, numbers[int(self.table["held_out"].argmax())]
        n_held_out, several = self.n_held_out_users, len(numbers) > 1
        score = (
            f"held-out log-likelihood, {self.table['held_out'].loc[chosen]:.4f} a user "
            f"({n_held_out:,} of {n_held_out + self.n_training_users:,} users)"
        )
        if not several:
            parts = [f"{_clusters(chosen)}: the only candidate, so its {score}, has nothing to be compared with."]
        elif chosen == best:
            parts = [f"{_clusters(chosen)}: the best of {len(numbers)} candidates by {score}."]
        else:
            parts = [
                f"{_clusters(chosen)}: the smallest of {len(numbers)} candidates within one standard error of the "
                f"best by {score}. It is {self._behind(chosen)}; the best has {_clusters(best)}."
            ]
        if smaller := [c for c in numbers if c < chosen]:
            parts.append(f"The next smaller, {_clusters(smaller[-1])}, is {self._behind(smaller[-1])}.")
        parts.append(self.edge_in_words)
        if several and chosen == numbers[0] > 1:
            parts.append("It is the smallest candidate: try smaller ones too.")
        elbow = "no elbow among the candidates" if self.elbow is None else f"its elbow at {self.elbow}"
        parts.append(
            f"For comparison: MWCD hardly falls after {self.by_mwcd} (its minimum, the paper's rule, is at "
            f"{self.least_mwcd}), and the k-means curve has {elbow}."
        )
        return " ".join(filter(None, parts))

    @property
    def edge_in_words(self) -> str:
        """What to know if the best of several candidates is the largest that was tried; otherwise nothing."""
        numbers: list[int] = self.table.index.tolist()
        if len(numbers) == 1 or numbers[int(self.table["held_out"].argmax())] < numbers[-1]:
            return ""
        return (
            f"The best is the largest candidate, {_clusters(numbers[-1])}: try larger ones too (choose_n_clusters "
            "takes any candidates)."
        )

    def _repr_html_(self) -> str:
        table = Html(self.table.to_html(float_format="{:.4f}".format, na_rep=""))
        return tag("div", tag("p", self.reason), table)

    def _behind(self, c: int) -> str:
        return f"{self.table['behind'].loc[c]:.4f} behind (standard error {self.table['behind_se'].loc[c]:.4f})"

    def __repr__(self) -> str:
        return (
            f"ClusterChoice(recommended={self.recommended}, by_mwcd={self.by_mwcd}, elbow={self.elbow}, "
            f"candidates={self.table.index.tolist()})"
        )

    def __str__(self) -> str:
        formatters = {
            name: ("{:,.0f}" if name in ("mwcd", "kmeans") else "{:.4f}").format for name in self.table.columns
        }
        return f"{self.reason}\n\n{self.table.to_string(formatters=formatters, na_rep='')}"


def scores_by_user(by_draw: Mapping[int, Floats]) -> pd.DataFrame:
    """Return the log-likelihood of each held-out user, a column a candidate, in increasing order."""
    import pandas as pd

    return pd.DataFrame({c: log_mean(by_draw[c], axis=(1, 2)) for c in sorted(by_draw)})


def behind_best(scores: pd.DataFrame) -> pd.DataFrame:
    """Return how far each candidate is behind the best, with standard error; scores are by user and candidate."""
    import pandas as pd

    behind = scores.rsub(scores[scores.mean().idxmax()], axis=0)
    return pd.DataFrame({"behind": behind.mean(), "behind_se": behind.sem()})


def criteria_table(
    by_draw: Mapping[int, Floats], within: Mapping[int, Floats], inertia: Mapping[int, float]
) -> pd.DataFrame:
    """Return `ClusterChoice.table`, by candidates in increasing order.

    ``by_draw`` has log-likelihoods, held-out users x chains x draws; ``within`` has draws of the distance within
    clusters.
    """
    import pandas as pd

    scores = scores_by_user(by_draw)
    steps, behind = scores.diff(axis=1), behind_best(scores)
    mwcd = {c: float(values.mean()) for c, values in within.items()}
    columns = {
        "held_out": scores.mean(),
        "held_out_se": scores.sem(),
        "step": steps.mean(),
        "step_se": steps.sem(),
        "behind": behind["behind"],
        "behind_se": behind["behind_se"],
        "chain_gap": {c: np.ptp(log_mean(values, axis=2).mean(axis=0)) for c, values in by_draw.items()},
        "mwcd": mwcd,
        "mwcd_fall": falls(mwcd),
        "kmeans": {c: inertia[c] for c in by_draw},
    }
    return pd.DataFrame(columns).rename_axis(index="n_clusters")


def within_one_standard_error(table: pd.DataFrame) -> int:
    """Return the smallest candidate that is behind the best by no more than one standard error."""
    return int(table.index[table["behind"] <= table["behind_se"]].min())


def _clusters(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number} clusters"
