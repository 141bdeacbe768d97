"""sla: the waiting time of jobs is limited."""

from typing import Any

import pytest

from tests.builders import START, job, node, podgroup, queue, resources
from tests.scenario import config, schedule
from volcano.scheduler.engine.config import ConfigError

WAITING = "volcano.sh/sla-waiting-time"


def sla(time: Any = None) -> dict[str, Any]:
    return {"name": "sla", "arguments": {} if time is None else {"sla-waiting-time": time}}


def own(time: str) -> dict[str, Any]:
    return {"annotations": {WAITING: time}}


def first(*jobs: Any, time: str | None = None) -> str:
    """The job whose pod gets the only cpu."""
    result = schedule(nodes=[node("n1", cpu=1)], jobs=jobs, plugins=[sla(time), "gang", "predicates"])
    return next(iter(result.bound())).split("-")[0]


def test_the_earliest_deadline_goes_first() -> None:
    assert first(job("young", 1, age=10), job("old", 1, age=20), time="3m") == "old"
    assert (
        first(job("patient", 1, age=20, group=own("1h")), job("urgent", 1, age=10, group=own("1m")))
        == "urgent"
    )
    assert first(job("without", 1, age=99), job("promised", 1, group=own("1h"))) == "promised"


def test_a_job_larger_than_the_cluster_is_admitted_after_its_deadline() -> None:
    def phase(age: float) -> str:
        waits = podgroup(
            "big", phase="Pending", min_resources=resources(cpu=20), annotations={WAITING: "3s"}, age=age
        )
        result = schedule(
            nodes=[node("n1", cpu=10)],
            queues=[queue("default")],
            podgroups=[waits],
            tiers=[["sla"], ["overcommit", "proportion"]],
            actions=["enqueue"],
            now=START,
        )
        return result.phase("big")

    assert phase(2) == "Pending"
    assert phase(4) == "Inqueue"


@pytest.mark.parametrize("value", [3, "soon", True])
def test_a_malformed_waiting_time_is_rejected(value: Any) -> None:
    with pytest.raises(ConfigError, match="duration"):
        config([sla(value)])


def test_a_waiting_time_of_nothing_promises_nothing() -> None:
    assert first(job("young", 1, age=10), job("old", 1, age=20), time="0s") == "old", "by age alone"
