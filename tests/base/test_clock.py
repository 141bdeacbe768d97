"""A steady clock is not affected when the system's wall clock is set."""

from volcano.base.clock import Instant, SteadyClock


class PutClock:
    """The system's clocks; the wall clock can be set."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1000.0, 5.0
        self.slept = 0.0

    def now(self) -> Instant:
        return Instant(self.wall, self.monotonic)

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


async def test_a_steady_clock_goes_on_when_the_wall_clock_is_put() -> None:
    machine = PutClock()
    steady = SteadyClock(machine)
    machine.wall -= 3600
    machine.monotonic += 10
    assert steady.now() == Instant(1010.0, 15.0)
    await steady.sleep(2.0)
    assert machine.slept == 2.0
