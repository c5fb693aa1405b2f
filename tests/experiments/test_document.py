"""A template becomes a page; and the committed pages are what the templates and the committed tables say."""

import re
from pathlib import Path

import experiments
import pandas as pd
import pytest
from experiments.document import Contents, markdown_table, write_page
from experiments.study import read_text
from matplotlib.figure import Figure

STUDIES = Path(experiments.__file__).parent


def test_fields_tables_and_figures_take_their_places(tmp_path):
    template = (
        "# {size.real:g} runs\n\n{note}\n\n{list}\n\n![Run {run}](figures/f.png)\n\n**All** ([csv](tables/t.csv))"
    )
    words = {"size": 3.0, "note": "", "list": ["one", "two"], "run": 7}
    page = write_page(tmp_path, template, Contents(words, {"t": [{"a": 1 / 3, "b": "x|y"}]}, {"f": Figure()}))
    head = "# 3 runs\n\none\n\ntwo\n\n![Run 7](figures/f.png)\n\n*Run 7*\n\n**All** ([csv](tables/t.csv))\n\n"
    assert page.read_text() == head + "| a | b |\n|---|---|\n| 0.3333 | x\\|y |\n"
    assert (tmp_path / "tables/t.csv").read_text() == f"a,b\n{1 / 3!r},x|y\n"
    assert (tmp_path / "figures/f.png").read_bytes().startswith(b"\x89PNG")


def test_paragraphs_about_data_sets_are_repeated(tmp_path):
    template = "{data_set}: {verdict_{data_set}}\n\n![{data_set}](figures/f_{data_set}.png)\n\nend"
    words = {"verdict_a": "good {", "verdict_b": "bad"}
    figures = {"f_a": Figure(), "f_b": Figure()}
    text = write_page(tmp_path, template, Contents(words, {}, figures, ["a", "b"])).read_text()
    lines = ["a: good {", "![a](figures/f_a.png)", "*a*", "b: bad", "![b](figures/f_b.png)", "*b*", "end"]
    assert text.split("\n\n") == [*lines[:-1], "end\n"]


def test_a_table_without_rows_is_left_out(tmp_path):
    text = write_page(tmp_path, "a\n\n**T** ([csv](tables/t.csv))", Contents({}, {"t": []}, {})).read_text()
    assert text == "a\n"
    assert not (tmp_path / "tables").exists()


def test_columns_are_those_of_the_longest_row(tmp_path):
    rows = [{"a": 1, "c": 3}, {"a": 1, "b": 2, "c": 3}]
    write_page(tmp_path, "**T** ([csv](tables/t.csv))", Contents({}, {"t": rows}, {}))
    assert (tmp_path / "tables/t.csv").read_text() == "a,b,c\n1,,3\n1,2.0,3\n"


def test_what_a_template_asks_for_must_be_given(tmp_path):
    for template in ("{missing}", "**T** ([csv](tables/missing.csv))", "![F](figures/missing.png)"):
        with pytest.raises(KeyError, match="missing"):
            write_page(tmp_path, template, Contents({}, {}, {}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("study", ["simulation", "case_study"])
def test_the_committed_page_has_the_paragraphs_of_the_template_in_order(study):
    page, end = (STUDIES / study / "README.md").read_text(), 0
    for paragraph in read_text(f"experiments.{study}", "page.md").strip().split("\n\n"):
        if not re.fullmatch(r"\{\w+\}", paragraph):
            literals = re.split(r"\{[^}]*\}", paragraph.replace("{data_set}", "eshop-1"))
            match = re.compile("[^\n]*".join(map(re.escape, literals)) + "$", re.MULTILINE).search(page, end)
            assert match, paragraph
            end = match.end()


@pytest.mark.parametrize("study", ["simulation", "case_study"])
def test_the_committed_tables_and_figures_are_those_of_the_page(study):
    folder = STUDIES / study
    page = (folder / "README.md").read_text()
    linked = re.findall(r"\]\(((?:tables|figures)/[^)]+)\)", page)
    assert sorted(linked) == sorted(
        f"{name}/{file.name}" for name in ("tables", "figures") for file in (folder / name).iterdir()
    )
    for file in (folder / "tables").iterdir():
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
        table.columns = [re.sub(r"^Unnamed: \d+$", "", name) for name in table.columns]
        head, *rows = re.search(re.escape(f"(tables/{file.name}))\n\n") + r"((?:\|.*\n)+)", page)[1].splitlines()
        expected = markdown_table(table).splitlines()
        assert head.replace(" ", "") == expected[0].replace(" ", "")
        assert len(rows) == len(expected) - 1
        for row, cells in zip(rows[1:], table.itertuples(index=False), strict=True):
            shown = [cell.strip() for cell in row.replace("\\|", "¦").strip("|").split("|")]
            for text, cell in zip(shown, cells, strict=True):
                assert text == cell.strip().replace("|", "¦") or float(text) == float(f"{float(cell):.4g}")


def test_the_committed_simulation_has_its_notes_on_differences():
    notes = read_text("experiments.simulation", "differences.md").strip()
    assert notes in (STUDIES / "simulation" / "README.md").read_text()
