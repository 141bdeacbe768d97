"""predicates: feasible nodes, and the reasons of the others."""

from functools import partial
from typing import Any

import pytest

from tests.builders import job, node, pod, podgroup
from tests.scenario import Result, cluster_of, event, schedule, session
from volcano.kube.api.manifest import Manifest
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.config import parse as parse_config
from volcano.scheduler.plugins.predicates import node_properties
from volcano.scheduler.plugins.predicates.node_properties import NodeProperties

mine = partial(pod, group="g")  # a pod that is to be scheduled
GROUP = podgroup("g", min_member=0)


def place(nodes: list[Manifest], *pods: Manifest, plugin: Any = "predicates", **more: Any) -> Result:
    return schedule(nodes=nodes, pods=pods, podgroups=[GROUP], plugins=["gang", plugin], **more)


def where(nodes: list[Manifest], *pods: Manifest, **more: Any) -> set[str]:
    """The nodes on which pods were bound."""
    return set(place(nodes, *pods, **more).bound().values())


def off(name: str) -> dict[str, Any]:
    return {"name": "predicates", "arguments": {f"predicate.{name}Enable": False}}


# -- facts of nodes ---------------------------------------------------------------------------------------------


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def requires(*terms: list[dict[str, Any]], field: str = "matchExpressions") -> dict[str, Any]:
    wanted = {"nodeSelectorTerms": [{field: term} for term in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}}


LABELLED = [
    node("a", labels={"disk": "ssd", "cores": "8"}),
    node("b", labels={"disk": "hdd", "cores": "32"}),
    node("c"),
]


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"a"}, id="selector"),
        pytest.param({"nodeSelector": {"disk": "tape"}}, set(), id="selector without a match"),
        pytest.param(requires([expression("disk", "In", "ssd", "hdd")]), {"a", "b"}, id="In"),
        pytest.param(requires([expression("disk", "NotIn", "ssd")]), {"b", "c"}, id="NotIn"),
        pytest.param(requires([expression("disk", "Exists")]), {"a", "b"}, id="Exists"),
        pytest.param(requires([expression("disk", "DoesNotExist")]), {"c"}, id="DoesNotExist"),
        pytest.param(requires([expression("cores", "Gt", "16")]), {"b"}, id="Gt"),
        pytest.param(requires([expression("cores", "Lt", "16")]), {"a"}, id="Lt"),
        pytest.param(
            requires([expression("disk", "In", "ssd"), expression("cores", "Gt", "16")]),
            set(),
            id="all of a term",
        ),
        pytest.param(
            requires([expression("disk", "In", "ssd")], [expression("cores", "Gt", "16")]),
            {"a", "b"},
            id="one of terms",
        ),
        pytest.param(
            requires([expression("metadata.name", "In", "c")], field="matchFields"),
            {"c"},
            id="by the node's name",
        ),
        pytest.param(requires([]), set(), id="an empty term matches nothing"),
    ],
)
def test_node_selectors_and_affinity(spec: dict[str, Any], chosen: set[str]) -> None:
    made = session(nodes=LABELLED, pods=[mine("new", spec=spec)], podgroups=[GROUP], plugins=["predicates"])
    task = next(iter(made.snapshot.jobs["default/g"].tasks.values()))
    rejected = {
        name
        for each in made.policy.reject_nodes(task, made.nodes)
        for name, no in zip("abc", each.mask, strict=True)
        if no
    }
    assert set("abc") - rejected == chosen


HARD = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        pytest.param(HARD, None, False, id="not tolerated"),
        pytest.param(HARD, {"key": "k", "operator": "Equal", "value": "v"}, True, id="Equal"),
        pytest.param(HARD, {"key": "k", "value": "v"}, True, id="Equal is the default"),
        pytest.param(HARD, {"key": "k", "operator": "Equal", "value": "w"}, False, id="another value"),
        pytest.param(HARD, {"key": "k", "operator": "Exists"}, True, id="Exists"),
        pytest.param(HARD, {"operator": "Exists"}, True, id="tolerates everything"),
        pytest.param(
            HARD, {"key": "k", "operator": "Exists", "effect": "NoExecute"}, False, id="another effect"
        ),
        pytest.param({**HARD, "effect": "NoExecute"}, None, False, id="NoExecute keeps away too"),
        pytest.param({**HARD, "effect": "PreferNoSchedule"}, None, True, id="PreferNoSchedule does not"),
    ],
)
def test_taints(taint: dict[str, str], toleration: dict[str, str] | None, fits: bool) -> None:
    spec = {"tolerations": [toleration]} if toleration else {}
    assert bool(where([node("n1", taints=[taint])], mine("new", spec=spec))) is fits


def test_cordoned_nodes_take_nothing() -> None:
    assert where([node("n1", unschedulable=True)], mine("new")) == set()
    tolerant = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
    assert where([node("n1", unschedulable=True)], mine("new", spec=tolerant)) == {"n1"}


def test_reasons_are_in_kubernetes_words() -> None:
    result = schedule(
        nodes=[
            node("a", cpu=1),
            node("b", cpu=1),
            node("c", taints=[HARD]),
            node("d", unschedulable=True),
            node("e", labels={"disk": "hdd"}),
        ],
        jobs=[job("train", 1, cpu=2, spec=requires([expression("disk", "NotIn", "hdd")]))],
        plugins=["gang", "predicates"],
    )
    diagnosis = result.diagnosis("train")
    assert diagnosis is not None
    for part in (
        "2 Insufficient cpu",
        "1 node(s) had untolerated taint(s)",
        "1 node(s) were unschedulable",
        "1 node(s) didn't match Pod's node affinity/selector",
    ):
        assert part in diagnosis.message, diagnosis.message


@pytest.mark.parametrize(
    "name", ["NodeAffinity", "TaintToleration", "NodePorts", "PodAffinity", "PodTopologySpread"]
)
def test_every_filter_can_be_turned_off(name: str) -> None:
    nodes = [node("n1", labels={"zone": "x"}, taints=[HARD] if name == "TaintToleration" else [])]
    rejected = {
        "NodeAffinity": mine("new", spec={"nodeSelector": {"disk": "ssd"}}),
        "TaintToleration": mine("new"),
        "NodePorts": mine("new", spec=ports(80)),
        "PodAffinity": mine("new", labels={"app": "db"}, spec=apart("zone")),
        "PodTopologySpread": mine("new", labels={"app": "db"}, spec=spread("rack")),
    }[name]
    there = [pod("there", node="n1", labels={"app": "db"}, spec=ports(80))]
    assert where(nodes, rejected, *there) == set()
    assert where(nodes, rejected, *there, plugin=off(name)) == {"n1"}


# -- ports ------------------------------------------------------------------------------------------------------


def ports(number: int, protocol: str = "TCP", address: str = "") -> dict[str, Any]:
    port = {"containerPort": number, "hostPort": number, "protocol": protocol, "hostIP": address}
    return {
        "containers": [
            {"name": "main", "image": "i", "ports": [port], "resources": {"requests": {"cpu": "1"}}}
        ]
    }


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        pytest.param((80,), (80,), False, id="same port"),
        pytest.param((80,), (81,), True, id="another port"),
        pytest.param((80, "TCP"), (80, "UDP"), True, id="another protocol"),
        pytest.param((80, "TCP", "10.0.0.1"), (80, "TCP", "10.0.0.2"), True, id="another address"),
        pytest.param((80, "TCP", "10.0.0.1"), (80,), False, id="all addresses against one"),
        pytest.param((80, "TCP", "0.0.0.0"), (80, "TCP", "10.0.0.2"), False, id="one against all addresses"),
    ],
)
def test_host_ports_are_held_by_one_pod_per_node(
    held: tuple[Any, ...], wanted: tuple[Any, ...], fits: bool
) -> None:
    there = pod("there", node="n1", spec=ports(*held))
    assert bool(where([node("n1")], mine("new", spec=ports(*wanted)), there)) is fits


def test_ports_taken_in_this_cycle_count() -> None:
    result = place([node("a"), node("b")], *(mine(f"p{i}", spec=ports(80)) for i in range(3)))
    assert sorted(result.bound().values()) == ["a", "b"]


# -- placed pods -------------------------------------------------------------------------------------------------


def term(key: str, app: str = "db", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def near(*keys: str, **more: Any) -> dict[str, Any]:
    terms = [term(key, **more) for key in keys]
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def apart(*keys: str, **more: Any) -> dict[str, Any]:
    terms = [term(key, **more) for key in keys]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


ZONED = [
    node("a", labels={"zone": "x"}),
    node("b", labels={"zone": "x"}),
    node("c", labels={"zone": "y"}),
    node("d"),
]
HOST = "kubernetes.io/hostname"
DB = pod("db", node="a", labels={"app": "db"})


@pytest.mark.parametrize(
    ("spec", "labels", "allowed"),
    [
        pytest.param(near("zone"), {}, {"a", "b"}, id="near: the same zone"),
        pytest.param(near(HOST), {}, {"a"}, id="near: the same node"),
        pytest.param(near("zone", app="web"), {}, set(), id="near: no such pod"),
        pytest.param(
            near("zone", app="web"), {"app": "web"}, {"a", "b", "c"}, id="near: the first of its kind"
        ),
        pytest.param(near("zone", HOST), {}, {"a"}, id="near: all terms"),
        pytest.param(apart("zone"), {}, {"c", "d"}, id="apart: another zone, or none"),
        pytest.param(apart(HOST), {}, {"b", "c", "d"}, id="apart: another node"),
        pytest.param(near("zone", namespaces=["other"]), {}, set(), id="namespaces are looked at"),
        pytest.param(
            near("zone", namespaceSelector={}), {}, {"a", "b"}, id="an empty selector means all namespaces"
        ),
    ],
)
def test_pod_affinity(spec: dict[str, Any], labels: dict[str, str], allowed: set[str]) -> None:
    assert feasible(ZONED, mine("new", labels=labels, spec=spec), DB) == allowed


def feasible(nodes: list[Manifest], new: Manifest, *there: Manifest, **more: Any) -> set[str]:
    """The nodes that neither facts nor placements reject for the pod `new`."""
    made = session(nodes=nodes, pods=[new, *there], podgroups=[GROUP], plugins=["predicates"], **more)
    task = next(iter(made.snapshot.jobs["default/g"].tasks.values()))
    rejects = [
        *made.policy.reject_nodes(task, made.nodes),
        *(made.policy.reject_nodes_now(task, made.nodes) or []),
    ]
    return {
        name for row, name in enumerate(made.nodes.names) if not any(reject.mask[row] for reject in rejects)
    }


def test_pods_that_are_there_keep_others_away() -> None:
    guard = pod("guard", node="a", spec=apart("zone"))
    assert feasible(ZONED, mine("new", labels={"app": "db"}), guard) == {"c", "d"}
    assert feasible(ZONED, mine("new", labels={"app": "web"}), guard) == {"a", "b", "c", "d"}


def test_a_gang_that_wants_apart_gets_a_node_each() -> None:
    spec = apart(HOST)
    whole = schedule(
        nodes=[node(f"n{i}") for i in range(3)],
        jobs=[job("db", 3, labels={"app": "db"}, spec=spec)],
        plugins=["gang", "predicates", "nodeorder"],
    )
    assert sorted(whole.bound().values()) == ["n0", "n1", "n2"]
    short = schedule(
        nodes=[node(f"n{i}") for i in range(2)],
        jobs=[job("db", 3, labels={"app": "db"}, spec=spec)],
        plugins=["gang", "predicates", "nodeorder"],
    )
    assert short.bound() == {}


def test_a_gang_that_wants_near_stays_in_one_zone() -> None:
    zones = [node(f"{zone}{i}", cpu=2, labels={"zone": zone}) for zone in "xy" for i in range(2)]
    result = schedule(
        nodes=zones,
        jobs=[job("db", 4, labels={"app": "db"}, spec=near("zone"))],
        plugins=["gang", "predicates", "nodeorder"],
    )
    assert len({name[0] for name in result.bound().values()}) == 1
    assert len(result.bound()) == 4


def test_pods_evicted_in_this_cycle_do_not_repel_others() -> None:
    made = session(
        nodes=[node("a")],
        pods=[
            mine("new", labels={"app": "db"}, spec=apart(HOST)),
            mine("old", node="a", labels={"app": "db"}),
        ],
        podgroups=[GROUP],
        plugins=["predicates"],
    )
    tasks = {task.name: task for task in made.snapshot.jobs["default/g"].tasks.values()}

    def free() -> bool:
        return not any(
            reject.mask[0] for reject in made.policy.reject_nodes_now(tasks["new"], made.nodes) or ()
        )

    assert not free()
    with made.ledger.statement():
        made.ledger.evict(tasks["old"], "test")
        assert free()
    assert not free(), "an undo brings it back"


# -- spread -----------------------------------------------------------------------------------------------------


def spread(key: str, skew: int = 1, **more: Any) -> dict[str, Any]:
    constraint = {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}


@pytest.mark.parametrize(
    ("spec", "labels", "allowed"),
    [
        pytest.param(spread("zone"), {"app": "db"}, {"c"}, id="the emptier zone"),
        pytest.param(spread("zone", 2), {"app": "db"}, {"a", "b", "c"}, id="within the skew"),
        pytest.param(spread("zone"), {}, {"a", "b", "c"}, id="a pod that is not counted itself"),
        pytest.param(
            spread("zone", minDomains=3), {"app": "db"}, {"c"}, id="too few domains: the emptiest counts 0"
        ),
        pytest.param(
            {**spread("zone"), "nodeSelector": {"zone": "x"}},
            {"app": "db"},
            {"a", "b"},
            id="only nodes it may go to count",
        ),
        pytest.param(
            {**spread("zone", nodeAffinityPolicy="Ignore"), "nodeSelector": {"zone": "x"}},
            {"app": "db"},
            set(),
            id="unless configured otherwise",
        ),
    ],
)
def test_topology_spread(spec: dict[str, Any], labels: dict[str, str], allowed: set[str]) -> None:
    assert feasible(ZONED, mine("new", labels=labels, spec=spec), DB) == allowed


def test_pods_being_deleted_are_not_spread() -> None:
    going = pod("going", node="a", labels={"app": "db"}, deleting=True)
    assert feasible(ZONED, mine("new", labels={"app": "db"}, spec=spread("zone")), going) == {"a", "b", "c"}


def test_a_gang_is_spread_evenly() -> None:
    zones = [node(f"{zone}{i}", labels={"zone": zone}) for zone in "xyz" for i in range(2)]
    result = schedule(
        nodes=zones,
        jobs=[job("db", 9, labels={"app": "db"}, spec=spread("zone"))],
        plugins=["gang", "predicates", "nodeorder", "binpack"],
    )
    assert sorted(name[0] for name in result.bound().values()) == list("xxxyyyzzz")


def test_only_pods_with_the_same_revision_are_counted() -> None:
    old = pod("old", node="a", labels={"app": "db", "rev": "1"})
    new = mine("new", labels={"app": "db", "rev": "2"}, spec=spread("zone", matchLabelKeys=["rev"]))
    assert feasible(ZONED, new, old) == {"a", "b", "c"}


def test_a_pod_without_wishes_is_placed_in_runs() -> None:
    made = session(nodes=ZONED, pods=[mine("new"), DB], podgroups=[GROUP], plugins=["predicates"])
    task = next(iter(made.snapshot.jobs["default/g"].tasks.values()))
    assert made.policy.reject_nodes_now(task, made.nodes) is None


def test_a_changed_node_is_filtered_by_its_new_properties_in_the_next_cycle() -> None:
    """What is computed from nodes is kept between cycles, but not beyond a change of a node."""
    cluster = cluster_of(nodes=[node("n1", cpu=4)], jobs=[job("first", 1), job("second", 1)])
    config = parse_config("actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n", "test")
    before = run_cycle(cluster.snapshot(0.0, 1), config)
    assert any(isinstance(decision, Bind) for decision in before.decisions)
    tainted = node("n1", cpu=4, taints=[{"key": "gpu", "effect": "NoSchedule"}])
    cluster.apply(event(tainted, cluster))
    after = run_cycle(cluster.snapshot(1.0, 2), config)
    assert not any(isinstance(decision, Bind) for decision in after.decisions)


def test_properties_of_nodes_are_computed_again_when_too_many_results_are_cached(monkeypatch: Any) -> None:
    monkeypatch.setattr(node_properties, "MOST_CACHED", 0)
    snapshot = cluster_of(nodes=[node("n1", cpu=4)]).snapshot()
    first = NodeProperties.of(snapshot)
    assert NodeProperties.of(snapshot) is first
    first.labels.column("zone")
    assert NodeProperties.of(snapshot) is not first
