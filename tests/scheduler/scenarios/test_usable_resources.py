"""Shares are parts of what jobs can use: not of unusable nodes, nor of what pods in no queue hold."""

from typing import Any

import pytest

from tests.builders import job, node, pod, queue, resources
from tests.scenario import cluster_of, event, schedule
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EventType

ACTIONS = ("enqueue", "allocate", "reclaim", "backfill")
CORDONED: dict[str, Any] = {"unschedulable": True}


def tainted(key: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"taints": [{"key": key, "effect": effect}]}


def total(*nodes: Manifest, **cluster: Any) -> float:
    """The cpus that are shared."""
    return float(cluster_of(nodes=nodes, **cluster).snapshot().total[0]) / 1000


@pytest.mark.parametrize("plugin", ["proportion", {"name": "capacity", "enableHierarchy": True}])
@pytest.mark.parametrize(
    ("second", "pods"),
    [
        pytest.param({}, [pod("foreign", 4, node="n2", scheduler="other")], id="pods of another scheduler"),
        pytest.param({}, [pod("orphan", 4, node="n2", group="gone")], id="pods without their PodGroup"),
        pytest.param(CORDONED, [], id="a cordoned node"),
        pytest.param(tainted("node.kubernetes.io/not-ready", "NoExecute"), [], id="a node that is not ready"),
        pytest.param(tainted("node-role.kubernetes.io/control-plane"), [], id="the control plane"),
    ],
)
def test_a_new_queue_is_served_although_part_of_the_cluster_is_not_usable(
    second: dict[str, Any], pods: list[Manifest], plugin: Any
) -> None:
    result = schedule(
        nodes=[node("n1", cpu=4), node("n2", cpu=4, **second)],
        queues=[queue("root"), queue("a"), queue("b")],
        jobs=[job("run", 4, min_available=1, queue="a", on="n1", phase="Running"), job("new", 2, queue="b")],
        pods=pods,
        tiers=[["priority", "gang", "conformance"], ["drf", "predicates", plugin, "nodeorder"]],
        actions=ACTIONS,
    )
    assert len(result.evicted()) == 2


def test_taints_of_nodes_for_certain_jobs_do_not_make_them_unusable() -> None:
    assert total(node("n1"), node("n2", **tainted("nvidia.com/gpu"))) == 8
    assert (
        total(node("n1"), node("n2", **tainted("node.kubernetes.io/memory-pressure", "PreferNoSchedule")))
        == 8
    )


def test_nodes_of_the_control_plane_count_where_there_are_no_others() -> None:
    control_plane = node("n1", **tainted("node-role.kubernetes.io/control-plane"))
    assert total(control_plane) == 4
    assert total(control_plane, node("n2")) == 4
    assert total(control_plane, node("n2", **CORDONED)) == 4


def test_what_jobs_hold_on_unusable_nodes_counts() -> None:
    """A queue that holds a drained node's resources keeps its part of the rest until the pods are gone."""
    running = job("run", 3, on="n2", phase="Running")
    nodes = [node("n1"), node("n2", **CORDONED)]
    assert total(*nodes, jobs=[running]) == 7
    assert schedule(nodes=nodes, jobs=[running, job("new", 4)]).bound_per_node() == {"n1": 4}


def test_pods_beyond_a_node_do_not_reduce_the_others() -> None:
    assert total(node("n1", cpu=2), node("n2", cpu=4), pods=[pod("large", 3, node="n1", scheduler="x")]) == 4


def test_the_total_follows_events() -> None:
    cluster = cluster_of(nodes=[node("n1"), node("n2")], pods=[pod("p", 1, node="n1", scheduler="x")])
    assert cluster.snapshot().total[0] == 7000
    cluster.apply(event(pod("p", 1, node="n1", scheduler="x"), cluster, EventType.DELETED))
    assert cluster.snapshot().total[0] == 8000
    cordoned = node("n2", **CORDONED)
    cordoned["metadata"]["resourceVersion"] = "2"
    cluster.apply(event(cordoned, cluster, EventType.MODIFIED))
    assert cluster.snapshot().total[0] == 4000
    cluster.apply(event(node("n1"), cluster, EventType.DELETED))
    assert cluster.snapshot().total[0] == 0


def test_no_job_is_admitted_for_resources_that_are_not_usable() -> None:
    waiting = job("new", 6, phase="Pending", min_resources=resources(cpu=6))
    options: dict[str, Any] = {"plugins": ["gang", "overcommit", "predicates"]}
    assert schedule(nodes=[node("n1"), node("n2")], jobs=[waiting], **options).phase("new") == "Inqueue"
    cordoned = [node("n1"), node("n2", **CORDONED)]
    assert schedule(nodes=cordoned, jobs=[waiting], **options).phase("new") == "Pending"
    foreign = pod("foreign", 4, node="n2", scheduler="other")
    nodes = [node("n1"), node("n2")]
    assert schedule(nodes=nodes, jobs=[waiting], pods=[foreign], **options).phase("new") == "Pending"
