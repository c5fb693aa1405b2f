"""Settings of an estimator, as scikit-learn has them: `get_params`, `set_params`, `clone`, and what it prints.

scikit-learn's own `clone` and searches work with these classes, which need none of its 46 MiB.
"""

from __future__ import annotations

import copy
import inspect
import sys
from typing import Any, Self

from bmcd.errors import InputError, NotFittedError

__all__ = ["BaseEstimator", "clone", "not_fitted"]


class BaseEstimator:
    """A class whose settings are the parameters of its constructor, kept unchanged as attributes of the same names.

    >>> class Model(BaseEstimator):
    ...     def __init__(self, size=3, name="a"):
    ...         self.size, self.name = size, name
    >>> Model(size=4), Model().set_params(name="b").get_params()
    (Model(size=4), {'size': 3, 'name': 'b'})
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the parameters of the constructor with their default values."""
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return {
            one.name: one.default for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name.

        Parameters
        ----------
        deep
            Include the settings of estimators among the settings, as ``outer__inner``.
        """
        found = {name: getattr(self, name) for name in self._defaults()}
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    found |= {f"{name}__{inner}": of for inner, of in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change settings, and return self.

        Parameters
        ----------
        **params
            Settings by name; ``outer__inner`` for a setting of an estimator among the settings.
        """
        known = self._defaults()
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise InputError(f"{type(self).__name__} has no parameter {outer!r}; it has {', '.join(known)}.")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, outer, value)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the name is scikit-learn's
        defaults = self._defaults()
        given = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name])
        }
        text = f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        return text if len(text) <= N_CHAR_MAX else f"{text[: N_CHAR_MAX - 4]}...)"


def clone(model: Any) -> Any:
    """Return an estimator that is not fitted, with copies of the settings of this one.

    Anything else, such as a dict of models among the settings, is copied as it is.

    >>> clone([1, 2])
    [1, 2]
    """
    if isinstance(model, type) or not hasattr(model, "get_params"):
        return copy.deepcopy(model)
    return type(model)(**{name: clone(value) for name, value in model.get_params(deep=False).items()})


def not_fitted(model: Any) -> NotFittedError:
    """Return the error for a model that is used before its fit; where scikit-learn is in use, it is its error too.

    >>> not_fitted(BaseEstimator())
    NotFittedError('this BaseEstimator is not fitted yet: call fit(clicks) first.')
    """
    kind: Any = NotFittedError
    other = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    if other is not None:
        kind = type("NotFittedError", (NotFittedError, other), {"__module__": NotFittedError.__module__})
    error: NotFittedError = kind(f"this {type(model).__name__} is not fitted yet: call fit(clicks) first.")
    return error
