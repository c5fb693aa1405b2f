"""Files that the version before the rooms wrote still open, and give the same recommendations."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bmcd

FOLDER = Path(__file__).with_name("before_rooms")
K = 3


@pytest.fixture(autouse=True)
def nothing_left_out(monkeypatch):
    """With what is left out now, probabilities differ by up to 0.001 from those in the files; near ties swap."""
    monkeypatch.setattr("bmcd.prediction.predictor.LEFT_OUT", 0.0)


def assert_same_recommendations(recommended, file):
    expected = pd.read_csv(file)
    assert recommended.columns.tolist() == expected.columns.tolist()
    for name in expected:
        if name in ("probability", "mcse"):
            # They were written when each cluster with less than 1e-5 was left out, of up to three.
            np.testing.assert_allclose(recommended[name], expected[name], rtol=1e-9, atol=3e-5)
        else:
            assert recommended[name].tolist() == expected[name].tolist()


@pytest.mark.parametrize("name", ["footrule", "paper", "kendall", "auto"])
def test_a_model_with_its_clicks(name):
    assert_same_recommendations(bmcd.load(FOLDER / f"{name}.bmcd").recommend(k=K), FOLDER / f"{name}.csv")


def test_a_model_without_its_clicks():
    model = bmcd.load(FOLDER / "without_clicks.bmcd")
    two_people = [model.clicks_.items.tolist()[:2], []]
    assert_same_recommendations(model.recommend_for(two_people, k=K), FOLDER / "without_clicks.csv")


def test_a_checkpoint_is_continued(tmp_path, monkeypatch):
    """It ends where a run that was never stopped ends.

    A checkpoint of another version is refused, since draws may differ; that of this one says 0.1.0.
    """
    clicks = bmcd.read_clicks(FOLDER / "clicks.csv")
    titles = {item: f"Item {item}" for item in clicks.items.tolist()[:6]}
    clicks = bmcd.Clicks.from_frame(clicks.to_frame(), titles=titles)
    run = {"draws": 120, "warmup": 4, "chains": 2, "seed": 3, "progress": False}
    file = tmp_path / "stopped.checkpoint"
    shutil.copy(FOLDER / file.name, file)
    with monkeypatch.context() as patch:
        patch.setattr("bmcd.sampling.checkpoint.__version__", "0.1.0")
        patch.setattr("bmcd.sampling.posterior.initial_state", pytest.fail)  # asked only by a run that starts anew
        resumed = bmcd.BMCD(2).fit(clicks, **run, checkpoint=file)
    never_stopped = bmcd.BMCD(2).fit(clicks, **run)
    # Before, a sweep ended with one more move of the latent rankings, which nothing but the log joint shows: it is
    # another one up to the stop, some hundred draws. And likelihoods were summed in another order: the last bits.
    for field in ("alpha", "tau"):
        np.testing.assert_allclose(getattr(resumed.draws_, field), getattr(never_stopped.draws_, field), rtol=1e-9)
    np.testing.assert_allclose(
        resumed.draws_.log_joint[:, -20:], never_stopped.draws_.log_joint[:, -20:], rtol=1e-9
    )
    assert resumed.draws_.rho.tobytes() == never_stopped.draws_.rho.tobytes()
