"""What "auto" found stays with the model: in its file, with and without users, and old files have none."""

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.errors import StoreError
from bmcd.models.choice_file import NAME
from bmcd.sampling import store

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


@pytest.mark.parametrize("junk", [b"", b"[]", b'{"table": 1}', b"\xff", b"{"])
def test_a_choice_that_cannot_be_read_is_a_clean_error(mixture, tmp_path, junk):
    mixture.save(tmp_path / "m.bmcd")
    stored = store.read(tmp_path / "m.bmcd", "model")
    header = {name: stored.header[name] for name in store.HEADER}
    store.write(tmp_path / "m.bmcd", header, {**stored.arrays, NAME: np.frombuffer(junk, np.uint8)})
    with pytest.raises(StoreError, match="is damaged or was not written by bmcd"):
        bmcd.load(tmp_path / "m.bmcd")
