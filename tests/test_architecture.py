"""docs/architecture.md names every module, and every import goes the way it says: up the page, never down."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "bmcd"
MOST_AT_THE_TOP = 11


def modules_in_order():
    """The dotted names of the modules in the order of docs/architecture.md; a room comes after its modules."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    tree = text.split("```")[1]
    order, rooms = [], []  # rooms: (indent, dotted name) of those that are open
    for line in tree.splitlines()[2:]:  # after the line end of the fence, and `src/bmcd/`
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        while rooms and indent <= rooms[-1][0]:
            order.append(rooms.pop()[1])
        above = rooms[-1][1] if rooms else "bmcd"
        for word in line.split():
            if word.endswith(".py"):
                order.append(f"{above}.{word.removesuffix('.py')}")
            elif word.endswith("/") and word == line.split()[0]:
                rooms.append((indent, f"{above}.{word.removesuffix('/')}"))
            else:
                break
    return order + [name for _, name in reversed(rooms)]


def modules_in_the_package():
    names = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


ORDER = modules_in_order()
MODULES = modules_in_the_package()


def imported(tree):
    """Yield (line, module) for every import of bmcd, lazy ones too; imports for types alone do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imported(ast.Module([other], []))
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "bmcd":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "bmcd":
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name != "bmcd.__version__":
                    yield node.lineno, name if name in MODULES else node.module
        else:
            yield from imported(node)


def test_the_document_names_every_module_once():
    assert sorted(ORDER) == sorted(set(ORDER))
    # The package itself has only the public names, which it loads when they are first used.
    assert set(ORDER) == set(MODULES) - {"bmcd", "bmcd.__main__"}


@pytest.mark.parametrize("name", sorted(set(MODULES) - {"bmcd", "bmcd.__main__"}))
def test_imports_go_up_the_page(name):
    place = {module: number for number, module in enumerate(ORDER)}
    tree = ast.parse(MODULES[name].read_text())
    wrong = []
    for line, module in imported(tree):
        is_public_api = module == "bmcd" and name.startswith("bmcd.cli.")  # commands call what users call
        if not is_public_api and place.get(module, len(ORDER)) >= place[name]:
            wrong.append(f"line {line} imports {module}")
    assert not wrong, f"{name}: {wrong}"


def test_a_wrong_direction_would_be_noticed():
    tree = ast.parse("def late():\n    from bmcd.cli import output\n")
    assert list(imported(tree)) == [(2, "bmcd.cli.output")]
    typed = ast.parse("if TYPE_CHECKING:\n    from bmcd.cli import output\nelse:\n    import bmcd.errors\n")
    assert list(imported(typed)) == [(4, "bmcd.errors")]


def test_few_modules_stand_at_the_top():
    assert len([path for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]) <= MOST_AT_THE_TOP


ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


@pytest.mark.parametrize("room", ROOMS)
def test_every_package_says_what_it_is_for(room):
    assert ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
