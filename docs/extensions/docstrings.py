"""Docstrings as reStructuredText reads them: a stroke, as in |x - y|, is a stroke and no mark."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

STROKE = re.compile(r"(``.*?``|`.*?`)|\|")


def with_strokes(line: str) -> str:
    """Return a line of text with its strokes escaped, but for those in literals and examples."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    return STROKE.sub(lambda found: found[1] or r"\|", line)


def escape_strokes(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Change a docstring in place."""
    lines[:] = [with_strokes(line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Change docstrings before numpydoc reads them."""
    app.connect("autodoc-process-docstring", escape_strokes, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
