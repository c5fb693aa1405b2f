"""What both studies share: stages that see earlier results, and requirements that are checked first."""

import pytest
from experiments import study
from experiments.document import Contents
from experiments.study import Stage, Study, require_package
from experiments.tasks import StudyError, Task


def double(x):
    return {"double": 2 * x}


class Chained(Study):
    """The second stage's task depends on the result of the first."""

    package = "experiments"

    def stages(self, results):
        yield Stage("first", [Task("a", double, {"x": 1})])
        yield Stage("second", [Task("b", double, {"x": results["a"]["double"]})], one_at_a_time=True)

    def contents(self, results):
        return Contents({"answer": results["b"]["double"]}, {}, {})


@pytest.fixture
def template(monkeypatch):
    monkeypatch.setattr(study, "read_text", lambda package, file: "# {answer}")


@pytest.mark.usefixtures("template")
def test_a_stage_sees_the_results_of_those_before(tmp_path):
    page = Chained().reproduce(tmp_path, n_workers=1)
    assert page.read_text() == "# 4\n"
    assert sorted(file.name for file in (tmp_path / "results").iterdir()) == ["a.json", "b.json"]


@pytest.mark.usefixtures("template")
def test_a_finished_study_is_only_written_again(tmp_path, monkeypatch):
    page = Chained().reproduce(tmp_path, n_workers=1)
    page.unlink()
    monkeypatch.setattr("experiments.tasks.run_task", lambda *arguments: pytest.fail("a task ran again"))
    assert Chained().reproduce(tmp_path, n_workers=1).read_text() == "# 4\n"


def test_tasks_run_one_at_a_time_where_they_must(tmp_path, monkeypatch):
    workers = {}

    def run_tasks(tasks, folder, *, n_workers, progress, label):
        workers[label] = n_workers
        return {task.name: task.function(**task.arguments) for task in tasks}

    monkeypatch.setattr(study, "run_tasks", run_tasks)
    assert Chained().run(tmp_path, n_workers=5) == {"a": {"double": 2}, "b": {"double": 4}}
    assert workers == {"first": 5, "second": 1}


def test_a_missing_package_is_named_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "find_spec", lambda package: None)
    with pytest.raises(StudyError, match=r'implicit: pip install "bmcd\[baselines\]"'):
        Chained().reproduce(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(StudyError, match=r'pip install "bmcd\[spark\]"'):
        require_package("no_such_package", "spark")


def test_why_there_is_no_spark(monkeypatch):
    from bmcd.baselines import spark_session

    monkeypatch.setattr(study, "find_spec", lambda package: None)
    assert "pyspark" in study.why_no_spark()
    monkeypatch.setattr(study, "find_spec", lambda package: package)
    monkeypatch.setattr(spark_session, "check_java", lambda: None)
    assert study.why_no_spark() == ""

    def no_java():
        raise spark_session.JavaError("none")

    monkeypatch.setattr(spark_session, "check_java", no_java)
    assert "Java" in study.why_no_spark()
