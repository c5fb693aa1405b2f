"""Methods that only the studies compare with: they keep the contract of `bmcd.baselines`, but cannot be saved."""

from __future__ import annotations

from typing import Any

from bmcd import baselines
from experiments.methods.diffusion import Diffusion
from experiments.methods.penalised_mf import PenalisedMF
from experiments.methods.poisson import PoissonFactorisation

__all__ = ["Diffusion", "PenalisedMF", "PoissonFactorisation", "class_named"]


def class_named(name: str) -> Any:
    """Return the class of a baseline: of this package, or of `bmcd.baselines`.

    >>> class_named("EASE").__module__, class_named("Diffusion").__module__
    ('bmcd.baselines.ease', 'experiments.methods.diffusion')
    """
    return globals()[name] if name in __all__ else getattr(baselines, name)
