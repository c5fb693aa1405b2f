"""One small model with hostile titles, and its report, for all tests of reports."""

from types import SimpleNamespace

import pytest

import bmcd

TITLES = [
    "<script>document.title = 'owned'</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\"&<> 'quoted'",
    "gnp.\u202eexe evil",
    "nul\x00 and \x1b[31m",
    "x" * 10_000,
    "$x^2$",
    "emoji \U0001f600 裤子",
    "]]> --> {{css}} </style>",
    "  \t ",
    "50 % cotton",
]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A model of 120 users and 12 items, one of them without a title, and its report for k = 2 and 3."""
    folder = tmp_path_factory.mktemp("report")
    clicks = bmcd.simulate(120, 12, consensuses=2, alpha=5.0, mean_clicks=5.0, seed=3).clicks.at_least(4)
    clicks = clicks.with_titles({item: title for item, title in zip(range(12), TITLES, strict=False)})
    train, test = clicks.hold_out(2, seed=3)
    model = bmcd.BMCD(2).fit(train, draws=12, warmup=12, chains=2, seed=3)
    rivals = {"EASE": bmcd.baselines.EASE(), "Popularity": bmcd.baselines.Popularity()}
    path = bmcd.report(model, train, test, folder / "report.html", k=(2, 3), rivals=rivals)
    return SimpleNamespace(
        folder=folder,
        model=model,
        train=train,
        test=test,
        rivals=rivals,
        path=path,
        page=path.read_text(encoding="utf-8"),
    )
