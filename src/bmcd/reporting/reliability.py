"""Whether the probabilities can be relied on, in plain words: past windows, or chains."""

from __future__ import annotations

from typing import Any

from bmcd.blend.blend import Blend
from bmcd.inference.diagnostics import MIN_DRAWS
from bmcd.models.persistence import sampled_models
from bmcd.models.tastes import Tastes
from bmcd.reporting.results import Results


def convergence(results: Results) -> str:
    """Return whether the probabilities of a blend are stable over time, or whether a calculation has converged."""
    if isinstance(results.model, Blend):
        return over_time(results.model)
    return converged(results.model)


def over_time(model: Blend) -> str:
    """Return the verdict on past windows, and on the sampled models of the blend that have not converged."""
    parts = {name: part.verdict_ for name, part in sampled_models(model).items()}
    bad = [f"{name}: {verdict.text}" for name, verdict in parts.items() if not verdict.converged]
    text = model.verdict_.text
    return " ".join([text, *bad])


def converged(judged: Any) -> str:
    """Return whether the chains of a sampled model have converged."""
    verdict, draws = judged.verdict_, judged.draws_
    runs = f"its {draws.n_chains} independent runs"
    if verdict.converged:
        if draws.n_chains == 1:
            return "The calculation has converged, but in one run only: others might end elsewhere."
        if isinstance(judged, Tastes):
            return f"The calculation has converged: other runs than {runs} would change the probabilities little."
        return f"The calculation has converged: {runs} agree."
    if draws.n_draws < MIN_DRAWS:
        return "Whether the calculation has converged cannot be judged: it was too short."
    if verdict.stuck_chains:
        return "The calculation is stuck: use nothing of this report, and run it again."
    if verdict.state == "too short":
        return "The calculation has nearly converged, but was too short to be sure: run it longer."
    if verdict.state == "stopped":
        return "The calculation was stopped before it had converged: let it run to its end."
    if draws.n_chains == 1:
        return "The calculation has not converged: its one run still moves. Run it longer, and in several runs."
    return (
        f"The calculation has not converged: {runs} do not agree yet. Recommendations are averaged over the runs, "
        "which is still the best answer, but groups and probabilities may change in a longer run."
    )
