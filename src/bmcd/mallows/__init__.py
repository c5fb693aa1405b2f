"""The Mallows model on rankings: distances, partition functions, draws, exact sums. It does not use `Clicks`.

Rank 1 is best everywhere. The model is P(r) = exp(-alpha / n * d(r, rho)) / Z_n(alpha).
"""

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.errors import EstimateWarning
from bmcd.mallows.distances import DISTANCES, cayley, distance, footrule, hamming, kendall, spearman, ulam
from bmcd.mallows.latent import log_likelihood, sample_latent, top_probabilities
from bmcd.mallows.partition import expected_distance, log_partition
from bmcd.mallows.sampling import sample

__all__ = [
    "DISTANCES",
    "EstimateWarning",
    "cayley",
    "distance",
    "expected_distance",
    "footrule",
    "hamming",
    "kendall",
    "log_likelihood",
    "log_partition",
    "sample",
    "sample_latent",
    "spearman",
    "top_probabilities",
    "ulam",
]
