"""vcctl and the Slurm-like commands against a real kube-apiserver with our programs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cli import conftest as commands
from tests.cli.conftest import Vcctl
from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.programs import Programs
from tests.k8s.test_programs import until

pytestmark = pytest.mark.k8s

NAMESPACE = "vcctl"

run_command = commands.run_command  # the fixture


@pytest.fixture
def programs(installed: Programs) -> Programs:
    installed.api.create_persistently("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return installed


@pytest.fixture
def real(run_command: Vcctl, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Vcctl:
    """Runs a command line against the real server."""
    monkeypatch.setenv("KUBECONFIG", str(programs.cluster.kubeconfig))
    return run_command


@pytest.fixture
def wait_for(real: Vcctl, programs: Programs) -> Callable[[str, str], None]:
    """Waits for a job to have a phase."""
    phase = "jsonpath={.status.state.phase}"

    def wait(job: str, wanted: str) -> None:
        until(lambda: real("job", "view", job, "-n", NAMESPACE, "-o", phase).out.strip() == wanted, programs)

    return wait


def test_a_job_from_run_to_delete(real: Vcctl, wait_for: Callable[[str, str], None]) -> None:
    assert real("job", "list", "-n", NAMESPACE).out == "No resources found\n"
    ran = real("job", "run", "-N", "once", "-n", NAMESPACE, "-r", "2")
    assert (ran.code, ran.out) == (0, "run job once successfully\n")
    wait_for("once", "Completed")
    header, row = real("job", "list", "-n", NAMESPACE).lines
    assert header.startswith("Name   Creation       Phase       JobType")
    assert row.split()[2:5] == ["Completed", "Batch", "2"]
    view = real("job", "view", "once", "-n", NAMESPACE)
    assert "    Phase:\tCompleted" in view.lines
    assert len(real("pod", "list", "-j", "once", "-n", NAMESPACE, "-o", "name").lines) == 2
    group = real("podgroup", "describe", "once", "-n", NAMESPACE)
    assert (group.code, group.out) == (3, "")
    assert "job 'once' has no podgroup: the job is Completed" in group.err
    deleted = real("job", "delete", "once", "-n", NAMESPACE)
    assert (deleted.code, deleted.out) == (0, "delete job once successfully\n")


def test_a_job_is_suspended_and_resumed(real: Vcctl, wait_for: Callable[[str, str], None]) -> None:
    real("job", "run", "-N", "held", "-n", NAMESPACE)
    wait_for("held", "Running")
    assert "Owner:            Job/held" in real("podgroup", "describe", "held", "-n", NAMESPACE).lines
    assert real("job", "suspend", "-N", "held", "-n", NAMESPACE).code == 0
    wait_for("held", "Aborted")
    assert real("job", "resume", "-N", "held", "-n", NAMESPACE).code == 0
    wait_for("held", "Completed")


def test_a_plan_of_a_job_agrees_with_what_happens_to_it(
    real: Vcctl, wait_for: Callable[[str, str], None], tmp_path: Path
) -> None:
    path = tmp_path / "planned.yaml"
    container = {"name": "main", "image": "busybox", "command": ["sleep", "600"]}

    def write(cpu: str) -> str:
        sized = {**container, "resources": {"requests": {"cpu": cpu}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [sized]}}
        task = {"name": "worker", "replicas": 2, "template": template}
        manifest = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "planned"}}
        path.write_text(yaml.safe_dump({**manifest, "spec": {"schedulerName": "volcano", "tasks": [task]}}))
        return str(path)

    refused = real("plan", "-f", write("10000"), "-n", NAMESPACE)
    note = "note: there is no ConfigMap volcano-system/volcano-scheduler-configmap; the default configuration is used\n"
    assert (refused.code, refused.err) == (5, note)
    assert refused.lines[0].startswith(f"Job {NAMESPACE}/planned would not start now: ")
    forbidden = real("plan", "-f", str(path), "-n", NAMESPACE, "--as", "eve")
    assert forbidden.code == 4
    assert "you may not list pods, nodes, podgroups, queues, priorityclasses" in forbidden.err
    planned = real("plan", "-f", write("10m"), "-n", NAMESPACE)
    assert (planned.code, planned.err) == (0, note)
    assert planned.lines[0] == f"Job {NAMESPACE}/planned would start now: 2 of 2 pods placed"
    assert real("job", "view", "planned", "-n", NAMESPACE).code == 3, "a plan creates nothing"
    assert real("job", "run", "-f", str(path), "-n", NAMESPACE).code == 0
    wait_for("planned", "Running")
    assert real("job", "delete", "planned", "-n", NAMESPACE).code == 0


def test_a_queue_from_create_to_delete(real: Vcctl, programs: Programs) -> None:
    state = ("queue", "get", "-n", "real", "-o", "jsonpath={.status.state}")
    assert real("queue", "create", "-n", "real", "-w", "3", "--capability", "cpu=4").code == 0
    until(lambda: real(*state).out == "Open", programs)
    assert real("queue", "update", "real", "--capability", "memory=1Gi").code == 0
    assert real("queue", "get", "real", "-o", "jsonpath={.spec.capability}").out == '{"memory":"1Gi"}'
    assert any(line.split()[:2] == ["real", "3"] for line in real("queue", "list").lines)
    assert real("queue", "operate", "-n", "real", "-a", "close").code == 0
    until(lambda: real(*state).out == "Closed", programs)
    assert real("queue", "delete", "-n", "real").code == 0
    assert real("queue", "get", "-n", "real").code == 3


def test_slurms_commands(real: Vcctl) -> None:
    assert real("-n", "slurm", "-N", NAMESPACE, "-c", "sleep 1", program="vsub").code == 0
    assert real("-n", "slurm", "-N", NAMESPACE, program="vjobs").lines[0] == "Name:       \tslurm"
    assert real("-n", "slurm", "-N", NAMESPACE, program="vcancel").code == 0
    assert real("-n", "default", program="vqueues").lines[1].split()[0] == "default"


def test_errors_have_the_same_exit_codes(real: Vcctl) -> None:
    wrong = real("job", "view", "-N", "onec", "-n", NAMESPACE)
    assert (wrong.code, wrong.out) == (3, "")
    assert "job 'onec' not found" in wrong.err
    forbidden = real("job", "list", "-n", NAMESPACE, "--as", "eve")
    assert (forbidden.code, forbidden.out) == (4, "")
    assert 'User "eve" cannot list resource "jobs"' in forbidden.err
    assert real("job", "list", "--token", "wrong").code == 4
    denied = real("job", "run", "-N", "x", "-n", NAMESPACE, "-m", "3")
    assert (denied.code, denied.out) == (1, "")
    assert "minAvailable" in denied.err


def test_without_our_crds_the_error_suggests_to_install_them(
    real_apiserver: RealCluster, run_command: Vcctl
) -> None:
    kubeconfig = ("--kubeconfig", str(real_apiserver.kubeconfig))
    if run_command("jobflow", "list", *kubeconfig).code == 0:
        pytest.skip("another test has installed them on this server")
    result = run_command("jobflow", "list", *kubeconfig)
    assert (result.code, result.out) == (4, "")
    assert "are Volcano's custom resource definitions installed?" in result.err
