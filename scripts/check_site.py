"""Check the built site: every link within it leads somewhere, and nothing is loaded from elsewhere.

    python scripts/check_site.py docs/_build/html

Sphinx checks links between its sources; this checks what it wrote, with the theme's own pages and templates.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, in contrast to what a reader may follow.
FETCHED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}
# Links of a page about itself, which a browser does not fetch.
NOT_FETCHED = {"canonical", "index", "search", "next", "prev", "author", "copyright"}


class Page(HTMLParser):
    """The links of a page, what it fetches, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag refers to."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in FETCHED and values.get(FETCHED[tag]) and values.get("rel") not in NOT_FETCHED:
            self.fetched.append(values[FETCHED[tag]])


def problems(folder: Path) -> list[str]:
    """Return what is wrong with a site, a line each."""
    files = [file for file in sorted(folder.rglob("*.html")) if "_static" not in file.parts]  # templates are there
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in files}
    if not pages:
        return [f"{folder}: there are no pages"]
    found = []
    for file, page in pages.items():
        name = file.relative_to(folder)
        for target in page.fetched:
            if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
                found.append(f"{name} loads {target[:80]} from elsewhere")
        for target in page.links + page.fetched:
            parts = urlsplit(target)
            if parts.scheme or target.startswith("//"):
                continue
            other = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
            if not other.exists():
                found.append(f"{name} links to {target}, which is not there")
            elif parts.fragment and other in pages and unquote(parts.fragment) not in pages[other].anchors:
                found.append(f"{name} links to {target}, but there is no such place in the page")
    for file in sorted(folder.rglob("*.css")):
        text = file.read_text(encoding="utf-8", errors="replace")
        if "url(http" in text or 'url("http' in text or "@import url(" in text:
            found.append(f"{file.relative_to(folder)} loads something from elsewhere")
    return found


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    folder = Path(sys.argv[1]).resolve()
    found = problems(folder)
    print(*found, sep="\n", end="\n" if found else "")
    if found:
        sys.exit(f"{len(found)} problems in {folder}")
    print(f"{len(list(folder.rglob('*.html')))} pages, no broken links, nothing from elsewhere")


if __name__ == "__main__":
    main()
