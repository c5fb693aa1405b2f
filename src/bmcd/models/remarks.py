"""What a model warns of, once: a fit that is not as it should be, and lists that must be short."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import ConvergenceWarning, FitWarning, ShortListWarning
from bmcd.sampling.diagnostics import Verdict
from bmcd.sampling.draws import ChainDraws


def warn_about_fit(verdict: Verdict, draws: ChainDraws, at_the_edge: str = "") -> None:
    """Warn of all that was not as it should be, in one warning; ``at_the_edge`` says it of what "auto" chose.

    To be called by `fit` itself, so that the warning points to who called that.
    """
    stopped = draws.stopped != "finished"
    said = [at_the_edge]
    if not verdict.converged:
        said += [verdict.text, *verdict.advice]
    elif stopped:
        said.append(f"The fit was {draws.note}")
    said += [draws.resume] if stopped else []
    if text := " ".join(filter(None, said)):
        warnings.warn(text, FitWarning if verdict.converged else ConvergenceWarning, stacklevel=3)


def warn_if_few_are_left(n_clicked: NDArray[np.int64], n_items: int, k: int) -> None:
    """Warn if k is more than some users have left: their lists are short, and every probability is 1."""
    left = n_items - n_clicked
    if (few := left < k).any():
        warnings.warn(
            f"k = {k} is more than the items left for {few.sum():,} of {few.size:,} users (as few as {left.min()}):"
            " they get all of them, each with probability 1, which says nothing. Ask for a smaller k.",
            ShortListWarning,
            stacklevel=3,
        )
