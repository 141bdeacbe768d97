"""The queue-admission gate: who is let through, in what order, and that a promise counts."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, queue, resources
from tests.scenario import cluster_of, config
from tests.scheduler.test_loop import bench
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Key
from volcano.kube.api.names import QUEUE_GATE
from volcano.model.decisions import Bind, RemoveGate
from volcano.scheduler.actions.scheduling_gates import FEATURE
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.session import Outcome

ASKED = {QUEUE_GATE: "true"}


def gated(name: str, replicas: int = 1, **options: Any) -> JobManifests:
    options.setdefault("gates", [QUEUE_GATE])
    return job(name, replicas, annotations=ASKED, **options)


def cycle(*jobs: JobManifests, on: bool = True, plugin: str = "capacity", cpu: int = 2) -> Outcome:
    chosen = config(["gang", "predicates", plugin])
    chosen = replace(chosen, features=frozenset((FEATURE,)) if on else frozenset())
    limited = queue("default", capability=resources(cpu=cpu))
    cluster = cluster_of(nodes=[node("n1", cpu=8)], jobs=jobs, queues=[limited])
    return schedule(cluster.snapshot(START, 1), chosen)


def lifted(outcome: Outcome) -> list[str]:
    return [each.name for each in outcome.decisions if isinstance(each, RemoveGate)]


def bound(outcome: Outcome) -> list[str]:
    return [each.name for each in outcome.decisions if isinstance(each, Bind)]


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_the_gate_is_taken_off_as_many_pods_as_the_queue_may_take(plugin: str) -> None:
    outcome = cycle(gated("a", 3, min_available=1), plugin=plugin)
    assert lifted(outcome) == ["a-worker-0", "a-worker-1"]
    assert bound(outcome) == []  # not before the gate is really gone
    assert outcome.diagnoses["default/a"].stage == "queue"


def test_jobs_go_in_their_order_and_what_is_placed_counts() -> None:
    outcome = cycle(gated("young"), gated("old", age=100), job("free", 1, age=1))
    assert bound(outcome) == ["free-worker-0"]
    assert lifted(outcome) == ["old-worker-0"]


def test_what_was_promised_to_a_pod_without_a_node_is_not_promised_again() -> None:
    nowhere = {"nodeSelector": {"no": "where"}}
    outcome = cycle(gated("through", 2, gates=[], spec=nowhere), gated("later"))
    assert lifted(outcome) == []


def test_without_the_feature_the_gate_stays() -> None:
    assert lifted(cycle(gated("a"), on=False)) == []


def test_a_pod_that_others_hold_back_too_stays_gated() -> None:
    assert lifted(cycle(gated("a", gates=[QUEUE_GATE, "example.com/wait"]))) == []


def test_a_job_that_was_not_admitted_stays_gated() -> None:
    assert lifted(cycle(gated("a", phase="Pending", min_resources=resources(cpu=9)))) == []


async def test_in_a_cluster_the_gate_goes_and_the_pod_is_bound() -> None:
    async with bench(features=frozenset((FEATURE,))) as b:
        await b.add(node("n1"), gated("a", phase="Inqueue"))

        async def placed() -> bool:
            found = await b.client.get(kinds.POD, Key("default", "a-worker-0"))
            return not found["spec"].get("schedulingGates") and found["spec"].get("nodeName") == "n1"

        await b.until(placed)
