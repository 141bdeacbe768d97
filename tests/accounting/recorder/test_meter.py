"""The meter agrees with the sum over the runs at any time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.accounting.builders import run
from volcano.accounting.recorder.meter import MOST_WORKLOADS, Meter

TIMES = st.floats(0, 1e6)


@given(st.lists(st.tuples(TIMES, st.none() | TIMES, st.sampled_from("ab")), max_size=15), TIMES)
def test_totals_equal_the_sum_over_the_runs(
    drawn: list[tuple[float, float | None, str]], later: float
) -> None:
    origin = 1_800_000_000.0
    meter = Meter(origin)
    now = origin + 2e6 + later
    expected: dict[tuple[str, str], float] = {}
    for number, (begun, lasted, queue) in enumerate(drawn):
        made = run(f"u{number}", at=origin + begun, queue=queue)
        meter.add(made)
        end = now
        if lasted is not None:
            end = origin + begun + lasted
            meter.end(made, end)
        for name, amount in (("cpu", 2.0), ("nvidia.com/gpu", 1.0), ("gpu", 1.0)):
            expected[(queue, name)] = expected.get((queue, name), 0.0) + amount * (end - made.started)
    assert meter.totals(now) == pytest.approx(expected, abs=1e-3)


def test_what_the_database_has_is_added() -> None:
    meter = Meter(0.0)
    meter.set_past({("a", "cpu"): 5.0})
    assert meter.totals(10.0) == {("a", "cpu"): 5.0}


def test_workloads_of_which_nothing_runs_are_not_kept() -> None:
    meter = Meter(0.0)
    for number in range(3 * MOST_WORKLOADS):
        made = run(f"u{number}", at=float(number), job=f"job-{number}", queue="a")
        meter.add(made)
        meter.end(made, number + 2.0)
    assert len(meter._workloads) <= MOST_WORKLOADS
    assert meter.totals(1e6)[("a", "cpu")] == pytest.approx(3 * MOST_WORKLOADS * 2.0 * 2.0)
