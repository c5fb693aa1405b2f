"""What a model warns of, once: a fit that is not as it should be, and lists that must be short."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import ConvergenceWarning, FitWarning, ShortListWarning
from bmcd.inference.diagnostics import Verdict
from bmcd.inference.draws import ChainDraws


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


def warn_if_few_are_left(
    n_clicked: NDArray[np.int64], n_items: int, k: int, horizon: int, stacklevel: int = 3
) -> None:
    """Warn if some users have fewer items left than k (lists are short) or the horizon (every probability is 1)."""
    left = n_items - n_clicked
    if not (few := left < max(k, horizon)).any():
        return
    asked = f"k = {k}" if k >= horizon else f"horizon = {horizon}"
    of = f"{few.sum():,} of {few.size:,} users (as few as {left.min()})"
    if (left < horizon).any():
        what = "they get all of them, each" if k >= horizon else "each of them is recommended"
        what = f"{what} with probability 1, which says nothing"
    else:
        what = "their lists are shorter"
    warnings.warn(
        f"{asked} is more than the items left for {of}: {what}. Ask for a smaller {asked.split()[0]}.",
        ShortListWarning,
        stacklevel=stacklevel,
    )
