"""Recommend, fit and evaluate on a cluster, with Apache Spark.

Needs ``pip install "bmcd[spark]"``, and Java 17 where a session is started. See docs/scale.md.
"""

from bmcd.spark.fitting import fit
from bmcd.spark.recommending import SparkEvaluation, evaluate, recommend

__all__ = ["SparkEvaluation", "evaluate", "fit", "recommend"]
