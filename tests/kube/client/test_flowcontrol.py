"""A token bucket lets a burst through and then keeps its rate."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from volcano.base.clock import VirtualClock
from volcano.kube.client.flowcontrol import RateLimiter, TokenBucket


def test_a_burst_goes_at_once_and_the_rest_in_turn() -> None:
    bucket = TokenBucket(rate=10, burst=3)
    assert [round(bucket.reserve(100.0), 6) for _ in range(5)] == [0, 0, 0, 0.1, 0.2]


def test_an_idle_bucket_fills_up_to_its_burst() -> None:
    bucket = TokenBucket(rate=10, burst=2)
    for _ in range(2):
        bucket.reserve(0.0)
    assert [round(bucket.reserve(60.0), 6) for _ in range(3)] == [0, 0, 0.1]


def test_no_rate_is_no_limit() -> None:
    bucket = TokenBucket(rate=0, burst=1)
    assert [bucket.reserve(0.0) for _ in range(100)] == [0.0] * 100


@given(st.lists(st.floats(0, 2), max_size=60), st.floats(0.5, 50), st.integers(1, 10))
def test_no_second_lets_more_through_than_rate_and_burst(gaps: list[float], rate: float, burst: int) -> None:
    bucket, now, turns = TokenBucket(rate, burst), 0.0, []
    for gap in gaps:
        now += gap
        turns.append(now + bucket.reserve(now))
    assert turns == sorted(turns)
    for start in turns:
        assert sum(start <= turn <= start + 1 for turn in turns) <= rate + burst + 1


async def test_a_limiter_makes_its_callers_wait_for_their_turn() -> None:
    clock = VirtualClock()
    limiter = RateLimiter(1, 1, clock)
    done: list[int] = []

    async def caller(number: int) -> None:
        await limiter.acquire()
        done.append(number)

    tasks = [asyncio.create_task(caller(number)) for number in range(3)]
    for expected in ([0], [0, 1], [0, 1, 2]):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert done == expected
        clock.advance(1.0)
    await asyncio.gather(*tasks)
