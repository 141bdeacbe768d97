"""Printed columns of pods."""

from typing import Any

import pytest

from volcano.apiserver.endpoints.tables.pods import POD_PRINTER, pod_conditions, print_pod
from volcano.base.clock import timestamp
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.pod_status import pod_status

NOW = 1_000_000.0
RUNNING: Manifest = {"state": {"running": {}}, "ready": True}
DONE: Manifest = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
READY = [{"type": "Ready", "status": "True"}]
INITIALIZED = [{"type": "Initialized", "status": "True"}]


def waiting(reason: str) -> Manifest:
    return {"state": {"waiting": {"reason": reason}}}


def ended(code: int, **more: Any) -> Manifest:
    return {"state": {"terminated": {"exitCode": code, **more}}}


def pod(
    *containers: Manifest,
    phase: str = "Running",
    inits: list[Manifest] | None = None,
    sidecars: tuple[str, ...] = (),
    **status: Any,
) -> Manifest:
    """A pod whose containers have these statuses."""
    init_statuses = [{"name": f"init{i}", **status} for i, status in enumerate(inits or [])]
    return {
        "metadata": {"name": "p", "creationTimestamp": timestamp(NOW - 300)},
        "spec": {
            "containers": [{"name": f"c{i}"} for i in range(max(len(containers), 1))],
            "initContainers": [
                {
                    "name": init["name"],
                    **({"restartPolicy": "Always"} if init["name"] in sidecars else {}),
                }
                for init in init_statuses
            ],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": f"c{i}", **status} for i, status in enumerate(containers)],
            "initContainerStatuses": init_statuses,
            **status,
        },
    }


def deleting(manifest: Manifest) -> Manifest:
    manifest["metadata"]["deletionTimestamp"] = timestamp(NOW)
    return manifest


@pytest.mark.parametrize(
    ("given", "status"),
    [
        pytest.param(pod(phase="Pending"), "Pending", id="not placed yet"),
        pytest.param(pod(waiting("ContainerCreating"), phase="Pending"), "ContainerCreating", id="starting"),
        pytest.param(pod(RUNNING), "Running", id="running"),
        pytest.param(pod(waiting("CrashLoopBackOff")), "CrashLoopBackOff", id="waits after a crash"),
        pytest.param(pod(waiting("ImagePullBackOff"), phase="Pending"), "ImagePullBackOff", id="no image"),
        pytest.param(pod(DONE, phase="Succeeded"), "Completed", id="all done"),
        pytest.param(pod(ended(1, reason="Error"), phase="Failed"), "Error", id="failed"),
        pytest.param(pod(ended(137, reason="OOMKilled"), phase="Failed"), "OOMKilled", id="out of memory"),
        pytest.param(pod(ended(3), phase="Failed"), "ExitCode:3", id="no reason but a code"),
        pytest.param(pod(ended(0, signal=9), phase="Failed"), "Signal:9", id="no reason but a signal"),
        pytest.param(
            pod(DONE, RUNNING, conditions=READY), "Running", id="one done, one running: still running"
        ),
        pytest.param(pod(DONE, RUNNING), "NotReady", id="one done, one running, but not ready"),
        pytest.param(
            pod(DONE, ended(1, reason="Error"), phase="Failed"), "Error", id="a failure outweighs completion"
        ),
        pytest.param(pod(phase="Failed", reason="Evicted"), "Evicted", id="the pod's own reason"),
        pytest.param(
            pod(phase="Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
            "SchedulingGated",
            id="held back by a gate",
        ),
        pytest.param(deleting(pod(RUNNING)), "Terminating", id="being deleted"),
        pytest.param(deleting(pod(DONE, phase="Succeeded")), "Completed", id="ended before it was deleted"),
        pytest.param(deleting(pod(RUNNING, reason="NodeLost")), "Unknown", id="its node is lost"),
        pytest.param(
            pod(phase="Pending", inits=[waiting("PodInitializing"), waiting("PodInitializing")]),
            "Init:0/2",
            id="first of two init containers",
        ),
        pytest.param(
            pod(phase="Pending", inits=[DONE, {"state": {"running": {}}}]), "Init:1/2", id="second of two"
        ),
        pytest.param(
            pod(phase="Pending", inits=[waiting("CrashLoopBackOff")]),
            "Init:CrashLoopBackOff",
            id="init container crashes",
        ),
        pytest.param(
            pod(phase="Failed", inits=[ended(2, reason="Error")]), "Init:Error", id="init container failed"
        ),
        pytest.param(pod(phase="Failed", inits=[ended(2)]), "Init:ExitCode:2", id="init container's code"),
        pytest.param(
            pod(RUNNING, inits=[{"started": True, "ready": True}], sidecars=("init0",), conditions=READY),
            "Running",
            id="a sidecar that runs does not hold the pod up",
        ),
        pytest.param(
            pod(RUNNING, inits=[waiting("X")], conditions=INITIALIZED),
            "Init:X",
            id="once initialized, the container decides",
        ),
    ],
)
def test_the_status_is_the_most_specific_reason(given: Manifest, status: str) -> None:
    assert pod_status(given) == status


def test_ready_counts_containers_and_sidecars() -> None:
    sidecar = {"started": True, "ready": True, "state": {"running": {}}}
    assert print_pod(pod(RUNNING, waiting("Slow")), NOW)[1] == "1/2"
    assert print_pod(pod(RUNNING, inits=[sidecar], sidecars=("init0",)), NOW)[1] == "2/2"
    assert print_pod(pod(phase="Pending"), NOW)[1] == "0/1"


def test_restarts_say_when_the_last_one_was() -> None:
    crashed = {"restartCount": 3, "lastState": {"terminated": {"finishedAt": timestamp(NOW - 300)}}}
    assert print_pod(pod({**RUNNING, **crashed}), NOW)[3] == "3 (5m ago)"
    assert print_pod(pod({**RUNNING, "restartCount": 2}), NOW)[3] == "2"
    assert print_pod(pod(RUNNING), NOW)[3] == "0"


def test_restarts_of_init_containers_count_only_while_initializing() -> None:
    busy = pod(phase="Pending", inits=[{**waiting("CrashLoopBackOff"), "restartCount": 4}])
    after = pod({**RUNNING, "restartCount": 1}, inits=[{**DONE, "restartCount": 4}])
    assert print_pod(busy, NOW)[3] == "4"
    assert print_pod(after, NOW)[3] == "1"


def test_wide_output_says_where_the_pod_is() -> None:
    given = pod(RUNNING, podIPs=[{"ip": "10.0.0.1"}], nominatedNodeName="n2")
    given["spec"] |= {
        "nodeName": "n1",
        "readinessGates": [{"conditionType": "Ready"}, {"conditionType": "X"}],
    }
    given["status"]["conditions"] = READY
    assert print_pod(given, NOW)[4:] == ["5m", "10.0.0.1", "n1", "n2", "1/2"]
    assert print_pod(pod(phase="Pending"), NOW)[5:] == ["<none>"] * 4


def test_every_column_has_a_cell() -> None:
    assert len(print_pod({}, NOW)) == len(POD_PRINTER.columns)


def test_ended_pods_are_marked_so_that_kubectl_can_hide_them() -> None:
    (condition,) = pod_conditions(pod(DONE, phase="Succeeded"))
    assert (condition["type"], condition["reason"]) == ("Completed", "Succeeded")
    assert pod_conditions(pod(RUNNING)) == []
