"""The simulation study: its stages, and what stands on its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bmcd import __version__
from experiments.document import Contents
from experiments.simulation import figures, plan, tables, words
from experiments.simulation.measures import N_POPULAR, NEXT
from experiments.simulation.results import BY_LEAST, BY_LIKELIHOOD, SimulationResults
from experiments.study import Stage, Study, why_no_spark
from experiments.tasks import Result


class SimulationStudy(Study):
    """The paper's simulation study.

    Parameters
    ----------
    quick
        Three small data sets instead of 20: shows that everything runs.
    spark
        Run SparkALS on some of the data sets; by default if pyspark and Java are installed.
    """

    package = __package__

    def __init__(self, *, quick: bool = False, spark: bool | None = None) -> None:
        self.quick, self.size = quick, plan.QUICK if quick else plan.FULL
        self.with_spark = not why_no_spark() if spark is None else spark

    def stages(self, results: Mapping[str, Result]) -> Iterator[Stage]:
        """Yield all tasks but Spark's, then Spark's."""
        yield Stage("simulation study", plan.tasks_without_spark(self.size))
        if self.with_spark:
            yield Stage("Spark", plan.spark_tasks(self.size), one_at_a_time=True)

    def contents(self, results: Mapping[str, Result]) -> Contents:
        """Return the words, tables and figures of page.md."""
        by_run = SimulationResults(self.size, results)
        (run,) = plan.shown_runs(self.size, [plan.CALIBRATION_RUN])
        page_words: dict[str, Any] = {
            "form": ", in its quick form" if self.quick else "",
            "version": __version__,
            "size": self.size,
            "last_candidate": self.size.candidates[-1],
            "comparison": words.QUICK_NOTE if self.quick else words.comparison(by_run),
            "spark_note": words.SPARK_NOTE if by_run.spark_runs else "",
            "on_tastes": words.on_tastes(by_run),
            "calibration_run": run,
            "n_popular": N_POPULAR,
            "trace_run": plan.TRACE_RUN,
            "trace_clusters": plan.TRUE_CLUSTERS,
            "verdict": by_run[plan.TRACE_RUN, "traces"]["verdict"],
            "taste_verdict": by_run[plan.TRACE_RUN, plan.AUTO.part]["verdict"],
        }
        rows = {
            "clusters": tables.clusters(by_run),
            "accuracy": tables.accuracy(by_run),
            "differences": tables.differences_in_accuracy(by_run),
            "probabilities": tables.probabilities(by_run),
            "spark": tables.spark(by_run),
            "rare": tables.rare(by_run),
        }
        drawn = {
            "mwcd": figures.within_distance(by_run),
            "item-popularity": figures.item_popularity(by_run),
            "alpha-traces": figures.alpha_traces(by_run),
        }
        for k in NEXT:
            rows |= {
                f"cutoffs-{k}": tables.cutoffs(by_run, k, by_run.bmcd(BY_LEAST)),
                f"cutoffs-{k}-likelihood": tables.cutoffs(by_run, k, by_run.bmcd(BY_LIKELIHOOD)),
                f"cutoffs-{k}-tastes": tables.cutoffs(by_run, k, by_run.tastes(plan.AUTO)),
                f"diversity-{k}": tables.diversity(by_run, k),
            }
            drawn |= {
                f"accuracy-by-clusters-{k}": figures.accuracy_by_clusters(by_run, k),
                f"calibration-{k}": figures.calibration(by_run, run, k),
                f"rare-items-{k}": figures.rare_items(by_run, k),
            }
        return Contents(page_words, rows, drawn)
