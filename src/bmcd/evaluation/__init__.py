"""Measuring, comparing and tuning recommenders. Asks models to fit and recommend; knows nothing else of them."""

from bmcd.evaluation.backtest import Backtest, backtest
from bmcd.evaluation.calibration import Calibration
from bmcd.evaluation.compare import Comparison, compare
from bmcd.evaluation.diversify import Diversity, diversify
from bmcd.evaluation.evaluate import Evaluation, ItemCounts, evaluate
from bmcd.evaluation.intervals import Interval, PairedDifference, paired_difference
from bmcd.evaluation.rerank import Reranking, ShownItems, TradeOff, rerank, trade_off
from bmcd.models.cutoffs import cutoff_for, cutoff_table, sure_cutoff_for

__all__ = [
    "Backtest",
    "Calibration",
    "Comparison",
    "Diversity",
    "Evaluation",
    "Interval",
    "ItemCounts",
    "PairedDifference",
    "Reranking",
    "ShownItems",
    "TradeOff",
    "backtest",
    "compare",
    "cutoff_for",
    "cutoff_table",
    "diversify",
    "evaluate",
    "paired_difference",
    "rerank",
    "sure_cutoff_for",
    "trade_off",
]
