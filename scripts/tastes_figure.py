"""Draw the figure of docs/tastes.md: users who have several of six tastes, by number of clusters or tastes.

python scripts/tastes_figure.py
"""

from pathlib import Path

import numpy as np

import bmcd
from bmcd.plots.style import BLUE, GREY, new_figure

N_USERS, N_ITEMS, N_TASTES, N_CLICKS, K = 900, 60, 6, 14, 5
NUMBERS = (2, 4, 6, 9, 13, 18)


def clicks_of_users(rng: np.random.Generator) -> bmcd.Clicks:
    """Every user mixes six tastes in a way of their own; a taste likes ten items, the first of them most."""
    laws = np.full((N_TASTES, N_ITEMS), 1e-3)
    for taste in range(N_TASTES):
        laws[taste, 10 * taste : 10 * (taste + 1)] += np.exp(-np.arange(10) / 4.0)
    laws /= laws.sum(axis=1, keepdims=True)
    rows = np.zeros((N_USERS, N_ITEMS), bool)
    for row in rows:
        row[rng.choice(N_ITEMS, N_CLICKS, replace=False, p=rng.dirichlet(np.full(N_TASTES, 0.4)) @ laws)] = True
    return bmcd.Clicks.from_matrix(rows)


train, test = clicks_of_users(np.random.default_rng(0)).hold_out(K, seed=0)
curves: dict[str, list[float]] = {"BMCD": [], "Tastes": []}
for number in NUMBERS:
    bmcd_model = bmcd.BMCD(number).fit(train, draws=50, warmup=100, chains=4, progress=False)
    tastes_model = bmcd.Tastes(number, chains=8).fit(train, progress=False)
    for name, model in (("BMCD", bmcd_model), ("Tastes", tastes_model)):
        curves[name].append(bmcd.evaluate(model.recommend(K), train, test, k=K).accuracy)
figure = new_figure(5.6, 3.2, None)
ax = figure.subplots()
for name, color, marker in (("BMCD", GREY, "o"), ("Tastes", BLUE, "D")):
    ax.plot(NUMBERS, 100 * np.array(curves[name]), color=color, marker=marker, label=name)
ax.set_xlabel("number of clusters (BMCD) or tastes (Tastes)")
ax.set_ylabel(f"hits among {K} recommendations, %")
ax.legend()
figure.savefig(Path(__file__).parents[1] / "docs" / "figures" / "tastes.png", dpi=130)
print(NUMBERS, curves)
