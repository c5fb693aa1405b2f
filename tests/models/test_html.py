"""What notebooks show: every result as HTML, in which a hostile title is only text."""

import pytest

import bmcd
from bmcd.inference.diagnostics import Verdict

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def clicks():
    plain = bmcd.simulate(60, 12, consensuses=2, alpha=5.0, mean_clicks=4.0, seed=3).clicks
    titles = {item: f"{HOSTILE} {item}" for item in plain.items.tolist()}
    return bmcd.Clicks.from_matrix(plain.matrix, [f"<i>{user}" for user in range(60)], titles=titles)


@pytest.mark.parametrize("model", [bmcd.BMCD(2), bmcd.Tastes(5, chains=2)], ids=["BMCD", "Tastes"])
def test_results_are_tables_in_which_titles_are_text(model, clicks):
    model.fit(clicks, draws=4, warmup=4, chains=2)
    item = next(i for i in range(12) if not clicks.matrix[0, i])
    explained = model.explain(user="<i>0", item=item)
    for shown in (model.clusters_, explained):
        html = shown._repr_html_()
        assert html.count("<table") == html.count("</table>") == 1
        assert "&lt;script&gt;alert(1)" in html
        assert HOSTILE not in html
    assert "<i>0" not in explained._repr_html_()
    assert f"{explained.probability:.1%}" in explained._repr_html_()


def test_a_verdict_is_a_word_a_text_and_advice():
    html = Verdict("not converged", "Not converged: R-hat < 2.", ("Draw <more>.",))._repr_html_()
    assert html == "<div><p><b>Not converged:</b> R-hat &lt; 2.</p><ul><li>Draw &lt;more&gt;.</li></ul></div>"


def test_an_evaluation_is_a_table_of_its_measures(clicks):
    train, test = clicks.at_least(2).hold_out(1, seed=1)
    evaluated = bmcd.evaluate(bmcd.baselines.Popularity().fit(train).recommend(3), train, test)
    html = evaluated._repr_html_()
    assert html.count("<tr>") == 1 + len(evaluated.to_frame())
    assert f"{evaluated.accuracy:.4f}" in html


def test_a_comparison_is_a_table_in_which_names_are_text(clicks):
    train, test = clicks.at_least(2).hold_out(1, seed=1)
    rivals = {HOSTILE: bmcd.baselines.Popularity(), "B": bmcd.baselines.ItemKNN()}
    html = bmcd.compare(rivals, train, test, k=3)._repr_html_()
    assert html.count("<tr>") == 1 + len(rivals)
    assert HOSTILE not in html


def test_a_choice_of_tastes_is_its_reason_and_a_table(clicks):
    choice = bmcd.Tastes("auto", chains=2).fit(clicks, draws=2, warmup=2).choice_
    html = choice._repr_html_()
    assert html.count("<tr") == 1 + len(choice.table)
    assert choice.reason in html
    assert repr(choice).startswith(f"TasteChoice(n_tastes={choice.n_tastes}, a=")
