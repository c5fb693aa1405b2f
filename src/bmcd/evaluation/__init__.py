"""Measures of recommendations: accuracy, diversity, calibration, with intervals and paired comparisons."""

from bmcd.evaluation.calibration import Calibration, cutoff_for, cutoff_table
from bmcd.evaluation.compare import compare
from bmcd.evaluation.comparison import Comparison
from bmcd.evaluation.evaluate import evaluate
from bmcd.evaluation.intervals import Interval, PairedDifference, paired_difference
from bmcd.evaluation.result import Evaluation, ItemCounts

__all__ = [
    "Calibration",
    "Comparison",
    "Evaluation",
    "Interval",
    "ItemCounts",
    "PairedDifference",
    "compare",
    "cutoff_for",
    "cutoff_table",
    "evaluate",
    "paired_difference",
]
