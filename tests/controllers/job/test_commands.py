"""Commands: suspend, resume and the rest, each carried out once."""

import pytest

from tests.controllers.fake_cluster import Crash
from tests.controllers.job.test_policies import phases_of
from tests.controllers.job.world import command, controller, job, policy, running, submit, world
from volcano.kube.api.errors import InternalError
from volcano.kube.api.kinds import COMMAND, JOB
from volcano.kube.client.operations import Delete, Operation


def test_a_job_is_suspended_and_resumed() -> None:
    cluster = running(job())
    command(cluster, "AbortJob")
    cluster.settle()
    assert (cluster.phase("j"), cluster.pods(), cluster.objects[COMMAND]) == ("Aborted", [], {})
    command(cluster, "ResumeJob")
    cluster.settle()
    assert (cluster.phase("j"), len(cluster.pods()), cluster.objects[COMMAND]) == ("Running", 2, {})


def test_a_command_is_told_as_an_event() -> None:
    cluster = running(job())
    command(cluster, "AbortJob")
    (event,) = cluster.events("CommandIssued")
    assert "AbortJob" in event["message"]
    assert event["type"] == "Normal"


def test_a_pending_job_can_be_suspended_before_it_has_a_pod() -> None:
    cluster = world()
    submit(cluster, job())
    command(cluster, "AbortJob")
    cluster.settle()
    assert (cluster.phase("j"), cluster.pods()) == ("Aborted", [])


def test_suspend_and_resume_in_one_breath_both_happen_in_order() -> None:
    cluster = running(job())
    for number, action in enumerate(("AbortJob", "ResumeJob")):
        owner = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": "j", "uid": ""}
        cluster.put(COMMAND, {"metadata": {"name": f"c{number}"}, "action": action, "target": owner})
    cluster.settle()
    assert phases_of(cluster)[2:] == ["Aborting", "Restarting", "Pending", "Running"]
    assert cluster.objects[COMMAND] == {}


def test_commands_of_one_second_are_carried_out_in_the_order_of_their_creation() -> None:
    cluster = running(job())
    for name, action in (("c", "AbortJob"), ("b", "ResumeJob"), ("a", "TerminateJob")):
        owner = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": "j", "uid": ""}
        cluster.put(COMMAND, {"metadata": {"name": name}, "action": action, "target": owner})
    cluster.settle()
    assert phases_of(cluster)[2:] == ["Aborting", "Restarting", "Pending", "Terminating", "Terminated"]
    assert cluster.objects[COMMAND] == {}


def test_a_suspend_that_meets_a_restart_is_not_lost() -> None:
    cluster = running(job(policies=[policy("PodFailed", "RestartJob")]))
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    assert cluster.phase("j") == "Restarting"
    command(cluster, "AbortJob")
    assert cluster.phase("j") == "Restarting"
    cluster.settle()
    assert cluster.phase("j") == "Aborted"


def test_a_command_for_a_job_that_is_no_more_is_removed_unheard() -> None:
    cluster = running(job())
    command(cluster, "AbortJob", uid="another")
    cluster.settle()
    assert (cluster.phase("j"), cluster.objects[COMMAND]) == ("Running", {})


def test_a_command_waits_a_while_for_a_job_not_heard_of_yet() -> None:
    cluster = world()
    command(cluster, "AbortJob")
    cluster.advance(20)
    assert len(cluster.objects[COMMAND]) == 1
    submit(cluster, job())
    cluster.settle()
    assert (cluster.phase("j"), cluster.objects[COMMAND]) == ("Aborted", {})
    command(cluster, "AbortJob", name="absent")
    cluster.advance(40)
    assert cluster.objects[COMMAND] == {}


def test_commands_about_other_kinds_are_left_alone() -> None:
    cluster = running(job())
    command(cluster, "CloseQueue", kind="Queue", apiVersion="scheduling.volcano.sh/v1beta1")
    cluster.advance(100)
    assert len(cluster.objects[COMMAND]) == 1


def test_a_command_that_cannot_be_removed_at_once_is_still_carried_out_once() -> None:
    cluster = running(job())
    rejections = iter([InternalError("not now"), InternalError("nor now")])

    def refuse(operation: Operation) -> InternalError | None:
        return next(rejections, None) if isinstance(operation, Delete) and operation.kind == COMMAND else None

    cluster.refuse = refuse
    command(cluster, "RestartJob")
    cluster.advance(5)
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)
    assert cluster.objects[COMMAND] == {}


@pytest.mark.parametrize("writes", range(8))
def test_a_command_is_carried_out_once_though_the_controller_dies(writes: int) -> None:
    cluster = running(job())
    cluster.writes_left = writes
    try:
        command(cluster, "RestartJob")
        cluster.settle()
    except Crash:
        cluster.writes_left = None
        cluster.kill()
        cluster.start(controller())
    cluster.writes_left = None
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)
