"""A large gang behind a stream of small jobs: it starves without the plugin, and starts with it."""

from tests.scheduler.plugins.reservation.starts import job, starts, with_plugin
from volcano.scheduler.engine.config import shipped
from volcano.simulate.workload import TraceJob

END = 1000.0


def stream(walltime: float | None) -> list[TraceJob]:
    """A gang of high priority that needs all four nodes, and low-priority jobs of which three run at any time."""
    small = [
        job(f"small-{number}", 50.0 * number, 155.0, walltime=walltime, priority=1) for number in range(19)
    ]
    return [*small, job("gang", 60.0, 100.0, pods=4, priority=100, walltime=walltime and 200.0)]


def test_without_the_plugin_all_small_jobs_run_and_the_gang_never_starts() -> None:
    found = starts(stream(160.0), shipped(), until=END).at
    assert len([name for name in found if name.startswith("small")]) == 19
    assert "gang" not in found


def test_with_known_walltimes_the_gang_starts_when_the_jobs_before_it_have_ended() -> None:
    found = starts(stream(160.0), with_plugin(), until=END).at
    assert found["gang"] < 60.0 + 160.0
    assert len(found) > 15  # the others run afterwards


def test_without_walltimes_nodes_are_kept_back_once_the_gang_has_waited_long_enough() -> None:
    found = starts(stream(None), with_plugin(starvation="120s"), until=END).at
    assert 180.0 < found["gang"] < 180.0 + 160.0


def test_a_gang_that_is_not_admitted_because_the_cluster_is_full_is_admitted_for_its_reservation() -> None:
    """minResources are what Volcano's Jobs always have: overcommit and proportion would not admit the gang."""
    assert "gang" in starts(stream(160.0), with_plugin(), until=END).at
