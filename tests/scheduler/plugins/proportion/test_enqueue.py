"""A full queue admits a job only if preemption could free the resources."""

import pytest

from tests.builders import job, node, priority_class, queue
from tests.scenario import Result, schedule

PREEMPTING = ("enqueue", "allocate", "preempt", "backfill")
CLASSES = [priority_class("low", 10), priority_class("high", 1000)]


def full_queue(*, newcomer: str, actions: tuple[str, ...], plugin: str, cpu: int = 2) -> Result:
    """One node, all of it held by a gang of low priority; a new job waits for admission."""
    running = job(
        "holder", 2, queue="q", on="n1", priority_class="low", phase="Running", min_resources={"cpu": "2"}
    )
    waiting = job(
        "new", cpu, queue="q", priority_class=newcomer, phase="Pending", min_resources={"cpu": str(cpu)}
    )
    return schedule(
        nodes=[node("n1", cpu=2)],
        queues=[queue("q", capability={"cpu": "8"})],
        jobs=[running, waiting],
        others=CLASSES,
        actions=actions,
        tiers=[["priority", "gang", "conformance"], ["predicates", plugin]],
    )


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@pytest.mark.parametrize(
    ("newcomer", "actions", "cpu", "let_in"),
    [
        pytest.param("high", PREEMPTING, 2, True, id="higher priority, preemption at work: let in"),
        pytest.param("high", ("enqueue", "allocate", "backfill"), 2, False, id="without preemption it waits"),
        pytest.param("low", PREEMPTING, 2, False, id="its equals are not to be preempted: it waits"),
        pytest.param("high", PREEMPTING, 3, False, id="more than the cluster has: it waits"),
    ],
)
def test_who_is_let_into_a_full_queue(
    newcomer: str, actions: tuple[str, ...], cpu: int, let_in: bool, plugin: str
) -> None:
    result = full_queue(newcomer=newcomer, actions=actions, plugin=plugin, cpu=cpu)
    assert (result.phase("new") == "Inqueue") is let_in


def test_who_is_let_in_takes_the_place_of_the_lesser_gang_as_a_whole() -> None:
    result = full_queue(newcomer="high", actions=PREEMPTING, plugin="proportion")
    assert result.evicted() == {"holder-worker-0", "holder-worker-1"}
