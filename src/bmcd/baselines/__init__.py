"""The rivals of BMCD, under its contract: fit(clicks), then recommend(k). They give a `score`, no probability.

Each comes with settings of its own, and most are worth little before `tune` has chosen them.
"""

from bmcd.baselines.als import ALS
from bmcd.baselines.diffusion import Diffusion
from bmcd.baselines.ease import EASE
from bmcd.baselines.item_knn import ItemKNN
from bmcd.baselines.popularity import Popularity
from bmcd.baselines.rival import Rival
from bmcd.baselines.spark_als import SparkALS
from bmcd.baselines.user_knn import UserKNN

__all__ = ["ALS", "EASE", "Diffusion", "ItemKNN", "Popularity", "Rival", "SparkALS", "UserKNN"]
