"""A fit that starts from an earlier one: with new users and items, and as good after few sweeps."""

import numpy as np
import pytest

import bmcd
from bmcd.errors import InputError, StoreError
from bmcd.inference.bmcd.initial import mixture_after
from bmcd.inference.draws import match_items

UP = np.arange(1, 16)
RUN = {"draws": 5, "chains": 2, "seed": 1, "progress": False}


@pytest.fixture(scope="module")
def clicks():
    return bmcd.simulate(240, 15, consensuses=[UP, UP[::-1]], alpha=6.0, mean_clicks=4.0, seed=3).clicks


@pytest.fixture(scope="module")
def half(clicks):
    """Half of the users, without the three items 0, 7 and 14."""
    frame = clicks.to_frame()
    users = set(clicks.users[::2].tolist())
    return bmcd.Clicks.from_frame(frame[frame["user"].isin(users) & ~frame["item"].isin([0, 7, 14])])


@pytest.fixture(scope="module")
def earlier(half):
    return bmcd.BMCD(2).fit(half, warmup=30, **RUN)


def test_a_chain_starts_at_a_draw_of_the_earlier_fit(clicks, half, earlier):
    previous = match_items(earlier.draws_, half.items, clicks.items)
    state = mixture_after(clicks.matrix, previous, chain=1, rank_scale="linear")
    last = earlier.draws_.rho[1, -1]
    old = [clicks.items.tolist().index(item) for item in half.items.tolist()]
    for c in range(2):
        # Old items keep their order.
        assert (np.argsort(state.rho[c][old]) == np.argsort(last[c])).all()
        assert sorted(state.rho[c]) == UP.tolist()
    np.testing.assert_array_equal(state.alpha, earlier.draws_.alpha[1, -1])
    # New items stand where their clicks put them: 0 first and 14 last in one cluster, the reverse in the other.
    first, last_, middle = (clicks.items.tolist().index(item) for item in (0, 14, 7))
    up = int(state.rho[1, first] < state.rho[0, first])
    assert state.rho[up, first] <= 3
    assert state.rho[up, last_] >= 11
    assert state.rho[1 - up, first] >= 11
    assert state.rho[1 - up, last_] <= 3
    assert 4 <= state.rho[up, middle] <= 12


def test_more_chains_than_before_start_at_earlier_draws(clicks, half, earlier):
    previous = match_items(earlier.draws_, half.items, clicks.items)
    assert [previous.place(chain) for chain in range(5)] == [(0, 4), (1, 4), (0, 3), (1, 3), (0, 2)]


def test_without_warm_up_it_is_as_good_as_a_fit_with(clicks, earlier):
    warm = bmcd.BMCD("auto").fit(clicks, start=earlier, warmup=2, **RUN)
    long = bmcd.BMCD(2).fit(clicks, warmup=60, **RUN)
    random = bmcd.BMCD(2, start="random").fit(clicks, warmup=2, **RUN)
    assert warm.n_clusters_ == 2
    spread = long.draws_.log_joint.std() + 5.0
    assert abs(warm.draws_.log_joint.mean() - long.draws_.log_joint.mean()) < 5 * spread
    assert random.draws_.log_joint.mean() < long.draws_.log_joint.mean() - 5 * spread


def test_tastes_start_from_tastes(clicks, half):
    earlier = bmcd.Tastes(3, chains=2).fit(half, draws=3, warmup=40, seed=1, progress=False)
    warm = bmcd.Tastes("auto").fit(clicks, start=earlier, draws=3, warmup=2, chains=2, progress=False)
    assert (warm.n_tastes_, warm.clicks_.n_items) == (3, 15)
    long = bmcd.Tastes(3, chains=2).fit(clicks, draws=3, warmup=60, seed=1, progress=False)
    assert warm.draws_.log_probability.mean() > long.draws_.log_probability.mean() - 0.1


def test_the_file_of_such_a_fit_opens_and_can_be_fitted_again(clicks, half, earlier, tmp_path):
    for kind, number in ((bmcd.BMCD, 2), (bmcd.Tastes, 2)):
        before = (
            earlier if kind is bmcd.BMCD else kind(number, chains=2).fit(half, draws=2, warmup=5, progress=False)
        )
        model = kind(number).fit(clicks, start=before, draws=4, warmup=2, chains=2, progress=False)
        model.save(tmp_path / "m.bmcd")
        other = bmcd.load(tmp_path / "m.bmcd")
        assert other.recommend(k=3).equals(model.recommend(k=3))
        other.fit(clicks, draws=4, warmup=2, chains=2, progress=False)


def test_a_checkpoint_of_another_start_is_not_resumed(clicks, earlier, tmp_path):
    file = tmp_path / "c"
    bmcd.BMCD(2).fit(clicks, start=earlier, checkpoint=file, warmup=2, **RUN)
    bmcd.BMCD(2).fit(clicks, start=earlier, checkpoint=file, warmup=2, **RUN)  # the same: goes on
    with pytest.raises(StoreError, match="start is 'previous"):
        bmcd.BMCD(2).fit(clicks, checkpoint=file, warmup=2, **RUN)


def test_what_cannot_be_a_start_is_refused(clicks, earlier):
    with pytest.raises(InputError, match="must be 2 or 'auto', not 3"):
        bmcd.BMCD(3).fit(clicks, start=earlier, **RUN)
    with pytest.raises(InputError, match="must be a fitted Tastes"):
        bmcd.Tastes(2).fit(clicks, start=earlier)
    others = bmcd.Clicks.from_matrix([[1, 0], [1, 1]], items=["x", "y"])
    with pytest.raises(InputError, match="none of these items"):
        bmcd.BMCD(2).fit(others, start=earlier, **RUN)
