"""Pods that cannot start, fail or ask for too much: each reports why as a kubelet would, and others are unaffected."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.program import (
    EVERY,
    NETNS,
    NOBODYS_PLAIN,
    PLAIN,
    Cluster,
    Setting,
    Volcano,
    identity_of,
    job_of,
    phase,
    pod_of,
    python_of,
    running_since,
    skip_unless_possible,
    status_of,
    until,
    used,
)
from volcano.kube.api.manifest import Manifest

pytestmark = pytest.mark.slow


@pytest.fixture
def volcano(request: pytest.FixtureRequest) -> Iterator[Volcano]:
    with used(skip_unless_possible(request.param)) as program:
        yield program


def each(*settings: Setting) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("volcano", settings, indirect=True, ids=str)


def waiting(pod: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = (status_of(pod).get("state") or {}).get("waiting") or {}
    return found


def terminated(pod: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = (status_of(pod).get("state") or {}).get("terminated") or {}
    return found


@each(NETNS, NOBODYS_PLAIN)
def test_what_cannot_start_is_told_why_and_touches_nobody_else(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    reference = {"configMapRef": {"name": "nowhere"}}
    secret = {"name": "secret", "secret": {"secretName": "nowhere"}}
    cluster.create(pod_of("fine", "sleep", "1000"))
    cluster.create(pod_of("missing", "no-such-program"))
    cluster.create(pod_of("closed", "/etc/passwd"))
    cluster.create(pod_of("unreferenced", "true", container={"envFrom": [reference]}))
    cluster.create(pod_of("silent"))
    cluster.create(
        pod_of("unmounted", "true", volumes=[secret],
               container={"volumeMounts": [{"name": "secret", "mountPath": "/secret"}]})
    )  # fmt: skip
    fine = running_since(cluster.until("fine", running_since))
    missing = terminated(cluster.until("missing", phase("Failed")))
    assert (missing["exitCode"], missing["reason"]) == (128, "StartError")
    assert '"no-such-program": executable file not found' in missing["message"]
    closed = terminated(cluster.until("closed", phase("Failed")))
    assert (closed["exitCode"], closed["reason"]) == (128, "StartError")
    assert "permission denied" in closed["message"]
    unreferenced = waiting(cluster.until("unreferenced", waiting_for("CreateContainerConfigError")))
    assert unreferenced["message"] == 'configmap "nowhere" not found'
    silent = waiting(
        cluster.until("silent", waiting_for("CreateContainerError", "CreateContainerConfigError"))
    )
    assert "command" in silent["message"]
    until(
        lambda: any(
            reason == "FailedMount" and 'secret "nowhere" not found' in message
            for reason, message in cluster.events("unmounted")
        ),
        "an event tells of the missing Secret",
    )
    assert cluster.pod("unmounted")["status"]["phase"] == "Pending"
    # What was missing comes, and the pods that waited for it run.
    cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nowhere"}, "data": {"a": "b"}}
    )
    cluster.until("unreferenced", phase("Succeeded"))
    assert running_since(cluster.pod("fine")) == fine
    cluster.down()


def waiting_for(*reasons: str) -> Any:
    return lambda pod: waiting(pod).get("reason") in reasons


@each(*EVERY)
def test_a_run_returns_what_its_container_returned(volcano: Volcano) -> None:
    script = "echo out; echo err >&2; exit 3"
    code, result, lines = volcano.follow(job_of("failing", 1, pod_of("x", "sh", "-c", script)))
    (job,) = result["jobs"]
    assert (code, job["exitCode"], job["phase"]) == (3, 3, "Failed")
    assert result["completed"] is False
    for line in ("out", "err"):
        assert f"failing-worker-0 | {line}\n" in lines


@each(NETNS)
def test_the_log_of_every_start_is_shown(volcano: Volcano) -> None:
    script = "[ -e /v/x ] && { sleep 0.3; echo second; exit; }; touch /v/x; echo first; exit 1"
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    pod = pod_of("x", "sh", "-c", script, restartPolicy="OnFailure", container=mounted)
    pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    code, _, lines = volcano.follow(job_of("again", 1, pod))
    assert code == 0, lines
    assert [line for line in lines.splitlines() if "|" in line] == [
        "again-worker-0 | first",
        "again-worker-0 | second",
    ]


@each(NETNS)
def test_limits_are_enforced(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    if not os.path.isdir("/sys/fs/cgroup/memory/volcano") and not os.path.isdir("/sys/fs/cgroup/volcano"):
        cluster.down()
        pytest.skip("this machine gives us no control groups")
    hungry = "import time; b = bytearray(200 << 20); time.sleep(60)"
    busy = "import time; end = time.time() + 2\nwhile time.time() < end: pass\nprint(time.process_time())"
    cluster.create(
        pod_of("hungry", "python3", "-c", hungry, container={"resources": {"limits": {"memory": "48Mi"}}})
    )
    cluster.create(
        pod_of("busy", "python3", "-c", busy, container={"resources": {"limits": {"cpu": "100m"}}})
    )
    over = terminated(cluster.until("hungry", phase("Failed")))
    assert (over["reason"], over["exitCode"]) == ("OOMKilled", 137)
    cluster.until("busy", phase("Succeeded"))
    assert float(cluster.log("busy")) < 0.6, "a tenth of two seconds, and a little for the start"
    cluster.down()


@each(PLAIN)
def test_a_pod_is_told_once_what_its_runtime_cannot_give(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    cluster.create(pod_of("pod", "sh", "-c", "exit 1", restartPolicy="OnFailure"))
    cluster.until("pod", lambda pod: status_of(pod).get("restartCount", 0) >= 1)
    events = cluster.events("pod")
    limited = [message for reason, message in events if reason == "LimitedRuntime"]
    assert len(limited) == 1
    for word in ("names", "network", "$VOLCANO_ROOT"):
        assert word in limited[0]
    pulled = [message for reason, message in events if reason == "Pulled"]
    assert pulled == ['Container image "none" is not pulled: the pod runs this host\'s programs']
    cluster.down()


@each(NETNS)
def test_a_full_disk_is_told_of_and_room_is_enough_to_go_on(volcano: Volcano) -> None:
    place = volcano.home / "cluster"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=128m,mode=700", "tiny", str(place)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount anything")
    try:
        cluster = Cluster(volcano)
        cluster.up()
        talk = "while true; do head -c 3000 /dev/zero | tr '\\0' x; echo; sleep 0.1; done"
        cluster.create(pod_of("early", "sh", "-c", talk))
        since = running_since(cluster.until("early", running_since))
        filler = place / "pods" / "filler"
        until(lambda: _is_full(cluster, filler), "nothing can be stored any more", within=30)
        filler.unlink()
        # Whatever could not be done meanwhile, the cluster works again and no pod was lost.
        until(lambda: _created(cluster, "late"), "a pod can be created again", within=30)
        cluster.until("late", phase("Succeeded"))
        assert running_since(cluster.pod("early")) == since
        cluster.down()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


def _is_full(cluster: Cluster, filler: Path) -> bool:
    """Fills the disk, also with what the cluster has freed for deletions since; whether it rejects a pod then."""
    _fill(filler)
    return not _created(cluster, "refused") and _fill(filler) == 0


def _fill(path: Path) -> int:
    """Appends to a file until the disk is full; how many bytes there was room for."""
    written = 0
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    written += file.write(bytes(size))
    return written


def _created(cluster: Cluster, name: str) -> bool:
    try:
        cluster.create(pod_of(name, "true"))
    except OSError:
        return False
    return True


@each(NOBODYS_PLAIN)
def test_where_no_process_can_be_had_a_pod_waits_and_others_live(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up()
    cluster.create(pod_of("early", "sleep", "1000"))
    since = running_since(cluster.until("early", running_since))
    allow_processes(cluster, "1")
    cluster.create(pod_of("late", "true", restartPolicy="OnFailure"))
    until(
        lambda: any("resource temporarily unavailable" in message for _, message in cluster.events("late")),
        "an event tells why the pod does not start",
    )
    allow_processes(cluster, "resource.RLIM_INFINITY")
    cluster.until("late", phase("Succeeded"))
    assert running_since(cluster.pod("early")) == since
    cluster.down()


def allow_processes(cluster: Cluster, number: str) -> None:
    """Only who the shim belongs to may say so, where root has not all its powers."""
    user = cluster.volcano.setting.user
    program = f"""if True:
        import resource
        _, most = resource.prlimit({cluster.shim}, resource.RLIMIT_NPROC)
        wanted = most if {number} == resource.RLIM_INFINITY else {number}
        resource.prlimit({cluster.shim}, resource.RLIMIT_NPROC, (wanted, most))
    """
    subprocess.run([python_of(user), "-c", program], check=True, **identity_of(user))
