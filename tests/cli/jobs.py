"""Jobs for the tests of commands that follow them."""

from typing import Any

from tests.cli.conftest import Embedded
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest


def job(
    name: str,
    namespace: str,
    *,
    seconds: float = 600,
    cpu: str = "20m",
    replicas: int = 2,
    exit_code: int = 0,
    **spec: Any,
) -> Manifest:
    """A job of one task, `worker`, whose simulated pods run for some seconds."""
    annotations = {"volcano.sh/sim-exit-code": str(exit_code), "volcano.sh/sim-duration": f"{seconds}s"}
    container = {
        "name": "main", "image": "busybox", "command": ["sleep", str(seconds)], "resources": {"requests": {"cpu": cpu}},
    }  # fmt: skip
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    task = {"name": "worker", "replicas": replicas, "template": template}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": replicas, "schedulerName": "volcano", "tasks": [task], **spec},
    }


def start(embedded: Embedded, manifest: Manifest, phase: str) -> Manifest:
    """Creates a job and waits until it is in a phase."""
    made = embedded.create(JOB, manifest)
    key = Key(made["metadata"]["namespace"], made["metadata"]["name"])
    return embedded.until(JOB, key, lambda job: phase_of(job) == phase)


def phase_of(job: Manifest) -> str:
    return str(job.get("status", {}).get("state", {}).get("phase", ""))
