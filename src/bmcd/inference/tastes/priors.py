"""`TastePriors`: what changes the posterior of the tastes; and the moves of a and b, shape and rate of the rates.

a moves with the rates integrated out, given the visits: sum over users and tastes of log Gamma(a + visits) /
Gamma(a), plus a log(b / (b + 1)) each (Metropolis). So it must stand before the redraw of the rates, and b, which
uses them, after it (Gibbs).
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from bmcd.inference.rng_streams import TASTE_RATE_OF_RATES, TASTE_SHAPE
from bmcd.inference.variates import log_gamma_variate, normal
from bmcd.rng import STREAM_SIZE, open_stream, uniform
from bmcd.utils import check_number

# Acceptance that the step of log a is tuned to in warm-up: best for one dimension.
TARGET_ACCEPTANCE = 0.44


class Hyper(NamedTuple):
    """Gamma priors of a and b; a shape of 0 means that the number is fixed."""

    a_shape: float
    a_rate: float
    b_shape: float
    b_rate: float


@numba.njit(cache=True, nogil=True)
def pairs_with_more(of_user):
    """out[k] = how many (user, taste) have more than k visits."""
    most = 0
    for value in of_user.flat:
        most = max(most, int(value))
    out = np.zeros(most, np.int64)
    for value in of_user.flat:
        if value > 0.0:
            out[int(value) - 1] += 1
    for k in range(most - 2, -1, -1):
        out[k] += out[k + 1]
    return out


@numba.njit(cache=True, nogil=True)
def log_visits_given(a, b, more, n_pairs):
    """Log density of the numbers of visits to tastes given a and b, up to terms of neither.

    Gamma(a + n) / Gamma(a) = a (a + 1) ... (a + n - 1), so that only (user, taste) with visits take part.
    """
    total = -n_pairs * a * math.log1p(1.0 / b)
    for k in range(more.size):
        total += more[k] * (math.log(a + k) - math.log1p(b))
    return total


@numba.njit(cache=True, nogil=True)
def log_gamma_density(x, shape, rate):
    """Log density of Gamma(shape, rate)."""
    return shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(x) - rate * x


@numba.njit(cache=True, nogil=True)
def a_log_ratio(a, proposal, b, more, n_pairs, hyper):
    """Log acceptance ratio: likelihood of the visits, prior, and the Jacobian of a walk in log a."""
    return (
        log_visits_given(proposal, b, more, n_pairs)
        - log_visits_given(a, b, more, n_pairs)
        + log_gamma_density(proposal, hyper.a_shape, hyper.a_rate)
        - log_gamma_density(a, hyper.a_shape, hyper.a_rate)
        + math.log(proposal / a)
    )


@numba.njit(cache=True, nogil=True)
def update_a(state, more, n_pairs, hyper, proposals, key, chain, sweep, warmup):
    """Metropolis on log a. Returns the share of proposals taken, NaN if a is fixed."""
    if hyper.a_shape == 0.0:
        return math.nan
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, 0, TASTE_SHAPE)
    taken = 0
    for _ in range(proposals):
        a = state.a[0]
        proposal = a * math.exp(state.a_step[0] * normal(stream))
        u = uniform(stream)
        probability = math.exp(min(a_log_ratio(a, proposal, state.b[0], more, n_pairs, hyper), 0.0))
        if u < probability:
            state.a[0] = proposal
            taken += 1
        if warmup:
            # Robbins and Monro; the gain falls with the sweep, so that the step converges.
            step = state.a_step[0] * math.exp((probability - TARGET_ACCEPTANCE) * 3.0 / math.sqrt(sweep + 4.0))
            state.a_step[0] = min(max(step, 1e-4), 3.0)
    return taken / proposals


@numba.njit(cache=True, nogil=True)
def update_b(state, total_rate, hyper, key, chain, sweep):
    """b | rates ~ Gamma(b_shape + a users tastes, b_rate + sum of the rates), unless b is fixed."""
    if hyper.b_shape == 0.0:
        return
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, 0, TASTE_RATE_OF_RATES)
    shape = hyper.b_shape + state.a[0] * state.rates.size
    state.b[0] = math.exp(log_gamma_variate(stream, shape) - math.log(hyper.b_rate + total_rate))


@dataclass(frozen=True)
class GammaPrior:
    """Gamma(shape, rate): mean shape / rate.

    >>> GammaPrior(2, 4).mean
    0.5
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        check_number("the shape of a Gamma prior", self.shape, above=0)
        check_number("the rate of a Gamma prior", self.rate, above=0)

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
            check_number("scale_rate, the rate of the prior of alpha,", self.scale_rate, above=0)
        for name in ("a", "b"):
            value = getattr(self, name)
            if not isinstance(value, GammaPrior) and not (name == "a" and value is None):
                check_number(f"{name}, unless it is a GammaPrior,", value, above=0)

    def scale_rate_for(self, n_items: int) -> float:
        """The rate of the prior of alpha for this number of items."""
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
        a, b = (
            (float(prior.shape), float(prior.rate)) if isinstance(prior, GammaPrior) else (0.0, 0.0)
            for prior in (self.a, self.b)
        )
        return Hyper(*a, *b)
