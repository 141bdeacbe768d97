"""Tasks that wait for others, and claims."""

import pytest

from tests.controllers.job.world import job, policy, submit, task, world
from volcano.kube.api.kinds import PERSISTENT_VOLUME_CLAIM
from volcano.kube.api.manifest import Manifest


def waiting_job(**depends: object) -> Manifest:
    return job(
        tasks=[task("master", 1, minAvailable=1), task("work", 2, dependsOn={"name": ["master"], **depends})]
    )


def test_a_task_is_not_started_before_the_one_it_depends_on() -> None:
    cluster = world()
    submit(cluster, waiting_job())
    cluster.admit()
    assert cluster.pod_names() == ["j-master-0"]


def test_it_starts_once_the_other_has_succeeded() -> None:
    cluster = world()
    submit(cluster, waiting_job())
    cluster.admit()
    cluster.finish("j-master-0")
    assert cluster.pod_names() == ["j-master-0", "j-work-0", "j-work-1"]


def test_a_pod_that_runs_and_is_not_ready_does_not_count() -> None:
    cluster = world()
    submit(cluster, waiting_job())
    cluster.admit()
    cluster.set_pod("j-master-0", "Running", containerStatuses=[{"name": "main", "ready": False}])
    cluster.run()
    assert cluster.pod_names() == ["j-master-0"]
    cluster.set_pod("j-master-0", "Running")
    cluster.run()
    assert cluster.pod_names() == ["j-master-0", "j-work-0", "j-work-1"]


def test_the_gang_follows_the_tasks_that_may_exist_now() -> None:
    cluster = world()
    tasks = [task("master", 2), task("work", 1, dependsOn={"name": ["master"]})]
    submit(cluster, job(tasks=tasks, minAvailable=3))
    group = cluster.group("j")
    assert group is not None
    assert (group["spec"]["minMember"], group["spec"]["minTaskMember"]) == (2, {"master": 2})
    assert group["spec"]["minResources"]["cpu"] == "2"
    cluster.admit()
    assert cluster.pod_names() == ["j-master-0", "j-master-1"]
    cluster.start_pods()
    assert cluster.pod_names() == ["j-master-0", "j-master-1", "j-work-0"]
    group = cluster.group("j")
    assert group is not None
    assert (group["spec"]["minMember"], group["spec"]["minTaskMember"]) == (3, {"master": 2, "work": 1})
    cluster.start_pods()
    assert cluster.phase("j") == "Running"
    cluster.set_pod("j-master-0", "Running", containerStatuses=[{"name": "main", "ready": False}])
    cluster.run()
    group = cluster.group("j")
    assert group is not None
    assert group["spec"]["minMember"] == 3


@pytest.mark.parametrize(
    ("minimum", "least"),
    [
        pytest.param(1, 1, id="less than the minima of the tasks"),
        pytest.param(3, 1, id="the minima of the tasks"),
        pytest.param(4, 2, id="one more"),
        pytest.param(7, 2, id="all pods"),
    ],
)
def test_the_minimum_leaves_room_for_the_tasks_that_come_later(minimum: int, least: int) -> None:
    cluster = world()
    later = task("work", 5, minAvailable=2, dependsOn={"name": ["master"]})
    submit(cluster, job(tasks=[task("master", 2, minAvailable=1), later], minAvailable=minimum))
    group = cluster.group("j")
    assert group is not None
    assert group["spec"]["minMember"] == least


def test_a_task_whose_dependency_failed_is_reported() -> None:
    cluster = world()
    submit(cluster, {**waiting_job(), "spec": {**waiting_job()["spec"], "minAvailable": 1}})
    cluster.admit()
    cluster.finish("j-master-0", phase="Failed", exit_code=1)
    state = cluster.job("j")["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Running", "DependencyFailed")
    assert state["message"] == (
        "task work does not start: it depends on task master, of which 1 of 1 pods have failed"
    )
    (event,) = cluster.events("DependencyFailed")
    assert event["type"] == "Warning"
    cluster.evict("j-master-0")
    cluster.start_pods()
    assert cluster.pod_names() == ["j-master-0", "j-work-0", "j-work-1"]
    assert "reason" not in cluster.job("j")["status"]["state"]


def test_a_task_that_needs_any_of_two_is_stuck_when_both_have_failed() -> None:
    tasks = [task("a", 1), task("b", 1), task("c", 1, dependsOn={"name": ["a", "b"], "iteration": "any"})]
    cluster = world()
    submit(cluster, job(tasks=tasks, minAvailable=1))
    cluster.admit()
    cluster.finish("j-a-0", phase="Failed", exit_code=1)
    assert "reason" not in cluster.job("j")["status"]["state"]
    cluster.finish("j-b-0", phase="Failed", exit_code=1)
    assert cluster.job("j")["status"]["state"]["reason"] == "DependencyFailed"


@pytest.mark.parametrize(("action", "phase"), [("TerminateJob", "Terminated"), ("AbortJob", "Aborted")])
def test_a_failed_dependency_is_a_failed_task_to_policies(action: str, phase: str) -> None:
    cluster = world()
    spec = {**waiting_job()["spec"], "policies": [policy("TaskFailed", action)]}
    submit(cluster, {**waiting_job(), "spec": spec})
    cluster.admit()
    cluster.finish("j-master-0", phase="Failed", exit_code=1)
    cluster.settle()
    assert cluster.phase("j") == phase


@pytest.mark.parametrize(("iteration", "started"), [("any", True), ("all", False), ("", False)])
def test_one_of_several_suffices_only_when_the_task_says_so(iteration: str, started: bool) -> None:
    tasks = [task("a", 1), task("b", 1), task("c", 1, dependsOn={"name": ["a", "b"], "iteration": iteration})]
    cluster = world()
    submit(cluster, job(tasks=tasks))
    cluster.admit()
    cluster.set_pod("j-a-0", "Running")
    cluster.run()
    assert ("j-c-0" in cluster.pod_names()) is started


@pytest.mark.parametrize(
    ("graph", "words"),
    [({"a": ["b"], "b": ["a"]}, "a, b wait for each other"), ({"a": ["x"], "b": []}, "no task")],
)
def test_tasks_that_could_never_start_are_told_so(graph: dict[str, list[str]], words: str) -> None:
    cluster = world()
    submit(cluster, job(tasks=[task(name, dependsOn={"name": waits}) for name, waits in graph.items()]))
    assert words in cluster.job("j")["status"]["state"]["message"]


def test_an_inline_claim_is_made_named_and_recorded() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster = world()
    created = submit(cluster, job(volumes=[{"mountPath": "/data", "volumeClaim": claim}]))
    ((key, made),) = cluster.objects[PERSISTENT_VOLUME_CLAIM].items()
    assert made["spec"] == claim
    assert made["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
    assert key.name.startswith("j-pvc-")
    assert len(key.name) == len("j-pvc-") + 12
    assert cluster.job("j")["spec"]["volumes"] == [
        {"mountPath": "/data", "volumeClaim": claim, "volumeClaimName": key.name}
    ]
    cluster.settle()
    assert cluster.job("j")["status"]["controlledResources"] == {f"volume-pvc-{key.name}": key.name}
    assert cluster.pods()[0]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": key.name}
    assert len(cluster.objects[PERSISTENT_VOLUME_CLAIM]) == 1


def test_a_job_waits_for_a_claim_that_does_not_exist_yet() -> None:
    cluster = world()
    submit(cluster, job(volumes=[{"mountPath": "/data", "volumeClaimName": "mine"}]))
    cluster.settle()
    state = cluster.job("j")["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Pending", "PVCError")
    assert "'mine' does not exist" in state["message"]
    assert cluster.group("j") is None
    assert len(cluster.events("PVCError")) == 1
    cluster.put(PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": "mine"}, "spec": {}})
    cluster.settle()
    assert cluster.phase("j") == "Running"
