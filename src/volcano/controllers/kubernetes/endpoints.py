"""Endpoints controller: Endpoints and EndpointSlices of Services.

A named target port may have another number in each pod, so pods are grouped by the numbers of their ports: one
subset of the Endpoints and one EndpointSlice per group.
"""

from collections.abc import Hashable, Iterable
from typing import Any

from volcano.base.clock import Instant
from volcano.controllers.kubernetes.pods import is_ready
from volcano.kube.api.kinds import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    has_ended,
    is_deleting,
    key_of,
    labels_of,
    owner_reference,
)
from volcano.kube.client.operations import Create, Delete, Operation, Patch
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.controllers.controller import NOTHING, Plan, Reconciler

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGER = "endpointslice-controller.k8s.io"
ENDPOINTS_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
ENDPOINTS_MANAGER = "endpoint-controller"


class EndpointsController(Reconciler[Key]):
    """Updates the Endpoints and EndpointSlices of every Service with a selector, and removes them with it."""

    name = "endpoints"
    watches = (
        Watch(SERVICE),
        Watch(POD),
        Watch(ENDPOINTS),
        Watch(ENDPOINT_SLICE, labels=f"{MANAGED_BY}={MANAGER}"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.indexer.add_index(SERVICE, "namespace", _selecting_in)
        self.indexer.add_index(POD, "label", _pod_labels)
        self.indexer.add_index(ENDPOINT_SLICE, "service", _slice_service)
        self._deleted: set[Key] = set()  # Services whose Endpoints are to be deleted, also those of users

    def is_irrelevant(self, event: Event) -> bool:
        return event.kind is POD and not self._services(event.object)

    def keys(self, event: Event) -> Iterable[Key]:
        manifest: Manifest = event.object
        if event.kind == ENDPOINT_SLICE:
            name = labels_of(manifest).get(SERVICE_NAME)
            return (Key(manifest["metadata"]["namespace"], name),) if name else ()
        if event.kind == SERVICE:
            is_deleted = event.type is EventType.DELETED
            (self._deleted.add if is_deleted else self._deleted.discard)(key_of(manifest))
        if event.kind != POD:
            return (key_of(manifest),)
        services = self._services(manifest)
        return [key_of(service) for service in services if _selects(service, labels_of(manifest))]

    def _services(self, pod: Manifest) -> list[Manifest]:
        """The Services of a pod's namespace that may select it."""
        return self.indexer.by_index(SERVICE, "namespace", pod["metadata"]["namespace"])

    def reconcile(self, key: Key, now: Instant) -> Plan:
        service = self.indexer.get(SERVICE, key)
        if service is None:
            return Plan(list(self._removal(key)))
        if is_deleting(service) or not service["spec"].get("selector"):
            return NOTHING
        pods = sorted(self._pods(service), key=lambda pod: key_of(pod).name)
        groups = _grouped(service, pods)
        return Plan([*self._endpoints(service, groups), *self._slices(service, groups)])

    def _removal(self, key: Key) -> Iterable[Operation]:
        """Deletes the Endpoints of a deleted Service; its EndpointSlices are garbage collected."""
        known = self.indexer.get(ENDPOINTS, key)
        if known is None:
            self._deleted.discard(key)
        elif key in self._deleted or labels_of(known).get(ENDPOINTS_MANAGED_BY) == ENDPOINTS_MANAGER:
            yield Delete(ENDPOINTS, key, if_present=True)

    def _pods(self, service: Manifest) -> Iterable[Manifest]:
        namespace = service["metadata"]["namespace"]
        selector = service["spec"]["selector"]
        first = next(iter(selector.items()))
        for pod in self.indexer.by_index(POD, "label", (namespace, *first)):
            if (
                _selects(service, labels_of(pod))
                and (pod.get("status") or {}).get("podIP")
                and not has_ended(pod)
            ):
                yield pod

    def _endpoints(self, service: Manifest, groups: "Groups") -> Iterable[Operation]:
        anyway = service["spec"].get("publishNotReadyAddresses")
        subsets = []
        for ports, pods in groups:
            staying = [pod for pod in pods if not is_deleting(pod)]
            ready = [_address(pod, service) for pod in staying if is_ready(pod) or anyway]
            unready = [_address(pod, service) for pod in staying if not (is_ready(pod) or anyway)]
            subset: Manifest = {"addresses": ready} if ready else {}
            subset |= {"notReadyAddresses": unready} if unready else {}
            subset |= {"ports": ports} if ports else {}
            if (ready or unready) and (ports or not service["spec"].get("ports")):
                subsets.append(subset)
        known = self.indexer.get(ENDPOINTS, key_of(service))
        if known is None:
            labels = {**labels_of(service), ENDPOINTS_MANAGED_BY: ENDPOINTS_MANAGER}
            metadata = {
                "name": key_of(service).name,
                "namespace": key_of(service).namespace,
                "labels": labels,
            }
            yield Create(
                ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
            )
        elif (known.get("subsets") or []) != subsets:
            yield Patch(ENDPOINTS, key_of(service), {"subsets": subsets})

    def _slices(self, service: Manifest, groups: "Groups") -> Iterable[Operation]:
        namespace, first = key_of(service).namespace, f"{key_of(service).name}-endpoints"
        wanted = [Key(namespace, f"{first}-{number}" if number else first) for number in range(len(groups))]
        for key, (ports, pods) in zip(wanted, groups, strict=True):
            yield from self._slice(service, key, ports, pods)
        for known in self.indexer.by_index(ENDPOINT_SLICE, "service", key_of(service)):
            if key_of(known) not in wanted:
                yield Delete(ENDPOINT_SLICE, key_of(known), if_present=True)

    def _slice(
        self, service: Manifest, key: Key, group_ports: list[Manifest], pods: list[Manifest]
    ) -> Iterable[Operation]:
        endpoints = [_endpoint(pod, service) for pod in pods]
        ports = [{"name": "", **port} for port in group_ports]
        known = self.indexer.get(ENDPOINT_SLICE, key)
        if known is None:
            yield Create(
                ENDPOINT_SLICE,
                {
                    "apiVersion": ENDPOINT_SLICE.api_version,
                    "kind": ENDPOINT_SLICE.kind,
                    "metadata": {
                        "name": key.name,
                        "namespace": key.namespace,
                        "labels": {SERVICE_NAME: key_of(service).name, MANAGED_BY: MANAGER},
                        "ownerReferences": [owner_reference(service)],
                    },
                    "addressType": "IPv4",
                    "endpoints": endpoints,
                    "ports": ports,
                },
            )
        elif (known.get("endpoints") or []) != endpoints or (known.get("ports") or []) != ports:
            yield Patch(ENDPOINT_SLICE, key, {"endpoints": endpoints, "ports": ports})


# Ports, and the pods that have them.
Groups = list[tuple[list[Manifest], list[Manifest]]]


def _grouped(service: Manifest, pods: list[Manifest]) -> Groups:
    """The pods by the ports that they serve; one group without pods if there are none."""
    groups: Groups = []
    for pod in pods:
        ports = _ports(service, pod)
        known = next((members for of, members in groups if of == ports), None)
        if known is None:
            groups.append((ports, [pod]))
        else:
            known.append(pod)
    return groups or [(_ports(service, None), [])]


def _selecting_in(service: Manifest) -> Iterable[Hashable]:
    """The namespace of a Service that has a selector."""
    return (service["metadata"]["namespace"],) if service["spec"].get("selector") else ()


def _pod_labels(pod: Manifest) -> Iterable[Hashable]:
    return [(pod["metadata"]["namespace"], key, value) for key, value in labels_of(pod).items()]


def _selects(service: Manifest, labels: Any) -> bool:
    selector = service["spec"].get("selector") or {}
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _address(pod: Manifest, service: Manifest) -> Manifest:
    address: Manifest = {"ip": pod["status"]["podIP"]}
    if pod["spec"].get("nodeName"):
        address["nodeName"] = pod["spec"]["nodeName"]
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == key_of(service).name:
        address["hostname"] = pod["spec"]["hostname"]
    target = {"kind": "Pod", "namespace": key_of(pod).namespace, "name": key_of(pod).name}
    address["targetRef"] = {**target, "uid": pod["metadata"]["uid"]}
    return address


def _endpoint(pod: Manifest, service: Manifest) -> Manifest:
    address = _address(pod, service)
    terminating = is_deleting(pod)
    serving = is_ready(pod) or bool(service["spec"].get("publishNotReadyAddresses"))
    conditions = {"ready": serving and not terminating, "serving": serving, "terminating": terminating}
    endpoint: Manifest = {"addresses": [address.pop("ip")], "conditions": conditions}
    return {**endpoint, **address}


def _ports(service: Manifest, pod: Manifest | None) -> list[Manifest]:
    ports = []
    for port in service["spec"].get("ports") or ():
        number = _target(port, pod)
        if number is not None:
            entry: Manifest = {"port": number, "protocol": port.get("protocol", "TCP")}
            if port.get("name"):
                entry["name"] = port["name"]
            ports.append(entry)
    return ports


def _target(port: Manifest, pod: Manifest | None) -> int | None:
    """The number of a target port; a named one is looked up in the pod's containers."""
    target = port.get("targetPort") or port.get("port")
    if isinstance(target, int):
        return target
    spec = pod["spec"] if pod is not None else {}
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for candidate in container.get("ports") or ():
            same_protocol = candidate.get("protocol", "TCP") == port.get("protocol", "TCP")
            if candidate.get("name") == target and same_protocol:
                return int(candidate["containerPort"])
    return None


def _slice_service(slice_: Manifest) -> Iterable[Hashable]:
    name = labels_of(slice_).get(SERVICE_NAME)
    return (Key(slice_["metadata"]["namespace"], name),) if name else ()
