"""log Z inside the paper's sampler: exact methods against `log_partition`, tables against what is known."""

import numpy as np
import pytest

from bmcd.inference.paper import log_z
from bmcd.inference.paper.log_z import SCAN, TABLE, choose_method, is_estimated, log_z_at, table_uncertainty
from bmcd.inference.paper.sampler import whole_scale
from bmcd.mallows import estimation, exact_partition
from bmcd.mallows.distances import DISTANCES
from bmcd.mallows.partition import log_partition
from bmcd.mallows.rank_scale import scale_values


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_every_exact_method(distance, n):
    source = choose_method(distance, scale_values(n))
    for alpha in (1e-9, 0.3, 4.0, 60.0):
        exact = log_partition(n, alpha, distance, method="exact")
        assert log_z_at(source, alpha) == pytest.approx(exact, rel=1e-12, abs=1e-14)


def test_the_scan_on_a_stretched_scale():
    scale, unit = whole_scale(scale_values(30, "log"))
    source = choose_method("footrule", scale * unit)
    assert source.method == SCAN
    # The scale is rounded to 2^-40, so log Z moves by some 1e-11.
    assert log_z_at(source, 5.0) == pytest.approx(log_partition(30, 5.0, rank_scale="log"), abs=1e-9)


def test_table_with_exact_knots():
    """Between knots the spline is off by less than what 100,000 users would notice (1e-5 each)."""
    source = choose_method("spearman", scale_values(14), 14.0)
    assert source.method == TABLE
    for alpha in np.geomspace(1e-3, source.max_alpha, 12):
        assert log_z_at(source, alpha) == pytest.approx(log_partition(14, alpha, "spearman"), abs=1e-4)


def test_table_ends_where_estimates_end(monkeypatch):
    exact = log_z.knot

    def knot(distance, n, alpha, k):
        if alpha > 5:
            raise ValueError("importance sampling breaks down")
        return exact(distance, n, alpha, k)

    monkeypatch.setattr(log_z, "knot", knot)
    source = choose_method("spearman", scale_values(13))
    assert 3 < source.max_alpha <= 5
    assert log_z_at(source, source.max_alpha) == pytest.approx(
        log_partition(13, source.max_alpha, "spearman"), abs=1e-4
    )
    with pytest.raises(ValueError, match="breaks down"):  # more was asked for than can be had
        choose_method("spearman", scale_values(13), 7.0)
    log_z.make_table.cache_clear()


@pytest.fixture
def rough_tables(monkeypatch):
    """Few knots and little effort: seconds instead of minutes."""
    monkeypatch.setattr(log_z, "KNOTS", 10)
    monkeypatch.setattr(estimation, "BUDGET", 2_000_000)
    log_z.make_table.cache_clear()
    yield
    log_z.make_table.cache_clear()


def test_table_of_ulam_beyond_the_counts(rough_tables):
    """81 items, really estimated: as far from log Z and its slope, by counts, as the errors say."""
    n, alphas = 81, np.array([0.5, 5.0, 20.0, 45.0, 60.0])
    assert is_estimated("ulam", n)
    assert not is_estimated("ulam", n - 1)
    source = choose_method("ulam", scale_values(n), 60.0)
    assert source.method == TABLE
    error = table_uncertainty("ulam", n, alphas, 60.0)
    assert (error.log_z < 0.1).all()
    distances = np.arange(n)
    for alpha, for_log_z, for_slope in zip(alphas, *error, strict=True):
        logs = exact_partition.ulam_log_counts(n) - alpha / n * distances
        assert abs(log_z_at(source, alpha) - np.logaddexp.reduce(logs)) < 5 * for_log_z
        below, above = (log_z_at(source, alpha + step) for step in (-0.01, 0.0))
        mean = np.average(distances, weights=np.exp(logs - logs.max()))
        assert abs((above - below) / 0.01 + mean / n) < 5 * for_slope


def test_errors_of_a_table_are_those_of_its_estimates(rough_tables, monkeypatch):
    """Estimates of what is known: the errors say how far off they are, over knots and between them."""
    monkeypatch.setattr(exact_partition, "SPEARMAN_LIMIT", 12)
    source = choose_method("spearman", scale_values(14), 10.0)
    alphas = np.geomspace(0.05, 9.5, 12)
    interpolated = np.array([log_z_at(source, alpha) for alpha in alphas])
    exact = np.array([exact_partition.spearman(14, alpha / 14)[0] for alpha in alphas])
    scores = (interpolated - exact) / table_uncertainty("spearman", 14, alphas, 10.0).log_z
    assert np.abs(scores).max() < 5
    assert np.abs(scores).max() > 0.2  # and they are not so large that anything would pass
