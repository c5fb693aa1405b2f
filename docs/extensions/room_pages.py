"""A page for each room of the package, made at build from its modules: what each is for, and what it offers.

The rooms and the order of their modules are those of docs/architecture.md. The pages, docs/rooms/*.md, are not
kept in the repository.
"""

from __future__ import annotations

import ast
from pathlib import Path

from markdown_text import first_sentences, in_a_cell, markdown
from sphinx.application import Sphinx

Room = tuple[str, list[str]]


def rooms_in_order(architecture: str) -> list[Room]:
    """Return (room, paths of its modules below it), in the order of the page."""
    rooms: list[Room] = []
    folders: list[str] = []
    for line in architecture.split("```")[1].splitlines()[2:]:
        if not line.strip():
            continue
        depth, word = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        folders = folders[: depth - 1]
        if word.endswith("/"):
            folders.append(word[:-1])
            if depth == 1:
                rooms.append((word[:-1], []))
        elif depth > 1:
            rooms[-1][1].append("/".join([*folders[1:], word]))
    return rooms


def offered(tree: ast.Module) -> list[tuple[str, str]]:
    """Return (name, first line of the docstring) of the public functions and classes of a module."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = []
    for node in tree.body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            found.append((node.name, (ast.get_docstring(node) or "").split("\n")[0]))
    return found


def page(room: str, modules: list[str], package: Path) -> str:
    """Return the page of a room."""
    about = ast.get_docstring(ast.parse((package / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    parts = [f"# {room}/", markdown(first_sentences(about))]
    for module in modules:
        tree = ast.parse((package / room / module).read_text(encoding="utf-8"))
        parts += [f"## {module}", markdown(first_sentences(ast.get_docstring(tree) or ""))]
        rows = [f"| `{name}` | {in_a_cell(line)} |" for name, line in offered(tree)]
        if rows:
            parts.append("\n".join(["| | |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def write_pages(app: Sphinx) -> None:
    """Write the pages of all rooms; a page that has not changed is left as it is, so that it is not read again."""
    source = Path(app.srcdir)
    package = source.parent / "src" / "bmcd"
    folder = source / "rooms"
    folder.mkdir(exist_ok=True)
    wanted = {}
    for room, modules in rooms_in_order((source / "architecture.md").read_text(encoding="utf-8")):
        wanted[folder / f"{room}.md"] = page(room, modules, package)
    for stale in set(folder.glob("*.md")) - set(wanted):
        stale.unlink()
    for file, text in wanted.items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for its sources."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
