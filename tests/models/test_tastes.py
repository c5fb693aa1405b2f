"""Tastes as people use it: the contract, files, fold-in, probabilities, verdict, refusals."""

import numpy as np
import pytest

import bmcd
from bmcd import container, testing
from bmcd.errors import FitWarning, InputError, StoreError
from bmcd.inference.tastes.priors import GammaPrior

SHORT = {"draws": 4, "warmup": 15, "thin": 2, "progress": False}


def two_kinds(seed=0, n_users=120, n_items=20):
    """Users who like the first items, the last ones, or both."""
    rng = np.random.default_rng(seed)
    law = np.exp(-np.arange(n_items) / 3.0)
    clicked = np.zeros((n_users, n_items), bool)
    for user in range(n_users):
        p = [law, law[::-1], law + law[::-1]][user % 3]
        clicked[user, rng.choice(n_items, 6, replace=False, p=p / p.sum())] = True
    return bmcd.Clicks.from_matrix(clicked, users=[f"u{u}" for u in range(n_users)])


@pytest.fixture(scope="module")
def clicks():
    return two_kinds()


@pytest.fixture(scope="module")
def model(clicks):
    return bmcd.Tastes(3, chains=4).fit(clicks, seed=5, **SHORT)


@pytest.mark.parametrize("ordered", [False, True])
def test_it_keeps_the_contract(ordered):
    clicks, fit = testing.example_clicks(ordered=ordered), {"draws": 2, "warmup": 5, "thin": 1}
    testing.check_recommender(lambda: bmcd.Tastes(3, chains=2), fit=fit, clicks=clicks)


@pytest.mark.parametrize("k", [1, 3, 13, 14, 15, 20])
def test_probabilities_sum_to_k(model, clicks, k):
    p = model.probabilities(k)
    left = clicks.n_items - clicks.per_user
    np.testing.assert_allclose(p.sum(axis=1), np.minimum(k, left), atol=1e-6)
    assert (p[clicks.matrix.toarray()] == 0).all()
    assert ((p >= 0) & (p <= 1)).all()


def test_the_same_clicks_give_the_same_probabilities_in_the_fit_and_outside(model, clicks):
    inside = model.recommend(4, users=["u7"])
    clicked = clicks.items[clicks.matrix[[7]].indices].tolist()
    outside = model.recommend_for({"u7": clicked}, 4)
    assert inside.equals(outside)
    alone = model.recommend_for([clicked], 4)
    assert alone["probability"].tolist() == inside["probability"].tolist()


def test_threads_change_no_byte(clicks):
    fits = [bmcd.Tastes(3, chains=4).fit(clicks, seed=2, n_threads=n, **SHORT) for n in (1, 2, 8)]
    frames = [fit.recommend(5, n_threads=n) for fit, n in zip(fits, (8, 1, 2), strict=True)]
    assert len({fit.draws_.rho.tobytes() + fit.draws_.probe.tobytes() for fit in fits}) == 1
    assert frames[0].equals(frames[1])
    assert frames[0].equals(frames[2])


def test_a_stopped_fit_goes_on_to_the_same_end(clicks, tmp_path):
    never_stopped = bmcd.Tastes(3, chains=2).fit(clicks, seed=1, **SHORT)
    file = tmp_path / "fit.checkpoint"
    bmcd.Tastes(3, chains=2).fit(clicks, seed=1, **SHORT | {"draws": 2}, checkpoint=file)
    resumed = bmcd.Tastes(3, chains=2).fit(clicks, seed=1, **SHORT, checkpoint=file)
    for name in ("rho", "alpha", "a", "b", "log_joint", "probe", "n_visits"):
        assert getattr(resumed.draws_, name).tobytes() == getattr(never_stopped.draws_, name).tobytes()
    with pytest.raises(StoreError, match="scale_rate"):
        bmcd.Tastes(3, chains=2, priors=bmcd.TastePriors(scale_rate=1.0)).fit(
            clicks, seed=1, **SHORT, checkpoint=file
        )


def test_a_time_budget_keeps_what_was_drawn(clicks):
    with pytest.warns(FitWarning, match="time budget"):
        model = bmcd.Tastes(3, chains=2).fit(clicks, draws=100_000, warmup=0, thin=1, max_time=0.5, progress=False)
    assert 1 <= model.draws_.n_draws < 100_000
    assert len(model.recommend(2)) == 240


@pytest.mark.parametrize("with_clicks", [True, False])
@pytest.mark.parametrize("options", [{}, {"distance": "kendall"}, {"rank_scale": "sqrt", "n_tastes": 2}])
def test_a_file_gives_the_same_answers(clicks, tmp_path, with_clicks, options):
    titled = clicks.with_titles({0: "Zero"})
    fitted = bmcd.Tastes(**{"n_tastes": 3, "chains": 2, **options}).fit(titled, seed=3, **SHORT)
    fitted.save(tmp_path / "m.bmcd", clicks=with_clicks)
    loaded = bmcd.load(tmp_path / "m.bmcd")
    assert isinstance(loaded, bmcd.Tastes)
    assert loaded.get_params() == fitted.get_params() | {"priors": loaded.priors}
    people = {"ann": [0, 3], "bob": []}
    assert loaded.recommend_for(people, 3).equals(fitted.recommend_for(people, 3))
    if with_clicks:
        assert loaded.recommend(3).equals(fitted.recommend(3))
        assert loaded.verdict_ == fitted.verdict_
    else:
        with pytest.raises(InputError, match="recommend_for"):
            loaded.recommend(3)
        assert loaded.draws_.probe.shape[2] == 0  # log probabilities of clicks of single users
        assert loaded.verdict_.text


@pytest.mark.parametrize("field", ["alpha", "rho", "a", "b", "log_joint"])
def test_a_hostile_file_is_refused(model, tmp_path, field):
    model.save(tmp_path / "m.bmcd")
    stored = container.read(tmp_path / "m.bmcd", "model")
    array = stored.arrays[f"draws/{field}"]
    array.reshape(-1)[0] = 0 if field == "rho" else -1 if field in ("alpha", "a", "b") else np.nan
    container.write(tmp_path / "bad.bmcd", "model", stored.header, stored.arrays)
    with pytest.raises(StoreError, match="damaged"):
        bmcd.load(tmp_path / "bad.bmcd")


def test_users_with_both_tastes_have_both(clicks):
    model = bmcd.Tastes(2, chains=4).fit(clicks, draws=4, warmup=60, thin=5, seed=1, progress=False)
    share = model.memberships()["1"].to_numpy()
    first, last, both = share[0::3], share[1::3], share[2::3]
    assert abs(first.mean() - last.mean()) > 0.5
    assert np.abs(both - 0.5).mean() < np.abs(first - 0.5).mean()
    np.testing.assert_allclose(model.memberships().drop(columns="user").sum(axis=1), 1.0)


def test_explanations_add_up(model, clicks):
    item = int(np.flatnonzero(~clicks.matrix[[5]].toarray()[0])[0])
    explanation = model.explain("u5", item, k=3)
    row = model.probabilities(3, users=["u5"])[0]
    assert explanation.probability == pytest.approx(row[item])
    assert sum(t.contribution for t in explanation.tastes) == pytest.approx(explanation.probability)
    assert f"item {item}".capitalize() in str(explanation)
    clicked = clicks.items[clicks.matrix[[5]].indices].tolist()
    assert model.explain("me", item, k=3, history=clicked).probability == explanation.probability
    with pytest.raises(InputError, match="has clicked"):
        model.explain("u5", clicked[0])


def test_tastes_are_summarised_by_visits(model):
    shares = [taste.share for taste in model.clusters_]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)
    assert str(model.clusters_[0]).startswith("Taste 1: ")
    assert sum(taste.n_users for taste in model.clusters_) == pytest.approx(120)


def test_the_verdict_is_about_what_is_used(clicks):
    few = bmcd.Tastes(3, chains=1).fit(clicks, **SHORT)
    assert few.verdict_.state == "too short"
    assert "one chain" in few.verdict_.text
    short = bmcd.Tastes(3, chains=2).fit(clicks, draws=2, warmup=0, thin=1, progress=False)
    assert short.verdict_.state == "too short"
    many = bmcd.Tastes(2, chains=8).fit(clicks, draws=10, warmup=100, thin=5, progress=False)
    assert many.verdict_.state == "converged", many.verdict_
    assert "8 chains" in many.verdict_.text


def test_nothing_need_be_set_aside(clicks, tmp_path):
    """Then the chains see every click: each has a visit, also those that are set aside otherwise."""
    fits = [bmcd.Tastes(3, chains=2).fit(clicks, set_aside=aside, **SHORT) for aside in (True, False)]
    assert [fit.draws_.probe.shape[2] for fit in fits] == [12, 0]
    assert fits[1].draws_.n_visits.min() >= clicks.n_clicks
    assert "clicks set aside is" in fits[0].verdict_.text
    assert "no clicks were set aside to show" in fits[1].verdict_.text
    assert "log probability of clicks set aside" not in fits[1].diagnostics().index
    fits[1].save(tmp_path / "m.bmcd")
    assert bmcd.load(tmp_path / "m.bmcd").recommend(3).equals(fits[1].recommend(3))
    file = tmp_path / "fit.checkpoint"
    bmcd.Tastes(3, chains=2).fit(clicks, **SHORT | {"draws": 2}, checkpoint=file)
    with pytest.raises(StoreError):
        bmcd.Tastes(3, chains=2).fit(clicks, **SHORT, checkpoint=file, set_aside=False)


def test_arviz_takes_it(model):
    tree = model.to_arviz()
    assert tree["posterior"]["rho"].shape == (4, 4, 3, 20)
    assert {"log joint", "a", "b"} <= set(model.diagnostics().index)


@pytest.mark.chance(0)
def test_auto_chooses_on_training_clicks(rotating_seed):
    clicks = two_kinds(rotating_seed % 1000, n_users=90)
    model = bmcd.Tastes("auto", chains=2).fit(clicks, seed=1, **SHORT)
    assert model.n_tastes_ == model.choice_.n_tastes <= clicks.n_items
    assert f"{model.n_tastes_} chosen" in repr(model)
    table = model.choice_.table
    chosen = table[(table["n_tastes"] == model.n_tastes_) & (table["behind"] == 0.0)]
    assert (chosen["concentration"] / model.n_tastes_ == model.draws_.a[0, 0, 0]).any()
    assert "held-out clicks" in model.choice_.reason


@pytest.mark.parametrize(
    ("options", "fit", "message"),
    [
        ({"n_tastes": 0}, {}, "n_tastes must be a whole number, 1 or more"),
        ({"n_tastes": "many"}, {}, "'auto'"),
        ({"distance": "ulam"}, {}, "footrule, kendall, cayley, hamming"),
        ({}, {"draws": 0}, "draws must be"),
        ({}, {"chains": 0}, "chains must be"),
        ({"rank_scale": "cubic"}, {}, "cubic"),
    ],
)
def test_what_is_refused(clicks, options, fit, message):
    with pytest.raises(InputError, match=message):
        bmcd.Tastes(**{"n_tastes": 2, "chains": 1, **options}).fit(clicks, **{**SHORT, **fit})


@pytest.mark.parametrize("bad", [{"a": -1.0}, {"b": 0.0}, {"scale_rate": float("nan")}])
def test_priors_that_are_refused(bad):
    with pytest.raises(InputError, match="must be a number above 0"):
        bmcd.TastePriors(**bad)


def test_learnt_concentration_is_kept(clicks):
    priors = bmcd.TastePriors(a=GammaPrior(2.0, 4.0))
    model = bmcd.Tastes(3, chains=2, priors=priors).fit(clicks, **SHORT)
    assert np.ptp(model.draws_.a) > 0


def test_awkward_clicks():
    """One user, one item, everything clicked, nothing clicked."""
    everything = np.ones((3, 4), bool)
    everything[1] = False
    for matrix in (everything, np.eye(2, 1, dtype=bool), np.eye(1, 5, dtype=bool)):
        model = bmcd.Tastes(2, chains=2).fit(bmcd.Clicks.from_matrix(matrix), **SHORT)
        p = model.probabilities(2)
        np.testing.assert_allclose(p.sum(axis=1), np.minimum(2, (~matrix).sum(axis=1)), atol=1e-6)
