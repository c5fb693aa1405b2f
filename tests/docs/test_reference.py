"""Every public name is in the reference, with an example that is run."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
ROOMS = ["bmcd", "bmcd.baselines", "bmcd.errors", "bmcd.evaluation", "bmcd.mallows", "bmcd.plots"]
ROOMS.append("bmcd.testing")
# Of a class or function that has several names, the reference shows one.
SHOWN = re.compile(r"auto(?:class|function|data):: ([\w.]+)")


def public_things():
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.ismodule(thing) and not isinstance(thing, str | tuple):
                yield pytest.param(thing, id=f"{room}.{name}")


@pytest.fixture(scope="module")
def shown_things():
    shown = []
    for page in REFERENCE.glob("*.md"):
        for dotted in SHOWN.findall(page.read_text()):
            module, _, name = dotted.rpartition(".")
            shown.append(getattr(importlib.import_module(module), name))
    return shown


@pytest.mark.parametrize("thing", list(public_things()))
def test_it_has_an_example_and_is_in_the_reference_once(thing, shown_things):
    assert ">>> " in (inspect.getdoc(thing) or "")
    assert sum(thing is other for other in shown_things) == 1


def test_constants_are_in_the_reference():
    assert "autodata:: bmcd.mallows.DISTANCES" in (REFERENCE / "mallows.md").read_text()
    assert "`bmcd.__version__`" in (REFERENCE / "index.md").read_text()
