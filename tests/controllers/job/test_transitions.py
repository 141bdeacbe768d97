"""Every phase, every action, every event: what a job becomes, what it costs and what is deleted."""

from itertools import product
from typing import Any

import pytest

from tests.controllers.fake_cluster import FakeCluster
from tests.controllers.job.world import command, controller, job, policy, task
from volcano.controllers.job.types import Action, Phase, PolicyEvent
from volcano.kube.api.kinds import JOB, POD, POD_GROUP
from volcano.kube.api.manifest import Key

LIVE = (Phase.PENDING, Phase.RUNNING)
RESTARTS = (Action.RESTART_JOB, Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION)
STOPS = {
    Action.ABORT: (Phase.ABORTING, Phase.ABORTED),
    Action.TERMINATE: (Phase.TERMINATING, Phase.TERMINATED),
    Action.COMPLETE: (Phase.COMPLETING, Phase.COMPLETED),
}
ENDING = dict(STOPS.values())
HELD = (Phase.ABORTED, Phase.TERMINATED, Phase.COMPLETED, Phase.FAILED)
EVENTS = (
    PolicyEvent.POD_FAILED,
    PolicyEvent.POD_EVICTED,
    PolicyEvent.POD_PENDING,
    PolicyEvent.UNKNOWN,
    PolicyEvent.TASK_COMPLETED,
    PolicyEvent.TASK_FAILED,
)
ACTIONS = tuple(action for action in Action if action not in (Action.SYNC, Action.ENQUEUE))


def job_in(phase: Phase, **spec: Any) -> FakeCluster:
    """A job of 2 + 2 pods in a phase, with one pod succeeded and one failed, and its controller just started."""
    cluster = FakeCluster()
    partitions = {"totalPartitions": 1, "partitionSize": 2}
    tasks = [task("a", 2, partitionPolicy=partitions), task("b", 2)]
    manifest = cluster.put(JOB, job(tasks=tasks, minAvailable=2, **spec))
    cluster.start(controller())
    cluster.settle()
    for name, state in (
        ("j-b-0", "Succeeded"),
        ("j-b-1", "Running"),
        ("j-a-0", "Running"),
        ("j-a-1", "Running"),
    ):
        cluster.set_pod(name, state)
    cluster.settle()
    if phase is not Phase.RUNNING:
        cluster.kill()
        stopped = phase not in (*LIVE, Phase.NONE)
        status = {"state": {"phase": str(phase) or None}, "version": 1 if stopped else 0}
        cluster.change(JOB, Key("default", "j"), {"status": status}, subresource="status")
        if phase in HELD:
            for pod in list(cluster.pods()):
                if pod["status"]["phase"] == "Running":
                    cluster.remove(POD, Key("default", pod["metadata"]["name"]), now=True)
            cluster.remove(POD_GROUP, Key("default", f"j-{manifest['metadata']['uid']}"))
        cluster.start(controller())
    return cluster


def first_phase(cluster: FakeCluster, since: int) -> str | None:
    """The first phase written after a moment."""
    for operation in cluster.log[since:]:
        if operation.kind == JOB:
            phase = (getattr(operation, "patch", {}).get("status") or {}).get("state", {}).get("phase")
            if phase:
                return str(phase)
    return None


def expected(phase: Phase, action: Action, *, aimed: bool) -> tuple[str | None, int]:
    """The reference's table, with the issue's changes: the first phase written, and the retries it costs."""
    if phase in LIVE or phase is Phase.NONE:
        if action in STOPS:
            return STOPS[action][0], 0
        if action is Action.RESTART_JOB or (action in RESTARTS and aimed):
            return Phase.RESTARTING, 1
        return (Phase.RUNNING, 0) if phase is not Phase.RUNNING else (None, 0)
    if phase is Phase.RESTARTING:  # a restart of the whole job begins anew; all else lets it go on
        return (None if action is Action.RESTART_JOB else Phase.PENDING), 0
    if action is Action.RESUME and phase in (Phase.ABORTING, Phase.ABORTED):
        return Phase.RESTARTING, 0
    return None, 0


@pytest.mark.parametrize(
    ("phase", "action"), [pair for pair in product(Phase, Action) if pair[0] is not Phase.NONE]
)
def test_what_a_command_does_in_each_phase(phase: Phase, action: Action) -> None:
    cluster = job_in(phase)
    since = len(cluster.log)
    command(cluster, str(action))
    written, retries = expected(phase, action, aimed=False)
    assert first_phase(cluster, since) == written
    assert cluster.job("j")["status"].get("retryCount", 0) == retries
    cluster.settle()
    assert cluster.phase("j") == _end(phase, action)
    _check_what_is_left(cluster)


def _end(phase: Phase, action: Action) -> str:
    if phase in HELD and not (phase is Phase.ABORTED and action is Action.RESUME):
        return phase
    if phase in ENDING and not (phase is Phase.ABORTING and action is Action.RESUME):
        return ENDING[phase]
    return STOPS[action][1] if action in STOPS else Phase.RUNNING


def _check_what_is_left(cluster: FakeCluster) -> None:
    """A live job has its pods and its PodGroup; a stopped one has neither pods that run nor a PodGroup."""
    states = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in cluster.pods()}
    if cluster.phase("j") == "Running":
        assert set(states) == {"j-a-0", "j-a-1", "j-b-0", "j-b-1"}
        assert cluster.group("j") is not None
    else:
        assert set(states.values()) <= {"Succeeded", "Failed"}
        assert cluster.group("j") is None
        assert states.get("j-b-0") == "Succeeded"


def bring_about(cluster: FakeCluster, event: PolicyEvent) -> None:
    """Makes something happen to task a, or to the gang."""
    match event:
        case PolicyEvent.POD_FAILED:
            cluster.set_pod("j-a-0", "Failed", exit_code=1)
        case PolicyEvent.POD_EVICTED:
            cluster.remove(POD, Key("default", "j-a-0"), now=True)
        case PolicyEvent.POD_PENDING:
            cluster.set_pod("j-a-0", "Pending")
        case PolicyEvent.UNKNOWN:
            group = cluster.group("j")
            assert group is not None
            cluster.change(
                POD_GROUP, Key("default", group["metadata"]["name"]), {"status": {"phase": "Unknown"}}
            )
        case PolicyEvent.TASK_COMPLETED:
            for name in ("j-a-0", "j-a-1"):
                cluster.set_pod(name, "Succeeded")
        case PolicyEvent.TASK_FAILED:
            restarted = [{"name": "main", "ready": True, "restartCount": 3}]
            cluster.set_pod("j-a-0", "Running", containerStatuses=restarted)
    cluster.run()


@pytest.mark.parametrize(("phase", "event", "action"), list(product(LIVE, EVENTS, ACTIONS)))
def test_what_a_policy_does_about_each_event_in_a_live_job(
    phase: Phase, event: PolicyEvent, action: Action
) -> None:
    timeout = {"timeout": "5s"} if event is PolicyEvent.POD_PENDING else {}
    cluster = job_in(phase, policies=[policy(str(event), str(action), **timeout)])
    cluster.run()
    since = len(cluster.log)
    bring_about(cluster, event)
    cluster.advance(7 if timeout else 0)
    # A gang as a whole has no task or pod to aim at.
    aimed = event is not PolicyEvent.UNKNOWN
    written, retries = expected(Phase.RUNNING, action, aimed=aimed)
    assert first_phase(cluster, since) == written
    assert cluster.job("j")["status"].get("retryCount", 0) == retries


@pytest.mark.parametrize(("phase", "event", "action"), list(product((*ENDING, *HELD), EVENTS, ACTIONS)))
def test_no_event_moves_a_job_that_is_stopping_or_stopped(
    phase: Phase, event: PolicyEvent, action: Action
) -> None:
    cluster = job_in(phase, policies=[policy(str(event), str(action), timeout="5s")])
    if event is PolicyEvent.UNKNOWN and cluster.group("j") is None:
        cluster.run()
    elif cluster.find(POD, "j-a-0") is None and event is not PolicyEvent.UNKNOWN:
        cluster.remove(POD, Key("default", "j-b-0"), now=True)
    else:
        bring_about(cluster, event)
    cluster.advance(10)
    cluster.settle()
    assert cluster.phase("j") == ENDING.get(phase, phase)
    assert cluster.job("j")["status"].get("retryCount", 0) == 0


@pytest.mark.parametrize("action", ACTIONS)
def test_a_pod_that_fails_while_a_task_restarts_joins_in_at_no_further_cost_or_waits(action: Action) -> None:
    tasks = [
        task("a", 2, policies=[policy("PodFailed", "RestartTask")]),
        task("b", 2, policies=[policy("PodFailed", str(action))]),
    ]
    cluster = FakeCluster()
    cluster.put(JOB, job(tasks=tasks, minAvailable=4))
    cluster.start(controller())
    cluster.settle()
    cluster.finish("j-a-0", phase="Failed", exit_code=1)
    assert cluster.phase("j") == "Restarting"
    cluster.finish("j-b-0", phase="Failed", exit_code=1)
    assert cluster.phase("j") == "Restarting"
    cluster.settle()
    assert cluster.phase("j") == (STOPS[action][1] if action in STOPS else "Running")
    assert cluster.job("j")["status"]["retryCount"] == 1
    failed = [pod["metadata"]["name"] for pod in cluster.pods() if pod["status"]["phase"] == "Failed"]
    assert failed == ([] if action in RESTARTS and action is not Action.RESTART_PARTITION else ["j-b-0"])
