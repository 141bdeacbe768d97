"""capacity with a tree of queues (one node of 8 cpus and 8Gi by default)."""

from typing import Any

import pytest

from tests.builders import JobManifests, job, node, podgroup, queue, resources
from tests.scenario import Result, schedule, session
from tests.scheduler.plugins.capacity.test_flat import amount, runs, wants, with_gpus
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.plugins.capacity import Capacity

ROOT = queue("root")
NODES = [node("n1", 8, "8Gi")]


def cycle(
    queues: list[Manifest],
    jobs: list[JobManifests],
    *,
    level: int = 0,
    nodes: list[Manifest] | None = None,
    **more: Any,
) -> Result:
    capacity = {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": level}}
    return schedule(
        nodes=nodes or NODES,
        queues=queues,
        jobs=jobs,
        tiers=[["priority", "gang", "conformance", capacity, "predicates"]],
        actions=more.pop("actions", ("enqueue", "allocate", "reclaim")),
        **more,
    )


def test_jobs_run_in_leaves_only() -> None:
    queues = [ROOT, queue("q1", parent="root"), queue("q11", parent="q1")]
    leaf = cycle(queues, [wants("leaf", "q11", 1)])
    assert list(leaf.bound()) == ["leaf-worker-0"]
    inner = cycle(queues, [wants("inner", "q1", 1)])
    assert inner.bound() == {}
    pending = [podgroup("pg", queue="q1", phase="Pending", min_resources=amount(1))]
    assert cycle(queues, [], podgroups=pending, actions=("enqueue",)).phase("pg") == "Pending"


def test_a_gang_fits_into_a_child() -> None:
    limit = amount(4, "4Gi")
    queues = [ROOT, queue("q3", parent="root", capability=limit), queue("q31", parent="q3", capability=limit)]
    assert len(cycle(queues, [job("gang", 2, cpu=2, memory="2Gi", queue="q31")]).bound()) == 2


def test_closest_relatives_are_reclaimed_from_first() -> None:
    queues = [
        ROOT,
        queue("q3", parent="root", deserved=amount(4, "4Gi")),
        queue("q31", parent="q3", deserved=amount(2, "2Gi")),
        queue("q32", parent="q3", deserved=amount(2, "2Gi")),
        queue("q4", parent="root", deserved=amount(2, "2Gi")),
    ]
    result = cycle(
        queues,
        [
            runs("fixed", "q31", "n1", 2, "2Gi", preemptable=False),
            runs("sibling", "q31", "n1", 2, "2Gi"),
            runs("far-a", "q4", "n1", 2, "2Gi"),
            runs("far-b", "q4", "n1", 2, "2Gi"),
            wants("new", "q32", 2, "2Gi"),
        ],
    )
    assert result.evicted() == {"sibling-worker-0"}


def test_the_parents_limit_binds_all_children_together() -> None:
    queues = [ROOT, queue("q3", parent="root", capability=amount(4, "4Gi"))]
    queues += [queue(f"q3{i}", parent="q3") for i in (1, 2, 3)]
    jobs = [runs("a", "q31", "n1", 2), runs("b", "q32", "n1", 2), wants("new", "q33", 3)]
    assert cycle(queues, jobs, actions=("allocate",)).bound() == {}


def test_a_child_inherits_resources_it_does_not_declare() -> None:
    queues = [
        queue("root", capability=resources(gpu=2)),
        queue("q", parent="root", capability=amount(4, "4Gi")),
        queue("leaf", parent="q", capability=resources(memory="4Gi")),
    ]
    nodes = [node("n1", 8, "8Gi", gpu=4)]
    assert len(cycle(queues, [job("cpus", 5, min_available=0, queue="leaf")], nodes=nodes).bound()) == 4
    gpus = job("gpus", 3, cpu=None, min_available=0, queue="leaf", gpu=1)
    assert len(cycle(queues, [gpus], nodes=nodes).bound()) == 2


def test_admission_counts_the_ancestors_too() -> None:
    queues = [ROOT, queue("q6", parent="root", capability=amount(2, "4Gi"))]
    queues += [queue(name, parent="q6") for name in ("q61", "q62")]
    groups = [
        podgroup(f"pg-{name}", queue=name, phase="Pending", min_resources=amount(2, "4Gi"))
        for name in ("q61", "q62")
    ]
    result = cycle(queues, [], podgroups=groups, actions=("enqueue",))
    assert sorted(result.phase(f"pg-{name}") for name in ("q61", "q62")) == ["Inqueue", "Pending"]


def test_guarantees_beyond_the_parents_capability_are_tolerated() -> None:
    queues = [
        ROOT,
        queue("q", parent="root", capability=amount(2)),
        queue("a", parent="q", guarantee=amount(2)),
        queue("b", parent="q", guarantee=amount(2)),
    ]
    assert len(cycle(queues, [wants("w", "a", 1)]).bound()) == 1


@pytest.mark.parametrize(
    "queues",
    [
        pytest.param([queue("q")], id="no root"),
        pytest.param([ROOT, queue("q", parent="gone")], id="a parent is missing"),
        pytest.param([ROOT, queue("q", parent="r"), queue("r", parent="q")], id="a circle"),
    ],
)
def test_an_invalid_tree_schedules_nothing(queues: list[Manifest]) -> None:
    assert cycle(queues, [wants("w", "q", 1)]).bound() == {}


def test_no_queue_at_all_schedules_nothing() -> None:
    result = cycle([], [wants("w", "q", 1)])
    assert (result.bound(), result.condition("w")) == ({}, "queue q does not exist")


GPUS = [with_gpus(8, "8Gi", 4)]


def test_a_leaf_reclaims_what_its_parent_deserves() -> None:
    queues = [
        ROOT,
        queue("parent", parent="root", deserved=amount(a100=1)),
        queue("leaf", parent="parent"),
        queue("other", parent="root"),
    ]
    jobs = [*(runs(f"g{i}", "other", "n1", a100=1) for i in range(4)), wants("new", "leaf", a100=1)]
    assert len(cycle(queues, jobs, level=1, nodes=GPUS).evicted()) == 1


def test_an_ancestor_below_what_it_deserves_protects_its_leaves() -> None:
    queues = [
        ROOT,
        queue("grand", parent="root", deserved=amount(6)),
        queue("middle", parent="grand", deserved=amount(1)),
        queue("victim", parent="middle", deserved=amount(1)),
        queue("owner", parent="root", deserved=amount(1)),
        queue("bystander", parent="root", deserved=amount(3)),
    ]
    jobs = [
        *(runs(f"v{i}", "victim", "n1", 1) for i in range(5)),
        runs("held", "bystander", "n1", 3, preemptable=False),
        wants("new", "owner", 1),
    ]
    assert [len(cycle(queues, jobs, level=level).evicted()) for level in (0, 1, 2)] == [1, 1, 0]


def test_siblings_within_their_part_do_not_reclaim_from_each_other() -> None:
    """Queues that declare nothing divide their parent's four cpus."""
    queues = [ROOT, queue("parent", parent="root", deserved=amount(4), capability=amount(4))]
    queues += [queue(name, parent="parent") for name in ("a", "b")]
    jobs = [runs("r1", "a", "n1", 2), runs("r2", "b", "n1", 2), wants("new", "b", 1)]
    assert cycle(queues, jobs, level=1).evicted() == set()


# -- by weight, where queues do not declare what they deserve
# ---------------------------------------------------


def deserved(cpus: int, queues: list[Manifest], jobs: list[JobManifests]) -> dict[str, float]:
    made = session(
        nodes=[node("n1", cpus)],
        queues=queues,
        jobs=jobs,
        plugins=[{"name": "capacity", "enableHierarchy": True}],
    )
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Capacity)
    return {name: round(float(each.amount[0]) / 1000, 6) for name, each in plugin.deserved.items()}


SEEDS_TREE = [
    ROOT,
    queue("dept-a", 3, parent="root"),
    queue("dept-b", 2, parent="root"),
    queue("team-a1", 2, parent="dept-a"),
    queue("team-a2", 1, parent="dept-a"),
    queue("team-b1", 1, parent="dept-b"),
]


def greedy(name: str) -> JobManifests:
    return job(f"greedy-{name}", 100, min_available=0, queue=name)


def test_a_parents_share_is_divided_by_weight() -> None:
    found = deserved(90, SEEDS_TREE, [greedy(name) for name in ("team-a1", "team-a2", "team-b1")])
    assert (found["dept-a"], found["team-a1"], found["team-a2"], found["team-b1"]) == (54, 36, 18, 36)


def test_siblings_borrow_first() -> None:
    found = deserved(90, SEEDS_TREE, [greedy("team-a1"), greedy("team-b1")])
    assert (found["team-a1"], found["team-b1"]) == (54, 36)


def test_who_says_what_it_deserves_gets_that_and_the_others_divide_the_rest() -> None:
    queues = [ROOT, queue("fixed", parent="root", deserved=amount(10)), queue("a", 2), queue("b", 1)]
    found = deserved(40, queues, [greedy("fixed"), greedy("a"), greedy("b")])
    assert (found["fixed"], found["a"], found["b"]) == (10, 20, 10)


def test_the_owner_gets_its_part_back() -> None:
    nodes = [node(f"n{i}", 1) for i in range(10)]
    borrowed = job(
        "b", 10, min_available=0, queue="team-a1", on=[f"n{i}" for i in range(10)], phase="Running"
    )
    back = job("back", 4, queue="team-b1")
    result = cycle(SEEDS_TREE, [borrowed, back], nodes=nodes)
    assert len(result.evicted()) == 4


def test_a_full_department_makes_room_for_itself() -> None:
    """The department is at its capability of four cpus: its other team is reclaimed from, not the sibling queue."""
    queues = [
        ROOT,
        queue("dept", parent="root", capability=amount(4), deserved=amount(4)),
        queue("a", parent="dept", deserved=amount(2)),
        queue("b", parent="dept", deserved=amount(2)),
        queue("sibling", parent="root", deserved=amount(1)),
    ]
    jobs = [
        *(runs(f"a{i}", "a", "n1", 1) for i in range(4)),
        *(runs(f"x{i}", "sibling", "n1", 1) for i in range(4)),
        wants("new", "b", 1),
    ]
    evicted = cycle(queues, jobs).evicted()
    assert len(evicted) == 1
    assert evicted < {f"a{i}-worker-0" for i in range(4)}


def test_a_full_department_makes_room_for_itself_where_nodes_have_some() -> None:
    """A task beyond its department's capability is not pipelined to idle resources: it would wait for ever."""
    queues = [
        ROOT,
        queue("dept", parent="root", capability=amount(4), deserved=amount(4)),
        queue("a", parent="dept", deserved=amount(2)),
        queue("b", parent="dept", deserved=amount(2)),
    ]
    jobs = [*(runs(f"a{i}", "a", "n1", 1) for i in range(4)), wants("new", "b", 1)]
    result = cycle(queues, jobs, nodes=[node("n0", 8), node("n1", 8)])
    assert len(result.evicted()) == 1


def test_no_pod_is_evicted_for_a_department_beyond_its_capability() -> None:
    queues = [
        ROOT,
        queue("dept", parent="root", capability=amount(3), deserved=amount(3)),
        queue("a", parent="dept", deserved=amount(1)),
        queue("b", parent="dept", deserved=amount(2)),
    ]
    jobs = [*(runs(f"a{i}", "a", "n1", 2) for i in range(4)), wants("new", "b", 1)]
    assert cycle(queues, jobs).evicted() == set()
