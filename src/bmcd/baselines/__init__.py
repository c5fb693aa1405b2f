"""Methods to compare with, which keep the contract of every model. They know nothing about measures.

Most give a `score`, not a probability, and most are worth comparing with only after `bmcd.tune` has chosen their
settings.
"""

from bmcd.baselines.als import ALS
from bmcd.baselines.base import Baseline
from bmcd.baselines.diffusion import Diffusion
from bmcd.baselines.ease import EASE
from bmcd.baselines.item_knn import ItemKNN
from bmcd.baselines.penalised_mf import PenalisedMF
from bmcd.baselines.poisson import PoissonFactorisation
from bmcd.baselines.popularity import Popularity
from bmcd.baselines.recent_cooccurrence import RecentCooccurrence
from bmcd.baselines.session_knn import SessionKNN
from bmcd.baselines.spark_als import SparkALS
from bmcd.baselines.transitions import Transitions
from bmcd.baselines.trending import Trending
from bmcd.baselines.user_knn import UserKNN

__all__ = [
    "ALS",
    "EASE",
    "Baseline",
    "Diffusion",
    "ItemKNN",
    "PenalisedMF",
    "PoissonFactorisation",
    "Popularity",
    "RecentCooccurrence",
    "SessionKNN",
    "SparkALS",
    "Transitions",
    "Trending",
    "UserKNN",
]
