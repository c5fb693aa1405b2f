"""What "auto" found stays with the model: in its file, with and without users."""

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd import container
from bmcd.errors import StoreError
from bmcd.models.persistence import pack

CLICKS = bmcd.simulate(80, 10, consensuses=2, alpha=6.0, mean_clicks=3.0, seed=2).clicks


@pytest.fixture(scope="module")
def mixture():
    model = bmcd.BMCD(2).fit(CLICKS, draws=4, warmup=2, chains=2)
    model.choice_ = bmcd.choose_n_clusters(CLICKS, [1, 2, 3], draws=3, warmup=3, chains=2)
    return model


def test_the_choice_of_clusters_comes_back(mixture, tmp_path):
    mixture.save(tmp_path / "m.bmcd")
    saved, loaded = mixture.choice_, bmcd.load(tmp_path / "m.bmcd").choice_
    assert str(loaded) == str(saved)
    assert repr(loaded) == repr(saved)
    for name in ("table", "boxplot"):
        pd.testing.assert_frame_equal(getattr(loaded, name), getattr(saved, name), check_column_type=False)
    assert loaded.held_out_users.tolist() == saved.held_out_users.tolist()
    for c in (1, 2, 3):
        np.testing.assert_array_equal(loaded.log_likelihood[c], saved.log_likelihood[c])
        np.testing.assert_array_equal(loaded.within_distance[c], saved.within_distance[c])


def test_without_users_nothing_about_single_ones_is_kept(mixture, tmp_path):
    mixture.save(tmp_path / "m.bmcd", clicks=False)
    loaded = bmcd.load(tmp_path / "m.bmcd").choice_
    assert loaded.reason == mixture.choice_.reason
    assert dict(loaded.log_likelihood) == {}
    assert len(loaded.held_out_users) == 0


def test_the_choice_of_tastes_comes_back(tmp_path):
    model = bmcd.Tastes("auto", chains=2).fit(CLICKS, draws=2, warmup=2, thin=1)
    model.save(tmp_path / "m.bmcd")
    loaded = bmcd.load(tmp_path / "m.bmcd")
    assert str(loaded.choice_) == str(model.choice_)
    assert loaded.choice_.priors == model.choice_.priors
    assert f"({model.n_tastes_} chosen)" in repr(loaded)


def test_a_choice_by_few_users_is_not_kept_without_users():
    few = bmcd.Clicks.from_matrix(CLICKS.matrix[:20].toarray())
    model = bmcd.BMCD(2).fit(few, draws=4, warmup=2, chains=2)
    model.choice_ = bmcd.choose_n_clusters(few, [1, 2], draws=3, warmup=3, chains=2)
    assert model.choice_.n_held_out_users < 5
    assert pack(model, clicks=True)[0]["choice"] is not None
    assert pack(model, clicks=False)[0]["choice"] is None


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: header.update(choice=[]),
        lambda header, arrays: header.update(choice={"table": 1}),
        lambda header, arrays: header["choice"].update(n_training_users=-1),
        lambda header, arrays: header["choice"]["table"].update(n_clusters=["x"]),
        lambda header, arrays: header["choice"]["table"].update(n_clusters=[1, 2, 9]),
        lambda header, arrays: arrays.update({"choice/held_out_rows": np.array([-1])}),
        lambda header, arrays: arrays.update({"choice/held_out_rows": np.array([10**6])}),
        lambda header, arrays: arrays.update({"choice/log_likelihood/1": np.zeros(1)}),
        lambda header, arrays: arrays.pop("choice/within_distance/1"),
    ],
)
def test_a_choice_that_cannot_be_read_is_a_clean_error(mixture, tmp_path, change):
    mixture.save(tmp_path / "m.bmcd")
    _, header, arrays = container.read(tmp_path / "m.bmcd", "model")
    change(header, arrays)
    container.write(tmp_path / "m.bmcd", "model", header, arrays)
    with pytest.raises(StoreError, match="is damaged or was not written by bmcd"):
        bmcd.load(tmp_path / "m.bmcd")
