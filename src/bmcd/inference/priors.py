"""What changes the posterior: `Priors`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from bmcd.errors import InputError, InputTypeError
from bmcd.utils import listed, shown


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

    Examples
    --------
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


def check_priors(priors: object, kind: type) -> None:
    """Refuse priors of another kind, and write down the call that was meant.

    >>> check_priors({"rate": 1}, Priors)
    Traceback (most recent call last):
    bmcd.errors.InputTypeError: priors must be made by bmcd.Priors(rate=1), not given as {'rate': 1}.
    """
    if isinstance(priors, kind):
        return
    names = [field.name for field in fields(kind)]
    given = dict.fromkeys(names, "...")
    if isinstance(priors, Mapping) and priors and set(priors) <= set(names):
        given = {name: shown(value) for name, value in priors.items()}
    call = f"bmcd.{kind.__name__}({listed([f'{name}={value}' for name, value in given.items()])})"
    raise InputTypeError(f"priors must be made by {call}, not given as {shown(priors)}.")
