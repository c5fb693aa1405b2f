"""bmcd.report: the same file every time, or an error before anything is written."""

import subprocess
import sys

import pytest

import bmcd
from bmcd.errors import OutputError


def test_the_same_bytes_twice_also_from_a_file(reported, page, tmp_path):
    reported.model.save(tmp_path / "model.bmcd")
    loaded, rivals = bmcd.load(tmp_path / "model.bmcd"), dict(reported.rivals)
    again = bmcd.report(loaded, None, reported.test, tmp_path / "r.html", k=(2, 3), rivals=rivals)
    assert again.read_text(encoding="utf-8") == page.text
    assert [file.name for file in tmp_path.glob("r.html*")] == ["r.html"]


def test_what_cannot_be_reported_is_refused(reported, tmp_path):
    path, model = tmp_path / "r.html", reported.model
    new_users = bmcd.Clicks.from_matrix([[1]], users=["nobody"], items=reported.train.items[:1])
    other, _ = reported.train.hold_out(1)
    model.save(tmp_path / "bare.bmcd", clicks=False)
    refused = [
        (lambda: bmcd.report(model, path=tmp_path / "r.pdf"), ValueError, "must end in .html"),
        (lambda: bmcd.report(model, path=tmp_path / "no" / "r.html"), OutputError, "does not exist"),
        (lambda: bmcd.report(model, None, new_users, path, k=2), ValueError, "nobody"),
        (lambda: bmcd.report(model, other, None, path), ValueError, "fitted to other clicks"),
        (lambda: bmcd.report(model, None, "test.csv", path), TypeError, "test must be the Clicks kept aside"),
        (lambda: bmcd.report(bmcd.baselines.EASE(), path=path), TypeError, "about BMCD, Tastes or Blend"),
        (lambda: bmcd.report(bmcd.BMCD(2), path=path), ValueError, "not fitted"),
        (lambda: bmcd.report(bmcd.load(tmp_path / "bare.bmcd"), path=path), ValueError, "without the clicks"),
        (lambda: bmcd.report(model, path=path, users=["nobody"]), ValueError, "nobody"),
        (lambda: bmcd.report(model, path=path, users=[]), ValueError, "users is empty"),
        (lambda: bmcd.report(model, None, reported.test, path, rivals={"BMCD": 1}), ValueError, "own name"),
        (lambda: bmcd.report(model, path=path, n_popular=13), ValueError, "1 to 12"),
    ]
    for call, kind, message in refused:
        with pytest.raises(kind, match=message):
            call()
    assert not path.exists()


@pytest.mark.parametrize(
    "code",
    [
        "import bmcd, types; assert isinstance(bmcd.report, types.FunctionType)",
        "import bmcd.reporting.report, bmcd, types; assert isinstance(bmcd.report, types.FunctionType)",
        "import bmcd.reporting, sys; assert 'matplotlib' not in sys.modules",
    ],
)
def test_report_is_a_function_whatever_was_imported_before(code):
    subprocess.run([sys.executable, "-c", code], check=True)
