"""The draws of the tastes in ArviZ's terms: figures on what taste numbers do not change, and its container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bmcd.inference.quantities import judge_quantity
from bmcd.inference.tastes.draws import TasteDraws
from bmcd.utils import import_optional

if TYPE_CHECKING:
    import pandas as pd


def table(draws: TasteDraws) -> pd.DataFrame:
    """Return R-hat, effective sample sizes and Monte Carlo errors, by quantity."""
    import pandas as pd

    quantities = {
        "log joint": draws.log_joint,
        "log probability of clicks set aside": draws.log_probability,
        "visits": draws.n_visits.astype(np.float64),
        "a": draws.a[:, :, 0],
        "b": draws.b[:, :, 0],
        "largest share of visits": draws.visits_per_taste.max(axis=2) / draws.n_visits,
        "median alpha": np.median(draws.alpha, axis=2),
    }
    known = {name: values for name, values in quantities.items() if np.isfinite(values).all()}
    return pd.DataFrame([judge_quantity(name, values) for name, values in known.items()]).set_index("quantity")


def to_arviz(draws: TasteDraws, items: ArrayLike) -> Any:
    """Return ArviZ's own container, an xarray DataTree. Tastes have other numbers in every chain."""
    stats = {
        "lp": draws.log_joint,
        "n_visits": draws.n_visits,
        "visits_per_taste": draws.visits_per_taste,
        "swaps_accepted": draws.swaps_accepted,
    }
    if draws.probe.shape[2]:
        stats["log_probability"] = draws.log_probability
    posterior = {"alpha": draws.alpha, "rho": draws.rho, "a": draws.a[:, :, 0], "b": draws.b[:, :, 0]}
    groups = {"posterior": posterior, "sample_stats": stats}
    if draws.warmup_log_joint.shape[1]:
        groups["warmup_sample_stats"] = {"lp": draws.warmup_log_joint}
    attributes = {"version": draws.version, "seed": str(draws.seed), "data_hash": draws.problem.data_hash}
    return import_optional("arviz_base", needed_by="to_arviz", extra="arviz").from_dict(
        groups,
        save_warmup=True,
        dims={"alpha": ["taste"], "rho": ["taste", "item"], "visits_per_taste": ["taste"]},
        coords={"taste": np.arange(draws.n_tastes), "item": np.asarray(items)},
        attrs={"posterior": {**attributes, "stopped": draws.stopped}},
    )
