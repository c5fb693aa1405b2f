"""Every curl line of docs/live.md works as it stands."""

import json
import re
import subprocess
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "live.md").read_text()
LINES = [block.strip() for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)]


def test_every_curl_line_is_answered(start, model, tmp_path):
    service = start(model, "--live", str(tmp_path / "live"), "--refresh", "600")
    answers = []
    for line in LINES:
        command = line.replace("http://127.0.0.1:8000", service.url).replace("curl -s", "curl -s --fail-with-body")
        ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, (line, ended.stdout)
        answers.append(json.loads(ended.stdout))
    assert answers[0] == {"recorded": 2, "duplicates": 0}
    assert answers[1]["unknown_items"] == ["A13", "B4"]
    assert len(answers[1]["recommendations"]) == 10
    assert len(answers) == 2


def test_what_it_says_of_limits_is_so():
    from bmcd.serve import observed, updating
    from bmcd.serve.settings import Limits, LiveSettings

    assert f"a\nrequest may have {Limits().clicks:,}." in PAGE
    assert f"more than {LiveSettings(Path()).queue:,} clicks wait" in PAGE
    assert f"at most {observed.MOST_LISTS:,} lists" in PAGE
    assert f'"too few" below {observed.FEWEST} lists' in PAGE
    assert f"{updating.FUTURE // 60_000_000} minutes ahead" in PAGE
    assert f"as {updating.WINDOW_CLICKS:,} clicks take" in PAGE
