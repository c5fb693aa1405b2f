"""bmcd.spark.fit: one chain a task, each on its own users, the same whatever happens to tasks."""

import os
import signal

import numpy as np
import pytest

import bmcd
from bmcd.errors import ClicksError, InputError, InputTypeError
from bmcd.sampling.run import Run
from bmcd.sampling.tastes.draws import sample_tastes
from bmcd.spark import fitting
from bmcd.spark.chains import ChainTask, click_matrix_of, draws_of_chain, from_bytes, to_bytes
from bmcd.spark.shipping import on_worker

pytestmark = pytest.mark.xdist_group("spark")  # one session for all of them

SHORT = {"draws": 4, "warmup": 6, "thin": 2, "seed": 5}


@pytest.fixture(scope="module")
def fitted(spark, rows):
    frame = spark.createDataFrame(rows, "user bigint, item bigint").repartition(5)
    titles = {number: f"Item {number}" for number in range(30)}
    return bmcd.spark.fit(frame, bmcd.Tastes(3), chains=3, max_users=100, titles=titles, **SHORT)


def test_the_model_is_one_like_any_other(fitted, simulation, tmp_path):
    n_items = (simulation.clicks.per_item > 0).sum()
    assert f"fitted to 300 users (100 a chain) x {n_items} items: 3 chains x 4 draws" in repr(fitted)
    assert fitted.sample_.max_users == 100
    assert fitted.draws_.probe.shape == (3, 4, 30)
    fitted.save(tmp_path / "model.bmcd")
    again = bmcd.load(tmp_path / "model.bmcd")
    histories = [[3, 4], []]
    want = fitted.recommend_for(histories, k=3)
    assert again.recommend_for(histories, k=3).equals(want)
    assert want["title"].str.startswith("Item ").all()
    assert fitted.clicks_.n_users == 0
    assert fitted.clicks_.items.tolist() == sorted(set(simulation.clicks.matrix.indices.tolist()))


def killed_once(chain_to_kill):
    def sent(module, function, **options):
        work = on_worker(module, function, **options)

        def call(rows):
            from pyspark import TaskContext

            if rows.column("chain")[0].as_py() == chain_to_kill and TaskContext.get().attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(rows)

        return call

    return sent


def test_other_partitions_and_a_killed_task_change_no_draw(spark, rows, fitted, monkeypatch):
    monkeypatch.setattr(fitting, "on_worker", killed_once(1))
    other = spark.createDataFrame(rows[::-1] + rows[:50], "user bigint, item bigint").repartition(2)
    again = bmcd.spark.fit(other, bmcd.Tastes(3), chains=3, max_users=100, **SHORT).draws_
    for name in ("rho", "alpha", "log_joint", "probe", "warmup_log_joint"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted.draws_, name))


def test_every_chain_has_users_of_its_own_in_a_task_of_its_own(spark, frame):
    rows = fitting.one_row_a_user(frame, "user", "item", None)
    task = ChainTask(list(range(30)), 300, 100, 3, [], {}, {}, {})
    sampled = fitting._samples(rows, task, 8, 5)
    assert sampled.rdd.getNumPartitions() == 8
    by_partition = sampled.rdd.glom().map(lambda part: sorted((row.chain, row.user) for row in part)).collect()
    assert [{chain for chain, _ in part} for part in by_partition] == [{chain} for chain in range(8)]
    users = [{user for _, user in part} for part in by_partition]
    for part in users:
        # About 100 + 66 more than are wanted: binomial, standard deviation 8.6; six of them.
        assert 114 < len(part) < 218
    assert len({frozenset(part) for part in users}) == 8


def test_a_chain_is_that_of_the_local_sampler(simulation):
    """A worker's chain is, to the digit, the chain of the same number of the sampler on one machine."""
    clicks = simulation.clicks
    lists = [clicks.matrix[[row]].indices.tolist() for row in range(clicks.n_users)]
    run = {"draws": 3, "warmup": 4, "thin": 1, "seed": 2}
    options = {"distance": "footrule", "rank_scale": "linear"}
    priors = {"scale_rate": None, "a": 0.5, "b": [1.0, 1.0]}
    task = ChainTask(list(range(30)), 300, 300, 3, [], run, options, priors)
    matrix = click_matrix_of(list(range(300)), lists, task)
    want = sample_tastes(clicks, 3, Run(3, 4, 3, 1, 2, 1), priors=bmcd.TastePriors(a=0.5), aside=False)
    for chain in (0, 2):
        found = from_bytes(to_bytes(draws_of_chain(matrix, chain, task)))
        np.testing.assert_array_equal(found["rho"][0], want.rho[chain])
        np.testing.assert_array_equal(found["log_joint"][0], want.log_joint[chain])


def test_clicks_set_aside_are_seen_by_no_chain():
    task = ChainTask(["a", "b", "c"], 2, 2, 1, [("ann", ["a"], "c")], {}, {}, {})
    matrix = click_matrix_of(["bob", "ann"], [["c", "b"], ["c", "a"]], task)
    assert matrix.toarray().astype(int).tolist() == [[0, 1, 1], [1, 0, 0]]


def test_text_ids_and_all_users_without_a_sample(spark):
    rows = [(f"u{user}", item) for user in range(40) for item in "abcde"[user % 3 : user % 3 + 3]]
    frame = spark.createDataFrame(rows, "user string, item string")
    model = bmcd.spark.fit(frame, bmcd.Tastes(2, chains=2), max_users=None, **SHORT, set_aside=False)
    assert model.sample_ is None
    assert model.clicks_.items.tolist() == list("abcde")
    assert model.draws_.n_chains == 2
    assert model.draws_.probe.shape[2] == 0


def test_wrong_calls_are_told_what_to_do(spark, frame):
    with pytest.raises(InputTypeError, match=r"bmcd.spark.fit fits bmcd.Tastes, not BMCD"):
        bmcd.spark.fit(frame, bmcd.BMCD(2))
    with pytest.raises(InputError, match="max_users must be a whole number"):
        bmcd.spark.fit(frame, bmcd.Tastes(2), max_users=0)
    with pytest.raises(ClicksError, match="no clicks to fit"):
        bmcd.spark.fit(frame.where("user < 0"), bmcd.Tastes(2))
