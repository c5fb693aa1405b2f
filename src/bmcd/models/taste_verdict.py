"""Whether the probabilities of the tastes have settled: would other chains, or longer ones, change them?

Chains in different modes are expected here, and R-hat of single parameters means nothing. What is used are the
probabilities averaged over chains, so it is judged on them:

* by how much would they change with other chains? The standard error between chains of the probabilities that are
  recommended, of a sample of users;
* do the chains still learn? The log probability of the clicks that were set aside, in the first half of the draws
  and in the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.errors import Message, Option
from bmcd.inference.diagnostics import MIN_DRAWS, State, Verdict
from bmcd.inference.tastes.draws import TasteDraws
from bmcd.models.taste_predictor import TastePredictor

# Users whose recommendations are looked at, and how many each.
USERS, K = 200, 10
# The standard error of a recommended probability, mean over these, that is small enough to act on.
MAX_MCSE = 0.02
# A gain in the mean log probability of a click that is worth more sweeps, if it is also three standard errors.
MIN_GAIN = 0.01
WORDS = {
    "converged": "Settled",
    "not converged": "Not settled",
    "too short": "Too short",
    "stopped": "Stopped early",
}


def judge_tastes(draws: TasteDraws, predictor: TastePredictor, clicks: Clicks) -> Verdict:
    """Return the verdict; a model that was saved without its users is judged by people with one click each."""
    facts, advice = list[str](), list[str]()
    state: State = "converged"
    if draws.n_draws >= MIN_DRAWS and draws.probe.shape[2]:
        half = draws.n_draws // 2
        by_click = draws.probe[:, half:].mean(axis=(0, 1)) - draws.probe[:, :half].mean(axis=(0, 1))
        gain, error = float(by_click.mean()), float(by_click.std() / np.sqrt(by_click.size))
        level = float(draws.log_probability[:, half:].mean())
        facts.append(
            f"the mean log probability of {by_click.size} clicks set aside is {level:.3f} in the second half of "
            f"the draws, {gain:+.3f} (+- {error:.3f}) against the first"
        )
        if gain > max(MIN_GAIN, 3 * error):
            state = "not converged"
            longer = 2 * (draws.plan.warmup + draws.plan.draws * draws.plan.thin)
            said = "The chains still learn: give more warm-up, such as "
            advice.append(Message(said, Option("warmup", longer), "."))
    elif draws.n_draws < MIN_DRAWS:
        state = "too short"
        facts.append(f"{draws.n_draws} draws of each chain are too few to see whether they still learn")
        advice.append(Message("Ask for at least ", Option("draws", 2 * MIN_DRAWS), "."))
    else:
        facts.append("no clicks set aside tell whether the chains still learn")
    if draws.n_chains > 1:
        probability, mcse = _recommended(predictor, _some_people(clicks))
        whose = "" if clicks.n_users else " for people with one click"
        facts.append(
            f"a recommended probability{whose}, {probability:.3f} on average, has a standard error of {mcse:.4f} "
            f"between {draws.n_chains} chains (at most {MAX_MCSE:g} is wanted)"
        )
        if mcse > MAX_MCSE:
            state = "not converged" if state == "converged" else state
            wanted = int(np.ceil(1.2 * draws.n_chains * (mcse / MAX_MCSE) ** 2 / 8) * 8)
            said = "Other chains would change the probabilities: average over more, such as "
            advice.append(Message(said, Option("chains", wanted), "."))
    else:
        state = "too short" if state == "converged" else state
        facts.append("one chain cannot show what others would say")
        advice.append("Run several chains: every chain finds tastes of its own, and their average is the answer.")
    if draws.stopped != "finished" and state != "converged":
        state = "stopped"
    text = f"{WORDS[state]}: {'; '.join(facts)}."
    if draws.note:
        text += f" The run was {draws.note}"
    return Verdict(state, text, tuple(advice))


def _some_people(clicks: Clicks) -> sparse.csr_array[Any]:
    """Return the clicks of some users; without users, of people who have clicked one item each."""
    people = clicks.matrix if clicks.n_users else sparse.eye_array(clicks.n_items, dtype=np.bool_, format="csr")
    n_people = people.shape[0]
    return people[np.linspace(0, n_people - 1, min(USERS, n_people)).round().astype(np.int64)]


def _recommended(predictor: TastePredictor, people: sparse.csr_array[Any]) -> tuple[float, float]:
    """Return mean probability and mean standard error of the K most probable items of each."""
    probability, mcse = [], []
    for _, predicted in predictor.blocks(people, min(K, people.shape[1])):
        best = np.argsort(-predicted.probability, axis=1, kind="stable")[:, :K]
        probability.append(np.take_along_axis(predicted.probability, best, axis=1))
        mcse.append(np.take_along_axis(predicted.mcse, best, axis=1))
    return float(np.concatenate(probability).mean()), float(np.concatenate(mcse).mean())
