"""Diversity by design: floors and caps on how often items are shown, and what they cost in expected hits."""

from bmcd.exposure.ladder import TradeOff, trade_off
from bmcd.exposure.limits import ExposureError
from bmcd.exposure.plot import plot_trade_off
from bmcd.exposure.reranking import rerank
from bmcd.exposure.result import Reranking, Shown

__all__ = ["ExposureError", "Reranking", "Shown", "TradeOff", "plot_trade_off", "rerank", "trade_off"]
