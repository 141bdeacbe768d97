"""When the next cycle is due: soon after a change, later after a long cycle, and now and then anyway."""

import asyncio

import pytest

from volcano.base.clock import VirtualClock
from volcano.scheduler.cycle_timer import LONGEST_WINDOW, SHORTEST_WINDOW, STATUS_DELAY, CycleTimer, Urgency


async def waited(timer: CycleTimer, clock: VirtualClock) -> float:
    """The seconds until the next waiting."""
    began = clock.now().monotonic
    waiting = asyncio.create_task(timer.wait())
    while not waiting.done():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not waiting.done():
            clock.advance(0.001)
    return clock.now().monotonic - began


@pytest.mark.parametrize(
    ("cycle", "expected"),
    [
        pytest.param(0.0, SHORTEST_WINDOW, id="after a short cycle at once"),
        pytest.param(0.03, 0.03, id="after a long cycle as long as it took"),
        pytest.param(2.0, LONGEST_WINDOW, id="never longer than the longest window"),
    ],
)
async def test_changes_are_collected_for_as_long_as_the_last_cycle_took(
    cycle: float, expected: float
) -> None:
    clock = VirtualClock()
    timer = CycleTimer(clock, 1.0, revision=lambda: 0, busy=lambda: False)
    clock.advance(10)
    timer.wake()
    await waited(timer, clock)
    clock.advance(cycle)
    timer.wake()
    assert await waited(timer, clock) == pytest.approx(expected, abs=0.02)


async def test_without_a_change_a_cycle_comes_after_a_period_if_something_waits() -> None:
    clock = VirtualClock()
    timer = CycleTimer(clock, 1.0, revision=lambda: 0, busy=lambda: True)
    assert await waited(timer, clock) == pytest.approx(1.0 + SHORTEST_WINDOW, abs=0.06)


async def test_after_a_change_that_no_job_waits_for_a_cycle_comes_within_a_period() -> None:
    clock = VirtualClock()
    timer = CycleTimer(clock, 1.0, revision=lambda: 0, busy=lambda: False)
    timer.wake_later()
    assert await waited(timer, clock) == pytest.approx(1.0 + SHORTEST_WINDOW, abs=0.06)
    timer.wake()
    assert await waited(timer, clock) < 0.5  # and it is over with that


@pytest.mark.parametrize(
    ("urgency", "waiting", "longest"),
    [
        pytest.param(Urgency.DECISION, False, SHORTEST_WINDOW, id="a decision at once"),
        pytest.param(
            Urgency.STATUS, False, STATUS_DELAY + SHORTEST_WINDOW, id="status of running jobs later"
        ),
        pytest.param(Urgency.STATUS, True, SHORTEST_WINDOW, id="at once when a job waits for resources"),
    ],
)
async def test_a_change_of_status_does_not_hurry_unless_a_job_waits(
    urgency: Urgency, waiting: bool, longest: float
) -> None:
    clock = VirtualClock()
    timer = CycleTimer(clock, 1.0, revision=lambda: 0, busy=lambda: waiting, waiting=lambda: waiting)
    clock.advance(10)
    timer.wake()
    await waited(timer, clock)
    timer.on_change(urgency)
    timer.on_change(urgency)  # a second one does not delay it
    assert await waited(timer, clock) == pytest.approx(longest, abs=0.02)
