"""Formulas as MathML, which browsers draw by themselves: the site loads no script for them."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

# An index of a letter with an accent belongs beside it; docutils puts it below.
ACCENT = r"(<mo stretchy=\"false\">.</mo>)"
BELOW_AN_ACCENT = re.compile(rf"<munderover>\s*(<mi>\w</mi>)(.*?){ACCENT}\s*</munderover>", re.DOTALL)


def formula(text: str, display: bool) -> str:
    """Return the MathML of a formula in LaTeX."""
    mathml = str(latex2mathml.tex2mathml(text.strip().replace(r"\dots", r"\ldots"), as_block=display))
    return BELOW_AN_ACCENT.sub(r"<msub><mover>\1\3</mover>\2</msub>", mathml)


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    self.body.append(f'<span class="math">{formula(node.astext(), display=False)}</span>')
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, which scroll where the screen is too narrow."""
    self.body.append(f'<div class="math">{formula(node.astext(), display=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name mathml."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
