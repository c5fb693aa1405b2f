"""The report, one HTML file for editors, and its figures.

`bmcd.report(model, train, test, "report.html")` writes it, see `bmcd.report.making.report`; `bmcd.report.plots` has
the figures. The module itself can be called: a function of that name would stand in the way of the figures.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bmcd.report import plots
    from bmcd.report.making import report as _report

__all__ = ["plots"]


class ReportModule(ModuleType):
    """A module that is a function too: `bmcd.report.making.report`."""

    if TYPE_CHECKING:
        plots = plots
        __call__ = staticmethod(_report)
    else:

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            from bmcd.report.making import report

            return report(*arguments, **options)

        def __getattr__(self, name: str) -> Any:
            if name == "plots":  # loads matplotlib, which `import bmcd` need not
                return importlib.import_module("bmcd.report.plots")
            raise AttributeError(f"module 'bmcd.report' has no attribute {name!r}")


sys.modules[__name__].__class__ = ReportModule
