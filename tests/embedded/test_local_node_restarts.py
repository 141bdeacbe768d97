"""Pods and the program that looks after them: each may go and come back without the other coming to harm."""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.embedded.program import (
    NETNS,
    NOBODYS_PLAIN,
    NOBODYS_USERNS,
    PLAIN,
    USERNS,
    Cluster,
    Setting,
    Volcano,
    left_of,
    phase,
    pod_of,
    running_of,
    running_since,
    skip_unless_possible,
    status_of,
    until,
    used,
)
from volcano.embedded.temporary_directory import PREFIX
from volcano.kube.api.manifest import Manifest
from volcano.nodes.shim import processes

pytestmark = pytest.mark.slow

# Each runtime once, two of them without root.
ONCE_EACH = (NETNS, NOBODYS_USERNS, NOBODYS_PLAIN)
BEAT = "i=0; while true; do i=$((i+1)); echo beat $i; sleep 0.2; done"


@pytest.fixture
def volcano(request: pytest.FixtureRequest) -> Iterator[Volcano]:
    with used(skip_unless_possible(request.param)) as program:
        yield program


def each(*settings: Setting) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("volcano", settings, indirect=True, ids=str)


def beating(name: str = "beating", **fields: Any) -> Manifest:
    """A pod that goes on and on, with a process that is found on the host by its odd argument."""
    return pod_of(name, "sh", "-c", BEAT, name, **fields)


def process_of(cluster: Cluster, name: str = "beating") -> tuple[int, int]:
    """The pid and the start of a container's process on the host, which no two processes share."""
    (pid,) = [
        pid for pid in running_of(cluster.directory) if processes.command_line(pid)[-3:] == ["-c", BEAT, name]
    ]
    started = processes.start_time(pid)
    assert started
    return pid, started


def kill_and_wait(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not processes.start_time(pid) or _is_zombie(pid), f"process {pid} is gone", within=10)


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@each(*ONCE_EACH)
def test_pods_run_on_while_volcano_is_away_and_are_taken_over(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    cluster.create(beating())
    # This one ends while no process watches: its exit code is known afterwards.
    cluster.create(pod_of("ending", "sh", "-c", "sleep 3; echo last words; exit 5"))
    for name in ("beating", "ending"):
        cluster.until(name, running_since)
    before, since = process_of(cluster), running_since(cluster.pod("beating"))
    cluster.down("--keep-pods")
    assert process_of(cluster) == before
    time.sleep(3)
    cluster.up()
    over = cluster.until("ending", phase("Failed"))
    assert status_of(over)["state"]["terminated"]["exitCode"] == 5
    assert cluster.log("ending") == "last words\n"
    pod = cluster.until("beating", phase("Running"))
    assert (process_of(cluster), running_since(pod), status_of(pod)["restartCount"]) == (before, since, 0)
    # And once more, this time without any goodbye.
    said = cluster.log("beating").count("beat")
    kill_and_wait(cluster.pid)
    assert process_of(cluster) == before
    cluster.up()
    pod = cluster.until("beating", phase("Running"))
    assert (process_of(cluster), running_since(pod), status_of(pod)["restartCount"]) == (before, since, 0)
    until(lambda: cluster.log("beating").count("beat") > said + 2, "it goes on talking")
    cluster.ask("DELETE", "/api/v1/namespaces/default/pods/beating")
    until(lambda: "beating" not in cluster.pods(), "the pod is gone")
    assert not processes.start_time(before[0])
    cluster.down()
    assert left_of(volcano.home) == []


def gang(name: str) -> Manifest:
    pod = pod_of(name, "sh", "-c", BEAT, name, restartPolicy="Never")
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "minAvailable": 2,
            "schedulerName": "volcano",
            "tasks": [{"name": "worker", "replicas": 2, "template": {"spec": pod["spec"]}}],
        },
    }


@each(NETNS, NOBODYS_PLAIN)
def test_running_jobs_restart_after_down_and_up_with_an_event(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    cluster.create(gang("train"))
    before = [
        cluster.until(name, running_since)["metadata"]["uid"] for name in ("train-worker-0", "train-worker-1")
    ]
    cluster.down()
    cluster.up()
    after = [
        cluster.until(name, lambda pod: pod["metadata"]["uid"] not in before and running_since(pod))
        for name in ("train-worker-0", "train-worker-1")
    ]
    assert {pod["status"]["phase"] for pod in after} == {"Running"}
    job = cluster.ask("GET", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/train")
    assert job["status"]["state"]["phase"] in ("Pending", "Running")
    assert "NodeRestarted" in {reason for reason, _ in cluster.events("train")}
    cluster.down()
    assert left_of(volcano.home) == []


@each(NETNS, NOBODYS_PLAIN)
def test_containers_of_a_shim_that_was_killed_are_lost_and_start_again(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    cluster.create(beating(restartPolicy="Always"))
    cluster.create(pod_of("once", "sleep", "1000"))
    for name in ("beating", "once"):
        cluster.until(name, running_since)
    before = process_of(cluster)
    kill_and_wait(cluster.shim)
    lost = cluster.until("once", phase("Failed"))
    assert status_of(lost)["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    again = cluster.until("beating", lambda pod: running_since(pod) and status_of(pod)["restartCount"] == 1)
    assert status_of(again)["lastState"]["terminated"]["exitCode"] == 137
    assert process_of(cluster) != before
    cluster.create(pod_of("new", "echo", "hello"))
    cluster.until("new", phase("Succeeded"))
    cluster.down()


@each(*ONCE_EACH)
def test_what_is_left_after_everything_was_killed_is_cleared_away(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    memory: dict[str, Any] = {"name": "memory", "emptyDir": {"medium": "Memory"}}
    mounted = {"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}
    limited = {"resources": {"limits": {"memory": "64Mi", "cpu": "100m"}}}
    cluster.create(beating(volumes=[memory], container={**mounted, **limited}))
    cluster.until("beating", running_since)
    for pid in (cluster.pid, cluster.shim):
        kill_and_wait(pid)
    said = cluster.down()
    assert "removed what an earlier one had left" in said
    assert running_of(cluster.directory) == []
    assert left_of(volcano.home) == []
    # What the cluster knew is still there, and the pod starts anew with it.
    cluster.up()
    cluster.until("beating", phase("Failed"))
    cluster.down()


@each(NETNS)
def test_a_new_start_finds_what_everything_that_was_killed_has_left(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    cluster.create(beating(restartPolicy="Always"))
    cluster.until("beating", running_since)
    for pid in (cluster.pid, cluster.shim):
        kill_and_wait(pid)
    cluster.up()
    cluster.until("beating", lambda pod: running_since(pod) and status_of(pod)["restartCount"] == 1)
    process_of(cluster)
    cluster.down()


@each(NETNS, NOBODYS_USERNS, PLAIN)
def test_pods_of_a_throw_away_cluster_die_with_it(volcano: Volcano) -> None:
    running = volcano.start("run", volcano.write("pod", beating()))
    assert running.stdout is not None
    while "beat 2" not in (line := running.stdout.readline()):
        assert line
    assert len(running_of(volcano.home)) > 1
    kill_and_wait(running.pid)
    running.communicate()
    until(lambda: running_of(volcano.home) == [], "everything ended", within=10)
    # Only files are left, until the next one comes.
    assert list(volcano.home.glob(f"{PREFIX}*"))
    code, _, _ = volcano.follow(pod_of("next", "true"))
    assert code == 0
    assert list(volcano.home.glob(f"{PREFIX}*")) == []


@each(USERNS, NOBODYS_PLAIN)
def test_a_run_that_is_interrupted_leaves_nothing(volcano: Volcano) -> None:
    running = volcano.start("run", volcano.write("pod", beating()))
    assert running.stdout is not None
    while "beat 2" not in (line := running.stdout.readline()):
        assert line
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert running_of(volcano.home) == []
    assert [path.name for path in volcano.home.iterdir()] == ["pod.yaml"]
