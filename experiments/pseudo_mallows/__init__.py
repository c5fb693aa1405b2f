"""Pseudo-Mallows (Liu, Crispino, Scheel, Vitelli and Frigessi, 2022): see README.md."""

from experiments.pseudo_mallows.model import PseudoMallows

__all__ = ["PseudoMallows"]
