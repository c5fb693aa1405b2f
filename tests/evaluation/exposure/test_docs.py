import doctest
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_the_examples_of_the_docs_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = Path(__file__).parents[3] / "docs" / "rerank.md"
    result = doctest.testfile(str(file), module_relative=False, raise_on_error=True)
    assert result.attempted >= 10
