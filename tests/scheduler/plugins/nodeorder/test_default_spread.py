"""Pods of Services and workloads are spread over hosts and zones, if they have no constraints of their own."""

from typing import Any

import pytest

from tests.builders import metadata, node, pod, podgroup
from tests.scenario import schedule, session
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.plugins.nodeorder import NodeOrder

WEB = {"app": "web"}
ONLY_SPREAD = {
    f"{name}.weight": 0
    for name in (
        "leastrequested",
        "balancedresource",
        "nodeaffinity",
        "podaffinity",
        "tainttoleration",
        "imagelocality",
    )
}
PLUGIN = {"name": "nodeorder", "arguments": ONLY_SPREAD}


def service(selector: dict[str, str] | None = WEB) -> Manifest:
    spec = {"selector": selector} if selector else {}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata("s", "default"), "spec": spec}


def workload(kind: str = "ReplicaSet", api_version: str = "apps/v1", selector: Any = None) -> Manifest:
    wanted = selector or {"matchLabels": WEB}
    meta = metadata("w", "default")
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": {"selector": wanted}}


def owned(name: str, **more: Any) -> Manifest:
    made = pod(name, labels=WEB, group="g", **more)
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "w",
        "uid": "uid-default-w",
        "controller": True,
    }
    made["metadata"]["ownerReferences"] = [reference]
    return made


def placed(new: Manifest, *others: Manifest, nodes: list[Manifest] | None = None) -> str:
    """The node of a new pod, where two of the app run on n1 and one runs on n2."""
    there = [pod(f"there-{i}", labels=WEB, node=name) for i, name in enumerate(("n1", "n1", "n2"))]
    result = schedule(
        nodes=nodes or [node(name, cpu=16) for name in ("n1", "n2", "n3")],
        pods=[new, *there],
        podgroups=[podgroup("g")],
        others=others,
        plugins=["gang", PLUGIN],
        seed=3,
    )
    return result.bound()["new"]


@pytest.mark.parametrize(
    ("new", "others"),
    [
        pytest.param(pod("new", labels=WEB, group="g"), [service()], id="Service"),
        pytest.param(owned("new"), [workload()], id="ReplicaSet"),
        pytest.param(owned("new"), [workload("StatefulSet")], id="StatefulSet"),
        pytest.param(
            owned("new"), [workload("ReplicationController", "v1", WEB)], id="ReplicationController"
        ),
    ],
)
def test_pods_of_services_and_workloads_go_where_there_are_the_fewest(
    new: Manifest, others: list[Manifest]
) -> None:
    assert placed(new, *others) == "n3"


def test_zones_count_as_well() -> None:
    zoned = [node(name, cpu=16, labels={"topology.kubernetes.io/zone": zone}) for name, zone in ZONES.items()]
    assert placed(pod("new", labels=WEB, group="g"), service(), nodes=zoned) == "n4", (
        "n3 is in the zone of n1"
    )


ZONES = {"n1": "a", "n2": "b", "n3": "a", "n4": "c"}


@pytest.mark.parametrize(
    ("new", "others"),
    [
        pytest.param(pod("new", labels=WEB, group="g"), [], id="no Service"),
        pytest.param(pod("new", labels=WEB, group="g"), [service({"app": "db"})], id="another Service"),
        pytest.param(pod("new", labels=WEB, group="g"), [service(None)], id="Service without a selector"),
        pytest.param(
            pod("new", labels={**WEB, "volcano.sh/job-name": "j"}, group="g"),
            [service()],
            id="pod of a Volcano job",
        ),
    ],
)
def test_other_pods_are_not_compared(new: Manifest, others: list[Manifest]) -> None:
    """Runs of identical tasks are then placed at once."""
    made = session(nodes=[node("n1")], pods=[new], podgroups=[podgroup("g")], others=others, plugins=[PLUGIN])
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, NodeOrder)
    task = next(iter(made.snapshot.jobs["default/g"].tasks.values()))
    assert plugin.score_nodes_together(task, made.nodes) is None


def test_constraints_of_the_pod_replace_the_default_ones() -> None:
    own = {
        "topologySpreadConstraints": [
            {
                "topologyKey": "rack",
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": WEB},
            }
        ]
    }
    racks = [
        node(name, cpu=16, labels={"rack": rack}) for name, rack in (("n1", "a"), ("n2", "b"), ("n3", "a"))
    ]
    assert placed(pod("new", labels=WEB, group="g", spec=own), service(), nodes=racks) == "n2"


def test_a_weight_of_zero_turns_it_off() -> None:
    made = session(
        nodes=[node("n1")],
        pods=[pod("new", labels=WEB, group="g")],
        podgroups=[podgroup("g")],
        others=[service()],
        plugins=[{"name": "nodeorder", "arguments": {**ONLY_SPREAD, "podtopologyspread.weight": 0}}],
    )
    task = next(iter(made.snapshot.jobs["default/g"].tasks.values()))
    assert made.policy.score_nodes_together(task, made.nodes) is None
