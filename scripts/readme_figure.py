"""Draw the figure of the README: predicted against observed hits of later visits.

python scripts/readme_figure.py
"""

from pathlib import Path

import bmcd

earlier, later = bmcd.load_dataset("eshop").split_users(0.8)
model = bmcd.Blend().fit(earlier, seed=0)
found = {}
for k, horizon, name in ((5, 1, "5 items, next click"), (3, 3, "3 items, next 3"), (10, 10, "10 items, next 10")):
    histories, test = later.moments(k=horizon, seed=1)
    recommended = model.recommend_for(histories, k=k, horizon=horizon)
    evaluation = bmcd.evaluate(recommended, earlier, test, horizon=horizon, histories=histories, bin_width=0.05)
    found[name] = evaluation.calibration
figure = bmcd.plots.calibration(found, title="Later visits, Blend fitted to earlier ones")
figure.savefig(Path(__file__).parents[1] / "docs" / "figures" / "next_clicks.png", dpi=110, bbox_inches="tight")
