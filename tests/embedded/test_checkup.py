"""The check-up commands of a Volcano installation, typed with real kubectl at `volcano up`."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.k8s.control_plane.build import program
from tests.kubectl.edited import WAYS, check_edits

pytestmark = pytest.mark.slow


class Kubectl:
    """kubectl on one cluster, with a home of its own so that no cache lies."""

    def __init__(self, binary: str, kubeconfig: Path, home: Path) -> None:
        self._command = [binary, "--kubeconfig", str(kubeconfig)]
        self._environment = os.environ | {"HOME": str(home)}

    def __call__(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        shown = subprocess.run(
            [*self._command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
        )
        assert shown.returncode == 0 or not check, shown.stderr
        return shown.stdout + shown.stderr


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    built = program("kubectl")
    binary = os.environ.get("KUBECTL") or (str(built) if built.exists() else shutil.which("kubectl"))
    if binary is None:
        pytest.skip("kubectl is not installed; `make test-k8s` builds one where Go is")
    home = tmp_path_factory.mktemp("home")
    directory = home / "cluster"
    volcano = [sys.executable, "-m", "volcano.cmd.volcano"]
    options = ["--data-dir", str(directory)]
    subprocess.run(
        [*volcano, "up", *options, "--no-local-node", "--nodes", "3", "--node", "cpu=4", "--detach"],
        check=True,
    )
    yield Kubectl(binary, directory / "kubeconfig", home)
    subprocess.run([*volcano, "down", *options], check=True)


def until(kubectl: Kubectl, wanted: str, *arguments: str, seconds: float = 30.0) -> str:
    deadline = time.monotonic() + seconds
    while wanted not in (shown := kubectl(*arguments, check=False)):
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
    return shown


def test_the_components_run(kubectl: Kubectl) -> None:
    kubectl(
        "wait", "--for=condition=Available", "deployment", "--all", "-n", "volcano-system", "--timeout=30s"
    )
    pods = kubectl("get", "pods", "-n", "volcano-system")
    for name in ("volcano-scheduler", "volcano-controllers", "volcano-admission"):
        assert name in pods
    assert pods.count("Running") == 3
    assert "successfully rolled out" in kubectl(
        "rollout", "status", "deploy/volcano-scheduler", "-n", "volcano-system"
    )


def test_the_schedulers_log_is_its_pods_log(kubectl: Kubectl) -> None:
    log = kubectl("logs", "-n", "volcano-system", "deploy/volcano-scheduler", "--tail=100")
    assert "configuration loaded" in log


def test_our_kinds_are_there(kubectl: Kubectl) -> None:
    definitions = kubectl("get", "crd", "jobs.batch.volcano.sh", "podgroups.scheduling.volcano.sh")
    assert "jobs.batch.volcano.sh" in definitions
    assert kubectl("get", "queues").split()[:4] == ["NAME", "STATE", "WEIGHT", "PARENT"]
    assert "vcjob,vj" in kubectl("api-resources", "--api-group=batch.volcano.sh")
    assert "minAvailable" in kubectl("explain", "vcjob.spec")


def test_a_job_is_followed_with_kubectl(kubectl: Kubectl) -> None:
    job = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: checkup}
spec:
  minAvailable: 2
  schedulerName: volcano
  tasks:
  - name: w
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: c, image: busybox, command: [sleep, "2"], resources: {requests: {cpu: "1"}}}
"""
    assert "created" in kubectl("apply", "-f", "-", stdin=job)
    until(kubectl, "Running", "get", "vcjob", "checkup")
    assert kubectl("get", "pg").split()[:6] == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE", "QUEUE"]
    kubectl("wait", "--for=jsonpath={.status.state.phase}=Completed", "vcjob/checkup", "--timeout=30s")
    described = kubectl("describe", "vcjob", "checkup")
    assert "Completed" in described
    assert "simulated container c" in kubectl("logs", "-l", "volcano.sh/job-name=checkup")
    assert "deleted" in kubectl("delete", "vcjob", "checkup")
    until(kubectl, "No resources found", "get", "pods")


def test_editing_the_config_map_reconfigures_the_scheduler(kubectl: Kubectl) -> None:
    name = ("configmap", "volcano-scheduler-configmap", "-n", "volcano-system")
    conf = kubectl("get", *name, "-o", r"jsonpath={.data.volcano-scheduler\.conf}")
    assert conf.startswith('actions: "enqueue, allocate, backfill"')
    changed = conf.replace("enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim, backfill")
    kubectl("patch", *name, "--type=merge", "-p", json.dumps({"data": {"volcano-scheduler.conf": changed}}))
    logs = ("logs", "-n", "volcano-system", "deploy/volcano-scheduler", "--tail=20")
    until(kubectl, 'actions="enqueue, allocate, preempt, reclaim, backfill"', *logs)


def test_the_load_of_nodes_is_shown(kubectl: Kubectl) -> None:
    until(kubectl, "node-0", "top", "nodes")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_edited_job_is_handed_in_again(kubectl: Kubectl, way: tuple[str, ...]) -> None:
    name = "edited-" + "-".join(word.strip("-") for word in way)
    check_edits(lambda arguments, stdin: kubectl(*arguments, stdin=stdin, check=False), way, name)
