"""The work queue: order, due times, back-off, and one worker per key."""

import asyncio
import math

from hypothesis import given
from hypothesis import strategies as st

from volcano.base.clock import VirtualClock
from volcano.base.workqueue import Backoff, Waker, WorkQueue


def test_a_key_is_queued_once_in_the_order_of_its_first_addition() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abab":
        queue.add(key)
    assert queue.get(0) == ["a", "b"]
    assert queue.get(0) == []


def test_a_key_that_is_being_processed_is_held_back_until_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert queue.get(0) == ["a"]
    queue.add("a")
    assert queue.get(0) == []
    queue.done("a")
    assert queue.get(0) == ["a"]
    queue.done("a")
    assert queue.next_due() is None


def test_the_earliest_due_time_of_a_key_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for due in (5.0, 3.0, 9.0, math.inf):
        queue.add_at("a", due)
    assert (queue.next_due(), len(queue)) == (3.0, 1)
    assert queue.get(2.9) == []
    assert queue.get(3.0) == ["a"]
    queue.done("a")
    assert queue.next_due() is None


def test_limit_leaves_the_rest_queued() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abc":
        queue.add(key)
    assert queue.get(0, limit=2) == ["a", "b"]
    assert queue.next_due() == -math.inf
    assert queue.get(0, limit=2) == ["c"]


def test_retries_back_off_up_to_the_longest_delay_until_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(first=1.0, longest=5.0))
    assert [queue.retry("a", now=100.0) for _ in range(4)] == [1.0, 2.0, 4.0, 5.0]
    assert queue.next_due() == 101.0
    queue.forget("a")
    assert queue.retry("a", now=200.0) == 1.0


def test_back_off_does_not_overflow() -> None:
    assert Backoff(first=0.1, longest=30.0).delay(10_000) == 30.0


def test_a_discarded_key_is_neither_due_nor_queued_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add_at("b", 1.0)
    queue.discard("a")
    queue.discard("b")
    assert (queue.next_due(), queue.get(9)) == (None, [])
    queue.add("c")
    assert queue.get(0) == ["c"]
    queue.add("c")
    queue.discard("c")
    queue.done("c")
    assert queue.get(0) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "later", "get", "done"]))))
def test_a_key_is_never_processed_twice_at_once_and_none_is_lost(steps: list[tuple[str, str]]) -> None:
    queue: WorkQueue[str] = WorkQueue()
    processing: set[str] = set()
    wanted: set[str] = set()
    for moment, (key, step) in enumerate(steps):
        if step == "add":
            queue.add(key)
            wanted.add(key)
        elif step == "later":
            queue.add_at(key, moment + 1.0)
            wanted.add(key)
        elif step == "done" and key in processing:
            processing.discard(key)
            queue.done(key)
        elif step == "get":
            taken = queue.get(float(moment))
            assert not processing & set(taken)
            processing |= set(taken)
            wanted -= set(taken)
    for key in processing:
        queue.done(key)
    assert wanted <= set(queue.get(math.inf))


async def test_a_wait_ends_by_a_call_or_at_its_due_time() -> None:
    clock = VirtualClock()
    waker = Waker(clock)
    start = clock.now().monotonic

    waiting = asyncio.create_task(waker.wait(start + 10))
    await asyncio.sleep(0)
    waker.wake()
    await waiting

    waker.clear()
    waiting = asyncio.create_task(waker.wait(start + 20))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(10)  # the timer of the first wait: it ends this one early
    await waiting

    waker.clear()
    waiting = asyncio.create_task(waker.wait(None))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert not waker.wakes_by(start + 100)
    waker.wake()
    await waiting
    waker.close()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=30))
def test_due_keys_come_once_in_the_order_of_their_earliest_due_time(entries: list[tuple[int, int]]) -> None:
    queue: WorkQueue[int] = WorkQueue()
    earliest: dict[int, float] = {}
    for due, key in entries:
        queue.add_at(key, float(due))
        earliest[key] = min(earliest.get(key, math.inf), due)
    assert queue.next_due() == min(earliest.values(), default=None)
    keys = queue.get(20.0)
    assert sorted(keys) == sorted(earliest)
    assert [earliest[key] for key in keys] == sorted(earliest.values())
