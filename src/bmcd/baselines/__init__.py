"""The rivals of BMCD, with its fit and recommend; most give a `score`, not a probability. Knows no measures.

Most are worth comparing with only after `bmcd.tune` has chosen their settings.
"""

from bmcd.baselines.als import ALS
from bmcd.baselines.diffusion import Diffusion
from bmcd.baselines.ease import EASE
from bmcd.baselines.item_knn import ItemKNN
from bmcd.baselines.penalised_mf import PenalisedMF
from bmcd.baselines.poisson import PoissonFactorisation
from bmcd.baselines.popularity import Popularity
from bmcd.baselines.rival import Rival
from bmcd.baselines.spark_als import SparkALS
from bmcd.baselines.user_knn import UserKNN

__all__ = [
    "ALS",
    "EASE",
    "Diffusion",
    "ItemKNN",
    "PenalisedMF",
    "PoissonFactorisation",
    "Popularity",
    "Rival",
    "SparkALS",
    "UserKNN",
]
