"""nodeorder: Kubernetes' scores, one by one and together."""

import math
from functools import partial
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import job, node, pod, podgroup
from tests.scenario import schedule, session
from volcano.kube.api.manifest import Manifest
from volcano.model.task import Task
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.nodeorder import WEIGHTS, NodeOrder

MIB = 2**20
mine = partial(pod, group="g")  # a pod that is to be scheduled


def only(**weights: int) -> dict[str, Any]:
    """nodeorder with these scores and no others."""
    return {"name": "nodeorder", "arguments": {f"{name}.weight": weights.get(name, 0) for name in WEIGHTS}}


def asked(
    nodes: list[Manifest], pods: list[Manifest], plugin: Any, **more: Any
) -> tuple[Session, NodeOrder, Task]:
    """The session, the plugin, and the pod called `new`."""
    made = session(nodes=nodes, pods=pods, podgroups=[podgroup("g")], plugins=[plugin, "predicates"], **more)
    found = made.policy.plugins[0]
    assert isinstance(found, NodeOrder)
    return (
        made,
        found,
        next(t for job in made.snapshot.jobs.values() for t in job.tasks.values() if t.name == "new"),
    )


def scores(nodes: list[Manifest], pods: list[Manifest], plugin: Any, **more: Any) -> list[float]:
    """All scores of every node for the pod called `new`."""
    made, found, task = asked(nodes, pods, plugin, **more)
    total = found.score_nodes(task, made.nodes)
    together = found.score_nodes_together(task, made.nodes)
    found_scores: list[float] = (total if together is None else total + together).tolist()
    return found_scores


TWO = [node("a", cpu=4, memory="8Gi"), node("b", cpu=4, memory="8Gi")]


def test_least_allocated_prefers_the_emptier_node() -> None:
    pods = [mine("new", 1, "2Gi"), pod("there", 2, "4Gi", node="a")]
    assert scores(TWO, pods, only(leastrequested=1)) == [25, 75]
    assert scores(TWO, pods, only(mostrequested=1)) == [75, 25]


def test_containers_that_ask_for_nothing_count_a_little() -> None:
    """100m of 4 cpus and 200Mi of 8Gi: floor(97.5) and floor(97.6)."""
    assert scores(TWO[:1], [mine("new", None)], only(leastrequested=1)) == [97]


def test_balanced_allocation_compares_the_balance_before_and_after() -> None:
    """On `a` the pod takes cpu from 50 to 75 % and memory from 0 to 25 %: as uneven as before, 75 points."""
    pods = [mine("new", 1, "2Gi"), pod("there", 2, None, node="a")]
    assert scores(TWO, pods, only(balancedresource=1)) == [75, 75]


def test_balanced_allocation_prefers_the_node_that_becomes_more_even() -> None:
    """`a` uses half of its cpu and no memory (75 points); with a pod that needs memory only, it is even (100)."""
    pods = [mine("new", None, "4Gi"), pod("there", 2, None, node="a")]
    assert scores(TWO, pods, only(balancedresource=1)) == [87, 62]


def test_balanced_allocation_counts_gpus_that_are_asked_for() -> None:
    fractions = np.array([0.25, 0.25, 0.5])
    nodes = [node("a", cpu=4, memory="8Gi", gpu=2)]
    balance = math.floor(100 * (1 - fractions.std()))
    expected = 50 + (50 + balance - 100) // 2
    assert scores(nodes, [mine("new", 1, "2Gi", gpu=1)], only(balancedresource=1)) == [expected]
    assert scores(nodes, [mine("new", 1, "2Gi")], only(balancedresource=1)) == [75]


def test_balanced_allocation_leaves_pods_without_requests_alone() -> None:
    assert scores(TWO, [mine("new", None)], only(balancedresource=1)) == [0, 0]


FRACTIONS = st.tuples(st.integers(0, 12), st.integers(0, 12))
UNITS = (1000, 2**30)  # of cpu and memory in `FRACTIONS`
DEFAULT_REQUESTS = (100, 200 * MIB)  # of a container without requests, as in kube-scheduler


@settings(deadline=None)
@example(request=(0, 0), nodes=[((0, 1), (0, 0))])
@given(request=FRACTIONS, nodes=st.lists(st.tuples(FRACTIONS, FRACTIONS), min_size=1, max_size=4))
def test_scoring_all_nodes_agrees_with_scoring_each(
    request: tuple[int, int], nodes: list[tuple[tuple[int, int], tuple[int, int]]]
) -> None:
    def scalar(allocatable: tuple[int, int], used: tuple[int, int]) -> tuple[int, int, int]:
        """The scalar twin, in whole milli-cpus and bytes: least, most and balanced allocation of one node."""
        least, most, before, after = [], [], [], []
        for unit, default, capacity, taken, asked in zip(
            UNITS, DEFAULT_REQUESTS, allocatable, used, request, strict=True
        ):
            if not capacity:
                continue
            whole = capacity * unit
            counted = (taken * unit or default) + (asked * unit or default)
            fits = counted <= whole
            least.append(100 * (whole - counted) // whole if fits else 0)
            most.append(100 * counted // whole if fits else 0)
            before.append(min(taken / capacity, 1.0))
            after.append(min((taken + asked) / capacity, 1.0))
        change = balance(after) - balance(before)
        even = 50 + (50 + change) // 2 if any(request) else 0
        return sum(least) // max(len(least), 1), sum(most) // max(len(most), 1), even

    def balance(fractions: list[float]) -> int:
        deviation = float(np.std(fractions)) if fractions else 0.0
        return math.floor(100 * (1 - deviation) + 1e-9)

    manifests = [node(f"n{i}", cpu=room[0], memory=f"{room[1]}Gi") for i, (room, _) in enumerate(nodes)]
    pods = [
        mine("new", request[0] or None, f"{request[1]}Gi" if request[1] else None),
        *(
            pod(f"there-{i}", used[0] or None, f"{used[1]}Gi" if used[1] else None, node=f"n{i}")
            for i, (_, used) in enumerate(nodes)
        ),
    ]
    expected = [scalar(allocatable, used) for allocatable, used in nodes]
    for name, column in (("leastrequested", 0), ("mostrequested", 1), ("balancedresource", 2)):
        found = scores(manifests, pods, only(**{name: 1}))
        assert found == [each[column] for each in expected], name


def test_image_locality_prefers_nodes_that_have_the_image() -> None:
    nodes = [node("a", images={"busybox:latest": 1000 * MIB}), node("b"), node("c"), node("d")]
    # A quarter of the nodes have it: (250 - 23) / (1000 - 23) of 100.
    assert scores(nodes, [mine("new")], only(imagelocality=1)) == [math.floor(100 * 227 / 977), 0, 0, 0]


def prefers(*terms: tuple[int, str, str]) -> dict[str, Any]:
    return {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": weight,
                        "preference": {
                            "matchExpressions": [{"key": key, "operator": "In", "values": [value]}]
                        },
                    }
                    for weight, key, value in terms
                ]
            }
        }
    }


def test_preferred_nodes_are_scored_against_the_best() -> None:
    nodes = [node("a", labels={"disk": "ssd", "zone": "x"}), node("b", labels={"disk": "ssd"}), node("c")]
    new = mine("new", spec=prefers((3, "disk", "ssd"), (1, "zone", "x")))
    assert scores(nodes, [new], only(nodeaffinity=2)) == [200, 150, 0]


def test_nodes_with_taints_that_discourage_come_last() -> None:
    soft = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    nodes = [node("a"), node("b", taints=[soft]), node("c", taints=[soft, {**soft, "key": "k2"}])]
    assert scores(nodes, [mine("new")], only(tainttoleration=1)) == [100, 50, 0]
    tolerant = mine("new", spec={"tolerations": [{"key": "k", "operator": "Exists"}]})
    assert scores(nodes, [tolerant], only(tainttoleration=1)) == [100, 100, 0]


def near(kind: str, key: str, weight: int = 10) -> dict[str, Any]:
    return {
        "affinity": {
            kind: {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": weight,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": {"app": "db"}},
                            "topologyKey": key,
                        },
                    }
                ]
            }
        }
    }


ZONED = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "x"}), node("c", labels={"zone": "y"})]
DB = pod("db", node="a", labels={"app": "db"})


def test_preferred_neighbours_draw_or_repel() -> None:
    assert scores(ZONED, [mine("new", spec=near("podAffinity", "zone")), DB], only(podaffinity=1)) == [
        100,
        100,
        0,
    ]
    assert scores(ZONED, [mine("new", spec=near("podAntiAffinity", "zone")), DB], only(podaffinity=1)) == [
        0,
        0,
        100,
    ]


def test_the_wishes_of_pods_that_are_there_count_as_well() -> None:
    there = pod("there", node="a", spec=near("podAntiAffinity", "kubernetes.io/hostname"))
    assert scores(ZONED, [mine("new", labels={"app": "db"}), there], only(podaffinity=1)) == [0, 100, 100]
    assert scores(ZONED, [mine("new", labels={"app": "web"}), there], only(podaffinity=1)) == [0, 0, 0]


def spread_over(key: str, when: str = "ScheduleAnyway", skew: int = 1) -> dict[str, Any]:
    return {
        "topologySpreadConstraints": [
            {
                "topologyKey": key,
                "maxSkew": skew,
                "whenUnsatisfiable": when,
                "labelSelector": {"matchLabels": {"app": "db"}},
            }
        ]
    }


def test_spreading_prefers_domains_with_fewer() -> None:
    """Counts 1 in zone x and 0 in y; two domains weigh ln 4 = 1.39, so the raw scores round to 1 and 0."""
    new = mine("new", labels={"app": "db"}, spec=spread_over("zone"))
    assert scores(ZONED, [new, DB], only(podtopologyspread=1)) == [0, 0, 100]


def test_nodes_without_the_label_earn_nothing_by_spreading() -> None:
    new = mine("new", labels={"app": "db"}, spec=spread_over("zone"))
    assert scores([*ZONED, node("d")], [new, DB], only(podtopologyspread=1)) == [0, 0, 100, 0]


def test_a_pod_without_affinity_is_scored_node_by_node() -> None:
    made, plugin, task = asked(ZONED, [mine("new"), DB], "nodeorder")
    assert plugin.score_nodes_together(task, made.nodes) is None


def test_what_the_cycle_places_counts_at_once() -> None:
    result = schedule(
        nodes=ZONED,
        pods=[
            mine(f"db-{i}", labels={"app": "db"}, spec=near("podAntiAffinity", "kubernetes.io/hostname"))
            for i in range(3)
        ],
        podgroups=[podgroup("g")],
        plugins=["predicates", only(podaffinity=1)],
    )
    assert sorted(result.bound().values()) == ["a", "b", "c"]


def test_it_does_not_need_the_predicates_plugin() -> None:
    result = schedule(
        nodes=ZONED,
        pods=[
            mine(f"db-{i}", labels={"app": "db"}, spec=near("podAntiAffinity", "kubernetes.io/hostname"))
            for i in range(3)
        ],
        podgroups=[podgroup("g")],
        plugins=[only(podaffinity=1)],
    )
    assert sorted(result.bound().values()) == ["a", "b", "c"]


def test_without_the_score_for_free_resources_pods_of_any_size_are_packed() -> None:
    """250m on nodes of 32 cpus: 128 per node."""
    result = schedule(
        nodes=[node(f"n{i}", cpu=32, memory="128Gi", pods=256) for i in range(20)],
        jobs=[job("small", 300, cpu="250m", memory="256Mi")],
        plugins=[
            "gang",
            "predicates",
            {"name": "nodeorder", "arguments": {"leastrequested.weight": 0}},
            "binpack",
        ],
    )
    assert sorted(result.bound_per_node().values()) == [44, 128, 128]
