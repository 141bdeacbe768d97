"""Where users expect better than the reference: one test for each line of the parity page."""

import pytest

from tests.controllers.fake_cluster import FakeCluster
from tests.controllers.job.test_policies import phases_of
from tests.controllers.job.world import command, controller, job, policy, running, submit, task, world
from volcano.kube.api.errors import AlreadyExists, Conflict, Forbidden, Invalid
from volcano.kube.api.kinds import CONFIG_MAP, JOB, POD, QUEUE, SECRET, SERVICE
from volcano.kube.api.manifest import Key, labels_of
from volcano.kube.client.operations import Create, Delete, Operation


def test_a_finished_job_keeps_its_true_counts() -> None:
    cluster = running(job(tasks=[task("a", 2), task("b", 1)], minAvailable=1))
    cluster.finish("j-a-0", "j-b-0")
    cluster.finish("j-a-1", phase="Failed", exit_code=1)
    cluster.settle()
    status = cluster.job("j")["status"]
    assert (status["succeeded"], status["failed"]) == (2, 1)
    assert status["taskStatusCount"] == {
        "a": {"phase": {"Succeeded": 1, "Failed": 1}},
        "b": {"phase": {"Succeeded": 1}},
    }
    for name in cluster.pod_names():
        cluster.evict(name)
    cluster.settle()
    assert cluster.job("j")["status"] == status


def test_an_aborted_job_keeps_its_true_counts() -> None:
    cluster = running(job(tasks=[task(replicas=3)]))
    cluster.finish("j-main-0")
    command(cluster, "AbortJob")
    cluster.settle()
    status = cluster.job("j")["status"]
    assert (status["state"]["phase"], status["succeeded"]) == ("Aborted", 1)
    assert not any(status.get(name) for name in ("running", "pending", "terminating"))


def test_resuming_costs_no_retry() -> None:
    cluster = running(job(maxRetry=1))
    for _ in range(3):
        command(cluster, "AbortJob")
        cluster.settle()
        command(cluster, "ResumeJob")
        cluster.settle()
        assert cluster.phase("j") == "Running"
    assert "retryCount" not in cluster.job("j")["status"]


def test_an_unknown_policy_still_works_after_a_restart() -> None:
    cluster = running(job(policies=[policy("Unknown", "RestartJob")]))
    for retries in (1, 2):
        cluster.set_group("j", "Unknown")
        cluster.settle()
        assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", retries)
    assert cluster.job("j")["status"]["version"] == 2


def test_restarting_a_task_leaves_ssh_and_svc_objects_alone() -> None:
    cluster = running(job(plugins={"ssh": [], "svc": []}, policies=[policy("PodFailed", "RestartTask")]))
    before = {kind: cluster.objects[kind].copy() for kind in (SECRET, SERVICE, CONFIG_MAP)}
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.settle()
    assert cluster.phase("j") == "Running"
    assert {kind: cluster.objects[kind] for kind in before} == before
    assert all(before.values())


def test_the_transition_time_moves_only_with_the_phase() -> None:
    cluster = running(job(tasks=[task(replicas=3)]))
    since = cluster.job("j")["status"]["state"]["lastTransitionTime"]
    cluster.clock.advance(100)
    cluster.finish("j-main-0")
    cluster.advance(1)
    status = cluster.job("j")["status"]
    assert (status["succeeded"], status["state"]["lastTransitionTime"]) == (1, since)
    cluster.clock.advance(100)
    cluster.finish("j-main-1", "j-main-2")
    assert cluster.job("j")["status"]["state"]["lastTransitionTime"] != since


def test_a_job_created_again_under_its_old_name_starts_at_once() -> None:
    plugins: dict[str, list[str]] = {"ssh": [], "svc": []}
    cluster = running(job(plugins=plugins))
    cluster.delete_job("j")
    second = submit(cluster, job(plugins=plugins))
    cluster.admit()
    assert len(cluster.pods()) == 2
    before = cluster.now()
    cluster.reap()
    cluster.start_pods()
    assert (cluster.phase("j"), cluster.now()) == ("Running", before)
    owners = {o["uid"] for pod in cluster.pods() for o in pod["metadata"]["ownerReferences"]}
    assert owners == {second["metadata"]["uid"]}


def test_what_an_earlier_job_of_the_name_left_behind_is_cleared_out_of_the_way() -> None:
    """Its owner is gone and the garbage collector is slow: pods, Secret and Service are still there."""
    plugins: dict[str, list[str]] = {"ssh": [], "svc": []}
    cluster = running(job(plugins=plugins), graceful=False)
    first = cluster.job("j")["metadata"]["uid"]
    cluster.remove(JOB, Key("default", "j"))
    cluster.run()
    submit(cluster, job(plugins=plugins))
    cluster.settle()
    assert cluster.phase("j") == "Running"
    for kind in (POD, SECRET, SERVICE, CONFIG_MAP):
        for manifest in cluster.objects[kind].values():
            assert first not in {owner["uid"] for owner in manifest["metadata"]["ownerReferences"]}


def test_the_podgroup_can_be_found_by_the_jobs_name() -> None:
    cluster = running(job())
    group = cluster.group("j")
    assert group is not None
    assert labels_of(group)["volcano.sh/job-name"] == "j"
    assert group["metadata"]["name"] == f"j-{cluster.job('j')['metadata']['uid']}"


def test_a_pod_that_is_refused_is_told_and_the_others_are_made() -> None:
    cluster = world()
    submit(cluster, job(tasks=[task(replicas=4)], minAvailable=3))

    def refuse(operation: Operation) -> Forbidden | None:
        if isinstance(operation, Create) and operation.key.name == "j-main-1":
            return Forbidden("exceeded quota: small")
        return None

    cluster.refuse = refuse
    cluster.admit()
    cluster.advance(2)
    assert cluster.pod_names() == ["j-main-0", "j-main-2", "j-main-3"]
    (event,) = cluster.events("FailedCreate")
    assert event["message"] == "Error creating pod j-main-1: exceeded quota: small"
    cluster.start_pods()
    assert (cluster.phase("j"), cluster.job("j")["status"]["running"]) == ("Running", 3)
    cluster.refuse = lambda operation: None
    cluster.advance(60)
    assert len(cluster.pods()) == 4


def test_a_pod_the_server_finds_faulty_ends_the_job_after_a_number_of_tries() -> None:
    cluster = world()
    submit(cluster, job())
    cluster.refuse = lambda operation: (
        Invalid("spec.containers: Required value")
        if operation.kind == POD and isinstance(operation, Create)
        else None
    )
    cluster.admit()
    cluster.advance(1000)
    assert cluster.phase("j") == "Terminated"
    assert any("retry limit was reached" in event["message"] for event in cluster.events("ExecuteAction"))


def test_a_name_that_a_pod_of_another_owner_holds_is_reported_and_waited_for() -> None:
    cluster = world()
    cluster.put(POD, {"metadata": {"name": "j-main-0"}, "spec": {}})
    submit(cluster, job())
    cluster.admit()
    cluster.advance(1)
    assert "already exists" in cluster.events("FailedCreate")[0]["message"]
    cluster.remove(POD, Key("default", "j-main-0"))
    cluster.advance(60)
    cluster.settle()
    assert cluster.phase("j") == "Running"


def test_a_pod_deleted_while_pods_of_it_are_refused_is_not_forgotten() -> None:
    cluster = running(job(policies=[policy("PodEvicted", "RestartJob")]))
    rejections = [AlreadyExists("no"), AlreadyExists("no")]
    cluster.refuse = lambda operation: (
        rejections.pop() if rejections and operation.kind.kind == "Job" else None
    )
    cluster.evict("j-main-0")
    cluster.advance(5)
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob", "CompleteJob"])
def test_a_stopped_job_says_what_stopped_it(action: str) -> None:
    cluster = running(job(policies=[policy("PodFailed", action)]))
    cluster.finish("j-main-1", phase="Failed", exit_code=1)
    cluster.settle()
    state = cluster.job("j")["status"]["state"]
    assert (state["reason"], state["message"]) == (action, "PodFailed of pod j-main-1 (exit code 1)")


def test_a_restarted_controller_changes_nothing_about_a_job_that_needs_nothing() -> None:
    cluster = running(job(plugins={"ssh": [], "svc": [], "env": []}))
    written = len(cluster.log)
    cluster.kill()
    cluster.start(controller())
    cluster.settle()
    assert cluster.log[written:] == []
    assert phases_of(cluster) == ["Pending", "Running"]


def test_a_pod_deleted_while_no_controller_runs_is_noticed() -> None:
    cluster = running(job(tasks=[task(replicas=3)], policies=[policy("PodEvicted", "RestartJob")]))
    cluster.kill()
    cluster.remove(POD, Key("default", "j-main-1"), now=True)
    cluster.start(controller())
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)


def test_pods_that_a_scaled_down_job_lost_while_no_controller_ran_are_not_missed() -> None:
    cluster = running(job(tasks=[task(replicas=3)], policies=[policy("PodEvicted", "RestartJob")]))
    cluster.kill()
    cluster.change(JOB, Key("default", "j"), {"spec": {"tasks": [task(replicas=1)], "minAvailable": 1}})
    cluster.remove(POD, Key("default", "j-main-2"), now=True)
    cluster.start(controller())
    cluster.settle()
    assert (cluster.phase("j"), cluster.pod_names()) == ("Running", ["j-main-0"])
    assert "retryCount" not in cluster.job("j")["status"]


def test_a_deletion_under_way_when_the_controller_starts_is_noticed() -> None:
    cluster = running(job(policies=[policy("PodEvicted", "AbortJob")]))
    cluster.remove(POD, Key("default", "j-main-1"))
    cluster.kill()
    cluster.start(controller())
    cluster.run()
    assert cluster.phase("j") == "Running"
    cluster.reap()
    assert cluster.phase("j") == "Aborting"


def test_the_version_grows_once_for_each_tear_down() -> None:
    cluster = running(job())
    command(cluster, "AbortJob")
    cluster.settle()
    cluster.advance(1000)
    assert cluster.job("j")["status"]["version"] == 1


def test_very_many_pods_that_fail_at_once_are_restarted_in_turns() -> None:
    many = [task(replicas=80)]
    cluster = running(job(tasks=many, minAvailable=1, policies=[policy("PodFailed", "RestartPod")]))
    for index in range(80):
        cluster.set_pod(f"j-main-{index}", "Failed", exit_code=1)
    cluster.settle()
    assert {pod["status"]["phase"] for pod in cluster.pods()} == {"Running"}
    assert cluster.job("j")["status"]["retryCount"] <= 2


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Job", "JobStatusError"),
        ("PodGroup", "PodGroupError"),
        ("PersistentVolumeClaim", "PVCError"),
        ("Secret", "FailedCreate"),
    ],
)
def test_what_the_server_refuses_is_told_on_the_job(kind: str, reason: str) -> None:
    cluster = world()
    refusing = True
    cluster.refuse = lambda operation: (
        Forbidden("not you")
        if refusing and operation.kind.kind == kind and not isinstance(operation, Delete)
        else None
    )
    claim = {"resources": {"requests": {"storage": "1Gi"}}}
    submit(cluster, job(plugins={"ssh": []}, volumes=[{"mountPath": "/d", "volumeClaim": claim}]))
    cluster.advance(1)
    (event,) = cluster.events(reason)
    assert "not you" in event["message"]
    refusing = False
    cluster.advance(60)
    cluster.settle()
    assert cluster.phase("j") == "Running"


def test_a_conflict_is_not_reported() -> None:
    cluster = world()
    conflicts = [Conflict("changed meanwhile") for _ in range(3)]
    cluster.refuse = lambda operation: conflicts.pop() if conflicts and operation.kind == JOB else None
    submit(cluster, job())
    cluster.advance(5)
    cluster.settle()
    assert (cluster.phase("j"), cluster.events("JobStatusError")) == ("Running", [])


def test_a_job_whose_queue_was_closed_waits_for_it_to_open() -> None:
    cluster = world()
    default = Key("", "default")
    cluster.change(QUEUE, default, {"status": {"state": "Closed"}}, subresource="status")
    submit(cluster, job())
    cluster.settle()
    assert (cluster.phase("j"), cluster.group("j")) == ("Pending", None)
    assert cluster.job("j")["status"]["state"]["reason"] == "QueueNotOpen"
    assert "is Closed" in cluster.job("j")["status"]["state"]["message"]
    cluster.change(QUEUE, default, {"status": {"state": "Open"}}, subresource="status")
    cluster.settle()
    assert cluster.phase("j") == "Running"
    assert not cluster.job("j")["status"]["state"].get("reason")


def test_a_job_that_has_its_podgroup_goes_on_in_a_queue_that_closes() -> None:
    cluster = running(job(tasks=[task(replicas=1)]))
    cluster.change(QUEUE, Key("", "default"), {"status": {"state": "Closing"}}, subresource="status")
    cluster.run()
    cluster.finish("j-main-0")
    cluster.settle()
    assert cluster.phase("j") == "Completed"


def failing(cluster: FakeCluster, name: str, code: int, message: str) -> None:
    terminated = {"exitCode": code, "finishedAt": cluster.now().timestamp(), "message": message}
    container = {"name": "main", "ready": False, "restartCount": 0, "state": {"terminated": terminated}}
    cluster.set_pod(name, "Failed", containerStatuses=[container])
    cluster.run()


def test_a_failed_job_names_the_first_pod_that_failed_and_what_it_wrote_last() -> None:
    cluster = running(job())
    failing(cluster, "j-main-1", 3, "starting\nno such file: /data\n")
    cluster.advance(5)
    failing(cluster, "j-main-0", 1, "peer is gone")
    state = cluster.job("j")["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Failed", "PodsFailed")
    assert state["message"].endswith("the first to fail was pod j-main-1 (exit code 3: no such file: /data)")


def test_a_restarted_job_says_why_with_a_bounded_line() -> None:
    cluster = running(job(policies=[policy("PodFailed", "RestartJob")], maxRetry=2))
    failing(cluster, "j-main-0", 137, "x" * 5000)
    state = cluster.job("j")["status"]["state"]
    assert state["phase"] == "Restarting"
    assert state["message"] == f"PodFailed of pod j-main-0 (exit code 137: {'x' * 200})"
    cluster.settle()
    failing(cluster, "j-main-0", 137, "again")
    state = cluster.job("j")["status"]["state"]
    assert state["reason"] == "RetriesExhausted"
    assert state["message"].endswith("the first to fail was pod j-main-0 (exit code 137: again)")


def test_failed_containers_leave_the_end_of_their_logs_unless_they_have_a_message_of_their_own() -> None:
    own = {"name": "own", "image": "i", "terminationMessagePath": "/dev/out"}
    policy_of_its_own = {"name": "file", "image": "i", "terminationMessagePolicy": "File"}
    spec = {"containers": [{"name": "main", "image": "i"}, own, policy_of_its_own]}
    cluster = running(job(tasks=[task(replicas=1, spec=spec)]))
    (pod,) = cluster.pods()
    policies = [container.get("terminationMessagePolicy") for container in pod["spec"]["containers"]]
    assert policies == ["FallbackToLogsOnError", None, "File"]
