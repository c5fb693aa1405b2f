"""Pages of the site whose text stands elsewhere in the repository, and links between the two.

In place of ``<!-- page: benchmarks/README.md -->`` a page shows that file; in place of ``<!-- section: README.md:
What it found -->``, on one line, that section of it, without its heading. Links in a text are rewritten: to the
page of the site that shows the file, or to the file itself, which Sphinx then offers as a download.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.logging import getLogger

ROOT = Path(__file__).parents[2]
PAGE = re.compile(r"^<!-- page: (\S+) -->$", re.MULTILINE)
SECTION = re.compile(r"^<!-- section: (\S+): (.+?) -->$", re.MULTILINE)
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")

FENCED = re.compile(r"(^[ ]*(```+|:::+).*?^[ ]*\2[ ]*$)", re.MULTILINE | re.DOTALL)
LOGGER = getLogger(__name__)


def shown_files(source: Path) -> dict[str, str]:
    """Return the page of the site that shows a file of the repository, for each such file."""
    shown = {}
    for page in source.rglob("*.md"):
        if "_build" in page.parts:
            continue
        name = page.relative_to(source).as_posix()
        shown[f"docs/{name}"] = name
        if found := PAGE.search(page.read_text(encoding="utf-8")):
            shown[found[1]] = name
    # A link to a folder means the page in it.
    folders = {posixpath.dirname(file): name for file, name in shown.items() if file.endswith("/README.md")}
    return {**folders, **shown}


def section_of(text: str, heading: str) -> str:
    """Return the text below a heading of the second level, up to the next one."""
    parts = re.split(rf"^## {re.escape(heading)}\n", text, flags=re.MULTILINE)
    if len(parts) != 2:
        raise ExtensionError(f"there is not one section {heading!r}, but {len(parts) - 1}")
    return re.split(r"^## ", parts[1], flags=re.MULTILINE)[0].strip()


def with_links(text: str, file: str, page: str, shown: dict[str, str]) -> str:
    """Return the text of a file with its links as they must read on a page of the site."""
    here = posixpath.dirname(page)

    def rewritten(link: re.Match[str]) -> str:
        opening, target, closing = link.groups()
        path, _, anchor = target.partition("#")
        if not path or ":" in path:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        if path in shown:
            path = posixpath.relpath(shown[path], here or ".")
        elif (ROOT / path).is_file():
            path = os.path.relpath(ROOT / path, ROOT / "docs" / here)
        else:
            LOGGER.warning("%s links to %s, which is not there", file, target)
        return f"{opening}{path}{'#' + anchor if anchor else ''}{closing}"

    parts, position = [], 0
    for block in FENCED.finditer(text):  # code stays as it is
        parts += [LINK.sub(rewritten, text[position : block.start()]), block[0]]
        position = block.end()
    return "".join(parts) + LINK.sub(rewritten, text[position:])


def fill_in(app: Sphinx, name: str, source: list[str]) -> None:
    """Put texts of the repository in their places, and make links of a page work in the site."""
    page, shown = f"{name}.md", shown_files(Path(app.srcdir))
    text = with_links(source[0], f"docs/{page}", page, shown)

    def file_text(file: str) -> str:
        app.env.note_dependency(str(ROOT / file))
        return (ROOT / file).read_text(encoding="utf-8")

    text = PAGE.sub(lambda found: with_links(file_text(found[1]), found[1], page, shown), text)
    source[0] = SECTION.sub(
        lambda found: with_links(section_of(file_text(found[1]), found[2]), found[1], page, shown), text
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill in a page when it is read."""
    app.connect("source-read", fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
