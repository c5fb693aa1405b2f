"""What changes the posterior of the tastes: `TastePriors`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bmcd.errors import InputError
from bmcd.inference.tastes.hyper import Hyper


def _check(value: object, name: str) -> None:
    if isinstance(value, bool) or not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise InputError(f"{name} must be a positive number, but it is {value!r}.")


@dataclass(frozen=True)
class GammaPrior:
    """Gamma(shape, rate): mean shape / rate.

    >>> GammaPrior(2, 4).mean
    0.5
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        _check(self.shape, "the shape of a Gamma prior")
        _check(self.rate, "the rate of a Gamma prior")

    @property
    def mean(self) -> float:
        """Prior mean."""
        return self.shape / self.rate


@dataclass(frozen=True)
class TastePriors:
    """Prior laws of the model with several tastes per user.

    alpha_c ~ Exponential(scale_rate), on the grid of `rank_laws.py`; lambda_jc ~ Gamma(a, b); rho_c uniform over
    all rankings.

    Parameters
    ----------
    scale_rate
        Rate of the prior of alpha. By default 4 / n_items: log q falls by about 2 alpha / n from one rank to the
        next, and this prior lets it fall by 1/2 on average, whatever n, that is from e to 1 within two items.
    a
        Shape of the law of the rates: a number, or a `GammaPrior` to learn it. By default 4 / n_tastes. The
        smaller, the fewer tastes a user has. Learnt from the clicks it comes out a little too small for good
        recommendations.
    b
        Rate of the law of the rates: a number, or a `GammaPrior` to learn it. By default learnt with Gamma(1, 1),
        which any data outweigh.

    Examples
    --------
    >>> TastePriors(a=0.1).hyper()
    Hyper(a_shape=0.0, a_rate=0.0, b_shape=1.0, b_rate=1.0)
    """

    scale_rate: float | None = None
    a: float | GammaPrior | None = None
    b: float | GammaPrior = GammaPrior(1.0, 1.0)

    def __post_init__(self) -> None:
        if self.scale_rate is not None:
            _check(self.scale_rate, "scale_rate, the rate of the prior of alpha,")
        for name in ("a", "b"):
            value = getattr(self, name)
            if not isinstance(value, GammaPrior) and not (name == "a" and value is None):
                _check(value, f"{name}, unless it is a GammaPrior,")

    def scale_rate_for(self, n_items: int) -> float:
        """The rate of the prior of alpha for so many items."""
        return 4.0 / n_items if self.scale_rate is None else float(self.scale_rate)

    def first_a(self, n_tastes: int) -> float:
        """The value of a if it is fixed, else its prior mean."""
        if self.a is None:
            return 4.0 / n_tastes
        return self.a.mean if isinstance(self.a, GammaPrior) else float(self.a)

    def first_b(self) -> float:
        """The value of b if it is fixed, else its prior mean."""
        return self.b.mean if isinstance(self.b, GammaPrior) else float(self.b)

    def hyper(self) -> Hyper:
        """What the compiled moves of a and b need."""
        a = self.a if isinstance(self.a, GammaPrior) else None
        b = self.b if isinstance(self.b, GammaPrior) else None
        return Hyper(
            float(a.shape) if a else 0.0,
            float(a.rate) if a else 0.0,
            float(b.shape) if b else 0.0,
            float(b.rate) if b else 0.0,
        )
