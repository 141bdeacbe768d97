"""Counting: rosters, metrics, and which changes are worth a look."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.fake_cluster import FakeCluster
from tests.controllers.job.world import CountedKeys, change, job, policy, running, submit, task, world
from volcano.base.metrics import CollectorRegistry
from volcano.controllers.job.controller import JobController
from volcano.controllers.job.pod_cache import BURST, PodCache, PodInfo, pod_info_of
from volcano.controllers.job.state import is_report
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import JOB, POD, POD_GROUP
from volcano.kube.api.manifest import Key
from volcano.kube.client.operations import Create, Patch

STATES = ("Pending", "Running", "Succeeded", "Failed", "Unknown", "Terminating")


def info(task_name: str, ordinal: int, state: str, restarts: int) -> PodInfo:
    name = f"j-{task_name}-{ordinal}"
    ready = state == "Succeeded"
    return PodInfo(name, name, task_name, ordinal, 0, 0, state, False, False, 0, restarts, ready, "", 0.0)


pods = st.builds(info, st.sampled_from("ab"), st.integers(0, 3), st.sampled_from(STATES), st.integers(0, 2))
changes = st.lists(st.tuples(st.booleans(), pods), max_size=30)


@given(changes, st.integers(0, 4))
def test_a_roster_counts_what_counting_afresh_would(
    happened: list[tuple[bool, PodInfo]], replicas: int
) -> None:
    pod_cache = PodCache()
    expected: dict[str, PodInfo] = {}
    for arrives, who in happened:
        if arrives:
            pod_cache.put(who)
            expected[who.name] = who
        else:
            assert pod_cache.remove(who.name) == expected.pop(who.name, None)
    counted = Counter((who.task, who.state) for who in expected.values())
    for task_name in "ab":
        own = [who for who in expected.values() if who.task == task_name]
        assert {state: pod_cache.count(task_name, state) for state in STATES} == {
            state: counted[task_name, state] for state in STATES
        }
        assert pod_cache.restarts(task_name) == sum(who.restarts for who in own)
        assert pod_cache.ready(task_name) == sum(who.ready for who in own)
        assert pod_cache.missing(task_name, replicas) == sorted(
            set(range(replicas)) - {who.ordinal for who in own}
        )
        assert pod_cache.is_complete(task_name, replicas) == (
            {who.ordinal for who in own} == set(range(replicas))
        )
        assert pod_cache.has_more_than(task_name, replicas) == any(who.ordinal >= replicas for who in own)
        assert sorted(pod_cache.within(task_name, *STATES)) == sorted(own)
    assert pod_cache.alive() == sum(not who.is_over() for who in expected.values())


@pytest.mark.parametrize(
    ("status", "deleting", "state", "exit_code", "ready"),
    [
        ({}, False, "Pending", 0, False),
        (
            {"phase": "Running", "containerStatuses": [{"ready": True}, {"ready": False}]},
            False,
            "Running",
            0,
            False,
        ),
        ({"phase": "Running", "containerStatuses": [{"ready": True}]}, False, "Running", 0, True),
        ({"phase": "Running"}, True, "Terminating", 0, False),
        ({"phase": "Odd"}, False, "Unknown", 0, False),
        ({"phase": "Succeeded"}, False, "Succeeded", 0, True),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 3}}},
                    {"state": {"terminated": {"exitCode": 4}}},
                ],
            },
            False,
            "Failed",
            3,
            False,
        ),
    ],
)
def test_what_a_pod_says_of_itself(
    status: Any, deleting: bool, state: str, exit_code: int, ready: bool
) -> None:
    metadata: dict[str, Any] = {"name": "j-a-7", "uid": "u", "annotations": {"volcano.sh/task-spec": "a"}}
    if deleting:
        metadata["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    found = pod_info_of({"metadata": metadata, "status": status})
    assert (found.task, found.ordinal) == ("a", 7)
    assert (found.state, found.exit_code, found.ready) == (state, exit_code, ready)


def measured() -> tuple[FakeCluster, CollectorRegistry]:
    registry = CollectorRegistry()
    cluster = FakeCluster()
    cluster.start(JobController(keys=CountedKeys(), registry=registry))
    return cluster, registry


def test_jobs_are_counted_by_how_they_ended_until_they_are_deleted() -> None:
    cluster, registry = measured()
    submit(cluster, job())
    submit(cluster, job("k"))
    cluster.settle()
    cluster.finish("j-main-0", "j-main-1")
    cluster.finish("k-main-0", "k-main-1", phase="Failed", exit_code=1)
    cluster.settle()

    def value(name: str, of: str) -> float | None:
        return registry.get_sample_value(name, {"job_name": f"default/{of}", "queue_name": "default"})

    assert value("volcano_job_completed_phase_count", "j") == 1
    assert value("volcano_job_failed_phase_count", "k") == 1
    assert value("volcano_job_completed_phase_count", "k") is None
    cluster.delete_job("j")
    cluster.run()
    assert value("volcano_job_completed_phase_count", "j") is None


def test_the_time_until_a_pod_is_made_is_measured() -> None:
    cluster, registry = measured()
    submit(cluster, job())
    cluster.clock.advance(3)
    cluster.admit()
    name = "volcano_controller_job_to_pod_creation_latency_milliseconds"
    assert registry.get_sample_value(f"{name}_count") == 2
    assert registry.get_sample_value(f"{name}_sum") == 6000


def is_at_rest(cluster: FakeCluster) -> bool:
    cluster._deliver()
    return cluster.controllers[0].next_due() is None


def test_irrelevant_changes_enqueue_no_job() -> None:
    cluster = running(job())
    cluster.advance(5)
    group = cluster.group("j")
    assert group is not None
    key = Key("default", group["metadata"]["name"])
    cluster.change(
        POD_GROUP, key, {"status": {"running": 2, "conditions": [{"type": "Scheduled", "status": "True"}]}}
    )
    assert is_at_rest(cluster)
    cluster.change(POD, Key("default", "j-main-0"), {"status": {"podIP": "10.0.0.7"}}, subresource="status")
    assert is_at_rest(cluster)
    cluster.change(POD_GROUP, key, {"status": {"phase": "Unknown"}})
    assert not is_at_rest(cluster)


def test_a_large_jobs_counters_are_not_written_for_every_pod() -> None:
    cluster = world()
    submit(cluster, job(tasks=[task(replicas=200)], minAvailable=1))
    cluster.admit()
    cluster.advance(1)
    before = len(cluster.log)
    for index in range(200):
        cluster.set_pod(f"j-main-{index}", "Running")
        cluster.run()
        cluster.clock.advance(0.001)
    cluster.advance(1)
    written = [operation for operation in cluster.log[before:] if operation.kind == JOB]
    assert 2 <= len(written) <= 5
    status = cluster.job("j")["status"]
    assert (cluster.phase("j"), status["running"]) == ("Running", 200)
    assert "pending" not in status


def test_a_large_jobs_phase_is_written_at_once() -> None:
    cluster = world()
    submit(cluster, job(tasks=[task(replicas=200)]))
    cluster.admit()
    cluster.start_pods()
    assert cluster.phase("j") == "Running"


def test_warnings_of_one_kind_do_not_flood() -> None:
    cluster = world()
    submit(cluster, job(tasks=[task(replicas=4)]))
    count = iter(range(1000))

    def refuse(operation: object) -> Forbidden | None:
        return (
            Forbidden(f"no, {next(count)}")
            if isinstance(operation, Create) and operation.kind == POD
            else None
        )

    cluster.refuse = refuse
    cluster.admit()
    cluster.advance(5)
    assert len(cluster.events("FailedCreate")) == 1
    cluster.advance(60)
    assert 2 <= len(cluster.events("FailedCreate")) <= 7


def test_nothing_is_remembered_of_jobs_that_are_gone() -> None:
    cluster = running(job(policies=[policy("PodFailed", "RestartJob", timeout="10s")]))
    controller = cluster.controllers[0]
    assert isinstance(controller, JobController)
    cluster.delete_job("j")
    cluster.run()
    cluster.reap()
    assert (controller._states, controller._uids) == ({}, {})


def test_a_spec_is_worked_out_again_only_when_it_changes() -> None:
    cluster = running(job())
    controller = cluster.controllers[0]
    assert isinstance(controller, JobController)
    (state,) = controller._states.values()
    drawn = state.compiled
    cluster.finish("j-main-0")
    assert state.compiled is drawn
    change(cluster, {"spec": {"minAvailable": 1}})
    assert state.compiled is not drawn
    assert cluster.get(JOB, Key("default", "j"))["status"]["minAvailable"] == 1


def test_counters_that_change_often_are_written_once_a_second() -> None:
    cluster = running(job(tasks=[task(replicas=4)]))
    cluster.advance(1)
    written = len(cluster.log)
    cluster.finish("j-main-0")
    cluster.advance(0.4)
    cluster.finish("j-main-1")
    cluster.advance(0.4)
    assert cluster.log[written:] == []
    cluster.advance(0.3)
    assert len(cluster.log[written:]) == 1
    assert cluster.job("j")["status"]["succeeded"] == 2


def test_a_change_of_phase_takes_the_counters_with_it_at_once() -> None:
    cluster = running(job())
    cluster.advance(1)
    written = len(cluster.log)
    cluster.finish("j-main-0", "j-main-1")
    status = cluster.job("j")["status"]
    assert (status["state"]["phase"], status["succeeded"]) == ("Completed", 2)
    assert sum(operation.kind is JOB for operation in cluster.log[written:]) == 1


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"running": 2}, True, id="counters"),
        pytest.param({"state": {"phase": "Running"}, "running": 2}, True, id="it runs"),
        pytest.param({"state": {"phase": "Completed"}}, True, id="it is completed"),
        pytest.param({"state": {"phase": "Restarting"}}, False, id="pods are about to be deleted"),
        pytest.param({"controlledResources": {"restart": None}, "running": 2}, False, id="a restart is over"),
    ],
)
def test_how_far_a_job_has_come_is_a_report_and_what_is_to_be_done_is_not(
    status: dict[str, Any], expected: bool
) -> None:
    patch = Patch(JOB, Key("default", "j"), {"status": status}, subresource="status")
    assert is_report([patch]) is expected
    assert not is_report([patch, patch])


def test_pods_of_a_task_with_two_billion_replicas_are_created_in_bursts() -> None:
    pod_cache = PodCache()
    pod_cache.put(info("a", 1, "Running", 0))
    missing = pod_cache.missing("a", 2**31 - 1)
    assert (len(missing), missing[:3]) == (BURST, [0, 2, 3])
