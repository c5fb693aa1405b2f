from typer.testing import CliRunner

from bmcd.cli import app

runner = CliRunner()


def test_demo_shows_clicks_and_the_limit():
    result = runner.invoke(app, ["demo", "--users", "300", "--seed", "1"])
    assert result.exit_code == 0
    assert "300 users x 50 items" in result.output
    assert "next 10" in result.output


def test_help_has_an_example():
    result = runner.invoke(app, ["demo", "--help"])
    assert result.exit_code == 0
    assert "bmcd demo --seed 1" in result.output


def test_bad_usage_is_exit_code_2():
    assert runner.invoke(app, ["demo", "--users", "none"]).exit_code == 2
    assert runner.invoke(app, ["nonsense"]).exit_code == 2
