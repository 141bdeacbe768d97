"""Status of PodGroups, pods and queues after a cycle."""

from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, pod, podgroup, queue
from tests.scenario import Result, cluster_of, config, event, schedule
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EventType
from volcano.model.decisions import Bind, SetPodCondition, SetPodGroup
from volcano.model.job import Job
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.plugin import Plugin

PLUGINS = ["gang", "predicates"]


def cycle(*pods: Manifest, phase: str = "Inqueue", nodes: int = 0, **group: Any) -> Result:
    members = JobManifests(podgroup("pg", phase=phase, **group), pods)
    wanted = [node("n1", cpu=8)] + [node(f"m{i}") for i in range(nodes)]
    return schedule(nodes=wanted, jobs=[members], plugins=PLUGINS)


HUGE = 100


@pytest.mark.parametrize(
    ("pods", "minimum", "before", "after"),
    [
        pytest.param([pod("a", group="pg", node="n1", deleting=True)], 1, "Running", "Running", id="one going"),
        pytest.param(
            [pod("a", group="pg", deleting=True), pod("b", HUGE, group="pg")], 2, "Pending", "Inqueue",
            id="one that never ran is going: admitted and no further",
        ),
        pytest.param(
            [pod(n, group="pg", node="n1", phase="Succeeded") for n in "ab"], 2, "Running", "Completed", id="all done"
        ),
        pytest.param([pod("a", group="pg", node="n1", deleting=True)], 2, "Running", "Pending", id="too few left"),
        pytest.param(
            [pod("a", group="pg", node="n1"), pod("b", HUGE, group="pg")], 2, "Running", "Unknown",
            id="half a gang runs and the rest does not fit",
        ),
        pytest.param([pod("a", group="pg", node="n1")], 1, "Inqueue", "Running", id="started"),
    ],
)  # fmt: skip
def test_the_phase_of_a_podgroup(pods: list[Manifest], minimum: int, before: str, after: str) -> None:
    assert cycle(*pods, phase=before, min_member=minimum).phase("pg") == after


def test_a_gang_that_is_being_replaced_is_not_called_unschedulable() -> None:
    going = [pod("a", group="pg", node="n1"), pod("b", group="pg", node="n1", deleting=True)]
    assert cycle(*going, min_member=2, phase="Running").condition("pg") == ""
    with_replacement = cycle(*going, pod("c", HUGE, group="pg"), min_member=2, phase="Running")
    assert "tasks in gang unschedulable" in with_replacement.condition("pg")


def test_the_same_thing_is_not_said_twice() -> None:
    first = cycle(pod("a", HUGE, group="pg"))
    (said,) = [d for d in first.decisions if isinstance(d, SetPodGroup)]
    assert said.conditions is not None
    conditions = [
        {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message, "transitionID": "1"}
        for c in said.conditions
    ]
    (about_pod,) = [d for d in first.decisions if isinstance(d, SetPodCondition)]
    status = {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": about_pod.reason,
                "message": about_pod.message,
            }
        ]
    }
    again = cycle(pod("a", HUGE, group="pg", status=status), conditions=conditions)
    assert [d for d in again.decisions if isinstance(d, SetPodGroup | SetPodCondition)] == []


def conditions_of(result: Result) -> dict[str, str]:
    """Type and status of the conditions that were set on the PodGroup."""
    (said,) = [d for d in result.decisions if isinstance(d, SetPodGroup)]
    assert said.conditions is not None
    return {c.type: c.status for c in said.conditions}


UNSCHEDULABLE = [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "m"}]
SCHEDULED = [
    {
        "type": "Scheduled",
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled",
        "message": "",
    }
]


def test_a_job_that_starts_after_all_is_no_longer_unschedulable() -> None:
    result = cycle(pod("a", group="pg", node="n1"), conditions=UNSCHEDULABLE)
    assert conditions_of(result) == {"Unschedulable": "False", "Scheduled": "True"}


def test_a_job_that_was_evicted_is_no_longer_scheduled() -> None:
    result = cycle(pod("a", HUGE, group="pg"), conditions=SCHEDULED)
    assert conditions_of(result) == {"Unschedulable": "True", "Scheduled": "False"}


def test_a_gang_is_reported_as_ready_once_its_bindings_are_confirmed() -> None:
    deciding = cycle(pod("a", group="pg"), pod("b", group="pg"), min_member=2)
    assert len(deciding.bound()) == 2
    assert [d for d in deciding.decisions if isinstance(d, SetPodGroup) and d.conditions] == []
    assert deciding.events("pg") == []
    bound = cycle(*(pod(name, group="pg", node="n1") for name in "ab"), min_member=2)
    assert conditions_of(bound) == {"Scheduled": "True"}
    assert bound.events("pg") == ["pod group is ready"]


def test_a_gang_with_a_rejected_binding_is_not_reported_as_ready() -> None:
    text = 'failed to bind to node n1: node "n1" is closed'
    failed = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": text}
    pods = [pod("a", group="pg", node="n1"), pod("b", group="pg", status={"conditions": [failed]})]
    again = cycle(*pods, min_member=2, conditions=SCHEDULED)
    assert set(again.bound()) == {"b"}
    assert conditions_of(again) == {"Unschedulable": "True", "Scheduled": "False"}
    assert (
        f"1/2 tasks in gang not bound: pod group is not ready. Origin reason is b: {text}"
        == again.condition("pg")
    )


def test_members_that_fit_wait_for_the_member_that_does_not() -> None:
    pods = [pod(f"small-{i}", 1, group="pg") for i in range(4)]
    result = cycle(pod("big", HUGE, group="pg"), *pods, min_member=5)
    assert result.bound() == {}
    for i in range(4):
        text = f"Pod default/small-{i} can possibly be assigned to n1, once minAvailable is satisfied"
        assert result.said(f"small-{i}") == text
    assert result.said("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    message = result.condition("pg")
    assert message.startswith(
        "1/5 tasks in gang unschedulable: pod group is not ready, 5 Pending, 5 minAvailable; "
        "Pending: 4 Schedulable, 1 Unschedulable. Origin reason is"
    )


def test_another_possible_node_is_not_written_again() -> None:
    waiting = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Schedulable",
        "message": "Pod default/small can possibly be assigned to another, once minAvailable is satisfied",
    }
    pods = [pod("big", HUGE, group="pg"), pod("small", 1, group="pg", status={"conditions": [waiting]})]
    result = cycle(*pods, min_member=2)
    assert [d.name for d in result.decisions if isinstance(d, SetPodCondition)] == ["big"]


def test_pods_with_scheduling_gates_are_counted_as_such() -> None:
    gated = pod("b", group="pg", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    result = cycle(pod("a", group="pg"), gated, min_member=2)
    assert result.bound() == {}
    assert result.condition("pg") == (
        "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; "
        "Pending: 1 Schedulable, 1 SchedulingGated. "
        "Origin reason is b: waits for scheduling gates example.com/wait"
    )
    assert "can possibly be assigned" in result.said("a")


def test_reasons_are_data_and_kubernetes_wording() -> None:
    taints = [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]
    nodes = [node("a", cpu=1), node("b", cpu=1, taints=taints), node("c", unschedulable=True)]
    result = schedule(nodes=nodes, jobs=[job("j", 1, cpu=2)], plugins=PLUGINS)
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert diagnosis.nodes == 3
    assert sum(diagnosis.reasons.values()) == 3
    assert diagnosis.reasons["Insufficient cpu"] == 1
    assert result.said("j-worker-0").startswith("0/3 nodes are available: 1 Insufficient cpu, 1 node(s) ")


def test_a_shortage_says_what_is_needed_and_what_there_is() -> None:
    diagnosis = schedule(nodes=[node("a", cpu=1)], jobs=[job("j", 1, cpu=2)], plugins=PLUGINS).diagnosis("j")
    assert diagnosis is not None
    assert (diagnosis.stage, diagnosis.resource, diagnosis.shortage()) == (
        "resources",
        "cpu",
        "needs cpu 2, has 1",
    )


def test_too_many_pods_are_called_that() -> None:
    jobs = [job("a", 1, on="n1", phase="Running"), job("b", 1)]
    result = schedule(nodes=[node("n1", pods=1)], jobs=jobs, plugins=PLUGINS)
    assert result.said("b-worker-0") == "0/1 nodes are available: 1 Too many pods."


def test_queues_say_what_their_jobs_and_their_childrens_jobs_hold() -> None:
    queues = [queue("root"), queue("dept"), queue("team", parent="dept")]
    running = [job("j", 2, queue="team", on="n1", phase="Running", memory="1Gi")]
    result = schedule(nodes=[node("n1")], jobs=running, queues=queues, plugins=PLUGINS)
    assert result.allocated("team") == {"cpu": "2", "memory": "2Gi", "pods": "2"}
    assert result.allocated("dept") == result.allocated("root") == result.allocated("team")


def test_a_fault_in_a_plugin_fails_that_job_and_no_other() -> None:
    plugins = ["gang", f"{__name__}:Clumsy", "predicates"]
    result = schedule(nodes=[node("n1")], jobs=[job("bad", 1), job("good", 1)], plugins=plugins)
    assert set(result.bound()) == {"good-worker-0"}
    text = f"the scheduler failed on this job: plugin {__name__}:Clumsy failed in job_valid: ZeroDivisionError: oops"
    assert text in result.condition("bad")


def test_a_malformed_pod_fails_its_job_and_no_other() -> None:
    broken = job("bad", 1)
    broken.pods[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "a lot"
    result = schedule(nodes=[node("n1")], jobs=[broken, job("good", 1)], plugins=PLUGINS)
    assert set(result.bound()) == {"good-worker-0"}
    assert "'a lot' is not a quantity" in result.said("bad-worker-0")


class Clumsy(Plugin):
    """Fails on the job called bad."""

    def job_valid(self, job: Job) -> None:
        if job.name == "bad":
            raise ZeroDivisionError("oops")


class FailingOrder(Plugin):
    """Fails when asked how the job called bad ranks, or whether it is ready."""

    def job_order(self, job: Job) -> int:
        if job.name == "bad":
            raise ZeroDivisionError("oops")
        return 0


class FailingReadiness(Plugin):
    """Fails when asked whether the job called bad is ready."""

    def job_short(self, job: Job) -> int:
        if job.name == "bad":
            raise ZeroDivisionError("oops")
        return 0


@pytest.mark.parametrize("plugin", ["FailingOrder", "FailingReadiness"])
def test_whatever_question_a_plugin_fails_on_only_that_job_suffers(plugin: str) -> None:
    jobs = [job("bad", 1), job("good", 1)]
    result = schedule(nodes=[node("n1")], jobs=jobs, plugins=[f"{__name__}:{plugin}", "predicates"])
    assert set(result.bound()) == {"good-worker-0"}
    assert f"the scheduler failed on this job: plugin {__name__}:{plugin} failed in" in result.condition(
        "bad"
    )


CLUMSY = config(plugins=[f"{__name__}:Clumsy", "predicates"])


def test_a_failed_job_is_tried_again_when_one_of_its_objects_changes() -> None:
    cluster = cluster_of(nodes=[node("n1")], jobs=[job("bad", 1)])
    first = run_cycle(cluster.snapshot(START, 1), CLUMSY)
    assert first.faults["default/bad"].attempts == 1
    second = run_cycle(cluster.snapshot(START, 2, first.memory), CLUMSY)
    assert second.diagnoses["default/bad"].stage == "fault"
    assert second.faults["default/bad"].attempts == 1
    cluster.apply(event(pod("bad-worker-0", group="bad", version=2), cluster, EventType.MODIFIED))
    third = run_cycle(cluster.snapshot(START, 3, second.memory), CLUMSY)
    assert third.faults["default/bad"].attempts == 2


def test_a_failed_job_is_tried_again_with_back_off() -> None:
    cluster = cluster_of(nodes=[node("n1")], jobs=[job("bad", 1)])
    memory, attempts = None, []
    for second in range(200):
        outcome = run_cycle(cluster.snapshot(START + second, 1, memory), CLUMSY)
        memory = outcome.memory
        attempts.append(outcome.faults["default/bad"].attempts)
    tried = [at for at in range(1, 200) if attempts[at] > attempts[at - 1]]
    assert tried == [1, 3, 7, 15, 31, 63, 123, 183]


def test_a_failed_job_is_tried_again_when_the_configuration_changes() -> None:
    cluster = cluster_of(nodes=[node("n1")], jobs=[job("bad", 1)])
    first = run_cycle(cluster.snapshot(START, 1), CLUMSY)
    second = run_cycle(cluster.snapshot(START, 2, first.memory), config(plugins=["predicates"]))
    assert (second.diagnoses, second.faults, second.memory) == ({}, {}, {})
    assert any(isinstance(decision, Bind) for decision in second.decisions)


def test_a_gang_that_another_scheduler_places_is_left_to_it() -> None:
    """Two schedulers that each count their own pods would write against each other for ever."""
    theirs = [pod(f"p{i}", group="pg", node="n1", scheduler="other") for i in (1, 2)]
    group = podgroup("pg", min_member=2, phase="Running")
    made = cluster_of(nodes=[node("n1", cpu=8)], podgroups=[group], pods=theirs)

    def written() -> list[SetPodGroup]:
        outcome = run_cycle(made.snapshot(START, 1), config(PLUGINS))
        return [decision for decision in outcome.decisions if isinstance(decision, SetPodGroup)]

    assert written() == []
    for manifest in theirs:
        made.apply(event(manifest, made, EventType.DELETED))
    assert [decision.phase for decision in written()] == ["Pending"]


def test_a_gang_of_which_we_place_a_part_is_ours() -> None:
    group = podgroup("pg", min_member=1, phase="Inqueue")
    pods = [pod("theirs", group="pg", node="n1", scheduler="other"), pod("mine", group="pg")]
    result = schedule(nodes=[node("n1", cpu=8)], podgroups=[group], pods=pods, plugins=PLUGINS)
    assert set(result.bound()) == {"mine"}
