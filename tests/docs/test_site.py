"""The site, in docs/_build: every notebook runs, nothing is warned about, and every link leads somewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

ROOT = Path(__file__).parents[2]
SPHINX = ("sphinx", "-b", "html", "-q", "-E", "-W", "--keep-going", "-d", "docs/_build/doctrees", "docs")


def test_the_site_builds_without_a_warning_and_its_links_lead_somewhere():
    for command in (("-m", *SPHINX, "docs/_build/html"), ("scripts/check_site.py", "docs/_build/html")):
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
