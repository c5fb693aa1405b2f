"""Every curl line of docs/serving.md works as it stands."""

import re
import subprocess
from pathlib import Path

import pytest

import bmcd

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
LINES = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) for line in re.split(r"\n(?=curl)", block.strip())
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop") / "model.bmcd"
    clicks = bmcd.load_dataset("eshop").most_clicked(60).at_least(13)
    bmcd.Tastes(3, chains=2).fit(clicks, draws=2, warmup=2, seed=1, progress=False).save(path)
    return path


def test_every_curl_line_is_answered(start, shop):
    service = start(shop, "--quiet")
    assert len(LINES) >= 6
    for line in LINES:
        command = line.replace("http://127.0.0.1:8000", service.url).replace("curl -s", "curl -s --fail-with-body")
        ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, (line, ended.stdout)
        assert '"model":' in ended.stdout or '"hash":' in ended.stdout
