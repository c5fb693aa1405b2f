"""Draw the figure of the README: what a cut-off buys, for the model of its first example.

python scripts/readme_figure.py
"""

from pathlib import Path

import bmcd

K = 5
clicks = bmcd.load_dataset("eshop").most_clicked(40).at_least(10)
train, test = clicks.hold_out(K, seed=0)
model = bmcd.BMCD(n_clusters=4).fit(train, draws=40, warmup=40, chains=2, seed=0)
calibration = bmcd.evaluate(model.recommend(k=K), train, test, k=K).calibration
figure = bmcd.plots.cutoff_curve(calibration)
figure.savefig(Path(__file__).parents[1] / "docs" / "figures" / "cutoff.png", dpi=130)
