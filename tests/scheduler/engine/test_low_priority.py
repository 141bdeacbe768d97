"""LowPriority: shown where jobs preempt others and those of higher priority hold what a job needs, and only there."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import JobManifests, job, node, priority_class, queue
from tests.scenario import Result, schedule
from volcano.model.decisions import SetPodGroup
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass
from volcano.scheduler.report.metrics import SchedulerMetrics

PREEMPTING = ("enqueue", "allocate", "preempt", "backfill")
GANG_PREEMPTING = ("enqueue", "allocate", "gangpreempt", "backfill")
CLASSES = [priority_class("high", 100), priority_class("low", 5)]
ANTI_AFFINITY = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    }
}


def cycle(*jobs: JobManifests, **more: Any) -> Result:
    options: dict[str, Any] = {"nodes": [node("n1"), node("n2")], "others": CLASSES, "jobs": jobs} | more
    return schedule(**options)


def code_of(result: Result, name: str = "low") -> Code | None:
    found = result.diagnosis(name)
    return found.code if found is not None else None


def high(replicas: int = 2, **more: Any) -> JobManifests:
    options: dict[str, Any] = {"cpu": 4, "priority_class": "high"} | more
    return job("high", replicas, **options)


def low(**more: Any) -> JobManifests:
    options: dict[str, Any] = {"cpu": 4, "priority_class": "low"} | more
    return job("low", **options)


@pytest.mark.parametrize("actions", [PREEMPTING, GANG_PREEMPTING])
@pytest.mark.parametrize("on", [["n1", "n2"], []], ids=["running", "placed in this cycle"])
def test_a_job_waits_because_of_its_priority_where_jobs_of_higher_priority_hold_what_it_needs(
    actions: tuple[str, ...], on: list[str]
) -> None:
    found = cycle(high(on=on), low(), actions=actions).diagnosis("low")
    assert found is not None
    assert (found.code, found.diagnosis_class) == (Code.LOW_PRIORITY, DiagnosisClass.POLICY)
    assert found.stage == found.plugin == "priority"
    assert found.message.startswith(
        "jobs of higher priority hold what it needs: default/high has 100, it has 5; 0/2 nodes are available"
    )
    assert found.subject == "job default/high of priority 100"
    assert [(each.resource, each.need, each.have, each.limit) for each in found.amounts] == [
        ("cpu", 4000, 0, 8000)
    ]


def test_the_condition_and_the_metric_have_the_code() -> None:
    result = cycle(high(on=["n1", "n2"]), low(), actions=PREEMPTING)
    groups = {each.name: each for each in result.decisions if isinstance(each, SetPodGroup)}
    conditions = {each.type: each for each in groups["low"].conditions or ()}
    assert conditions["Unschedulable"].reason == "LowPriority"
    assert "jobs of higher priority hold what it needs" in result.condition("low")
    metrics = SchedulerMetrics()
    metrics.cycle(result.outcome, result.snapshot)
    samples = [sample for metric in metrics.registry.collect() for sample in metric.samples]
    found = [each.labels for each in samples if each.name == "volcano_pending_jobs"]
    assert found == [{"queue": "default", "code": "LowPriority"}]


CAPACITY_CASES = [
    pytest.param({"jobs": (high(on=["n1", "n2"]), low())}, id="nothing is preempted"),
    pytest.param({"jobs": (high(), low())}, id="nothing is preempted, and they are placed in this cycle"),
    pytest.param(
        {"jobs": (high(on=["n1", "n2"], priority_class="low"), low()), "actions": PREEMPTING},
        id="running jobs of the same priority",
    ),
    pytest.param(
        {"jobs": (high(1), low(replicas=2)), "nodes": [node("n1"), node("n2", 1), node("n3")]}
        | {"pods": job("full", 1, cpu=4, on="n3").pods, "podgroups": [job("full").group]}
        | {"actions": PREEMPTING},
        id="without the job of higher priority it would not start either",
    ),
    pytest.param(
        {
            "jobs": (high(1, queue="other", on="n1"), low(replicas=2)),
            "queues": [queue("default"), queue("other")],
            "actions": PREEMPTING,
        },
        id="the job of higher priority is in another queue",
    ),
    pytest.param(
        {"jobs": (high(on=["n1", "n2"]), low(spec={"preemptionPolicy": "Never"})), "actions": PREEMPTING},
        id="its pods do not preempt",
    ),
    pytest.param(
        {"jobs": (high(), low(labels={"app": "x"}, spec=ANTI_AFFINITY)), "actions": PREEMPTING},
        id="other pods decide as well",
    ),
]


@pytest.mark.parametrize("case", CAPACITY_CASES)
def test_other_jobs_wait_for_capacity(case: dict[str, Any]) -> None:
    found = cycle(**case).diagnosis("low")
    assert found is not None
    assert found.diagnosis_class is DiagnosisClass.CAPACITY


def test_a_job_that_no_node_could_host_is_not_diagnosed_by_its_priority() -> None:
    assert code_of(cycle(high(), low(cpu=9), actions=PREEMPTING)) is Code.NODE_TOO_SMALL


def test_the_limit_of_a_queue_has_precedence_over_the_priority() -> None:
    queues = [queue("default", capability={"cpu": "8"})]
    nodes = [node("n1"), node("n2"), node("n3")]
    assert (
        code_of(cycle(high(), low(), queues=queues, nodes=nodes, actions=PREEMPTING)) is Code.QUEUE_CAPABILITY
    )


def test_a_job_that_evicts_pods_is_under_way_although_jobs_of_higher_priority_run() -> None:
    running = high(1, on="n1"), job("small", 1, cpu=4, on="n2", min_available=0)
    assert code_of(cycle(*running, low(), actions=PREEMPTING)) is Code.EVICTING


def test_jobs_of_different_shapes_are_placed_together_in_thought() -> None:
    mixed = low(replicas=2, cpu=2)
    bigger = job("low", 1, cpu=4).pods[0] | {
        "metadata": {**mixed.pods[0]["metadata"], "name": "b", "uid": "b"}
    }
    both = JobManifests(mixed.group, (mixed.pods[0], bigger))
    assert code_of(cycle(high(), both, actions=PREEMPTING)) is Code.LOW_PRIORITY
    assert code_of(cycle(high(1), both, nodes=[node("n1", 5)], actions=PREEMPTING)) is not Code.LOW_PRIORITY


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    free = [draw(st.integers(1, 6)) for _ in range(draw(st.integers(1, 4)))]
    nodes = [node(f"n{i}", cpu) for i, cpu in enumerate(free)]
    jobs = []
    for number in range(draw(st.integers(2, 6))):
        cpu, replicas = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        runs_on = []
        for _ in range(replicas if draw(st.booleans()) else 0):
            row = next((row for row, left in enumerate(free) if left >= cpu), None)
            if row is not None:
                free[row] -= cpu
                runs_on.append(f"n{row}")
        name = draw(st.sampled_from(("high", "low", "")))
        minimum = replicas if len(runs_on) == replicas or not runs_on else 1
        jobs.append(
            job(
                f"j{number}",
                replicas,
                min_available=minimum,
                cpu=cpu,
                priority_class=name,
                on=runs_on,
                age=100 - number,
            )
        )
    return {"nodes": nodes, "jobs": jobs, "others": CLASSES, "actions": draw(st.sampled_from(ACTIONS))}


ACTIONS = [("allocate", "preempt"), ("allocate", "gangpreempt")]


@given(clusters())
@settings(max_examples=200, deadline=None)
def test_a_job_that_waits_because_of_its_priority_starts_without_jobs_of_higher_priority(
    cluster: dict[str, Any],
) -> None:
    result = schedule(**cluster)
    values = {"high": 100, "low": 5, "": 0}
    for each in cluster["jobs"]:
        name = each.group["metadata"]["name"]
        if code_of(result, name) is not Code.LOW_PRIORITY:
            continue
        own = values[each.group["spec"].get("priorityClassName", "")]
        # Jobs of equal or lower priority stay where they run or were placed; those that wait come after it.
        others = [
            JobManifests(other.group, tuple(pod for pod in other.pods if _is_placed(pod, result)))
            for other in cluster["jobs"]
            if other is not each and values[other.group["spec"].get("priorityClassName", "")] <= own
        ]
        alone = schedule(**(cluster | {"jobs": [each, *others], "actions": ("allocate",)}))
        waiting = {pod["metadata"]["name"] for pod in each.pods if not pod["spec"].get("nodeName")}
        needed = each.group["spec"]["minMember"] - (len(each.pods) - len(waiting))
        assert len(waiting & alone.bound().keys()) >= max(needed, 1), (name, result.outcome.diagnoses)


def test_pods_that_were_evicted_for_another_job_do_not_count_as_room() -> None:
    small = [node("n0", 1), node("n1", 1)]
    jobs = [job("first", 1, cpu=1, priority_class="high"), job("second", 1, cpu=1, priority_class="low")]
    waits, runs = job("third", 1, cpu=1, priority_class="low"), job("runs", 1, cpu=1, on=["n0"])
    result = schedule(nodes=small, jobs=[*jobs, waits, runs], others=CLASSES, actions=("allocate", "preempt"))
    assert result.evicted() == {"runs-worker-0"}
    assert code_of(result, "third") is Code.LOW_PRIORITY
    without = schedule(
        nodes=small, jobs=[jobs[1], waits, runs], others=CLASSES, actions=("allocate", "preempt")
    )
    assert {*without.bound(), *without.nominated()} == {"second-worker-0", "third-worker-0"}


def _is_placed(pod: dict[str, Any], result: Result) -> bool:
    """Whether a pod goes on running or was placed; placed pods get their node, which evicted ones have left."""
    if pod["metadata"]["name"] in result.evicted():
        return False
    found = result.bound() | result.nominated()
    if pod["metadata"]["name"] in found:
        pod["spec"]["nodeName"] = found[pod["metadata"]["name"]]
        pod["status"] = {"phase": "Running"}
    return bool(pod["spec"].get("nodeName"))


def test_a_job_takes_what_is_being_released_although_no_job_has_a_lower_priority() -> None:
    ending = job("ending", 1, cpu=4, on="n1", min_available=0, deleting=True)
    result = cycle(ending, low(), nodes=[node("n1")], actions=PREEMPTING)
    assert code_of(result) is Code.EVICTING
