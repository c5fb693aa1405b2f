import runpy
from pathlib import Path

problems = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "check_site.py"))["problems"]


def test_a_whole_site_has_no_problems(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b/c.html#x">c</a><a href="https://x.org">x</a>')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text('<p id="x"></p><a href="../a.html">a</a><a href="#x">x</a>')
    assert problems(tmp_path) == []


def test_each_problem_is_named(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="gone.html">1</a><a href="#no">2</a><script src="https://x.org/s.js"></script><img src="gone.png">'
    )
    (tmp_path / "s.css").write_text("@font-face {src: url(https://x.org/f.woff)}")
    found = problems(tmp_path)
    assert [line.split()[-1] for line in found] == ["elsewhere", "there", "page", "there", "elsewhere"]
    assert problems(tmp_path / "empty") == [f"{tmp_path / 'empty'}: there are no pages"]
