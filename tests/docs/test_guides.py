"""The examples of the guides that belong to no single room run, and print what the page says."""

import doctest
import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from bmcd.cli import app

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "n"), [("reading_data.md", 9), ("tuning.md", 6), ("diversity.md", 18)])
def test_the_examples_of_a_guide_run(page, n, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCS / page), module_relative=False, raise_on_error=True)
    assert result.attempted == n


def commands_of(text):
    """Return the name and the options of every `bmcd` command in the code of a page."""
    code = re.sub(r" *\\\n *", " ", "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`", text, re.MULTILINE | re.DOTALL)))
    for line in re.findall(r"(?<![\w/.-])(?:/opt/bmcd/bin/)?bmcd ([a-z]+)((?: [^\n`&|#]*)?)", code):
        yield line[0], set(re.findall(r"(?<= )--?[a-z][a-z-]*", line[1]))


def test_every_command_and_option_of_the_pages_exists():
    commands = get_command(app).commands
    found = 0
    pages = [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
    for page in (*pages, DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"):
        for name, options in commands_of(page.read_text()):
            if name not in commands:
                assert (name, options) == ("import", set()), f"{page.name}: there is no command bmcd {name}"
                continue
            known = {option for param in commands[name].params for option in (*param.opts, *param.secondary_opts)}
            assert options <= known | {"--help"}, f"{page.name}: bmcd {name} has no {sorted(options - known)}"
            found += len(options)
    assert found > 100


def test_the_memory_of_fits_is_that_of_the_benchmarks():
    measured = (DOCS.parent / "benchmarks" / "README.md").read_text()
    section = (DOCS / "production.md").read_text().split("## Memory\n")[1]
    quoted = re.findall(r"\b[\d.]+ [MG]B\b", section)
    assert len(quoted) == 3
    assert not [figure for figure in quoted if figure not in measured]


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


def test_what_freshness_is_worth_is_what_was_measured():
    """The table of docs/production.md has the totals that benchmarks/freshness.py wrote."""
    measured = json.loads((DOCS.parent / "benchmarks" / "freshness.json").read_text())
    text = (DOCS / "production.md").read_text()
    quoted = text[text.index("| a new model every |") :].split("\n\n")[0].splitlines()[2:]
    assert len(quoted) == len(measured)
    for line, row in zip(quoted, measured.values(), strict=True):
        moments, observed, predicted, outside = (cell.strip() for cell in line.split("|")[3:-1])
        low, high = (f"{100 * row[name]:.1f}" for name in ("low", "high"))
        assert moments == f"{row['moments']:,}"
        assert observed == f"{100 * row['observed']:.1f} % ({low} to {high})"
        assert predicted == f"{100 * row['predicted']:.1f} %"
        assert outside == f"{100 * row['outside']:.1f} % ({100 * row['outside_expected']:.1f} %)"
