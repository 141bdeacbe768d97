"""Status of PodGroups, pods and queues after a cycle."""

from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, pod, podgroup, queue
from tests.scenario import Result, cluster_of, config, event, schedule
from volcano.kube.client import EventType
from volcano.kube.manifest import Manifest
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


def test_a_job_that_starts_after_all_is_no_longer_unschedulable() -> None:
    old = [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "m"}]
    result = cycle(pod("a", group="pg"), conditions=old)
    (said,) = [d for d in result.decisions if isinstance(d, SetPodGroup)]
    assert said.conditions is not None
    assert {(c.type, c.status) for c in said.conditions} == {
        ("Unschedulable", "False"),
        ("Scheduled", "True"),
    }


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
    assert "the scheduler failed on this job: ZeroDivisionError" in result.condition("bad")


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
    assert "the scheduler failed on this job: ZeroDivisionError" in result.condition("bad")


def test_a_failed_job_is_skipped_until_one_of_its_objects_changes() -> None:
    cluster = cluster_of(nodes=[node("n1")], jobs=[job("bad", 1)])
    clumsy, fine = config(plugins=[f"{__name__}:Clumsy", "predicates"]), config(plugins=["predicates"])
    first = run_cycle(cluster.snapshot(START, 1), clumsy)
    assert "default/bad" in first.faults
    second = run_cycle(cluster.snapshot(START, 2, first.memory), fine)
    assert second.diagnoses["default/bad"].stage == "fault"
    cluster.apply(event(pod("bad-worker-0", group="bad", version=2), cluster, EventType.MODIFIED))
    third = run_cycle(cluster.snapshot(START, 3, second.memory), fine)
    assert third.diagnoses == {}
    assert any(isinstance(decision, Bind) for decision in third.decisions)


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
