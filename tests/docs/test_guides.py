"""The examples of the guides that belong to no single room run, and print what the page says."""

import doctest
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "n"), [("reading_data.md", 9), ("tuning.md", 6), ("diversity.md", 18)])
def test_the_examples_of_a_guide_run(page, n, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCS / page), module_relative=False, raise_on_error=True)
    assert result.attempted == n


def test_the_price_of_diversity_is_what_was_measured():
    """Every row of the table of docs/diversity.md has the numbers that benchmarks/diversity.py wrote."""
    measured = json.loads((DOCS.parent / "benchmarks" / "diversity.json").read_text())
    text = (DOCS / "diversity.md").read_text()
    lines = [
        " | ".join((
            row["rules"], f"{row['groups']:.2f}", f"{100 * row['three_or_more']:.1f} %",
            f"{100 * row['hit_rate']:.2f} %",
            f"{100 * row['change']:.2f} ± {100 * row['standard_error']:.2f}", f"{100 * row['predicted']:.2f} %",
        ))
        for row in measured["rows"]
    ]  # fmt: skip
    quoted = text[text.index("| rules |") :].split("\n\n")[0].splitlines()[2:]
    assert len(quoted) >= 7
    assert {line.strip("| ") for line in quoted} <= set(lines)
    assert f"({measured['users']} users" in text
    assert f"k = {measured['k']};" in text
