"""How many threads are used: the caller's word, the scheduler's, the container's, the environment's."""

import os

import pytest

from bmcd import utils
from bmcd.errors import InputError


def test_the_caller_decides():
    assert utils.thread_count(64) == 64
    for bad in (0, -1, True, 1.5, "2"):
        with pytest.raises(InputError, match="n_threads must be a whole number, 1 or more"):
            utils.thread_count(bad)


@pytest.mark.parametrize(("value", "expected"), [("1", 1), ("9999", None), ("", None), ("many", None), ("0", None)])
def test_the_environment_can_only_lower_it(monkeypatch, value, expected):
    monkeypatch.delenv("BMCD_THREADS", raising=False)
    allowed = utils.n_cores()
    monkeypatch.setenv("BMCD_THREADS", value)
    assert utils.n_cores() == (expected or allowed)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux has affinities")
def test_affinity_counts():
    before = os.sched_getaffinity(0)
    utils._allowed_cores.cache_clear()
    try:
        os.sched_setaffinity(0, {min(before)})
        assert utils.thread_count() == 1
    finally:
        os.sched_setaffinity(0, before)
        utils._allowed_cores.cache_clear()
