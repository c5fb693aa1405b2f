"""What the site is made of: pages from elsewhere, commands, text."""

from pathlib import Path

import pytest

pytest.importorskip("sphinx")

import command_help
import docstrings
import markdown_text
import mathml
import repository_pages
from sphinx.errors import ExtensionError

from bmcd.cli import app

ROOT = Path(__file__).parents[2]


def test_links_lead_to_the_page_that_shows_a_file():
    shown = repository_pages.shown_files(ROOT / "docs")
    elsewhere = "[d](https://x.org/y) [e](#f)"
    assert repository_pages.with_links(elsewhere, "docs/x.md", "x.md", shown) == elsewhere
    text = "[a](../benchmarks/README.md#blend) [b](../experiments) ![c](figures/tastes.png) [d](../Dockerfile)"
    linked = repository_pages.with_links(text, "docs/blend.md", "blend.md", shown)
    assert linked == "[a](benchmarks.md#blend) [b](results/index.md) ![c](figures/tastes.png) [d](../Dockerfile)"
    linked = repository_pages.with_links("[d](docs/blend.md)", "README.md", "results/index.md", shown)
    assert linked == "[d](../blend.md)"


def test_code_is_left_alone():
    code = "```python\ntree[group](missing.md)\n```\n"
    assert repository_pages.with_links(code, "docs/x.md", "x.md", {}) == code


def test_a_section_ends_where_the_next_begins():
    text = "# T\n\n## One\n\na\n\n### b\n\n## Two\n\nc\n"
    assert repository_pages.section_of(text, "One") == "a\n\n### b"
    with pytest.raises(ExtensionError, match="'Three', but 0"):
        repository_pages.section_of(text, "Three")


def test_every_command_and_option_is_on_the_page():
    page = command_help.every_command()
    commands = command_help.get_command(app).commands
    assert page.count("\n### bmcd ") + page.startswith("### bmcd ") == len(commands)
    for name, command in commands.items():
        section = page.split(f"### bmcd {name}\n")[1].split("\n### ")[0]
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert f"`{option}`" in section


def test_text_stays_what_it_is_in_markdown():
    assert markdown_text.markdown("* a_b < `x*y` |z|") == r"* a\_b \< `x*y` \|z\|"


def test_strokes_are_escaped_but_not_in_examples():
    assert docstrings.with_strokes("|x - y| and ``a | b``") == r"\|x - y\| and ``a | b``"
    assert docstrings.with_strokes("    >>> a | b") == "    >>> a | b"


def test_pages_that_docstrings_name_are_links():
    assert docstrings.with_pages("see `docs/model.md`; docs/tastes.md.") == "see :doc:`/model`; :doc:`/tastes`."
    assert "[docs/evaluation.md](evaluation.md) defines" in command_help.every_command()


def test_formulas_are_mathml():
    assert mathml.formula(r"\alpha_c", display=False).startswith("<math")
    assert "<msub><mover><mi>R</mi>" in mathml.formula(r"{\tilde R}_{ij}", display=False)
    assert 'display="block"' in mathml.formula(r"\tau_1, \dots", display=True)
