"""Codes of diagnoses: each reason has one, the class with precedence counts, and NEVER is never wrong."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import START, JobManifests, job, node, pod, podgroup, priority_class, queue, resources
from tests.scenario import Result, schedule
from volcano.base.clock import timestamp
from volcano.model.decisions import SetPodGroup
from volcano.scheduler.engine.diagnosis.codes import CLASSES, MEANINGS, Code, DiagnosisClass, of_nodes
from volcano.scheduler.report.metrics import SchedulerMetrics

NEVER = DiagnosisClass.NEVER
GPU_ONLY = [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]
NOT_READY = [{"key": "node.kubernetes.io/not-ready", "value": "", "effect": "NoSchedule"}]
SELECTOR = {"nodeSelector": {"disk": "ssd"}}
PREEMPTING = ("enqueue", "allocate", "preempt", "backfill")


def test_every_code_has_one_class_and_is_a_valid_reason_of_a_condition() -> None:
    assert set(CLASSES) == set(Code)
    assert sum(len(meanings) for meanings in MEANINGS.values()) == len(Code)
    assert [each.value for each in DiagnosisClass] == ["NEVER", "CONFIG", "POLICY", "CAPACITY", "IN_PROGRESS"]
    for code in Code:
        assert re.fullmatch(r"[A-Z][A-Za-z]+", code.value)


def test_a_task_is_as_close_to_starting_as_the_node_that_is_closest() -> None:
    assert of_nodes({Code.NODE_TOO_SMALL: 90, Code.INSUFFICIENT_RESOURCES: 1}) is Code.INSUFFICIENT_RESOURCES
    assert of_nodes({Code.NODE_TOO_SMALL: 2, Code.NODES_UNSCHEDULABLE: 1}) is Code.NODES_UNSCHEDULABLE
    assert of_nodes({Code.NODE_TOO_SMALL: 2, Code.TAINT_NOT_TOLERATED: 2}) is Code.NO_SUITABLE_NODE
    assert of_nodes({Code.NODE_TOO_SMALL: 2, Code.TAINT_NOT_TOLERATED: 1}) is Code.NODE_TOO_SMALL
    assert of_nodes({Code.TAINT_NOT_TOLERATED: 3}) is Code.TAINT_NOT_TOLERATED


def scenario(*jobs: JobManifests, nodes: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    found = nodes if nodes is not None else [node("n1"), node("n2")]
    return {"nodes": found, "jobs": jobs, **more}


FULL = job("full", 2, cpu=4, on=["n1", "n2"])
CASES = [
    pytest.param(scenario(job("j", cpu=5)), Code.NODE_TOO_SMALL, id="larger than any node"),
    pytest.param(scenario(job("j", 9)), Code.CLUSTER_TOO_SMALL, id="a gang larger than the cluster"),
    pytest.param(
        scenario(job("j", 3, cpu=2.5)),
        Code.CLUSTER_TOO_SMALL,
        id="a gang that two nodes cannot be cut up for",
    ),
    pytest.param(scenario(job("j", spec=SELECTOR)), Code.NODE_LABELS_MISMATCH, id="no node has the label"),
    pytest.param(
        scenario(job("j"), nodes=[node("n1", taints=GPU_ONLY)]), Code.TAINT_NOT_TOLERATED, id="a taint"
    ),
    pytest.param(
        scenario(job("j", cpu=5), nodes=[node("n1", taints=GPU_ONLY, cpu=9), node("n2")]),
        Code.NO_SUITABLE_NODE,
        id="each node is excluded for another reason",
    ),
    pytest.param(
        scenario(job("j", cpu=5), nodes=[node("n1", unschedulable=True)]),
        Code.NODE_TOO_SMALL,
        id="a cordoned node that is too small anyway",
    ),
    pytest.param(
        scenario(job("j"), nodes=[node("n1", unschedulable=True)]), Code.NODES_UNSCHEDULABLE, id="cordoned"
    ),
    pytest.param(
        scenario(job("j"), nodes=[node("n1", taints=NOT_READY)]), Code.NODES_UNSCHEDULABLE, id="not ready"
    ),
    pytest.param(scenario(job("j"), nodes=[]), Code.NO_NODES, id="no nodes"),
    pytest.param(scenario(job("j", queue="gone")), Code.QUEUE_NOT_FOUND, id="a queue that does not exist"),
    pytest.param(
        scenario(job("j", queue="shut"), queues=[queue("shut", state="Closed")]),
        Code.QUEUE_CLOSED,
        id="a closed queue",
    ),
    pytest.param(
        scenario(job("j", gates=["example.com/wait"])), Code.SCHEDULING_GATED, id="scheduling gates"
    ),
    pytest.param(
        scenario(job("j", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})),
        Code.VOLUME_CLAIM_PROBLEM,
        id="a claim that does not exist",
    ),
    pytest.param(
        scenario(job("j", group={"networkTopology": {"mode": "hard", "highestTierAllowed": 1}})),
        Code.UNKNOWN_TIER,
        id="a tier that no HyperNode has",
    ),
    pytest.param(
        scenario(job("j", 3), queues=[queue("default", capability=resources(cpu=2))]),
        Code.QUEUE_TOO_SMALL,
        id="a capability below the gang",
    ),
    pytest.param(
        scenario(
            job("first", 2, on=["n1", "n1"]),
            job("j"),
            queues=[queue("default", capability=resources(cpu=2))],
        ),
        Code.QUEUE_CAPABILITY,
        id="a capability that is reached",
    ),
    pytest.param(
        scenario(
            FULL,
            job("other", cpu=4, queue="other", on="n3"),
            job("j"),
            nodes=[node("n1"), node("n2"), node("n3")],
            queues=[queue("default", capability=resources(cpu=8)), queue("other")],
        ),
        Code.QUEUE_CAPABILITY,
        id="a capability that is reached beside full nodes",
    ),
    pytest.param(scenario(FULL, job("j")), Code.INSUFFICIENT_RESOURCES, id="full nodes"),
    pytest.param(
        scenario(job("other", on="n1"), job("j", 3), nodes=[node("n1", pods=3)]),
        Code.TOO_MANY_PODS,
        id="as many pods as a node may have",
    ),
    pytest.param(
        scenario(job("j", 2, phase="Pending", min_resources=resources(cpu=2)), FULL),
        Code.CLUSTER_OVERCOMMITTED,
        id="not admitted",
    ),
    pytest.param(
        scenario(podgroups=[podgroup("j", min_member=2)], pods=[pod("j-0", group="j")]),
        Code.WAITING_FOR_PODS,
        id="pods are missing",
    ),
]


@pytest.mark.parametrize(("cluster", "code"), CASES)
def test_the_code_names_the_reason(cluster: dict[str, Any], code: Code) -> None:
    tiers = (
        ("priority", "gang", "conformance"),
        ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"),
    )
    result = schedule(tiers=tiers, **cluster)
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert diagnosis.code is code, diagnosis.message
    assert diagnosis.since == START
    condition = unschedulable(result)
    if condition is not None:  # the PodGroup of missing pods is told by the gang plugin
        assert condition.reason == code.value


def unschedulable(result: Result) -> Any:
    for decision in result.decisions:
        if isinstance(decision, SetPodGroup) and decision.name == "j" and decision.conditions:
            return next(each for each in decision.conditions if each.type == "Unschedulable")
    return None


def test_a_reason_that_never_ends_has_precedence_over_a_limit_that_is_reached() -> None:
    result = schedule(
        nodes=[node("n1"), node("n2")],
        queues=[queue("default", capability=resources(cpu=2))],
        jobs=[job("first", 2, on=["n1", "n1"]), job("j", spec=SELECTOR)],
    )
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert (diagnosis.code, diagnosis.diagnosis_class) == (Code.NODE_LABELS_MISMATCH, NEVER)


def test_need_have_and_limit_are_given_for_every_requested_resource() -> None:
    busy = job("full", 2, cpu=3, memory="2Gi", on=["n1", "n2"])
    diagnosis = schedule(**scenario(busy, job("j", cpu=2, memory="7Gi"))).diagnosis("j")
    assert diagnosis is not None
    found = {each.resource: (each.need, each.have, each.limit) for each in diagnosis.amounts}
    gib = 1024**3
    assert found == {"cpu": (2000, 1000, 4000), "memory": (7 * gib, 6 * gib, 8 * gib)}
    assert diagnosis.causes == {Code.INSUFFICIENT_RESOURCES: 2}
    assert diagnosis.subject == "pod j-worker-0"


def test_a_limit_of_a_queue_is_a_diagnosis_about_that_queue() -> None:
    tree = [
        queue("root"),
        queue("top", capability=resources(cpu=2), parent="root"),
        queue("leaf", parent="top"),
        queue("sibling", parent="top"),
    ]
    result = schedule(
        nodes=[node("n1")],
        queues=tree,
        jobs=[job("first", 2, queue="sibling", on=["n1", "n1"]), job("j", queue="leaf")],
        plugins=["gang", "predicates", {"name": "capacity", "enableHierarchy": True}],
    )
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert (diagnosis.code, diagnosis.subject) == (Code.QUEUE_CAPABILITY, "queue top")
    assert [(each.need, each.have, each.limit) for each in diagnosis.amounts] == [(1000, 0, 2000)]


def test_a_job_that_pods_are_evicted_for_is_in_progress() -> None:
    result = schedule(
        **scenario(
            job("full", 8, on=["n1"] * 4 + ["n2"] * 4, priority_class="low", min_available=1),
            job("j", priority_class="high"),
            others=[priority_class("low", 1), priority_class("high", 100)],
        ),
        actions=PREEMPTING,
    )
    assert len(result.evicted()) == 1
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert (diagnosis.code, diagnosis.diagnosis_class) == (Code.EVICTING, DiagnosisClass.IN_PROGRESS)


def test_the_start_of_a_diagnosis_is_kept_while_its_code_stays_whatever_the_message_says() -> None:
    began = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "InsufficientResources",
        "message": "0/7 nodes are available",
        "lastTransitionTime": timestamp(START - 600),
    }
    result = schedule(**scenario(FULL, job("j", group={"conditions": [began]})))
    diagnosis, condition = result.diagnosis("j"), unschedulable(result)
    assert diagnosis is not None
    assert diagnosis.since == START - 600
    assert (condition.last_transition, condition.reason) == (timestamp(START - 600), "InsufficientResources")
    assert condition.message != began["message"]
    other = schedule(**scenario(job("j", cpu=9, group={"conditions": [began]})))
    assert unschedulable(other).last_transition == timestamp(START)


def test_waiting_jobs_are_counted_by_queue_and_code_and_series_go_with_the_last_job() -> None:
    metrics = SchedulerMetrics()
    result = schedule(**scenario(job("a", cpu=5), job("b", cpu=6), job("c", spec=SELECTOR)))
    metrics.cycle(result.outcome, result.snapshot)
    assert pending(metrics) == {("default", "NodeTooSmall"): 2.0, ("default", "NodeLabelsMismatch"): 1.0}
    metrics.cycle(replace(result.outcome, diagnoses={}), result.snapshot)
    assert pending(metrics) == {}


def pending(metrics: SchedulerMetrics) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["queue"], sample.labels["code"]): sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "volcano_pending_jobs"
    }


# -- never means never -----------------------------------------------------------------------------

LABELS = st.sampled_from([None, {"disk": "ssd"}, {"zone": "a"}])
NODES: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        cpu=st.integers(1, 6),
        gpu=st.sampled_from([None, 1, 2]),
        labels=LABELS,
        taints=st.sampled_from([(), GPU_ONLY, NOT_READY]),
        unschedulable=st.booleans(),
        pods=st.sampled_from([2, 110]),
    ),
    min_size=0,
    max_size=4,
)
JOBS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        replicas=st.integers(1, 5),
        surplus=st.integers(0, 2),
        cpu=st.sampled_from([0.5, 1, 2, 3, 5]),
        gpu=st.sampled_from([None, None, 1]),
        selector=LABELS,
        tolerates=st.booleans(),
        done=st.integers(0, 2),
        declared=st.booleans(),
        phase=st.sampled_from(["Pending", "Inqueue"]),
    ),
    min_size=1,
    max_size=4,
)


@given(NODES, JOBS)
@settings(max_examples=150, deadline=None)
def test_a_job_that_never_fits_does_not_start_in_an_empty_cluster_either(
    machines: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> None:
    nodes = [
        node(f"n{i}", each["cpu"], **{k: v for k, v in each.items() if k != "cpu" and v is not None})
        for i, each in enumerate(machines)
    ]
    jobs = [_job(f"j{i}", each) for i, each in enumerate(wanted)]
    for name, each in zip((f"j{i}" for i in range(len(jobs))), jobs, strict=True):
        diagnosis = schedule(nodes=nodes, jobs=jobs).diagnosis(name)
        if diagnosis is None or diagnosis.diagnosis_class is not NEVER:
            continue
        usable = [_in_order(machine) for machine in nodes]
        alone = schedule(nodes=usable, jobs=[each], actions=("enqueue", "allocate", "backfill"))
        assert not alone.bound(), diagnosis.message


def _in_order(manifest: dict[str, Any]) -> dict[str, Any]:
    """The node, neither cordoned nor tainted as not ready."""
    spec = {k: v for k, v in manifest["spec"].items() if k != "unschedulable" and v != NOT_READY}
    return {**manifest, "spec": spec}


def _job(name: str, each: dict[str, Any]) -> JobManifests:
    replicas = each["replicas"]
    minimum = max(replicas - each["surplus"], 1)
    spec: dict[str, Any] = {}
    if each["selector"]:
        spec["nodeSelector"] = each["selector"]
    if each["tolerates"]:
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    gpus = {"gpu": each["gpu"]} if each["gpu"] else {}
    declared = resources(cpu=minimum * each["cpu"]) if each["declared"] else None
    made = job(
        name,
        replicas,
        min_available=minimum,
        cpu=each["cpu"],
        phase=each["phase"],
        min_resources=declared,
        spec=spec,
        **gpus,
    )
    done = min(each["done"], replicas)
    finished = [
        {**manifest, "status": {"phase": "Succeeded"}} if place < done else manifest
        for place, manifest in enumerate(made.pods)
    ]
    return JobManifests(made.group, tuple(finished))
