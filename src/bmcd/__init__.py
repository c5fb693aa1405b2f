"""Bayesian Mallows for Clicking Data: diverse recommendations with probabilities you can trust."""

__version__ = "0.1.0"
