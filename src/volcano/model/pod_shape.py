"""Pod shapes: parses what identical pods have in common once for all of them (see `Shape`)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from volcano.kube.api import names, selectors
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices import ascend, vgpu
from volcano.kube.resources.pod_requests import LIMITS, REQUESTS, resource_list, scheduled_requests
from volcano.model import resources
from volcano.model.api_types import ApiPod, Container, PodResourceClaim
from volcano.model.numa import numa_request
from volcano.model.resources import PODS, ResourceIndex, Vector
from volcano.model.task import (
    Constraints,
    DeviceClaimReference,
    DeviceRequest,
    HostPort,
    PodTerm,
    PreferredNodes,
    Shape,
    SpreadConstraint,
    Toleration,
)

# Requests assumed in scoring for a container without requests, as in kube-scheduler.
NONZERO_CPU = 100.0
NONZERO_MEMORY = 200 * 1024 * 1024.0
# Volumes of these kinds may conflict on a node.
CONFLICTING = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")
SEPARATOR = b"\x1f"
NO_ANNOTATIONS: Mapping[str, str] = {}
# Marks volumes that restrict where a pod can run; most pods have only their service account token.
MATTERING = re.compile(f'"(?:{"|".join(("persistentVolumeClaim", "ephemeral", *CONFLICTING))})"'.encode())


# Resources of which an assignment may provide more than requested.
ASSIGNABLE = frozenset((vgpu.MEMORY, vgpu.CORES))
# Annotations of pods that choose devices.
CHOOSING_DEVICES = frozenset(
    (
        vgpu.USE_TYPE, vgpu.AVOID_TYPE, vgpu.USE_UUID, vgpu.AVOID_UUID, vgpu.MODE, vgpu.POD_GROUP_POLICY, ascend.MODE,
    )
)  # fmt: skip
CHOOSING_NPUS = ("hami.io/use-", "hami.io/no-use-")


class ShapeCache:
    """All shapes found so far, one object each."""

    def __init__(self) -> None:
        self.index = ResourceIndex()
        self._known: dict[bytes, Shape] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, pod: ApiPod, extra: str = "", annotations: Mapping[str, str] = NO_ANNOTATIONS) -> Shape:
        """The shape of a pod; `extra` and annotations that choose devices are added to the key.

        Raises ValueError for a malformed pod.
        """
        choosing = {
            k: v for k, v in annotations.items() if k in CHOOSING_DEVICES or k.startswith(CHOOSING_NPUS)
        }
        key = _key(pod, f"{extra}{sorted(choosing.items())}" if choosing else extra)
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = self._made(pod, key, choosing)
        elif len(shape.request) != self.index.width:
            shape = self._known[key] = self.widened(shape)
        return shape

    def with_assignment(self, shape: Shape, annotations: Mapping[str, str]) -> Shape:
        """The shape with what the assigned cards provide, where this differs from what was requested."""
        text = annotations.get(vgpu.ASSIGNED)
        memory, cores = (1000.0 * amount for amount in vgpu.assigned_amounts(text)) if text else (0.0, 0.0)
        if not memory and not cores:
            return shape
        self.index = self.index.extended(ASSIGNABLE)
        shape, column = self.widened(shape), self.index.column
        columns = [column[vgpu.MEMORY], column[vgpu.CORES]]
        if shape.request[columns].tolist() == [memory, cores]:
            return shape
        key = b"%b%b%d,%d" % (shape.key, SEPARATOR, memory, cores)
        known = self._known.get(key)
        if known is None or len(known.request) != self.index.width:
            request = shape.request.copy()
            request[columns] = memory, cores
            request.setflags(write=False)
            known = self._known[key] = msgspec.structs.replace(shape, request=request, key=key)
        return known

    def widened(self, shape: Shape) -> Shape:
        """The shape in the columns of the current index."""
        if len(shape.request) == self.index.width:
            return shape
        known = self._known.get(shape.key)
        if known is None or len(known.request) != self.index.width:
            known = msgspec.structs.replace(shape, request=self.index.widened(shape.request))
            self._known[shape.key] = known
        return known

    def _made(self, pod: ApiPod, key: bytes, choosing: Mapping[str, str]) -> Shape:
        spec, statuses = _resources_of(pod), _statuses(pod)
        request = scheduled_requests(spec, statuses, resources.parse)
        limits = scheduled_requests(spec, (), resources.parse, LIMITS)
        self.index = self.index.extended(request)
        vector = self.index.vector(request)
        # A pod with devices is placed with its gang, even if it requests nothing else.
        best_effort = resources.empty(vector) and not pod.spec.resource_claims
        vector[PODS] = 1.0
        vector.setflags(write=False)
        return Shape(
            request=vector,
            nonzero_request=_nonzero(spec, request),
            limits=limits,
            best_effort=best_effort,
            namespace=pod.metadata.namespace,
            constraints=_constraints(pod),
            preempts=pod.spec.preemption_policy != "Never",
            key=key,
            devices=_devices(spec, choosing),
            numa=numa_request((pod.metadata.annotations or {}).get(names.NUMA_POLICY, ""), spec),
        )


def _nonzero(spec: Manifest, request: Mapping[str, float]) -> Vector:
    """Cpu and memory requests, with defaults for containers without requests."""
    extra_cpu = extra_memory = 0.0
    for container in spec["containers"]:
        own = resources.parse(resource_list(container, REQUESTS))
        extra_cpu += 0.0 if own.get("cpu") else NONZERO_CPU
        extra_memory += 0.0 if own.get("memory") else NONZERO_MEMORY
    return np.array([request.get("cpu", 0.0) + extra_cpu, request.get("memory", 0.0) + extra_memory])


def _key(pod: ApiPod, extra: str) -> bytes:
    """Key of a shape: all the fields it is parsed from. Names, environment and labels do not matter."""
    spec = pod.spec
    parts: list[Any] = [pod.metadata.namespace.encode(), extra.encode()]
    if policy := (pod.metadata.annotations or {}).get(names.NUMA_POLICY):
        # Its fit errors name containers.
        parts += (policy.encode(), *(container.name.encode() for container in spec.containers or ()))
    for container in spec.containers or ():
        parts += (b"c", container.resources, container.ports, container.image.encode())
    for container in spec.init_containers or ():
        parts += (b"i", container.resources, container.ports, (container.restart_policy or "").encode())
    parts += (spec.overhead, spec.resources, spec.node_selector, spec.affinity, spec.tolerations)
    parts += (spec.topology_spread_constraints, (spec.preemption_policy or "").encode())
    if any(volumes := _volumes(pod)):
        parts.append(repr(volumes).encode())
    if spec.resource_claims:
        parts.append(repr(_device_claims(pod)).encode())
    for status in pod.status.container_statuses or ():
        if status.allocated_resources or status.resources:
            parts += (status.name.encode(), status.allocated_resources, status.resources)
    return SEPARATOR.join(parts)


def _constraints(pod: ApiPod) -> Constraints:
    spec, namespace = pod.spec, pod.metadata.namespace
    affinity = _decoded(spec.affinity)
    nodes = affinity.get("nodeAffinity") or {}
    near, apart = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution")
    claims, conflicting = _volumes(pod)
    return Constraints(
        node_selector=_decoded(spec.node_selector),
        required_nodes=selectors.node_selector(required) if required else None,
        preferred_nodes=tuple(
            PreferredNodes(
                term.get("weight", 1),
                selectors.NodeSelector((selectors.node_selector_term(term.get("preference") or {}),)),
            )
            for term in nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ),
        tolerations=tuple(_tolerations(spec.tolerations)),
        required_near=tuple(_required(near, namespace)),
        preferred_near=tuple(_preferred(near, namespace)),
        required_apart=tuple(_required(apart, namespace)),
        preferred_apart=tuple(_preferred(apart, namespace)),
        spread=tuple(_spread(spec.topology_spread_constraints)),
        host_ports=tuple(_host_ports(pod)),
        claims=claims,
        volumes=conflicting,
        device_claims=_device_claims(pod),
        images=tuple(container.image for container in (spec.init_containers or []) + (spec.containers or [])),
    )


def _required(affinity: Mapping[str, Any], namespace: str) -> Iterator[PodTerm]:
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        yield _pod_term(term, namespace, 0)


def _preferred(affinity: Mapping[str, Any], namespace: str) -> Iterator[PodTerm]:
    for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        yield _pod_term(term.get("podAffinityTerm") or {}, namespace, term.get("weight", 1))


def _pod_term(term: Mapping[str, Any], namespace: str, weight: int) -> PodTerm:
    given, by_label = frozenset(term.get("namespaces") or ()), term.get("namespaceSelector")
    return PodTerm(
        selectors.from_object(term.get("labelSelector")),
        term.get("topologyKey", ""),
        given if given or by_label is not None else frozenset((namespace,)),
        selectors.from_object(by_label) if by_label is not None else None,
        weight,
    )


def _spread(raw: Raw) -> Iterator[SpreadConstraint]:
    for constraint in _decoded(raw, ()):
        yield SpreadConstraint(
            constraint.get("topologyKey", ""),
            constraint.get("maxSkew", 1),
            constraint.get("whenUnsatisfiable", "DoNotSchedule"),
            selectors.from_object(constraint.get("labelSelector")),
            constraint.get("minDomains") or 1,
            constraint.get("nodeAffinityPolicy") or "Honor",
            constraint.get("nodeTaintsPolicy") or "Ignore",
            tuple(constraint.get("matchLabelKeys") or ()),
        )


def _tolerations(raw: Raw) -> Iterator[Toleration]:
    for toleration in _decoded(raw, ()):
        yield Toleration(
            toleration.get("key") or "",
            toleration.get("operator") or "Equal",
            toleration.get("value") or "",
            toleration.get("effect") or "",
        )


def _host_ports(pod: ApiPod) -> Iterator[HostPort]:
    for container in (pod.spec.containers or []) + (pod.spec.init_containers or []):
        for port in _decoded(container.ports, ()):
            number = port.get("hostPort") or (port.get("containerPort") if pod.spec.host_network else 0)
            if number:
                address = port.get("hostIP") or ""
                yield HostPort(port.get("protocol") or "TCP", number, "" if address == "0.0.0.0" else address)


def _volumes(pod: ApiPod) -> tuple[tuple[str, ...], tuple[Mapping[str, Any], ...]]:
    """Names of the claims a pod mounts, and its volumes of kinds that may conflict."""
    claims, conflicting = [], []
    if not MATTERING.search(pod.spec.volumes):
        return (), ()
    for volume in _decoded(pod.spec.volumes, ()):
        if claim := volume.get("persistentVolumeClaim"):
            claims.append(claim.get("claimName", ""))
        elif "ephemeral" in volume:
            claims.append(f"{pod.metadata.name}-{volume.get('name', '')}")
        elif any(kind in volume for kind in CONFLICTING):
            conflicting.append(volume)
    return tuple(claims), tuple(conflicting)


def _devices(spec: Manifest, choosing: Mapping[str, str]) -> DeviceRequest | None:
    each = (container["resources"] for container in spec["containers"])
    lists = (resources.parse({**(own.get(REQUESTS) or {}), **(own.get(LIMITS) or {})}) for own in each)
    extended = ({name: amount for name, amount in found.items() if "/" in name} for found in lists)
    containers = tuple(found for found in extended if found)
    return DeviceRequest(containers, choosing) if containers else None


def pod_claims(pod: ApiPod) -> Iterator[tuple[PodResourceClaim, str | None]]:
    """The resource claims that a pod needs, each with its name; None while it has not been generated."""
    generated = {
        each.name: each.resource_claim_name or "" for each in pod.status.resource_claim_statuses or ()
    }
    for reference in pod.spec.resource_claims or ():
        name = reference.resource_claim_name or generated.get(reference.name)
        if name != "":  # an entry of the status without a name: the claim is not needed
            yield reference, name


def _device_claims(pod: ApiPod) -> tuple[DeviceClaimReference, ...]:
    return tuple(
        DeviceClaimReference(
            reference.name,
            reference.resource_claim_name or "",
            reference.resource_claim_template_name or "",
            generated=claim is not None,
        )
        for reference, claim in pod_claims(pod)
    )


def _resources_of(pod: ApiPod) -> Manifest:
    """The parts of a pod's spec that say what it requests."""
    spec = pod.spec
    return {
        "containers": list(map(_container, spec.containers or ())),
        "initContainers": list(map(_container, spec.init_containers or ())),
        "resources": _decoded(spec.resources),
        "overhead": _decoded(spec.overhead),
    }


def _container(container: Container) -> Manifest:
    return {
        "name": container.name,
        "resources": _decoded(container.resources),
        "restartPolicy": container.restart_policy,
    }


def _statuses(pod: ApiPod) -> list[Manifest]:
    """What running containers were given."""
    return [
        {
            "name": status.name,
            "allocatedResources": _decoded(status.allocated_resources),
            "resources": _decoded(status.resources),
        }
        for status in pod.status.container_statuses or ()
        if status.allocated_resources or status.resources
    ]


def _decoded(raw: Raw, absent: Any = None) -> Any:
    data = bytes(raw)
    value = msgspec.json.decode(data) if data else None
    return ({} if absent is None else absent) if value is None else value


def named(resource_lists: Iterable[Mapping[str, float] | None]) -> set[str]:
    """All resource names in some lists."""
    return {name for amounts in resource_lists for name in amounts or ()}
