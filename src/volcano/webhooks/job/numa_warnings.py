"""Warnings about NUMA policies that have no effect."""

from collections.abc import Iterable, Mapping
from typing import Any

from volcano.kube.api.names import NUMA_POLICY
from volcano.kube.devices.numa.assignment import NONE, POLICIES
from volcano.kube.devices.numa.requests import exclusive_cpus, is_guaranteed
from volcano.webhooks.review import AdmissionRequest, annotations_in


def job_warnings(request: AdmissionRequest) -> Iterable[str]:
    """Warnings about the tasks of a job."""
    for index, task in enumerate(((request.new or {}).get("spec") or {}).get("tasks") or ()):
        policy = task.get("topologyPolicy") or ""
        spec = (task.get("template") or {}).get("spec") or {}
        yield from _warnings(policy, spec, f"spec.tasks[{index}].topologyPolicy")


def pod_warnings(request: AdmissionRequest) -> Iterable[str]:
    """Warnings about a pod."""
    pod = request.new or {}
    policy = annotations_in(pod).get(NUMA_POLICY, "")
    yield from _warnings(policy, pod.get("spec") or {}, f"metadata.annotations[{NUMA_POLICY}]")


def _warnings(policy: str, spec: Mapping[str, Any], path: str) -> Iterable[str]:
    if policy in ("", NONE):
        return
    if policy not in POLICIES:
        yield f"{path}: {policy} is not a topology policy; choose from {', '.join(POLICIES)}"
    elif not is_guaranteed(spec):
        yield (
            f"{path}: {policy} has no effect: the pod is not Guaranteed; "
            "set cpu and memory limits equal to the requests in every container"
        )
    elif not exclusive_cpus(spec):
        yield f"{path}: {policy} has no effect: no container requests a whole number of cpus"
