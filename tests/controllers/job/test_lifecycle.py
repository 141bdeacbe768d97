"""A job's life from creation to its end."""

from tests.controllers.job.world import change, command, controller, job, policy, running, submit, task, world
from volcano.base.clock import timestamp
from volcano.kube.api.kinds import (
    CONFIG_MAP,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    SERVICE,
)
from volcano.kube.api.manifest import Key
from volcano.kube.client.operations import Create, Patch


def test_a_job_that_fits_nowhere_stays_pending_and_goes_with_all_it_owns() -> None:
    cluster = world()
    submit(cluster, job(tasks=[task(cpu="1000")], plugins={"svc": [], "ssh": []}))
    cluster.set_group("j", "Pending")
    cluster.advance(600)
    assert (cluster.phase("j"), cluster.pods()) == ("Pending", [])
    cluster.delete_job("j")
    cluster.run()
    assert not any(cluster.objects[kind] for kind in (JOB, POD, POD_GROUP, SERVICE, CONFIG_MAP, SECRET))


def test_a_running_job_can_be_deleted_with_its_pods_and_podgroup() -> None:
    cluster = running(job())
    assert cluster.phase("j") == "Running"
    cluster.delete_job("j")
    cluster.run()
    cluster.reap()
    assert not any(cluster.objects[kind] for kind in (JOB, POD, POD_GROUP))


def test_a_plain_job_is_pending_then_running_then_completed() -> None:
    cluster = world()
    submit(cluster, job())
    assert cluster.phase("j") == "Pending"
    cluster.settle()
    assert cluster.phase("j") == "Running"
    cluster.finish("j-main-0", "j-main-1")
    assert cluster.phase("j") == "Completed"
    assert [c["status"] for c in cluster.job("j")["status"]["conditions"]] == [
        "Pending",
        "Running",
        "Completed",
    ]


def test_a_failed_pod_may_abort_the_job_which_can_then_be_deleted() -> None:
    cluster = running(job(policies=[policy("PodFailed", "AbortJob")]))
    cluster.finish("j-main-0", phase="Failed", exit_code=3)
    assert cluster.phase("j") == "Aborting"
    cluster.reap()
    assert cluster.phase("j") == "Aborted"
    cluster.delete_job("j")
    cluster.run()
    assert cluster.pods() == []


def test_a_failed_pod_may_terminate_the_job() -> None:
    cluster = running(job(policies=[policy("PodFailed", "TerminateJob")]))
    cluster.finish("j-main-0", phase="Failed", exit_code=3)
    cluster.settle()
    assert cluster.phase("j") == "Terminated"


def test_an_executed_action_is_told_as_an_event_that_names_it() -> None:
    cluster = running(job(policies=[policy("PodFailed", "TerminateJob")]))
    cluster.finish("j-main-0", phase="Failed", exit_code=3)
    (event,) = cluster.events("ExecuteAction")
    assert "TerminateJob" in event["message"]
    assert "j-main-0" in event["message"]
    assert event["involvedObject"]["uid"] == cluster.job("j")["metadata"]["uid"]
    assert event["source"] == {"component": "vc-controller-manager"}


def test_a_gang_that_cannot_be_scheduled_is_told_as_a_warning_once() -> None:
    cluster = world()
    submit(cluster, job())
    group = cluster.group("j")
    assert group is not None
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "message": "2/2 tasks in gang unschedulable",
        "lastTransitionTime": cluster.now().timestamp(),
    }
    key = Key("default", group["metadata"]["name"])
    for transition in ("a", "b", "c"):
        conditions = [{**condition, "transitionID": transition}]
        cluster.change(POD_GROUP, key, {"status": {"phase": "Pending", "conditions": conditions}})
        cluster.run()
    (event,) = cluster.events("PodGroupPending")
    assert event["type"] == "Warning"
    assert event["message"] == "PodGroup default:j unschedulable, reason: 2/2 tasks in gang unschedulable"


def test_a_completed_job_stays_completed_whatever_is_asked_of_it() -> None:
    cluster = running(job(tasks=[task(replicas=3)], minSuccess=1, minAvailable=1))
    cluster.finish("j-main-0")
    assert cluster.phase("j") == "Completed"
    cluster.reap()
    for action in ("RestartJob", "AbortJob", "TerminateJob", "ResumeJob", "SyncJob", "Nonsense"):
        command(cluster, action)
        cluster.settle()
        assert cluster.phase("j") == "Completed"
    assert cluster.pod_names() == ["j-main-0"]


def test_a_fresh_job_is_given_a_status_as_soon_as_its_podgroup_is_created() -> None:
    cluster = world()
    submit(cluster, job(minAvailable=2, plugins={"svc": []}))
    created = next(n for n, operation in enumerate(cluster.log) if operation.kind == POD_GROUP)
    first = cluster.log[created + 1]
    assert isinstance(first, Patch)
    assert first.kind == JOB
    assert first.patch["status"]["state"]["phase"] == "Pending"
    assert first.patch["status"]["minAvailable"] == 2
    assert [c["status"] for c in first.patch["status"]["conditions"]] == ["Pending"]


def test_pods_are_made_only_once_the_podgroup_is_let_in() -> None:
    cluster = world()
    submit(cluster, job())
    assert cluster.pods() == []
    cluster.set_group("j", "Pending")
    assert cluster.pods() == []
    cluster.set_group("j", "Inqueue")
    assert cluster.pod_names() == ["j-main-0", "j-main-1"]


def test_a_job_waits_for_its_queue_and_says_so() -> None:
    cluster = world()
    submit(cluster, job(queue="training"))
    state = cluster.job("j")["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Pending", "QueueNotFound")
    assert "'training' does not exist" in state["message"]
    assert cluster.group("j") is None
    cluster.put(QUEUE, {"metadata": {"name": "training"}, "spec": {}})
    cluster.settle()
    assert cluster.phase("j") == "Running"
    assert "message" not in cluster.job("j")["status"]["state"]


def test_a_running_job_whose_queue_is_deleted_follows_its_pods_and_ends() -> None:
    cluster = running(job(ttlSecondsAfterFinished=100))
    cluster.remove(QUEUE, Key("", "default"))
    cluster.run()
    state = cluster.job("j")["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Running", "QueueNotFound")
    cluster.finish("j-main-0")
    cluster.advance(5)
    assert cluster.job("j")["status"]["succeeded"] == 1
    cluster.finish("j-main-1")
    status = cluster.job("j")["status"]
    assert (status["state"]["phase"], status["succeeded"]) == ("Completed", 2)
    assert "reason" not in status["state"]
    cluster.advance(101)
    assert cluster.find(JOB, "j") is None


def test_new_pods_of_a_running_job_wait_for_its_queue() -> None:
    cluster = running(job())
    cluster.remove(QUEUE, Key("", "default"))
    change(cluster, {"spec": {"tasks": [task(replicas=3)]}})
    cluster.settle()
    assert len(cluster.pods()) == 2
    cluster.put(QUEUE, {"metadata": {"name": "default"}, "spec": {}})
    cluster.settle()
    assert len(cluster.pods()) == 3
    assert "reason" not in cluster.job("j")["status"]["state"]


def test_a_job_scaled_down_without_its_queue_loses_its_surplus_pods() -> None:
    cluster = running(job())
    cluster.remove(QUEUE, Key("", "default"))
    change(cluster, {"spec": {"minAvailable": 1, "tasks": [task(replicas=1)]}})
    cluster.settle()
    assert cluster.pod_names() == ["j-main-0"]


def test_a_running_job_whose_claim_is_deleted_follows_its_pods() -> None:
    cluster = world()
    cluster.put(PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": "data"}, "spec": {}})
    submit(cluster, job(volumes=[{"mountPath": "/data", "volumeClaimName": "data"}]))
    cluster.settle()
    assert cluster.phase("j") == "Running"
    cluster.remove(PERSISTENT_VOLUME_CLAIM, Key("default", "data"))
    cluster.finish("j-main-0", "j-main-1")
    assert cluster.phase("j") == "Completed"


def test_a_queue_that_only_changes_its_share_wakes_no_job() -> None:
    cluster = running(job())
    cluster.advance(5)
    cluster.change(QUEUE, Key("", "default"), {"status": {"allocated": {"cpu": "1"}}}, subresource="status")
    controller = cluster.controllers[0]
    cluster._deliver()
    assert controller.next_due() is None


def test_everything_is_made_in_the_order_in_which_it_is_needed() -> None:
    cluster = world()
    submit(cluster, job(plugins={"svc": []}))
    cluster.admit()
    made = [operation.kind.kind for operation in cluster.log if isinstance(operation, Create)]
    assert made == ["ConfigMap", "Service", "NetworkPolicy", "PodGroup", "Pod", "Pod"]


def test_an_invalid_job_is_reported_and_does_not_affect_others() -> None:
    cluster = world()
    submit(cluster, job("bad", tasks=[task("a"), task("a")]))
    submit(cluster, job("worse", tasks=[{"name": "x", "replicas": "many"}]))
    submit(cluster, job("good"))
    cluster.settle()
    assert cluster.phase("good") == "Running"
    for name, words in (("bad", "two tasks are named 'a'"), ("worse", "spec.tasks[0].replicas is 'many'")):
        state = cluster.job(name)["status"]["state"]
        assert state["phase"] == "Pending"
        assert state["reason"] == "InvalidJob"
        assert words in state["message"]
    assert len(cluster.events("InvalidJob")) == 2


def test_a_finished_job_with_a_ttl_is_deleted_when_its_time_is_up() -> None:
    cluster = running(job(ttlSecondsAfterFinished=100))
    cluster.finish("j-main-0", "j-main-1")
    cluster.advance(98)
    assert cluster.phase("j") == "Completed"
    cluster.advance(3)
    assert cluster.find(JOB, "j") is None


def test_a_ttl_of_nothing_deletes_at_once_and_an_aborted_job_is_kept() -> None:
    cluster = running(job(ttlSecondsAfterFinished=0))
    command(cluster, "AbortJob")
    cluster.settle()
    cluster.advance(1000)
    assert cluster.phase("j") == "Aborted"
    command(cluster, "ResumeJob")
    cluster.settle()
    cluster.finish("j-main-0", "j-main-1")
    cluster.advance(1)
    assert cluster.find(JOB, "j") is None


def test_a_job_that_ended_ahead_of_the_clock_expires_nevertheless() -> None:
    cluster = running(job(ttlSecondsAfterFinished=100))
    cluster.finish("j-main-0", "j-main-1")
    state = {
        **cluster.job("j")["status"]["state"],
        "lastTransitionTime": timestamp(cluster.now().wall + 86_400),
    }
    cluster.change(JOB, Key("default", "j"), {"status": {"state": state}}, subresource="status")
    cluster.advance(98)
    assert cluster.phase("j") == "Completed"
    assert len(cluster.events("TimeAhead")) == 1
    cluster.advance(3)
    assert cluster.find(JOB, "j") is None


def test_a_secret_created_again_has_the_keys_that_pods_run_with() -> None:
    cluster = running(job(plugins={"ssh": []}))
    before = cluster.get(SECRET, Key("default", "j-ssh"))
    cluster.remove(SECRET, Key("default", "j-ssh"))
    cluster.run()
    after = cluster.get(SECRET, Key("default", "j-ssh"))
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["data"] == before["data"]
    assert cluster.events("KeysReplaced") == []


def test_new_keys_for_running_pods_are_reported() -> None:
    cluster = running(job(plugins={"ssh": []}))
    cluster.kill()
    cluster.remove(SECRET, Key("default", "j-ssh"))
    cluster.start(controller())
    cluster.run()
    (event,) = cluster.events("KeysReplaced")
    assert "running pods have the old ones" in event["message"]
