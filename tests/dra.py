"""Builders of device classes, slices, claims and pods with claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.builders import metadata, podgroup
from tests.builders import pod as plain_pod
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.dra.slices import device, driver_class, node_slices

DRIVER, CLASS = "gpu.example.com", "gpu"


def gpu_class(name: str = CLASS, **spec: Any) -> Manifest:
    found = driver_class(name, DRIVER)
    found["spec"].update(spec)
    return found


def gpus(node: str, count: int = 1, driver: str = DRIVER, **more: Any) -> Manifest:
    """The slice of a node with `count` devices gpu-0, gpu-1, ... that have a number."""
    devices = [device(f"gpu-{number}", {"number": number}, **more) for number in range(count)]
    (found,) = node_slices(node, driver, devices)
    return found


def slice_of(node: str, devices: Sequence[Manifest], driver: str = DRIVER, **spec: Any) -> Manifest:
    (found,) = node_slices(node, driver, devices)
    found["spec"].update(spec)
    return found


def request(name: str = "gpu", device_class: str = CLASS, **more: Any) -> Manifest:
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def claim(
    name: str, *requests: Manifest, namespace: str = "default", owner: str = "", **devices: Any
) -> Manifest:
    meta = metadata(name, namespace)
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid(owner), "controller": True}
        meta["ownerReferences"] = [reference]
    spec = {"devices": {"requests": list(requests) or [request()], **devices}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec}


def uid(pod_name: str, namespace: str = "default") -> str:
    return str(metadata(pod_name, namespace)["uid"])


def allocated(
    manifest: Manifest, node: str, *names: str, pods: Sequence[str] = (), driver: str = DRIVER
) -> Manifest:
    """A claim that holds devices of a node, reserved for pods."""
    results = [{"request": "gpu", "driver": driver, "pool": node, "device": each} for each in names]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    users = [{"resource": "pods", "name": each, "uid": uid(each)} for each in pods]
    finalizers = ["resource.kubernetes.io/delete-protection"]
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "finalizers": finalizers},
        "status": {"allocation": allocation, "reservedFor": users},
    }


def claiming(*claims: str) -> dict[str, Any]:
    """Arguments of `pod` for claims by name."""
    return {"spec": {"resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]}}


def templated(pod_name: str, template: str = "one-gpu", generated: bool = True) -> dict[str, Any]:
    """Arguments of `pod` for a claim of a template; `<pod>-gpu` once it is generated."""
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}]}
    statuses = [{"name": "gpu", "resourceClaimName": f"{pod_name}-gpu"}] if generated else []
    return {"spec": spec, "status": {"resourceClaimStatuses": statuses}}


@dataclass(frozen=True)
class Gang:
    """A PodGroup, its pods, each with a claim of its own, and the claims."""

    group: Manifest
    pods: tuple[Manifest, ...]
    claims: tuple[Manifest, ...]

    @property
    def manifests(self) -> list[Manifest]:
        return [self.group, *self.pods, *self.claims]


def gang(
    name: str,
    replicas: int,
    *requests: Manifest,
    devices: Mapping[str, Any] | None = None,
    min_available: int | None = None,
    queue: str = "default",
    on: Sequence[tuple[str, Sequence[str]]] = (),
    group: Mapping[str, Any] | None = None,
    **options: Any,
) -> Gang:
    """Pods `<name>-<i>`; `on` names node and devices of those that run."""
    pods, claims = [], []
    for number in range(replicas):
        pod_name = f"{name}-{number}"
        made = claim(f"{pod_name}-gpu", *requests, owner=pod_name, **(devices or {}))
        node = ""
        if number < len(on):
            node, held = on[number]
            made = allocated(made, node, *held, pods=[pod_name])
        pods.append(plain_pod(pod_name, group=name, node=node, **templated(pod_name), **options))
        claims.append(made)
    minimum = replicas if min_available is None else min_available
    found = podgroup(name, queue=queue, min_member=minimum, phase="Inqueue", **(group or {}))
    return Gang(found, tuple(pods), tuple(claims))
