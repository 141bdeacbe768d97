"""Gangs of pods with requests and best-effort pods start as a whole."""

from typing import Any

import pytest

from tests.builders import JobManifests, job, node, pod, podgroup, queue, resources
from tests.scenario import DEFAULT_TIERS, Result, schedule

NOWHERE = {"nodeSelector": {"disk": "none"}}


def mixed(requesting: int, best_effort: int, minimum: int, **options: Any) -> JobManifests:
    """A gang `mixed`: pods of one cpu, and best-effort pods; `spec` applies to the latter."""
    spec = options.pop("spec", None)
    return JobManifests(
        podgroup("mixed", min_member=minimum, **options),
        (
            *(pod(f"mixed-cpu-{i}", group="mixed", role="cpu") for i in range(requesting)),
            *(
                pod(f"mixed-free-{i}", cpu=None, group="mixed", role="free", spec=spec)
                for i in range(best_effort)
            ),
        ),
    )


def cycle(gang: JobManifests, cpus: int = 2, *others: JobManifests, **more: Any) -> Result:
    return schedule(nodes=[node("n1", cpu=cpus)], jobs=[gang, *others], tiers=DEFAULT_TIERS, **more)


def test_min_resources_that_count_pods_are_reached_by_both_kinds_together() -> None:
    wanted = {**resources(cpu=2), "pods": "4"}
    assert len(cycle(mixed(2, 2, 4, min_resources=wanted)).bound()) == 4


def test_no_pod_starts_when_the_best_effort_half_fits_nowhere() -> None:
    assert cycle(mixed(2, 2, 4, spec=NOWHERE)).bound() == {}


def test_no_pod_starts_when_the_requesting_half_does_not_fit() -> None:
    assert cycle(mixed(2, 2, 4), 1).bound() == {}


def test_a_gang_starts_without_best_effort_pods_that_it_does_not_need() -> None:
    assert set(cycle(mixed(2, 2, 2, spec=NOWHERE)).bound()) == {"mixed-cpu-0", "mixed-cpu-1"}


def test_best_effort_pods_beyond_the_minimum_are_placed_by_backfill() -> None:
    gang = mixed(2, 2, 2)
    assert len(cycle(gang, actions=["enqueue", "allocate"]).bound()) == 2
    assert len(cycle(gang).bound()) == 4


def test_minimums_of_best_effort_roles_are_kept() -> None:
    roles = {"cpu": 1, "free": 2}
    assert len(cycle(mixed(1, 2, 3, min_task_member=roles)).bound()) == 3
    assert cycle(mixed(2, 1, 3, min_task_member=roles)).bound() == {}


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(("spec", "evicted"), [(None, 2), (NOWHERE, 0)])
def test_pods_are_evicted_only_for_a_gang_whose_best_effort_pods_fit(
    action: str, spec: Any, evicted: int
) -> None:
    running = job("run", 4, min_available=1, queue="a", on="n1", phase="Running")
    result = cycle(
        mixed(2, 2, 4, queue="b", spec=spec),
        4,
        running,
        queues=[queue("a"), queue("b")],
        actions=["enqueue", "allocate", action, "backfill"],
    )
    assert len(result.evicted()) == evicted
