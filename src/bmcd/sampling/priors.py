"""What changes the posterior: `Priors`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bmcd.errors import InputError


@dataclass(frozen=True)
class Priors:
    """Prior laws of the mixture, as in the paper.

    alpha_c ~ Exponential(rate), the tau_c ~ Dirichlet(concentration, ..., concentration), rho_c uniform over all
    rankings.

    Parameters
    ----------
    rate
        lambda in the paper. The default 0.001 is nearly flat: prior mean 1000, far above any alpha seen in data.
    concentration
        psi in the paper. The default 10 pulls cluster sizes a little towards each other, and keeps small clusters
        from dying out; it weighs as much as ten users in each cluster.

    >>> Priors(rate=0.1)
    Priors(rate=0.1, concentration=10.0)
    """

    rate: float = 0.001
    concentration: float = 10.0

    def __post_init__(self) -> None:
        for name, symbol in (("rate", "lambda"), ("concentration", "psi")):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise InputError(f"{name} ({symbol} in the paper) must be a positive number, but it is {value!r}.")
