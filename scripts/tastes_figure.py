"""Draw the figure of docs/tastes.md: users with two tastes, as BMCD and as Tastes see them.

python scripts/tastes_figure.py
"""

from pathlib import Path

import numpy as np

import bmcd
from bmcd.plots.style import BLUE, new_figure

N_ITEMS, N_CLICKS, KINDS = 60, 12, 300


def clicks_of_users(rng: np.random.Generator) -> bmcd.Clicks:
    """A third of the users like the first items, a third the last ones, and a third, the last rows, both."""
    taste = np.exp(-np.arange(N_ITEMS) / 6.0)
    rows = []
    for likes_first in (1.0, 0.0, 0.5):
        law = likes_first * taste / taste.sum() + (1 - likes_first) * taste[::-1] / taste.sum()
        for _ in range(KINDS):
            row = np.zeros(N_ITEMS, bool)
            row[rng.choice(N_ITEMS, N_CLICKS, replace=False, p=law)] = True
            rows.append(row)
    return bmcd.Clicks.from_matrix(rows)


clicks = clicks_of_users(np.random.default_rng(0))
mixed = clicks.users[2 * KINDS :]
models = {
    "BMCD, two clusters": bmcd.BMCD(2).fit(clicks, draws=50, warmup=50, chains=2),
    "Tastes, two tastes": bmcd.Tastes(2, chains=2).fit(clicks),
}
figure = new_figure(7.0, 2.8, None)
for ax, (name, model) in zip(figure.subplots(1, 2, sharey=True), models.items(), strict=True):
    share = model.memberships(users=mixed)["1"]
    ax.hist(share, bins=np.linspace(0, 1, 21), color=BLUE)
    ax.set_title(name)
    ax.set_xlabel("share of the first " + ("cluster" if "BMCD" in name else "taste"))
figure.axes[0].set_ylabel("users who like both")
figure.savefig(Path(__file__).parents[1] / "docs" / "figures" / "tastes.png", dpi=130)
