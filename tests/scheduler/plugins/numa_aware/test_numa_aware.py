"""numa-aware: policies, hints, scores, decisions, and CPUs of pods that nodes do not list yet."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.builders import JobManifests, job, node, numatopology, pod, podgroup, priority_class, queue
from tests.scenario import Result, cluster_of, config, schedule, session
from volcano.kube.api.manifest import Manifest
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.plugins.numa_aware import NumaAware

POLICY = "volcano.sh/numa-topology-policy"
DECISION = "volcano.sh/topology-decision"
PLUGINS = ("gang", "predicates", "numa-aware")


def guaranteed(cpu: object, policy: str = "", *, name: str = "main", memory: str = "1Gi") -> dict[str, Any]:
    """Arguments of pod() for a Guaranteed pod of one container."""
    limits = {"cpu": str(cpu), "memory": memory}
    found: dict[str, Any] = {
        "cpu": None,
        "spec": {"containers": [{"name": name, "image": "busybox", "resources": {"limits": limits}}]},
    }
    return found | ({"annotations": {POLICY: policy}} if policy else {})


def asking(name: str, cpu: object, policy: str = "", replicas: int = 1, **more: Any) -> JobManifests:
    """A job of Guaranteed pods with a policy."""
    options = {**guaranteed(cpu, policy), **more}
    return job(name, replicas, **options)


def big(name: str = "n", cpu: int = 16) -> Manifest:
    return node(name, cpu=cpu, memory="64Gi")


def run(
    *jobs: JobManifests, nodes: Sequence[Manifest], topologies: Sequence[Manifest], **more: Any
) -> Result:
    return schedule(nodes=nodes, jobs=jobs, others=topologies, plugins=PLUGINS, **more)


def decision(result: Result, name: str) -> Mapping[str, int]:
    """NUMA node → CPUs, as bound with a pod."""
    bind = next(d for d in result.decisions if isinstance(d, Bind) and d.name == name)
    found = json.loads(bind.annotations[DECISION])["numa"]
    return {number: int(amounts["cpu"]) for number, amounts in found.items()}


# -- policies ------------------------------------------------------------------------------------------------


def test_single_numa_node_pods_fill_one_numa_node_after_the_other() -> None:
    result = run(
        *(asking(f"j{i}", 6, "single-numa-node", age=9 - i) for i in range(3)),
        nodes=[big(cpu=24)],
        topologies=[numatopology("n", policy="single-numa-node")],
    )
    assert sorted(result.bound()) == ["j0-worker-0", "j1-worker-0"]
    assert decision(result, "j0-worker-0") == {"0": 6}
    assert decision(result, "j1-worker-0") == {"1": 6}
    assert "1 container main cannot be assigned by numa." in result.condition("j2")


def test_a_pod_larger_than_a_numa_node_is_rejected_at_once_with_what_the_node_has() -> None:
    result = run(
        asking("j", 10, "single-numa-node"),
        nodes=[big()],
        topologies=[numatopology("n", policy="single-numa-node")],
    )
    assert not result.bound()
    assert (
        "container main cannot be assigned by numa: it requests 10 cpus, a NUMA node has 8 "
        "(topology policy single-numa-node)" in result.condition("j")
    )


def test_a_restricted_node_takes_a_pod_that_needs_two_numa_nodes_while_both_have_enough() -> None:
    topology = numatopology("n", policy="restricted")
    assert decision(
        run(asking("j", 10, "restricted"), nodes=[big()], topologies=[topology]), "j-worker-0"
    ) == {
        "0": 8,
        "1": 2,
    }
    spread = numatopology("n", policy="restricted", allocatable="0-2,8-10")
    refused = run(asking("j", 4, "restricted"), nodes=[big()], topologies=[spread])
    assert not refused.bound()


def test_a_best_effort_pod_spans_numa_nodes_where_none_has_enough() -> None:
    topology = numatopology("n", allocatable="0-2,8-10")
    result = run(asking("j", 6, "best-effort"), nodes=[big()], topologies=[topology])
    assert decision(result, "j-worker-0") == {"0": 3, "1": 3}


def test_a_node_with_a_weaker_policy_than_asked_for_is_rejected_with_both() -> None:
    result = run(
        asking("j", 2, "single-numa-node"),
        nodes=[big()],
        topologies=[numatopology("n", policy="best-effort")],
    )
    text = "task topology policy[single-numa-node] is different with node[best-effort]"
    assert text in result.condition("j")


def test_a_node_with_a_stricter_policy_than_asked_for_fits() -> None:
    topology = numatopology("n", policy="single-numa-node", allocatable="0-2,8-15")
    result = run(asking("j", 6, "best-effort"), nodes=[big()], topologies=[topology])
    assert decision(result, "j-worker-0") == {"1": 6}
    refused = run(
        asking("j", 6, "best-effort"),
        nodes=[big()],
        topologies=[numatopology("n", policy="single-numa-node", allocatable="0-2,8-10")],
    )
    assert not refused.bound()  # the node would reject it


def test_a_burstable_pod_with_a_policy_is_not_checked() -> None:
    burstable = job("j", cpu=2, annotations={POLICY: "single-numa-node"})
    result = run(burstable, nodes=[big()], topologies=[numatopology("n", policy="none", cpu_manager="none")])
    assert result.bound() == {"j-worker-0": "n"}


@pytest.mark.parametrize(
    ("topologies", "reason"),
    [
        pytest.param([], "numa info is empty: the node has no Numatopology", id="no object"),
        pytest.param(
            [numatopology("n", cpu_manager="none")],
            "cpu manager policy isn't static: the node has none",
            id="not static",
        ),
        pytest.param(
            [numatopology("n", policy="none")],
            "task topology policy[restricted] is different with node[none]",
            id="policy none",
        ),
        pytest.param(
            [numatopology("n", 0, policy="restricted")],
            "no topo information: the Numatopology lists no CPUs",
            id="no cpus",
        ),
    ],
)
def test_what_a_node_lacks_is_in_the_reason(topologies: Sequence[Manifest], reason: str) -> None:
    result = run(asking("j", 2, "restricted"), nodes=[big()], topologies=topologies)
    assert not result.bound()
    assert f"0/1 nodes are available: 1 {reason}." in result.condition("j")
    plain = run(asking("j", 2), nodes=[big()], topologies=topologies)
    assert plain.bound() == {"j-worker-0": "n"}


def test_missing_allocatable_cpus_are_in_the_reason() -> None:
    topology = numatopology("n", policy="restricted")
    del topology["spec"]["numares"]
    result = run(asking("j", 2, "restricted"), nodes=[big()], topologies=[topology])
    assert "cpu allocatable map is empty" in result.condition("j")


def test_an_unknown_policy_is_rejected_with_the_known_ones() -> None:
    result = run(asking("j", 2, "strict"), nodes=[big()], topologies=[numatopology("n")])
    assert "choose from none, best-effort, restricted, single-numa-node" in result.condition("j")


def test_a_guaranteed_pod_without_a_policy_is_checked_against_that_of_the_node() -> None:
    topology = numatopology("n", policy="single-numa-node", allocatable="0-2,8-10")
    refused = run(asking("j", 4), nodes=[big()], topologies=[topology])
    assert "container main cannot be assigned by numa" in refused.condition("j")
    assert run(asking("j", 3), nodes=[big()], topologies=[topology]).bound()


def test_fractions_use_shared_cpus_on_any_node() -> None:
    topology = numatopology("n", policy="single-numa-node", allocatable="0")
    result = run(asking("j", "500m", "single-numa-node"), nodes=[big()], topologies=[topology])
    assert result.bound()
    bind = next(d for d in result.decisions if isinstance(d, Bind))
    assert DECISION not in bind.annotations


def test_reserved_cpus_are_not_given_to_pods() -> None:
    topology = numatopology("n", policy="single-numa-node", reserved="1500m")
    result = run(asking("j", 7, "single-numa-node"), nodes=[big()], topologies=[topology])
    assert decision(result, "j-worker-0") == {"1": 7}  # NUMA node 0 has 6 left


def test_containers_share_a_node_and_the_refused_one_is_named() -> None:
    def two(cpu: int) -> JobManifests:
        limits = {"cpu": str(cpu), "memory": "1Gi"}
        containers = [{"name": each, "image": "i", "resources": {"limits": limits}} for each in ("a", "b")]
        return job("j", cpu=None, annotations={POLICY: "single-numa-node"}, spec={"containers": containers})

    free = numatopology("n", policy="single-numa-node")
    assert decision(run(two(6), nodes=[big()], topologies=[free]), "j-worker-0") == {"0": 6, "1": 6}
    part = numatopology("n", policy="single-numa-node", allocatable="0-5,8-12")
    refused = run(two(6), nodes=[big()], topologies=[part])
    assert "container b cannot be assigned by numa" in refused.condition("j")


# -- scores --------------------------------------------------------------------------------------------------


def scores(weight: int, *topologies: Manifest, policy: str = "best-effort") -> list[float] | None:
    made = session(
        plugins=[{"name": "numa-aware", "arguments": {"weight": weight}}],
        nodes=[big(each["metadata"]["name"]) for each in topologies],
        others=topologies,
        jobs=[asking("j", 6, policy)],
    )
    task = next(iter(made.snapshot.jobs["default/j"].tasks.values()))
    found = made.policy.score_nodes_together(task, made.nodes)
    return None if found is None else found.tolist()


def test_nodes_that_need_fewer_numa_nodes_score_higher() -> None:
    one, two = numatopology("a"), numatopology("b", allocatable="0-3,8-11")
    assert scores(1, one, two) == [50.0, 0.0]
    assert scores(10, one, two) == [500.0, 0.0]
    assert scores(1, one, numatopology("b")) == [0.0, 0.0]


def test_pods_without_a_policy_are_not_scored() -> None:
    assert scores(1, numatopology("a"), numatopology("b", allocatable="0-3,8-11"), policy="") is None


def test_the_node_where_the_pod_fits_in_one_numa_node_is_chosen() -> None:
    topologies = [numatopology(f"n{i}", allocatable="0-3,8-11") for i in range(5)] + [numatopology("n5")]
    nodes = [big(f"n{i}") for i in range(6)]
    result = run(asking("j", 6, "best-effort"), nodes=nodes, topologies=topologies)
    assert result.bound() == {"j-worker-0": "n5"}


# -- gangs and preemption ------------------------------------------------------------------------------------


def test_a_gang_gets_cpus_for_all_its_pods_or_for_none() -> None:
    topologies = [numatopology("n", policy="single-numa-node")]
    nodes = [big(cpu=64)]
    assert len(run(asking("j", 6, "single-numa-node", 2), nodes=nodes, topologies=topologies).bound()) == 2
    gang = run(
        asking("j", 6, "single-numa-node", 3, age=5),
        asking("k", 8, "single-numa-node", 2),
        nodes=nodes,
        topologies=topologies,
    )
    assert sorted(gang.bound()) == ["k-worker-0", "k-worker-1"]  # nothing is left reserved for j


def preempting(*, low: Sequence[Manifest], topology: Manifest, cpu: int = 16, high: int = 6) -> Result:
    return schedule(
        nodes=[big(cpu=cpu)],
        others=[topology, priority_class("high", 1000)],
        podgroups=[podgroup("low", min_member=1, phase="Running")],
        pods=low,
        jobs=[asking("high", high, "single-numa-node", priority_class="high", priority=1000)],
        plugins=("priority", "gang", "conformance", "predicates", "numa-aware"),
        actions=("enqueue", "allocate", "preempt"),
    )


def running(name: str, cpu: int, **more: Any) -> Manifest:
    return pod(name, group="low", node="n", priority=1, preemptable=True, **guaranteed(cpu), **more)


def test_preemption_frees_the_cpus_of_its_victim() -> None:
    topology = numatopology(
        "n", policy="single-numa-node", pods={"uid-default-low-0": "0-5", "uid-default-low-1": "8-13"}
    )
    result = preempting(low=[running("low-0", 6), running("low-1", 6)], topology=topology, cpu=32)
    assert len(result.evicted()) == 1  # resources would fit without: the cpus of one NUMA node do not
    assert result.nominated() == {"high-worker-0": "n"}
    assert not result.bound()


def test_a_pod_waits_for_cpus_of_pods_that_are_being_deleted() -> None:
    topology = numatopology(
        "n", policy="single-numa-node", pods={"uid-default-old": "0-7"}, allocatable="8-10"
    )
    leaving = pod("old", node="n", deleting=True, **guaranteed(8))
    result = run(
        asking("j", 6, "single-numa-node"), nodes=[big(cpu=64)], topologies=[topology], pods=[leaving]
    )
    assert not result.bound()
    idle = [numatopology("m", policy="single-numa-node"), topology]
    nodes = [big(cpu=64), big("m", cpu=8)]
    other = run(asking("j", 6, "single-numa-node"), nodes=nodes, topologies=idle, pods=[leaving])
    assert other.bound() == {"j-worker-0": "m"}


# -- pods that their node does not list yet ------------------------------------------------------------------


def cycles(count: int, *, pods: Sequence[Manifest] = (), topology: Manifest, **more: Any) -> list[Result]:
    """Several cycles over one cluster, with decisions assumed and memory kept."""
    cluster = cluster_of(nodes=[big(cpu=64)], others=[topology], pods=pods, **more)
    memory: Mapping[str, Any] = {}
    found = []
    for number in range(count):
        snapshot = cluster.snapshot(1_800_000_000.0 + number, number, memory)
        outcome = run_cycle(snapshot, config(PLUGINS))
        cluster.assume(outcome.decisions)
        memory = outcome.memory
        found.append(Result(outcome, snapshot))
    return found


def test_cpus_of_a_placed_pod_stay_reserved_until_its_node_lists_it() -> None:
    topology = numatopology("n", policy="single-numa-node")
    jobs = [asking(f"j{i}", 6, "single-numa-node", age=9 - i) for i in range(3)]
    first, second = cycles(2, jobs=jobs, topology=topology)
    assert len(first.bound()) == 2
    assert first.outcome.memory["numa-aware"] == {
        "uid-default-j0-worker-0": ["n", "0-5"],
        "uid-default-j1-worker-0": ["n", "8-13"],
    }
    assert not second.bound()


def placed(name: str, cpu: int, numa: str | None = "0", **more: Any) -> Manifest:
    options = guaranteed(cpu, "single-numa-node")
    if numa is not None:
        options["annotations"] = {
            **options["annotations"],
            DECISION: json.dumps({"numa": {numa: {"cpu": str(cpu)}}}),
        }
    return pod(name, node="n", **options, **more)


def free_for(
    cpu: int, topology: Manifest, *pods: Manifest, memory: Mapping[str, Any] | None = None
) -> Mapping[str, int]:
    """NUMA nodes of the CPUs that a new pod gets beside these; empty when it gets none."""
    result = run(
        asking("new", cpu, "single-numa-node"),
        nodes=[big(cpu=64)],
        topologies=[topology],
        pods=pods,
        memory=memory,
    )
    return decision(result, "new-worker-0") if result.bound() else {}


def test_after_a_restart_the_decision_on_the_pod_reserves_its_cpus() -> None:
    topology = numatopology("n", policy="single-numa-node")
    assert free_for(6, topology, placed("a", 6, "0")) == {"1": 6}
    assert free_for(6, topology, placed("a", 6, "0"), placed("b", 6, "1")) == {}


def test_an_unlisted_pod_without_a_decision_is_expected_where_the_node_would_put_it() -> None:
    topology = numatopology("n", policy="single-numa-node")
    assert free_for(6, topology, placed("a", 6, None)) == {"1": 6}


def test_a_listed_pod_is_counted_once() -> None:
    topology = numatopology("n", policy="single-numa-node", pods={"uid-default-a": "0-5"})
    assert free_for(2, topology, placed("a", 6, "0")) == {"0": 2}
    memory = {"numa-aware": {"uid-default-a": ["n", "8-13"]}}  # the node chose others than expected
    assert free_for(6, topology, placed("a", 6, None), memory=memory) == {"1": 6}


def test_a_node_may_list_pods_by_name() -> None:
    topology = numatopology("n", policy="single-numa-node", allocatable="6-15")
    topology["spec"]["podAllocations"] = [
        {
            "namespace": "default",
            "name": "a",
            "containerAllocations": [{"name": "main", "allocations": {"cpu": "0-5"}}],
        }
    ]
    assert free_for(8, topology, placed("a", 6, "0")) == {"1": 8}


def test_the_cpus_expected_for_a_pod_move_when_its_node_gave_them_to_another() -> None:
    topology = numatopology("n", policy="single-numa-node", pods={"uid-default-b": "0-3"})
    memory = {"numa-aware": {"uid-default-a": ["n", "0-3"]}}
    # a gets the other half of NUMA node 0, or cpus of NUMA node 1: at most 8 - 4 are left next to it.
    assert free_for(8, topology, placed("a", 4, "0"), placed("b", 4, "0"), memory=memory) == {"1": 8}
    assert free_for(5, topology, placed("a", 4, "0"), placed("b", 4, "0"), memory=memory) == {"1": 5}


def test_memory_ends_when_the_decision_is_on_the_pod_or_the_pod_is_gone() -> None:
    topology = numatopology("n", policy="single-numa-node")
    memory = {"numa-aware": {"uid-default-a": ["n", "0-5"], "uid-default-gone": ["n", "8-9"]}}
    confirmed = schedule(
        nodes=[big()], others=[topology], pods=[placed("a", 6, "0")], plugins=PLUGINS, memory=memory
    )
    assert "numa-aware" not in confirmed.outcome.memory
    waiting = schedule(
        nodes=[big()], others=[topology], pods=[placed("a", 6, None)], plugins=PLUGINS, memory=memory
    )
    assert waiting.outcome.memory["numa-aware"] == {"uid-default-a": ["n", "0-5"]}


def test_cpus_of_a_pod_that_ended_are_not_idle_before_its_node_says_so() -> None:
    topology = numatopology("n", policy="single-numa-node", pods={"uid-default-gone": "0-7", "uid-x": "8-15"})
    assert free_for(2, topology) == {}


def test_no_cpu_set_is_computed_for_a_cycle_without_such_pods() -> None:
    made = session(
        plugins=["numa-aware"],
        nodes=[big()],
        others=[numatopology("n")],
        jobs=[job("j", cpu=1)],
        queues=[queue("default")],
    )
    task = next(iter(made.snapshot.jobs["default/j"].tasks.values()))
    assert made.policy.reject_nodes_now(task, made.nodes) is None
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, NumaAware)
    assert "_free" not in vars(plugin)
