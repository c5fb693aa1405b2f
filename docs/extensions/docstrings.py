"""Docstrings as reStructuredText reads them: a stroke, as in |x - y|, is no mark, and docs/model.md is a link."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

PAGE = re.compile(r"`?\bdocs/(\w+)\.md\b`?")
STROKE = re.compile(r"(``.*?``|`.*?`)|\|")


def with_strokes(line: str) -> str:
    """Return a line of text with its strokes escaped, but for those in literals and examples."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    return STROKE.sub(lambda found: found[1] or r"\|", line)


def with_pages(line: str) -> str:
    """Return a line of text with links to the pages that it names."""
    return PAGE.sub(r":doc:`/\1`", line)


def change(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Change a docstring in place."""
    lines[:] = [with_pages(with_strokes(line)) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Change docstrings before numpydoc reads them."""
    app.connect("autodoc-process-docstring", change, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
