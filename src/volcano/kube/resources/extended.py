"""Extended resources, such as devices, which Kubernetes counts in whole numbers and never overcommits."""

from collections.abc import Mapping
from typing import Any

from volcano.kube.api.manifest import Manifest


def is_extended(resource: str) -> bool:
    """Whether a resource is not one of Kubernetes' own, such as `nvidia.com/gpu`."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def limit_extended(pod: Manifest) -> None:
    """Sets missing limits of extended resources to their requests, as Kubernetes requires."""
    for container in containers_of(pod):
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        missing = {
            name: amount
            for name, amount in (resources.get("requests") or {}).items()
            if is_extended(name) and limits.get(name) is None
        }
        if missing:
            container["resources"] = {**resources, "limits": {**limits, **missing}}


def containers_of(pod: Mapping[str, Any]) -> list[Manifest]:
    """Init and main containers of a pod spec."""
    both = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    return [container for container in both if container is not None]
