"""Whether probabilities are right: hit rate against probability, and proper scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.clicks.log import Library
from bmcd.errors import InputError
from bmcd.models.cutoffs import check_hits, cutoff_columns, cutoff_for, cutoff_table
from bmcd.utils import Floats

# Groups of equally many recommendations in which predicted and observed hits are compared.
GROUPS = 10


def squared_errors(probability: Floats, hit: NDArray[np.bool_]) -> Floats:
    """Return the Brier score of each recommendation: (probability - hit)^2."""
    errors: Floats = (probability - hit) ** 2
    return errors


def log_losses(probability: Floats, hit: NDArray[np.bool_]) -> Floats:
    """Return the log score of each recommendation, in nats: -log of the probability given to what happened.

    It would be infinite where that probability is 0. So, as in scikit-learn, probabilities are first moved into
    [eps, 1 - eps], where eps = 2.2e-16 is the spacing of numbers at 1.

    >>> log_losses(np.array([0.5, 1.0]), np.array([True, False])).round(3).tolist()
    [0.693, 36.044]
    """
    eps = np.finfo(np.float64).eps
    inside = np.clip(probability, eps, 1 - eps)
    losses: Floats = -np.log(np.where(hit, inside, 1 - inside))
    return losses


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Hit rate against probability, in bins, from `Calibration.of`. Bins without recommendations are left out.

    >>> calibration = Calibration.of([0.1, 0.1, 0.3, 0.3], [False, False, True, False], bin_width=0.1)
    >>> calibration
    Calibration(4 recommendations: probability 0.2000, hit rate 0.2500, ECE 0.1500, Brier 0.1500, log score 0.4428)
    >>> calibration.lower.tolist(), calibration.bin_hit_rate.tolist()
    ([0.1, 0.3], [0.0, 0.5])
    """

    probability: Floats
    """The probability of each recommendation."""
    hit: NDArray[np.bool_]
    """Whether each recommendation was a hit."""
    bin_width: float
    """The width of each bin; the paper's is 0.01."""
    lower: Floats
    """Where each bin starts; a bin is lower <= probability < upper, and the last one includes 1."""
    upper: Floats
    """Where each bin ends."""
    bin_n: NDArray[np.int64]
    """How many recommendations are in each bin."""
    bin_probability: Floats
    """Their mean probability."""
    bin_hit_rate: Floats
    """The share of them that are hits, which is near `bin_probability` if the probabilities are right."""
    brier: float
    """Mean of (probability - hit)^2; = reliability - resolution + uncertainty + within_bin."""
    reliability: float
    """Mean over recommendations of (bin_probability - bin_hit_rate)^2; 0 is best."""
    resolution: float
    """Mean over recommendations of (bin_hit_rate - hit_rate)^2; higher is better."""
    uncertainty: float
    """hit_rate * (1 - hit_rate): the Brier score of giving every recommendation the overall hit rate."""
    within_bin: float
    """What Murphy's three terms leave over when probabilities differ within a bin: the mean squared deviation of
    probability from its bin's mean, minus twice the mean product of that deviation and the hit's deviation."""
    expected_calibration_error: float
    """Mean over recommendations of |bin_probability - bin_hit_rate|."""
    log_score: float
    """Mean of -log(probability given to what happened), in nats; see `log_losses`."""
    ece_at_k: float
    """The same error in `GROUPS` groups of equally many recommendations, the least probable first."""
    promise_gap: float
    """Mean probability minus hit rate: above 0 the probabilities are too high."""

    @classmethod
    def of(cls, probability: ArrayLike, hit: ArrayLike, bin_width: float = 0.01) -> Calibration:
        """Return the calibration of probabilities; `1 / bin_width` must be a whole number."""
        p, h = check_hits(probability, hit)
        edges = bin_edges(bin_width)
        # The bin of each recommendation; 1.0 belongs to the last one.
        index = np.minimum(np.searchsorted(edges, p, side="right") - 1, len(edges) - 2)
        used, code, n = np.unique(index, return_inverse=True, return_counts=True)
        mean_p, rate = np.bincount(code, weights=p) / n, np.bincount(code, weights=h) / n
        overall, weight = h.mean(), n / len(p)
        deviation = p - mean_p[code]
        return cls(
            probability=p,
            hit=h,
            bin_width=float(bin_width),
            lower=edges[used],
            upper=edges[used + 1],
            bin_n=n.astype(np.int64),
            bin_probability=mean_p,
            bin_hit_rate=rate,
            brier=float(squared_errors(p, h).mean()),
            reliability=float(weight @ (mean_p - rate) ** 2),
            resolution=float(weight @ (rate - overall) ** 2),
            uncertainty=float(overall * (1 - overall)),
            within_bin=float((deviation**2 - 2 * deviation * (h - rate[code])).mean()),
            expected_calibration_error=float(weight @ np.abs(mean_p - rate)),
            log_score=float(log_losses(p, h).mean()),
            ece_at_k=float(np.abs(np.bincount(equal_groups(p), weights=p - h)).sum() / len(p)),
            promise_gap=float((p - h).mean()),
        )

    @property
    def mean_probability(self) -> float:
        """Mean of the probabilities: the hit rate that the model expects."""
        return float(self.probability.mean())

    @property
    def hit_rate(self) -> float:
        """Share of recommendations that are hits."""
        return float(self.hit.mean())

    def cutoff_table(self, cutoffs: ArrayLike | None = None, *, library: Library = "pandas") -> Any:
        """Return the cut-off table of these recommendations; see `cutoff_table`."""
        return cutoff_table(self.probability, self.hit, cutoffs, library=library)

    def cutoff_for(self, hit_rate: float, *, min_kept: int = 30) -> float:
        """Return the smallest cut-off with this hit rate; see `cutoff_for`."""
        return cutoff_for(self.probability, self.hit, hit_rate, min_kept=min_kept)

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return a frame with a row for each non-empty bin: lower, upper, n, probability, hit_rate."""
        import narwhals as nw

        return nw.from_dict(self._bins(), backend=library).to_native()

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers but those of single recommendations, ready for JSON."""
        names = (
            *("bin_width", "mean_probability", "hit_rate", "brier", "reliability", "resolution"),
            *("uncertainty", "within_bin", "expected_calibration_error", "log_score", "ece_at_k", "promise_gap"),
        )
        numbers = {name: getattr(self, name) for name in names}
        cutoffs = _rows(cutoff_columns(self.probability, self.hit, None))
        return {**numbers, "bins": _rows(self._bins()), "cutoffs": cutoffs}

    def __repr__(self) -> str:
        return (
            f"Calibration({len(self.hit):,} recommendations: probability {self.mean_probability:.4f}, "
            f"hit rate {self.hit_rate:.4f}, ECE {self.expected_calibration_error:.4f}, "
            f"Brier {self.brier:.4f}, log score {self.log_score:.4f})"
        )

    def _bins(self) -> dict[str, list[Any]]:
        arrays = {"lower": self.lower, "upper": self.upper, "n": self.bin_n}
        arrays |= {"probability": self.bin_probability, "hit_rate": self.bin_hit_rate}
        return {name: array.tolist() for name, array in arrays.items()}


def equal_groups(probability: Floats, n_groups: int = GROUPS) -> NDArray[np.int64]:
    """Return the group of each recommendation when they are cut into equally many, the least probable first.

    >>> equal_groups(np.array([0.3, 0.1, 0.2, 0.9]), 2).tolist()
    [1, 0, 0, 1]
    """
    place = np.empty(len(probability), np.int64)
    place[np.argsort(probability, kind="stable")] = np.arange(len(probability))
    return place * n_groups // len(probability)


def bin_edges(bin_width: float) -> Floats:
    """Return the edges of bins of equal width from 0 to 1.

    >>> bin_edges(0.25).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    n_bins = round(1 / bin_width) if 0 < bin_width <= 1 else 0
    if not n_bins or abs(n_bins * bin_width - 1) > 1e-9:
        raise InputError(
            f"bin_width must divide 1 into equal parts, like 0.01, 0.05 or 0.1, but it is {bin_width}."
        )
    # Multiples of bin_width would be off: 3 * 0.1 is more than 0.3, but 3 / 10 is the number written 0.3.
    edges: Floats = np.arange(n_bins + 1) / n_bins
    return edges


def _rows(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
