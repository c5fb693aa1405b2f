"""Whether the calculation has settled, in plain words."""

from __future__ import annotations

from bmcd.models.persistence import sampled_models
from bmcd.models.tastes import Tastes
from bmcd.reporting.results import Results
from bmcd.sampling.diagnostics import MIN_DRAWS, State

# How bad the state of a chain is, the worst last.
STATES: tuple[State, ...] = ("converged", "too short", "stopped", "not converged")


def convergence(results: Results) -> str:
    """Return whether the calculation has settled."""
    sampled = sampled_models(results.model).values()
    if not sampled:
        return "Nothing here is drawn at random, so there is nothing that has to settle."
    judged = max(sampled, key=lambda model: STATES.index(model.verdict_.state))  # a blend is as good as its worst
    verdict, draws = judged.verdict_, judged.draws_
    runs = f"its {draws.n_chains} independent runs"
    if verdict.converged:
        if draws.n_chains == 1:
            return "The calculation has settled, but in one run only: others might end elsewhere."
        if isinstance(judged, Tastes):
            return f"The calculation has settled: other runs than {runs} would change the probabilities little."
        return f"The calculation has settled: {runs} agree."
    if draws.n_draws < MIN_DRAWS:
        return "Whether the calculation has settled cannot be judged: it was too short."
    if verdict.stuck_chains:
        return "The calculation is stuck: use nothing of this report, and run it again."
    if verdict.state == "too short":
        return "The calculation has nearly settled, but was too short to be sure: run it longer."
    if verdict.state == "stopped":
        return "The calculation was stopped before it had settled: let it run to its end."
    if draws.n_chains == 1:
        return "The calculation has not settled: its one run still moves. Run it longer, and in several runs."
    return (
        f"The calculation has not settled: {runs} do not agree yet. Recommendations are averaged over the runs, "
        "which is still the best answer, but groups and probabilities may change in a longer run."
    )
