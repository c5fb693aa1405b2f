"""Names that options may take, written down here so that `--help` need not import what they belong to."""

from __future__ import annotations

from enum import StrEnum


class ModelName(StrEnum):
    """Those that `bmcd fit` fits."""

    blend = "blend"
    tastes = "tastes"
    bmcd = "bmcd"


class SimulatedModel(StrEnum):
    """Those that `bmcd simulate` draws clicks from."""

    bmcd = "bmcd"
    tastes = "tastes"
    sessions = "sessions"
    log = "log"


class PartName(StrEnum):
    """Those that a blend can be made of."""

    tastes = "Tastes"
    bmcd = "BMCD"
    ease = "EASE"
    item_knn = "ItemKNN"
    user_knn = "UserKNN"
    als = "ALS"
    spark_als = "SparkALS"
    popularity = "Popularity"
    trending = "Trending"
    transitions = "Transitions"
    recent_cooccurrence = "RecentCooccurrence"
    session_knn = "SessionKNN"


class Distance(StrEnum):
    """Those of `bmcd.mallows.DISTANCES`."""

    footrule = "footrule"
    spearman = "spearman"
    kendall = "kendall"
    cayley = "cayley"
    hamming = "hamming"
    ulam = "ulam"


class RankScale(StrEnum):
    """Those with a name."""

    linear = "linear"
    sqrt = "sqrt"
    log = "log"


class SamplerName(StrEnum):
    """Those of `bmcd.inference.posterior`."""

    exact = "exact"
    paper = "paper"


class Start(StrEnum):
    """Those of `bmcd.inference.bmcd.initial`."""

    kmeans = "kmeans"
    popularity = "popularity"
    random = "random"


class OrderName(StrEnum):
    """Where the order of the clicks comes from."""

    time = "time"
    rows = "rows"
    none = "none"
