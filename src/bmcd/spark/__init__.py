"""The same work on a cluster, by Apache Spark: recommend, fit, evaluate. It knows all models, and no command.

Needs ``pip install "bmcd[spark]"``, and Java 17 where a session is started. See docs/scale.md.
"""

from bmcd.spark.evaluating import SparkEvaluation, evaluate
from bmcd.spark.fitting import fit
from bmcd.spark.recommending import recommend

__all__ = ["SparkEvaluation", "evaluate", "fit", "recommend"]
