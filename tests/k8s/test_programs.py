"""Our programs against a real kube-apiserver: a gang from submission to completion, admission through the webhook."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.k8s.control_plane.build import program
from tests.k8s.control_plane.cluster import RealCluster
from volcano.kube import crds

pytestmark = pytest.mark.k8s

NAMESPACE = "programs"


class Programs:
    """Started programs, and kubectl on their cluster."""

    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"volcano.entry.{module}", *arguments]
        with open(self.directory / f"{module}.log", "ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=os.environ))

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program("kubectl"), "--kubeconfig", self.cluster.kubeconfig, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text()[-1500:]}" for path in self.directory.glob("*.log")
        )


@pytest.fixture(scope="module")
def programs(fresh_apiserver: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    running = Programs(fresh_apiserver, tmp_path_factory.mktemp("programs"))
    connect = ["--kubeconfig", str(fresh_apiserver.kubeconfig), "--leader-elect-lease-duration", "3s"]
    connect += ["--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "200ms"]
    definitions = "---\n".join(yaml.safe_dump(manifest) for manifest in crds.load())
    applied = running.kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
    assert applied.returncode == 0, applied.stderr
    established = running.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    assert established.returncode == 0, established.stderr
    for name in ("volcano-system", NAMESPACE):
        running.kubectl("create", "namespace", name)
    running.start("controllers", *connect)
    running.start("scheduler", *connect)
    webhook = ("--webhook-url", "https://127.0.0.1:18443", "--listen-address", "127.0.0.1", "--port", "18443")
    running.start("webhooks", "--kubeconfig", str(fresh_apiserver.kubeconfig), *webhook)
    nodes = ("--nodes", "3", "--node", "cpu=4,memory=8Gi", "--sim-duration", "2s")
    running.start("local", "nodes", "--kubeconfig", str(fresh_apiserver.kubeconfig), *nodes)
    until(lambda: running.kubectl("get", "queue", "default").returncode == 0, running)
    until(lambda: running.kubectl("get", "node", "node-2").returncode == 0, running)
    name = "volcano-admission-service-cronjobs-validate"
    until(lambda: running.kubectl("get", "validatingwebhookconfiguration", name).returncode == 0, running)
    yield running
    running.stop()


def until(true: Callable[[], bool], programs: Programs, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, programs.logs()
        time.sleep(0.2)


def job(name: str, replicas: int, **spec: object) -> str:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"tasks": [{"replicas": replicas, "template": template}], **spec},
    }
    return yaml.safe_dump(manifest)


def phase(programs: Programs, name: str) -> str:
    path = "jsonpath={.status.state.phase}"
    return programs.kubectl("get", "vcjob", name, "-n", NAMESPACE, "-o", path).stdout


def test_a_gang_runs_to_completion(programs: Programs) -> None:
    applied = programs.kubectl(
        "apply", "-f", "-", stdin=job("train", 6, plugins={"svc": [], "env": [], "ssh": []})
    )
    assert applied.returncode == 0, applied.stderr
    until(lambda: phase(programs, "train") == "Completed", programs)
    pods = programs.kubectl("get", "pods", "-n", NAMESPACE, "-l", "volcano.sh/job-name=train", "-o", "name")
    assert len(pods.stdout.split()) == 6


def test_the_webhook_completes_what_the_user_left_open(programs: Programs) -> None:
    applied = programs.kubectl("apply", "-f", "-", stdin=job("defaults", 2))
    assert applied.returncode == 0, applied.stderr
    shown = programs.kubectl("get", "vcjob", "defaults", "-n", NAMESPACE, "-o", "yaml")
    spec = yaml.safe_load(shown.stdout)["spec"]
    assert (spec["minAvailable"], spec["queue"], spec["tasks"][0]["name"]) == (2, "default", "default0")


def test_the_webhook_refuses_with_the_field(programs: Programs) -> None:
    refused = programs.kubectl("apply", "-f", "-", stdin=job("wrong", 2, queue="nowhere"))
    assert refused.returncode != 0
    assert "validatejob.volcano.sh" in refused.stderr
    assert "spec.queue" in refused.stderr


def test_a_gang_too_large_starts_nobody(programs: Programs) -> None:
    programs.kubectl("apply", "-f", "-", stdin=job("large", 9))
    time.sleep(3)
    selector = ("-n", NAMESPACE, "-l", "volcano.sh/job-name=large")
    bound = programs.kubectl("get", "pods", *selector, "-o", "jsonpath={.items[*].spec.nodeName}")
    assert bound.stdout.strip() == ""
    assert phase(programs, "large") == "Pending"
    assert programs.kubectl("delete", "vcjob", "large", "-n", NAMESPACE).returncode == 0
