"""Diversity by design: floors and caps on how often items are shown, and what they cost in expected hits."""

from bmcd.errors import ExposureError
from bmcd.exposure.rerank import rerank
from bmcd.exposure.result import Reranking, Shown
from bmcd.exposure.trade_off import TradeOff, trade_off

__all__ = ["ExposureError", "Reranking", "Shown", "TradeOff", "rerank", "trade_off"]
