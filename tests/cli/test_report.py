import pytest

import bmcd

FEW = ("-k", "2", "--no-rivals")


@pytest.fixture(scope="module")
def held_out_file(folder, number_model):
    """A click of each of 20 users, which the model has not seen."""
    clicks = bmcd.load(number_model).clicks_
    unclicked = clicks.items[(~clicks.matrix.toarray()[:20]).argmax(axis=1)]
    path = folder / "held_out.csv"
    lines = [f"{user},{item}\n" for user, item in zip(clicks.users[:20], unclicked, strict=True)]
    path.write_text("user,item\n" + "".join(lines), encoding="utf-8")
    return path


def test_report_with_a_test(run, number_model, held_out_file, tmp_path):
    path = tmp_path / "r.html"
    result = run("report", number_model, "--test", held_out_file, "-o", path, "--user", "3", *FEW, "--json")
    assert result.code == 0, result.err
    assert result.json()["bytes"] == path.stat().st_size
    page = path.read_text(encoding="utf-8")
    assert "were among the clicks held out" in page
    assert page.count('class="card person"') == 1


def test_report_without_a_test_says_where_it_is(run, text_model, tmp_path):
    path = tmp_path / "r.html"
    result = run(
        "report", text_model, "-o", path, "-k", "1", "-k", "2", "--title", "<b>Mine</b>", "--data", "Shop & May"
    )
    assert result.code == 0, result.err
    assert result.out.startswith(f"report: {path} (")
    page = path.read_text(encoding="utf-8")
    assert "<h1>&lt;b&gt;Mine&lt;/b&gt;</h1>" in page
    assert "<p>Shop &amp; May, 20" in page
    assert "[red]Not red[/red]" in page
    assert 'name="k" value="2"' in page


def test_report_says_what_changed_since_an_older_model(run, number_model, folder, tiny, tmp_path):
    older = tmp_path / "older.bmcd"
    assert run("fit", folder / "numbers.csv", "-o", older, *tiny, "--seed", "7").code == 0
    path = tmp_path / "r.html"
    result = run("report", number_model, "--before", older, "-o", path, *FEW)
    assert result.code == 0, result.err
    page = path.read_text(encoding="utf-8")
    assert "<h2>What changed since older</h2>" in page
    assert "For numbers the model was fitted to 60 users (60 before)" in page


def test_report_refuses_in_one_line(refused, run, folder, number_model, held_out_file, tmp_path):
    target = ("-o", tmp_path / "r.html")
    (tmp_path / "new_users.csv").write_text("user,item\nnobody,1\n")
    new_users = refused("report", number_model, "--test", tmp_path / "new_users.csv", *target)
    assert new_users == refused("evaluate", number_model, tmp_path / "new_users.csv")
    assert "nobody" in refused("report", number_model, *target, "--user", "nobody")
    assert "Give a smaller k" in refused("report", number_model, *target, "-k", "50")
    bare = tmp_path / "bare.bmcd"
    bmcd.load(number_model).save(bare, clicks=False)
    assert "saved without the clicks" in refused("report", bare, *target)
    model_file = tmp_path / "model.html"
    model_file.write_bytes(number_model.read_bytes())
    result = run("report", model_file, "-o", model_file)
    assert result.code == 2
    assert "would overwrite" in " ".join(result.err.split())
    assert model_file.read_bytes() == number_model.read_bytes()
