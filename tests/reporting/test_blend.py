"""The report on a blend: next clicks, past windows, members, reasons, groups of another model, diversity."""

import itertools

import pandas as pd
import pytest

import bmcd
from bmcd.evaluation.diversify import diversity_price
from bmcd.reporting.context import make_context
from bmcd.reporting.page import percent

CHAINS = {"draws": 4, "warmup": 5, "chains": 2, "thin": 2}


@pytest.fixture(scope="module")
def clicks():
    clicks = bmcd.simulate(150, 15, consensuses=2, alpha=5.0, mean_clicks=6.0, seed=3).clicks.at_least(4)
    return clicks.hold_out(2, seed=3)


@pytest.fixture(scope="module")
def blend(clicks):
    models = {"Tastes": bmcd.Tastes(3), "EASE": bmcd.baselines.EASE(30.0)}
    return bmcd.Blend(models).fit(clicks[0], seed=1, fit_options={"Tastes": CHAINS})


@pytest.fixture(scope="module")
def texts(blend, clicks, read_page, tmp_path_factory):
    path = tmp_path_factory.mktemp("blend") / "r.html"
    bmcd.report(blend, *clicks, path, k=2)
    return read(read_page, path)


@pytest.fixture(scope="module")
def shop():
    """Earlier and later visits of the shop, and the default blend fitted to the earlier ones."""
    earlier, later = bmcd.load_dataset("eshop").of_users(range(6000)).split_users(0.8)
    return bmcd.Blend().fit(earlier, n_threads=1), earlier, later


@pytest.fixture(scope="module")
def visits(shop, read_page, tmp_path_factory):
    """The texts of a report on later visits."""
    model, earlier, later = shop
    histories, test = later.moments(k=3, seed=1)
    path = tmp_path_factory.mktemp("visits") / "r.html"
    bmcd.report(model, earlier, test, path, histories=histories, rivals={})
    return read(read_page, path)


def read(read_page, path):
    page = read_page(path.read_text("utf-8"))
    assert page.open == []
    return {name: " ".join(text.split()) for name, text in page.texts.items()}


def test_it_leads_with_the_next_clicks_predicted_beside_observed(shop, visits):
    model, earlier, later = shop
    histories, test = later.moments(k=3, seed=1)
    found = bmcd.evaluate(model.recommend_for(histories, k=3), earlier, test, histories=histories)
    predicted, observed = found.calibration.mean_probability, found.accuracy
    assert f"predicted {percent(predicted)}, observed {percent(observed)}" in visits["summary"]
    assert "among the user's next 3 clicks" in visits["summary"]
    for name in ("calibration", "cutoff", "comparison", "users", "data"):
        assert "3 new clicks after a random moment of each user (seed 1)" in visits[name], name
    assert "other users than those" in visits["data"]


def test_it_shows_the_verdict_and_the_past_windows(shop, visits):
    model = shop[0]
    assert model.verdict_.text in visits["convergence"]
    for window in model.windows_.itertuples():
        row = f"{window.label} {window.n:,} {percent(window.predicted)} {percent(window.observed)}"
        assert row in visits["convergence"]


def test_it_shows_members_with_gains_and_shares(shop, visits):
    model = shop[0]
    gains = model.gains_.set_index("member")
    for name, share in model.shares(3).items():
        gain = f" {gains.gain[name]:,.1f} ± {gains.standard_error[name]:,.1f}" if name in gains.index else ""
        assert f"{name} {percent(share)}{gain}" in visits["blend"]


def test_example_users_have_reasons_and_hits_of_the_next_clicks_alone(shop, visits):
    model, earlier, later = shop
    histories, test = later.moments(k=5, seed=1)
    results = make_context(model, earlier, test, k=(2,), rivals={}, histories=histories)
    (for_k,) = results.by_k
    for user in results.examples:
        column = int(for_k.lists.items[user.row, 0])
        own = histories.items[list(user.clicked[::-1])].tolist()
        short = model.explain(None, earlier.items[column], 2, history=own).short
        assert user.reasons.get(column, "") == short
        next_ones = test.sequence[test.starts[user.row] : test.starts[user.row] + 2]
        assert for_k.relevant(user.row) == frozenset(next_ones.tolist())
    assert any("It often follows" in text or "It goes together" in text for text in [visits["users"]])


def test_without_a_model_with_clusters_there_is_no_section_of_groups(visits):
    assert "groups" not in visits


def test_groups_are_those_of_the_model_given(shop, read_page, tmp_path):
    model, earlier, _ = shop
    tastes = bmcd.Tastes(3).fit(earlier.most_clicked(30).at_least(6), seed=1, **CHAINS)
    path = bmcd.report(model, earlier, None, tmp_path / "r.html", k=3, clusters=tastes)
    texts = read(read_page, path)
    assert "Users have several of 3 tastes" in texts["groups"]
    assert "They come from a Tastes model." in texts["groups"]
    assert "Visits taste" in texts["users"]
    with pytest.raises(bmcd.errors.InputError, match="items that the model does not have"):
        bmcd.report(
            bmcd.Blend(bmcd.baselines.EASE()).fit(earlier.most_clicked(20)), path=path, k=2, clusters=tastes
        )
    with pytest.raises(TypeError, match="clusters must be a fitted BMCD or Tastes, not EASE"):
        bmcd.report(model, path=path, clusters=bmcd.baselines.EASE())


def test_later_clicks_of_users_of_the_fit(read_page, tmp_path):
    """A log with times: the report of a blend tested on what known users clicked after the fit."""
    shop = bmcd.load_dataset("eshop").of_users(range(3000))
    rows = [(user, item) for user, items in enumerate(lists_of(shop)) for item in items]
    frame = pd.DataFrame(rows, columns=["user", "item"])
    frame["user"] %= 600
    frame["time"] = pd.Timestamp("2026-05-01") + pd.to_timedelta(range(len(frame)), unit="min")
    log = bmcd.Clicks.from_frame(frame)
    train, test = log.split_at("2026-05-08", k=3)
    model = bmcd.Blend(refresh="1d").fit(train, n_threads=1)
    texts = read(read_page, bmcd.report(model, train, test, tmp_path / "r.html", k=3, rivals={}))
    assert "each user's first 3 new clicks from 2026-05-08" in texts["calibration"].lower()
    assert "1d each" in texts["convergence"]
    assert "as of 2026-05-07" in texts["method"]


def lists_of(clicks):
    return [clicks.items[clicks.sequence[a:b]].tolist() for a, b in itertools.pairwise(clicks.starts)]


def test_it_says_how_given_models_do_alone(texts, blend, clicks):
    for name, share in blend.shares(2).items():
        alone = bmcd.evaluate(blend.models_[name].recommend(2), *clicks, k=2)
        assert f"{name} {percent(share)} " in texts["blend"]
        assert f" {percent(alone.accuracy)} " in texts["blend"]


def test_its_models_are_beside_it_and_the_default_of_the_same_kind_is_not(texts, blend, clicks):
    results = make_context(blend, *clicks, k=2)
    assert results.parts == {"Tastes": "Tastes", "EASE": "EASE"}
    assert "EASE" not in results.baselines
    assert "Popularity" in results.baselines
    assert results.by_k[0].tested.entries["EASE"].model is blend.models_["EASE"]
    own = make_context(blend, *clicks, k=2, rivals={"EASE": bmcd.baselines.EASE(5.0)})
    assert own.parts == {"Tastes": "Tastes", "EASE": "EASE alone"}
    assert "works best here" in texts["summary"]


def test_groups_are_those_of_its_tastes(texts, blend):
    best = blend.models_["Tastes"].clusters_[0]
    assert "Users have several of 3 tastes" in texts["groups"]
    assert f"Taste 1: {percent(best.share)} of visits" in texts["groups"]
    assert "Visits taste" in texts["users"]


def test_the_method_names_each_model(texts):
    text = texts["method"]
    assert "Tastes: Tastes(n_tastes=3); EASE: EASE(regularization=30.0)" in text
    assert "Tastes: chains 2, each 5 sweeps of warm-up and 4 draws" in text
    assert "clicks that were held out at random" in text


def test_models_of_rankings_say_what_their_probability_refers_to(page):
    for name in ("summary", "calibration", "users"):
        assert "refers to the model's own ranking" in page.texts[name]


def test_histories_are_for_one_model(shop, tmp_path):
    model, earlier, later = shop
    histories, test = later.moments(k=3)
    with pytest.raises(bmcd.errors.InputError, match="two models, or histories, not both"):
        bmcd.report({"a": model, "b": model}, earlier, test, tmp_path / "r.html", histories=histories)


def test_the_price_of_diversity_is_the_model_minus_the_others(blend, clicks):
    compared = bmcd.compare({"Blend": blend, **blend.models_}, *clicks, k=2)
    price = {price.other: price for price in diversity_price(compared)}["EASE"]
    difference = compared.value("Blend", "rare_share") - compared.value("EASE", "rare_share")
    assert price.rare_share.difference == pytest.approx(difference)
    assert price.rare_share.low <= price.rare_share.difference <= price.rare_share.high
    shown = compared.value("Blend", "coverage") - compared.value("EASE", "coverage")
    assert price.coverage == (shown, None, None)
