"""Plain text of docstrings and help, as Markdown that shows it as it is."""

import re

CODE = re.compile(r"(`+)(.+?)\1")
SPECIAL = re.compile(r"([\\*_<>\[\]$|~])")


def markdown(text: str) -> str:
    """Return text with Markdown's signs escaped; bullets and what stands in backticks stay."""
    lines = []
    for line in text.splitlines():
        bullet = re.match(r"\s*[*-] ", line)
        start = bullet[0] if bullet else ""
        parts, position = [], len(start)
        for code in CODE.finditer(line, position):
            parts += [SPECIAL.sub(r"\\\1", line[position : code.start()]), f"`{code[2].strip()}`"]
            position = code.end()
        lines.append(start + "".join(parts) + SPECIAL.sub(r"\\\1", line[position:]))
    return "\n".join(lines)


def in_a_cell(text: str) -> str:
    """Return text for one cell of a table."""
    return " ".join(markdown(text).split())
