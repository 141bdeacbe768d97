"""Examples of operators on a real API server with simulated pods: manifests, gangs and ends of pods."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.frameworks.control_parts import ControlPart
from tests.k8s.plain import GROUPS, PODS, until
from tests.k8s.programs import Programs
from volcano.cli.volcano.example_files import path_of
from volcano.kube.api.manifest import Manifest

WITHIN = 120.0
GROUP_OF_POD = "scheduling.k8s.io/group-name"
EXPECTED = (
    # A controller has written again before its cache had followed.
    "the object has been modified",
    "already exists",
    "StorageError: invalid object",
    # Before the certificate of the webhook is made.
    "secret is not well-formed",
    # Not traced: presumably kube-apiserver, before it has read the authority that the operator wrote.
    "remote error: tls: bad certificate",
)
ERROR = re.compile(r"(?m)^.*(?:\bERROR\b|\blevel\"?[:=]\"?error|^E\d{4} |TLS handshake error).*$")


def example(name: str) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(path_of(name).read_text()) if each]


def endless(documents: list[Manifest]) -> list[Manifest]:
    """Manifests whose simulated pods run until the test ends them."""
    for template in pod_templates(documents):
        annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
        annotations["volcano.sh/sim-duration"] = "forever"
    return documents


def pod_templates(value: Any) -> Iterator[Manifest]:
    """Every pod template in a value, however deep."""
    if isinstance(value, dict) and "containers" in (value.get("spec") or ()):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from pod_templates(each)


def end(programs: Programs, name: str) -> None:
    """Reports that the containers of a pod have completed, as its kubelet does, when all of them run."""
    path = f"{PODS.format('default')}/{name}"

    def status() -> Manifest:
        found: Manifest = programs.api.get(path)["status"]
        return found

    def all_run() -> bool:
        return all("running" in each["state"] for each in status()["containerStatuses"])

    until(all_run, WITHIN, programs.logs)
    completed = {**status(), "phase": "Succeeded"}
    for container in completed["containerStatuses"]:
        started = container["state"]["running"]["startedAt"]
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started}
        container |= {"ready": False, "started": False, "state": {"terminated": ended}}
    for condition in completed["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition |= {"status": "False", "reason": "PodCompleted"}
    programs.api.patch(f"{path}/status", {"status": completed})


def conditions(programs: Programs, path: str) -> set[str]:
    """Types of the conditions of an object that are true."""
    found: list[Any] = programs.api.get(path).get("status", {}).get("conditions", [])
    return {each["type"] for each in found if each["status"] == "True"}


def bound(programs: Programs, scheduler: str = "volcano") -> dict[str, str]:
    """Nodes of the pods that our scheduler has placed."""
    pods = programs.api.items(PODS.format("default"))
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in pods
        if pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] == scheduler
    }


def unexpected(part: ControlPart) -> list[str]:
    """Errors in the log of an operator that a correct server does not cause."""
    return [line for line in ERROR.findall(part.log) if not any(text in line for text in EXPECTED)]


def holds(programs: Programs, part: ControlPart, path: str, condition: str) -> None:
    until(
        lambda: condition in conditions(programs, path),
        WITHIN,
        lambda: f"{programs.api.get(path).get('status')}\n{part.log[-4000:]}\n{programs.logs()}",
    )


def gang(programs: Programs, part: ControlPart, name: str, members: int) -> list[str]:
    """Waits until a PodGroup with so many members runs; returns the names of the pods in it that have a node."""
    path = f"{GROUPS.format('default')}/{name}"

    def runs() -> bool:
        return bool(programs.api.get(path)["status"]["phase"] == "Running")

    until(runs, WITHIN, lambda: f"{groups(programs)}\n{part.log[-4000:]}\n{programs.logs()}")
    assert programs.api.get(path)["spec"]["minMember"] == members
    grouped = {
        pod["metadata"]["name"]
        for pod in programs.api.items(PODS.format("default"))
        if pod["metadata"].get("annotations", {}).get(GROUP_OF_POD) == name
    }
    return sorted(grouped & bound(programs).keys())


def groups(programs: Programs) -> dict[str, Manifest]:
    """Status of every PodGroup, by its name."""
    found = programs.api.items(GROUPS.format("default"))
    return {group["metadata"]["name"]: group.get("status", {}) for group in found}
