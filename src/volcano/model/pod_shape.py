"""Pod shapes: parses what identical pods have in common once for all of them (see `Shape`)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from volcano.kube.api import names, selectors
from volcano.kube.devices import ascend, vgpu
from volcano.model import resources
from volcano.model.api_types import ApiPod, Container, PodResourceClaim
from volcano.model.numa import NumaRequest, numa_request
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
# Resources that say how a device is shared; nodes do not offer them.
NOT_COUNTED = re.compile(rf"{re.escape(vgpu.MEMORY_PERCENTAGE)}|huawei\.com/.*-(?:memory|core)")


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
        memory, cores = assigned_amounts(text) if text else (0.0, 0.0)
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
        request = pod_request(pod, "requests")
        request = {name: amount for name, amount in request.items() if not NOT_COUNTED.fullmatch(name)}
        limits = pod_request(pod, "limits")
        self.index = self.index.extended(request)
        vector = self.index.vector(request)
        # A pod with devices is placed with its gang, even if it requests nothing else.
        best_effort = resources.empty(vector) and not pod.spec.resource_claims
        vector[PODS] = 1.0
        vector.setflags(write=False)
        return Shape(
            request=vector,
            nonzero_request=_nonzero(pod, request),
            limits=limits,
            best_effort=best_effort,
            namespace=pod.metadata.namespace,
            constraints=_constraints(pod),
            preempts=pod.spec.preemption_policy != "Never",
            key=key,
            devices=_devices(pod, choosing),
            numa=_numa(pod),
        )


def pod_request(pod: ApiPod, which: str) -> dict[str, float]:
    """Requests or limits of a pod: containers and sidecars, or the largest init container, plus overhead."""
    spec = pod.spec
    running = _statuses(pod) if which == "requests" else {}
    sidecars: dict[str, float] = {}
    worst: dict[str, float] = {}
    for container in spec.init_containers or ():
        own = _resources(container, which)
        if container.restart_policy == "Always":
            _add(sidecars, own)
            _raise(worst, sidecars)
        else:
            _raise(worst, _sum(own, sidecars))
    total = dict(sidecars)
    for container in spec.containers or ():
        own = _resources(container, which)
        if container.name in running:
            own = dict(own)
            _raise(own, running[container.name])
        _add(total, own)
    _raise(total, worst)
    for name, amount in _list(spec.resources, which, "limits" if which == "requests" else "").items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = amount
    for name, amount in resources.parse(_decoded(spec.overhead)).items():
        if which == "requests" or total.get(name):
            total[name] = total.get(name, 0.0) + amount
    total.pop("pods", None)
    return total


def _nonzero(pod: ApiPod, request: Mapping[str, float]) -> Vector:
    """Cpu and memory requests, with defaults for containers without requests."""
    extra_cpu = extra_memory = 0.0
    for container in pod.spec.containers or ():
        own = _resources(container, "requests")
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


def _numa(pod: ApiPod) -> NumaRequest | None:
    spec, policy = pod.spec, (pod.metadata.annotations or {}).get(names.NUMA_POLICY, "")
    resources = [
        [{"name": each.name, "resources": _decoded(each.resources)} for each in containers or ()]
        for containers in (spec.containers, spec.init_containers)
    ]
    return numa_request(
        policy,
        {
            "containers": resources[0],
            "initContainers": resources[1],
            "resources": _decoded(spec.resources),
        },
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


def _devices(pod: ApiPod, choosing: Mapping[str, str]) -> DeviceRequest | None:
    lists = (_list(c.resources, "limits", "requests") for c in pod.spec.containers or ())
    extended = ({name: amount for name, amount in found.items() if "/" in name} for found in lists)
    containers = tuple(found for found in extended if found)
    return DeviceRequest(containers, choosing) if containers else None


@lru_cache(maxsize=4096)
def assigned_amounts(text: str) -> tuple[float, float]:
    """Memory and cores of the cards assigned to a pod, in thousandths; 0 when the text is malformed."""
    try:
        shares = [share for container in vgpu.parse_assignment(text) for share in container]
    except ValueError:
        return 0.0, 0.0
    return 1000.0 * sum(share.memory for share in shares), 1000.0 * sum(share.cores for share in shares)


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


def _resources(container: Container, which: str) -> dict[str, float]:
    """Requests or limits of a container; memory and cores of shared cards are those of all its cards."""
    found = _list(container.resources, which, "limits" if which == "requests" else "")
    if which == "requests" and (vgpu.NUMBER in found or vgpu.MEMORY in found):
        number = found.setdefault(vgpu.NUMBER, 1000.0) / 1000
        for name in (vgpu.MEMORY, vgpu.CORES):
            if name in found:
                found[name] *= number
    return found


def _list(raw: Raw, which: str, default: str = "") -> dict[str, float]:
    """Requests or limits of a container, or those of `default` where it has none."""
    given = _decoded(raw)
    amounts = resources.parse(given.get(which))
    if default:
        for name, amount in resources.parse(given.get(default)).items():
            amounts.setdefault(name, amount)
    return amounts


def _statuses(pod: ApiPod) -> dict[str, dict[str, float]]:
    """Resources allocated to running containers, by name."""
    found = {}
    for status in pod.status.container_statuses or ():
        amounts = resources.parse(_decoded(status.allocated_resources))
        _raise(amounts, resources.parse(_decoded(status.resources).get("requests")))
        if amounts:
            found[status.name] = amounts
    return found


def _decoded(raw: Raw, absent: Any = None) -> Any:
    data = bytes(raw)
    value = msgspec.json.decode(data) if data else None
    return ({} if absent is None else absent) if value is None else value


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount


def _sum(left: Mapping[str, float], right: Mapping[str, float]) -> dict[str, float]:
    total = dict(left)
    _add(total, right)
    return total


def _raise(total: dict[str, float], floor: Mapping[str, float]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0.0), amount)


def named(resource_lists: Iterable[Mapping[str, float] | None]) -> set[str]:
    """All resource names in some lists."""
    return {name for amounts in resource_lists for name in amounts or ()}
