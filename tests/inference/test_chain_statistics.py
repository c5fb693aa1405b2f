"""R-hat, ESS and MCSE against arviz-stats, and against what is known of independent and of autocorrelated draws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.inference import chain_statistics
from bmcd.inference.diagnostics import rhat


def is_on_the_edge(values):
    """Whether an autocorrelation, or a sum of two, is 0 but for rounding, so that the last bit decides."""
    n = values.shape[1]
    by_lag = chain_statistics._autocovariance(values).mean(axis=0)
    total = by_lag[0] + (values.mean(axis=1).var(ddof=1) if len(values) > 1 else 0.0)
    even, odd = (1.0 - (by_lag[0] * n / (n - 1.0) - by_lag[2:])[first::2] / total for first in (0, 1))
    return bool((np.abs(even) < 1e-9).any() or (np.abs(even[: len(odd)] + odd) < 1e-9).any())


@given(
    n_chains=st.integers(1, 5),
    n_draws=st.integers(4, 300),
    walk=st.booleans(),
    apart=st.booleans(),
    kind=st.sampled_from(["real", "whole", "binary"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_figures_are_those_of_arviz(n_chains, n_draws, walk, apart, kind, seed):
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_chains, n_draws)) + apart * rng.normal(size=(n_chains, 1))
    values = values.cumsum(axis=1) if walk else values
    values = {"real": values, "whole": values.round(), "binary": (values > 0).astype(float)}[kind]
    if np.ptp(values) == 0:
        return
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(divide="ignore", invalid="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        wanted = {
            "ess_bulk": array_stats.ess(values, method="bulk", **axes),
            "ess_tail": array_stats.ess(values, method="tail", prob=(0.05, 0.95), **axes),
            "mcse_mean": array_stats.mcse(values, method="mean", **axes),
        }
        if n_chains > 1:
            wanted["rhat"] = array_stats.rhat(values, method="rank", **axes)
    halves = chain_statistics._split(values)
    seen = {
        "ess_bulk": [chain_statistics._normal_scores(halves)],
        "ess_tail": [chain_statistics._split(values <= np.quantile(values, at)) for at in (0.05, 0.95)],
        "mcse_mean": [halves],
        "rhat": [],
    }
    for name, value in wanted.items():
        if any(np.ptp(one) > 0 and is_on_the_edge(one) for one in seen[name]):
            continue
        assert getattr(chain_statistics, name)(values) == pytest.approx(float(value), rel=1e-9, nan_ok=True), name


def test_an_autoregressive_chain_has_the_effective_size_that_theory_gives():
    """Of x' = .8 x + noise, n draws are worth n (1 - .8) / (1 + .8); over 60 such runs, within 5 %."""
    rng, sizes = np.random.default_rng(1), []
    for _ in range(60):
        values = rng.normal(size=(4, 2500))
        values[:, 0] /= np.sqrt(1 - 0.8**2)
        for t in range(1, values.shape[1]):
            values[:, t] += 0.8 * values[:, t - 1]
        sizes.append(chain_statistics.ess_bulk(values))
    assert np.mean(sizes) == pytest.approx(10_000 / 9, rel=0.05)


def test_chains_that_disagree_are_noticed():
    values = np.random.default_rng(2).normal(size=(4, 500))
    assert rhat(values) < 1.02
    assert rhat(values + np.arange(4)[:, None]) > 1.5  # other means
    assert rhat(values * np.array([1, 1, 1, 5])[:, None]) > 1.1  # another spread, which only the folded ranks show
