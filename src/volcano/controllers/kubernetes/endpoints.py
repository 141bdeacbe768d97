"""Endpoints controller: Endpoints and EndpointSlices of Services."""

from collections.abc import Hashable, Iterable
from typing import Any

from volcano.clock import Instant
from volcano.controllers.kubernetes.pods import is_over, is_ready
from volcano.kube.client import Event
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE
from volcano.kube.manifest import Key, Manifest, is_deleting, key_of, labels_of, owner_reference
from volcano.kube.operations import Create, Operation, Patch

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGER = "endpointslice-controller.k8s.io"


class EndpointsController(Reconciler):
    """Updates one Endpoints object and one EndpointSlice for every Service with a selector."""

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

    def is_irrelevant(self, event: Event) -> bool:
        return event.kind is POD and not self._services(event.object)

    def keys(self, event: Event) -> Iterable[Hashable]:
        manifest: Manifest = event.object
        if event.kind == ENDPOINT_SLICE:
            name = labels_of(manifest).get(SERVICE_NAME)
            return (Key(manifest["metadata"]["namespace"], name),) if name else ()
        if event.kind != POD:
            return (key_of(manifest),)
        services = self._services(manifest)
        return [key_of(service) for service in services if _selects(service, labels_of(manifest))]

    def _services(self, pod: Manifest) -> list[Manifest]:
        """The Services of a pod's namespace that may select it."""
        return self.indexer.by_index(SERVICE, "namespace", pod["metadata"]["namespace"])

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        assert isinstance(key, Key)
        service = self.indexer.get(SERVICE, key)
        if service is None or is_deleting(service) or not service["spec"].get("selector"):
            return NOTHING
        pods = sorted(self._pods(service), key=lambda pod: key_of(pod).name)
        operations = [*self._endpoints(service, pods), *self._slice(service, pods)]
        return Plan(operations)

    def _pods(self, service: Manifest) -> Iterable[Manifest]:
        namespace = service["metadata"]["namespace"]
        selector = service["spec"]["selector"]
        first = next(iter(selector.items()))
        for pod in self.indexer.by_index(POD, "label", (namespace, *first)):
            if (
                _selects(service, labels_of(pod))
                and (pod.get("status") or {}).get("podIP")
                and not is_over(pod)
            ):
                yield pod

    def _endpoints(self, service: Manifest, pods: list[Manifest]) -> Iterable[Operation]:
        anyway = service["spec"].get("publishNotReadyAddresses")
        ready = [_address(p, service) for p in pods if (is_ready(p) or anyway) and not is_deleting(p)]
        unready = [_address(p, service) for p in pods if not (is_ready(p) or anyway) and not is_deleting(p)]
        subset: Manifest = {}
        if ready:
            subset["addresses"] = ready
        if unready:
            subset["notReadyAddresses"] = unready
        ports = _ports(service, pods)
        if ports:
            subset["ports"] = ports
        subsets = [subset] if ready or unready else []
        known = self.indexer.get(ENDPOINTS, key_of(service))
        if known is None:
            metadata: Manifest = {"name": key_of(service).name, "namespace": key_of(service).namespace}
            metadata |= {"labels": dict(labels_of(service))} if labels_of(service) else {}
            yield Create(
                ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
            )
        elif (known.get("subsets") or []) != subsets:
            yield Patch(ENDPOINTS, key_of(service), {"subsets": subsets})

    def _slice(self, service: Manifest, pods: list[Manifest]) -> Iterable[Operation]:
        key = Key(key_of(service).namespace, f"{key_of(service).name}-endpoints")
        endpoints = [_endpoint(pod, service) for pod in pods]
        ports = [{"name": "", **port} for port in _ports(service, pods)]
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


def _ports(service: Manifest, pods: list[Manifest]) -> list[Manifest]:
    ports = []
    for port in service["spec"].get("ports") or ():
        number = _target(port, pods)
        if number is not None:
            entry: Manifest = {"port": number, "protocol": port.get("protocol", "TCP")}
            if port.get("name"):
                entry["name"] = port["name"]
            ports.append(entry)
    return ports


def _target(port: Manifest, pods: list[Manifest]) -> int | None:
    """The number of a target port; a named one is looked up in the pods' containers."""
    target = port.get("targetPort") or port.get("port")
    if isinstance(target, int):
        return target
    for pod in pods:
        for container in pod["spec"].get("containers") or ():
            for candidate in container.get("ports") or ():
                if candidate.get("name") == target:
                    return int(candidate["containerPort"])
    return None
