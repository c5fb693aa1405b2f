"""The scripts of published protocols: files are read safely, and measures are what they say."""

import importlib.util
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

FOLDER = Path(__file__).parents[2] / "benchmarks"


def script(name):
    found = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sessions():
    return script("sessions")


@pytest.fixture(scope="module")
def pairs():
    return script("pairs")


class Evil:
    """What a hostile pickle does: it runs a command when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_sessions_are_read_and_nothing_in_them_runs(sessions, tmp_path, protocol):
    path, made = tmp_path / "s.pickle", tmp_path / "made"
    path.write_bytes(pickle.dumps([[3, 1], [2], [], [5, 5, 7]], protocol))
    assert sessions.read_sessions(path) == [[3, 1], [2], [5, 5, 7]]
    path.write_bytes(pickle.dumps([[3, 1], Evil(made)], protocol))
    with pytest.raises(pickle.UnpicklingError, match="nothing of it was run"):
        sessions.read_sessions(path)
    assert not made.exists()
    path.write_bytes(pickle.dumps([[3, 1], np.arange(3)], protocol))  # an array is a class too
    with pytest.raises(pickle.UnpicklingError):
        sessions.read_sessions(path)
    path.write_bytes(pickle.dumps([[3, "a"]], protocol))
    with pytest.raises(ValueError, match="list of lists of item numbers"):
        sessions.read_sessions(path)


def test_prefixes_become_sessions_and_text_is_read(sessions, tmp_path):
    path = tmp_path / "s.pkl"
    path.write_bytes(pickle.dumps(([[1, 2], [1], [4], [4, 5]], [3, 2, 5, 6])))
    assert sessions.read_sessions(path) == [[1, 2, 3], [4, 5, 6]]
    path = tmp_path / "s.txt"
    path.write_text("1 2 3\n\n4,5\n")
    assert sessions.read_sessions(path) == [[1, 2, 3], [4, 5]]


def test_measures_of_sessions(sessions):
    import pandas as pd

    class Fixed:
        def recommend_for(self, histories, k, unknown):
            rows = [(user, item, rank) for user in range(len(histories)) for rank, item in enumerate((7, 8), 1)]
            return pd.DataFrame(rows, columns=["user", "item", "rank"])

    cases = sessions.cases_of([[1, 7, 8], [2, 9], [3]], None)
    assert cases == [([1], 7), ([1, 7], 8), ([2], 9)]
    precision, reciprocal, _ = sessions.measure(Fixed(), cases, True)
    assert precision == pytest.approx(200 / 3)
    assert reciprocal == pytest.approx(100 * (1 + 0.5) / 3)


def test_measures_of_pairs(pairs):
    test = sparse.csr_array(np.array([[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool))
    lists = np.full((3, 50), -1)
    lists[0, :3], lists[1, :2] = [2, 0, 1], [0, 1]
    found = pairs.measures(lists, test)
    first = (1 / np.log2(3) + 1 / np.log2(4)) / (1 + 1 / np.log2(3))
    assert found["nDCG@10"][0] == pytest.approx(100 * (first + 0) / 2)
    assert found["recall@20"][0] == pytest.approx(50.0)


def test_the_parts_of_each_user_are_random_tenths(pairs):
    clicks = pairs.simulated(200, 300, 60)
    train, valid, test = pairs.split(clicks, 0)
    assert (train + valid + test).nnz == clicks.n_clicks == train.nnz + valid.nnz + test.nnz
    share = np.diff(train.indptr) / np.diff(clicks.matrix.indptr)
    assert np.abs(share - 0.8).max() < 0.03
    again = pairs.split(clicks, 0)
    assert all((one != two).nnz == 0 for one, two in zip((train, valid, test), again, strict=True))
    assert (pairs.split(clicks, 1)[0] != train).nnz


def test_ials_is_a_minimum(pairs):
    """After the last solve no item factor can be moved without raising the loss that the docstring names."""
    rng = np.random.default_rng(0)
    matrix = sparse.csr_array(rng.random((30, 20)) < 0.3)
    model = pairs.IALS(4, 0.05, 0.2).fit(matrix)
    dense = matrix.toarray().astype(float)

    def loss(items):
        scores = model.users @ items.T
        fit = (dense * (1 - scores) ** 2).sum() + 0.2 * (scores**2).sum()
        weight = 0.05 * (dense.sum(axis=0) + 0.2 * 30)
        return fit + (weight * (items**2).sum(axis=1)).sum()

    best = loss(model.items)
    for _ in range(20):
        assert loss(model.items + 1e-3 * rng.normal(size=model.items.shape)) > best
