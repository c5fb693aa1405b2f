"""Examples in README and docstrings write their files into a folder of their own."""

import pytest


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request, tmp_path_factory, monkeypatch):
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path_factory.mktemp("example"))
