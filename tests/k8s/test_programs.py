"""Our programs against a real kube-apiserver: a gang from submission to completion, admission through the webhook."""

from collections.abc import Callable

import pytest
import yaml

from tests.k8s import plain
from tests.k8s.programs import Programs

pytestmark = pytest.mark.k8s

NAMESPACE = "programs"


@pytest.fixture
def programs(installed: Programs) -> Programs:
    installed.api.create_persistently("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return installed


def until(true: Callable[[], bool], programs: Programs) -> None:
    plain.until(true, 60.0, programs.logs)


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


def _status_of(groups: list[plain.Object], job_name: str) -> plain.Object:
    (found,) = (group for group in groups if group["metadata"]["name"].startswith(f"{job_name}-"))
    status: plain.Object = found["status"]
    return status


def test_a_gang_runs_to_completion(programs: Programs) -> None:
    applied = programs.kubectl(
        "apply", "-f", "-", stdin=job("train", 6, plugins={"svc": [], "env": [], "ssh": []})
    )
    assert applied.returncode == 0, applied.stderr
    until(lambda: phase(programs, "train") == "Completed", programs)
    pods = programs.kubectl("get", "pods", "-n", NAMESPACE, "-l", "volcano.sh/job-name=train", "-o", "name")
    assert len(pods.stdout.split()) == 6


def test_the_webhook_sets_defaults(programs: Programs) -> None:
    applied = programs.kubectl("apply", "-f", "-", stdin=job("defaults", 2))
    assert applied.returncode == 0, applied.stderr
    shown = programs.kubectl("get", "vcjob", "defaults", "-n", NAMESPACE, "-o", "yaml")
    spec = yaml.safe_load(shown.stdout)["spec"]
    assert (spec["minAvailable"], spec["queue"], spec["tasks"][0]["name"]) == (2, "default", "default0")


def test_the_webhook_names_the_invalid_field(programs: Programs) -> None:
    denied = programs.kubectl("apply", "-f", "-", stdin=job("wrong", 2, queue="nowhere"))
    assert denied.returncode != 0
    assert "validatejob.volcano.sh" in denied.stderr
    assert "spec.queue" in denied.stderr


def test_a_gang_that_is_too_large_starts_no_pod(programs: Programs) -> None:
    programs.kubectl("apply", "-f", "-", stdin=job("large", 9))
    groups = plain.GROUPS.format(NAMESPACE)
    # The scheduler has processed the gang once it reports the reason.
    until(lambda: "Unschedulable" in str(_status_of(programs.api.items(groups), "large")), programs)
    selector = ("-n", NAMESPACE, "-l", "volcano.sh/job-name=large")
    bound = programs.kubectl("get", "pods", *selector, "-o", "jsonpath={.items[*].spec.nodeName}")
    assert bound.stdout.strip() == ""
    assert phase(programs, "large") == "Pending"
    assert programs.kubectl("delete", "vcjob", "large", "-n", NAMESPACE).returncode == 0
