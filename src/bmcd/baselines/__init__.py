"""Methods to compare models with. They have the methods of every model, and give scores instead of probabilities.

Choose their settings with `bmcd.tune` before comparing.
"""

from bmcd.baselines.als import ALS
from bmcd.baselines.base import Baseline
from bmcd.baselines.ease import EASE
from bmcd.baselines.item_knn import ItemKNN
from bmcd.baselines.popularity import Popularity
from bmcd.baselines.session_knn import SessionKNN
from bmcd.baselines.spark_als import SparkALS
from bmcd.baselines.transitions import RecentCooccurrence, Transitions
from bmcd.baselines.trending import Trending
from bmcd.baselines.user_knn import UserKNN

__all__ = [
    "ALS", "EASE", "Baseline", "ItemKNN", "Popularity", "RecentCooccurrence", "SessionKNN", "SparkALS",
    "Transitions", "Trending", "UserKNN",
]  # fmt: skip
