import numpy as np
import pytest

import bmcd
from bmcd.simulation import paper_consensuses


def test_the_papers_study_by_default():
    simulation = bmcd.simulate(seed=1)
    assert simulation.ranks.shape == (3000, 50)
    assert np.bincount(simulation.labels).tolist() == [1000, 1000, 1000]
    assert simulation.alpha.tolist() == [3.0, 3.0, 3.0]
    np.testing.assert_array_equal(np.sort(simulation.ranks, axis=1), np.tile(np.arange(1, 51), (3000, 1)))


def test_the_third_consensus_is_repaired():
    rho = paper_consensuses()
    assert (np.sort(rho, axis=1) == np.arange(1, 51)).all()
    assert rho[2, 0] == 39
    assert rho[2, -2] == 33
    assert rho[2, -1] == 17


def test_clicked_items_come_first():
    simulation = bmcd.simulate(n_users=200, seed=2)
    clicked = simulation.clicks.matrix.toarray()
    n_clicked = clicked.sum(axis=1)
    assert n_clicked.min() >= 1
    np.testing.assert_array_equal(clicked, simulation.ranks <= n_clicked[:, None])
    following = simulation.next_items(5).matrix.toarray()
    assert (following.sum(axis=1) == 5).all()
    assert not (following & clicked).any()


def test_number_of_clicks_is_poisson_conditioned_on_at_least_one():
    clicks = np.diff(bmcd.simulate(n_users=20_000, seed=3).clicks.matrix.indptr)
    mean = 5 / (1 - np.exp(-5))
    # Five standard errors; the seed is fixed, so this either always passes or never.
    assert clicks.mean() == pytest.approx(mean, abs=5 * np.sqrt(5 / 20_000))
    few = bmcd.simulate(n_users=500, n_items=3, consensuses=2, mean_clicks=10, seed=3).clicks
    assert np.diff(few.matrix.indptr).max() <= 3


@pytest.mark.chance(1e-5)
def test_rankings_lie_at_the_expected_distance(rotating_seed, times):
    simulation = bmcd.simulate(3000 * times, seed=rotating_seed)
    d = bmcd.mallows.distance(simulation.ranks, simulation.rho[simulation.labels])
    expected = bmcd.mallows.expected_distance(50, 3.0)
    assert abs(d.mean() - expected) < 5 * d.std() / np.sqrt(d.size)  # false alarm 6e-7


def test_seed_decides_everything():
    first, again, other = (bmcd.simulate(n_users=50, seed=s) for s in (4, 4, 5))
    assert first.clicks == again.clicks
    assert first.clicks != other.clicks


def test_own_parameters():
    simulation = bmcd.simulate(n_users=11, n_items=4, consensuses=[[1, 2, 3, 4], [4, 3, 2, 1]], alpha=[1e6, 1e6])
    assert np.bincount(simulation.labels).tolist() == [6, 5]
    np.testing.assert_array_equal(simulation.ranks, simulation.rho[simulation.labels])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_items": 20}, "50 items, not 20"),
        ({"n_users": 0}, "at least one user"),
        ({"mean_clicks": 0}, "mean_clicks"),
        ({"alpha": [1.0, 2.0]}, "3 clusters"),
        ({"alpha": -1.0}, "alpha"),
        ({"consensuses": 0}, "clusters"),
        ({"consensuses": [[1, 1, 2]], "n_items": 3}, "consensuses"),
        ({"consensuses": [[1, 2, 3]], "n_items": 4}, "n_items is 4"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(ValueError, match=message):
        bmcd.simulate(**change)


def test_next_items_needs_a_positive_k():
    with pytest.raises(ValueError, match="at least 1"):
        bmcd.simulate(n_users=3).next_items(0)


def test_a_simulated_log_has_tail_drift_repeats_and_sessions():
    import pandas as pd

    hours = list(bmcd.simulate_log(4_000, 1_000, mean_clicks=12.0, days=6, seed=3))
    assert len(hours) == 6 * 24
    log = pd.DataFrame({name: np.concatenate([hour[name] for hour in hours]) for name in ("user", "item", "time")})
    # 15,000 sessions of 3.2 clicks: a relative standard error of 1.1 %; five of them.
    assert abs(len(log) / (4_000 * 12.0) - 1) < 0.055
    counts = log["item"].value_counts()
    assert counts.max() > 50 * counts.median()  # a long tail
    days = (log["time"] - log["time"].min()) // 86_400
    first, last = (set(log["item"][days == day].value_counts().index[:20]) for day in (0, 5))
    assert len(first & last) < 15  # what is popular changes
    assert 0.05 < log.duplicated(["user", "item"]).mean() < 0.5
    gaps = log.sort_values(["user", "time"]).groupby("user")["time"].diff().dropna()
    assert 0.5 < (gaps < 1_800).mean() < 0.9  # sessions, and pauses between them
    again = next(iter(bmcd.simulate_log(4_000, 1_000, mean_clicks=12.0, days=6, seed=3)))
    assert all((again[name] == hours[0][name]).all() for name in again)
    with pytest.raises(bmcd.errors.InputError, match="must be positive"):
        next(iter(bmcd.simulate_log(0, 10)))
    with pytest.raises(bmcd.errors.InputError, match=r"repeats must be .* at most 0.4"):
        next(iter(bmcd.simulate_log(5, 10, follow=0.6, repeats=0.5)))


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_share_of_repeats_is_that_asked_for(share):
    """Of 33,000 further clicks (standard error .003); .037 are repeated by chance where none is asked for, and
    a few that count as further begin another session soon after the last.
    """
    import pandas as pd

    hours = bmcd.simulate_log(3_000, 50_000, mean_clicks=15.0, days=3, follow=0.0, repeats=share, seed=1)
    log = pd.concat([pd.DataFrame(hour) for hour in hours]).sort_values(["user", "time"], kind="stable")
    further = log.groupby("user")["time"].diff() < 1_800
    session = (~further).cumsum()
    again = log.assign(session=session).duplicated(["session", "item"])[further]
    assert share - 0.01 < again.mean() < share + 0.05
