"""Floors and caps on how often items are shown, and what they cost in expected hits. Knows no reports."""

from bmcd.errors import ExposureError
from bmcd.exposure.rerank import Reranking, ShownItems, rerank
from bmcd.exposure.trade_off import TradeOff, trade_off

__all__ = ["ExposureError", "Reranking", "ShownItems", "TradeOff", "rerank", "trade_off"]
