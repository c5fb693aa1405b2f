"""Slots: never more at a time than there are, never more waiting than may, and nobody forgotten."""

import asyncio
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.serve.messages import Problem
from bmcd.serve.slots import Slots


def test_an_answer_and_an_error_come_back():
    slots = Slots(1, 1)

    async def both():
        assert await slots.run(lambda: 7, 60) == 7
        with pytest.raises(ZeroDivisionError):
            await slots.run(lambda: 1 // 0, 60)

    asyncio.run(both())
    assert (slots.busy, slots.waiting) == (0, 0)


@given(n=st.integers(1, 4), queue=st.integers(1, 5), asked=st.integers(1, 20))
def test_as_many_are_taken_as_there_are_slots_and_places(n, queue, asked):
    slots = Slots(n, queue)
    go, lock, now, most = threading.Event(), threading.Lock(), 0, 0

    def work():
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        go.wait(60)
        with lock:
            now -= 1
        return True

    async def ask_all():
        questions = [asyncio.ensure_future(slots.run(work, 60)) for _ in range(asked)]
        await asyncio.sleep(0)  # all are put into the queue, or refused
        refused = [one for one in questions if one.done()]
        go.set()
        return refused, await asyncio.gather(*questions, return_exceptions=True)

    refused, answers = asyncio.run(ask_all())
    taken = [one for one in answers if one is True]
    assert len(taken) == min(asked, n + queue)
    assert len(refused) == asked - len(taken)
    assert all(one.status == 429 and int(one.headers["Retry-After"]) >= 1 for one in answers if one is not True)
    assert most <= n


def test_who_waits_too_long_or_hangs_up_is_taken_from_the_queue():
    slots, go, ran = Slots(1, 5), threading.Event(), []

    async def ask():
        first = asyncio.ensure_future(slots.run(lambda: go.wait(60), 60))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as late:
            await slots.run(lambda: ran.append("late"), 0.05)
        with pytest.raises(Problem) as gone:
            await slots.run(lambda: ran.append("gone"), 60, asyncio.sleep(0.05))
        waiting = slots.waiting
        go.set()
        await first
        assert await slots.run(lambda: "next", 60) == "next"
        return late.value.status, gone.value.status, waiting

    assert asyncio.run(ask()) == (504, 499, 0)
    assert ran == []


def test_the_time_to_wait_follows_how_long_questions_take():
    slots = Slots(1, 50)

    async def ask():
        for _ in range(40):
            await slots.run(lambda: time.sleep(0.05), 60)

    asyncio.run(ask())
    go = threading.Event()
    for _ in range(50):
        slots.submit(lambda: go.wait(60))
    wait = slots.seconds_to_wait()
    go.set()
    assert wait >= 2  # 49 that take at least 0.05 s each
