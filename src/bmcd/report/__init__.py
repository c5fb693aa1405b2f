"""The report, one HTML file for editors, and its figures.

`bmcd.report(model, train, test, "report.html")` writes it, see `bmcd.report.making.report`; `bmcd.report.plots` has
the figures. The module itself can be called: the function would otherwise hide the figures behind its name.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

__all__ = ["plots"]


class _Callable(ModuleType):
    """A module that is a function too."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from bmcd.report.making import report

        return report(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name == "plots":  # loads matplotlib, which `import bmcd` need not
            return importlib.import_module("bmcd.report.plots")
        raise AttributeError(f"module 'bmcd.report' has no attribute {name!r}")


sys.modules[__name__].__class__ = _Callable
