"""What newcomers try first, and the call that each message names instead."""

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.baselines import EASE
from bmcd.errors import BmcdError, InputTypeError

MODELS = (bmcd.BMCD(2), bmcd.Tastes(2), EASE())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(
    ("clicks", "said"),
    [
        (np.ones((3, 3)), r"For a matrix of users x items: bmcd.Clicks.from_matrix\(matrix\)"),
        ("log.csv", r"For a file: bmcd.read_clicks\('log.csv'\)"),
        (
            pd.DataFrame({"customer": [1], "item": [2]}),
            r"no column 'user'; .* bmcd.Clicks.from_frame\(frame, user='...', item='item'\)",
        ),
    ],
)
def test_fit_names_the_call_that_was_meant(model, clicks, said):
    with pytest.raises(BmcdError, match=said):
        model.fit(clicks)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            bmcd.BMCD(2, priors={"rate": 1}),
            r"priors must be made by bmcd.Priors\(rate=1\), not given as {'rate': 1}",
        ),
        (bmcd.BMCD(2, priors={}), r"bmcd.Priors\(rate=..., concentration=...\), not given as {}"),
        (
            bmcd.BMCD(2, priors=bmcd.TastePriors()),
            r"bmcd.Priors\(rate=..., concentration=...\), not given as Taste",
        ),
        (bmcd.Tastes(2, priors={"a": 0.5}), r"priors must be made by bmcd.TastePriors\(a=0.5\)"),
        (bmcd.Tastes("auto", priors={"lambda": 1}), r"bmcd.TastePriors\(scale_rate=..., a=..., b=...\)"),
    ],
)
def test_priors_that_are_none(model, said):
    with pytest.raises(InputTypeError, match=said):
        model.fit(bmcd.simulate(n_users=60, n_items=12, consensuses=2, seed=1).clicks)


def test_rows_that_were_dropped_are_still_told_by_the_model_file(tmp_path):
    frame = pd.DataFrame({"user": ["a", "a", "b", "b", None], "item": [1, 2, 2, 3, 1]})
    clicks = bmcd.Clicks.from_frame(frame, missing="drop")
    bmcd.BMCD(1).fit(clicks, draws=2, warmup=1, chains=1).save(tmp_path / "m.bmcd")
    back = bmcd.load(tmp_path / "m.bmcd").clicks_
    assert (back.n_dropped, back.summary()) == (1, clicks.summary())
