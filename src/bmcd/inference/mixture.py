"""The mixture of Mallows models: its priors, the clicks laid out for compiled code, the state of a chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bmcd.errors import InputTypeError
from bmcd.mallows.rank_scale import scale_values
from bmcd.utils import check_number, listed, shown


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
            check_number(f"{name} ({symbol} in the paper)", getattr(self, name), above=0)


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


class Data(NamedTuple):
    """Who clicked what, both ways round, and the scale of the ranks. Items and users are numbers from 0."""

    user_start: NDArray[np.int64]
    user_items: NDArray[np.int64]  # items of user j: user_items[user_start[j] : user_start[j + 1]], ascending
    item_start: NDArray[np.int64]
    item_users: NDArray[np.int64]  # users of item i: item_users[item_start[i] : item_start[i + 1]], ascending
    scale: NDArray[np.float64]  # g(1), ..., g(n), see mallows/rank_scale.py


class ChainState(NamedTuple):
    """Everything the next sweep needs. Kernels change it in place."""

    alpha: NDArray[np.float64]  # [cluster]
    tau: NDArray[np.float64]  # [cluster]
    rho: NDArray[np.int64]  # [cluster, item], ranks 1..n
    labels: NDArray[np.int64]  # [user], 0..C-1
    ranks: NDArray[np.int64]  # [user, item], latent rankings, ranks 1..n
    alpha_step: NDArray[np.float64]  # [cluster], scale of the log-normal proposals


class SweepInfo(NamedTuple):
    """What a reader wants to know about a sweep."""

    log_joint: (
        float  # log p(clicks, ranks, labels, alpha, rho, tau), up to a constant that depends on the data only
    )
    within_distance: float  # sum over users of d(ranks_j, rho of the user's cluster)
    label_counts: NDArray[np.int64]  # [cluster]
    alpha_accepted: NDArray[np.float64]  # [cluster], share of accepted proposals; nan where none was made
    rho_accepted: float
    ranks_accepted: float


def make_data(clicks: sparse.csr_array, rank_scale: str | ArrayLike = "linear") -> Data:
    """Lay out a users x items click matrix for the kernels."""
    by_user = sparse.csr_array(clicks)
    by_user.sort_indices()
    by_item = sparse.csc_array(by_user)
    by_item.sort_indices()
    return Data(
        by_user.indptr.astype(np.int64),
        by_user.indices.astype(np.int64),
        by_item.indptr.astype(np.int64),
        by_item.indices.astype(np.int64),
        scale_values(by_user.shape[1], rank_scale),
    )
