"""Room, usage and holders of domains are those of the nodes and pods below."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from volcano.kube.api.manifest import Manifest
from volcano.views.topology import DomainUsage, TopologyUsage, rows, topology_usage


def node(name: str, *, gpus: int = 8, ready: bool = True, **spec: Any) -> Manifest:
    allocatable = {"cpu": "32", "nvidia.com/gpu": str(gpus), "pods": "110"}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": conditions},
    }


def pod(name: str, on: str, *, gpus: int, job: str = "", phase: str = "Running") -> Manifest:
    labels = {"volcano.sh/job-name": job} if job else {}
    annotations = {"scheduling.k8s.io/group-name": f"{job}-group"} if job else {}
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": str(gpus), "cpu": "1"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": phase},
    }


def hyper_node(name: str, tier: int, *members: str, tier_name: str = "") -> Manifest:
    kind = "Node" if tier == 1 else "HyperNode"
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return {"metadata": {"name": name}, "spec": {"tier": tier, "tierName": tier_name, "members": listed}}


TREE = [
    hyper_node("rack-10", 1, "n2", "n3", tier_name="rack"),
    hyper_node("rack-2", 1, "n0", "n1", tier_name="rack"),
    hyper_node("spine", 2, "rack-2", "rack-10"),
]
NODES = [node(f"n{i}") for i in range(5)]


def usage(*pods: Manifest, nodes: list[Manifest] | None = None, **settings: Any) -> TopologyUsage:
    groups = settings.pop("groups", [])
    return topology_usage(TREE, NODES if nodes is None else nodes, pods, groups, **settings)


def by_name(found: TopologyUsage) -> dict[str, DomainUsage]:
    return {row.name: row for _, row in rows(found.root, with_nodes=False, pod=found.pod)}


def test_the_tree_is_drawn_with_numbers_in_order_and_nodes_in_no_hypernode_last() -> None:
    found = usage()
    drawn = [rails + row.name for rails, row in rows(found.root, with_nodes=False, pod=found.pod)]
    assert drawn == [
        "cluster",
        "├─ spine",
        "│  ├─ rack-2",
        "│  └─ rack-10",
        "└─ (in no HyperNode)",
    ]
    with_nodes = [rails + row.name for rails, row in rows(found.root, with_nodes=True, pod=found.pod)]
    assert with_nodes[2:5] == ["│  ├─ rack-2", "│  │  ├─ n0", "│  │  └─ n1"]
    assert with_nodes[-1] == "   └─ n4"


def test_used_free_and_the_largest_gang_are_summed() -> None:
    found = by_name(usage(pod("a", "n0", gpus=3, job="j"), pod("b", "n2", gpus=8, job="k")))
    assert (found["rack-2"].used, found["rack-2"].free, found["rack-2"].gang) == (3.0, 13.0, 13)
    assert (found["rack-10"].used, found["rack-10"].free) == (8.0, 8.0)
    assert (found["cluster"].used, found["cluster"].free) == (11.0, 29.0)


def test_a_gang_counts_whole_pods_of_every_resource() -> None:
    pods = [pod("a", "n0", gpus=3), pod("b", "n1", gpus=1)]
    found = by_name(usage(*pods, pod={"nvidia.com/gpu": 4.0, "cpu": 16.0}))
    assert found["rack-2"].gang == 2  # 5 and 7 GPUs, 31 CPUs on each
    assert found["rack-10"].gang == 4


def test_nodes_that_take_no_pods_have_no_room_but_count() -> None:
    nodes = [node("n0", ready=False), node("n1", unschedulable=True), *NODES[2:]]
    found = by_name(usage(pod("a", "n0", gpus=2), nodes=nodes))
    assert (found["rack-2"].usable, found["rack-2"].gang, found["rack-2"].free) == (0, 0, 0.0)
    assert found["rack-2"].used == 2.0


def test_ended_pods_use_nothing() -> None:
    found = by_name(usage(pod("a", "n0", gpus=2, job="j", phase="Succeeded")))
    assert (found["rack-2"].used, found["rack-2"].holders) == (0.0, ())


def test_a_job_holds_the_lowest_domain_around_its_pods() -> None:
    pods = [
        pod("a", "n0", gpus=1, job="near"),
        pod("b", "n1", gpus=1, job="near"),
        pod("c", "n0", gpus=1, job="wide"),
        pod("d", "n3", gpus=1, job="wide"),
        pod("e", "n0", gpus=1),
    ]
    found = by_name(usage(*pods))
    assert found["rack-2"].holders == ("default/near",)
    assert found["spine"].holders == ("default/wide",)


def test_a_job_holds_what_the_scheduler_recorded() -> None:
    group = {
        "metadata": {
            "name": "j-group",
            "namespace": "default",
            "annotations": {"volcano.sh/job-allocated-hypernode": "spine"},
        }
    }
    found = by_name(usage(pod("a", "n0", gpus=1, job="j"), groups=[group]))
    assert (found["spine"].holders, found["rack-2"].holders) == (("default/j",), ())


def test_cpu_is_shown_where_there_are_no_gpus() -> None:
    assert usage(nodes=[node("n0", gpus=0)]).resource == "cpu"
    assert usage().resource == "nvidia.com/gpu"


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12),
    st.integers(1, 4),
)
def test_a_domain_has_the_room_of_its_children(placed: list[tuple[int, int]], size: int) -> None:
    pods = [pod(f"p{i}", f"n{on}", gpus=gpus, job="j") for i, (on, gpus) in enumerate(placed)]
    found = by_name(usage(*pods, pod={"nvidia.com/gpu": float(size)}))
    for row in found.values():
        if row.children:
            assert row.gang == sum(child.gang for child in row.children)
            assert row.used == sum(child.used for child in row.children)
