"""What is promised to a gang is kept: a backfilled job that keeps its walltime never delays it."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.scheduler.plugins.reservation.starts import Starts, job, starts, with_plugin
from volcano.simulate.workload import TraceJob

NODES = 4
LATE = 0.2  # seconds between an end and the next cycle


@st.composite
def traces(draw: st.DrawFn) -> list[TraceJob]:
    """Jobs of all sizes that run at most as long as they say; some do not say."""
    jobs = []
    for number in range(draw(st.integers(3, 14))):
        walltime = draw(st.sampled_from((None, 20.0, 50.0, 100.0, 300.0)))
        longest = walltime or 200.0
        jobs.append(
            job(
                f"job-{number}",
                draw(st.floats(0, 200)),
                draw(st.floats(1, longest)),
                pods=draw(st.integers(1, NODES)),
                cpu=draw(st.sampled_from((1.0, 2.0, 4.0))),
                walltime=walltime,
                priority=draw(st.sampled_from((1, 1, 5))),
            )
        )
    return jobs


def delayed(found: Starts, jobs: list[TraceJob]) -> list[str]:
    """Gangs that started after a time that was promised although no job ahead of them in the queue waited or arrived
    since: those may take their place."""
    late = []
    given_jobs = {each.name: each for each in jobs}
    for name, promises in found.promised.items():
        own = given_jobs[name]
        for made, start in promises:
            ahead = [
                other
                for other in jobs
                if (-other.priority, other.arrival, other.name) < (-own.priority, own.arrival, own.name)
                and found.at.get(other.name, 1e9) > made - LATE
            ]
            if not ahead and found.at.get(name, 1e9) > max(start, made) + LATE:
                late.append(f"{name} promised at {made} for {start}, started at {found.at.get(name)}")
    return late


@given(traces())
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_a_backfilled_job_that_keeps_its_walltime_never_delays_the_reserved_gang(
    jobs: list[TraceJob],
) -> None:
    found = starts(jobs, with_plugin(starvation="1000h"), nodes=NODES)
    assert delayed(found, jobs) == []
    assert len(found.at) == len(jobs)


@pytest.mark.slow
@given(traces(), st.sampled_from(("easy", "conservative")), st.integers(1, 5))
@settings(max_examples=200, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_promises_are_kept_in_all_modes(jobs: list[TraceJob], mode: str, depth: int) -> None:
    found = starts(jobs, with_plugin(mode=mode, depth=depth, starvation="1000h"), nodes=NODES)
    assert delayed(found, jobs) == []
