import doctest
import tomllib
from pathlib import Path

import pytest

from bmcd.cli.compare import read_config

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "baselines.md"


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(PAGE), module_relative=False, raise_on_error=True)
    assert result.attempted >= 8
    assert (tmp_path / "comparison" / "table.csv").exists()


def test_the_config_of_the_docs_is_one(tmp_path):
    text = PAGE.read_text().split("```toml\n")[1].split("```")[0]
    (tmp_path / "study.toml").write_text(text)
    assert read_config(tmp_path / "study.toml") == tomllib.loads(text)
