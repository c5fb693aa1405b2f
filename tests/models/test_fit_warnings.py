"""What models warn of: fits that have not converged, numbers at the edge, lists that must be short."""

import warnings

import numpy as np
import pytest

import bmcd
from bmcd.errors import BmcdWarning, ConvergenceWarning, FitWarning, ShortListWarning
from bmcd.inference.diagnostics import Verdict
from bmcd.models.shared_fit import warn_about_fit

CLICKS = bmcd.simulate(60, 12, consensuses=2, alpha=5.0, mean_clicks=4.0, seed=3).clicks


def fitted(model=None, **options):
    """Return a model and the warnings of its fit."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = (model or bmcd.BMCD(2)).fit(CLICKS, **{"draws": 4, "warmup": 2, "chains": 2} | options)
    return model, said


@pytest.mark.parametrize("model", [bmcd.BMCD(2), bmcd.Tastes(5)], ids=["BMCD", "Tastes"])
def test_a_fit_that_has_not_converged_says_so_once_and_what_to_do(model):
    model, said = fitted(model, draws=2)
    (warning,) = said
    assert warning.category is ConvergenceWarning
    assert warning.filename == __file__
    assert model.verdict_.text in str(warning.message)
    assert "draws=" in str(warning.message)
    assert not model.converged_
    assert repr(model).endswith("too short to tell whether it converged")
    shown = model._repr_mimebundle_()
    assert shown["text/plain"] == repr(model)
    assert shown["text/html"] == f"<pre>{model!r}</pre>"


def test_a_stop_and_no_convergence_are_one_warning(tmp_path):
    _, said = fitted(draws=100_000, max_time=4.0, checkpoint=tmp_path / "c")
    (warning,) = said
    assert issubclass(warning.category, FitWarning)
    assert str(warning.message).count("stopped by the time budget") == 1
    assert "the checkpoint" in str(warning.message)


def test_convergence_is_silent_and_the_edge_is_told():
    draws = fitted()[0].draws_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_fit(Verdict("converged", "Converged."), draws)
    with pytest.warns(FitWarning, match="^at the edge$") as said:
        warn_about_fit(Verdict("converged", "Converged."), draws, "at the edge")
    assert said[0].category is FitWarning
    with pytest.warns(ConvergenceWarning, match=r"^at the edge Not converged\. Draw more\.$"):
        warn_about_fit(Verdict("not converged", "Not converged.", ("Draw more.",)), draws, "at the edge")


def test_lists_that_must_be_short_are_told():
    model = fitted()[0]
    most = int(CLICKS.per_user.max())
    left = 12 - most
    users = (CLICKS.per_user == most).sum()
    with pytest.warns(
        ShortListWarning, match=f"k = {left + 1} is more than the items left for {users} of 60 users"
    ):
        frame = model.recommend(k=left + 1)
    user = CLICKS.users[CLICKS.per_user.argmax()]
    own = frame[frame["user"] == user]
    assert len(own) == left
    assert np.allclose(own["probability"], 1.0)
    model.recommend(k=left)  # an error if it warned
    with pytest.warns(BmcdWarning, match="1 of 2 users"):
        model.recommend_for([CLICKS.items[:3].tolist(), []], k=10)
