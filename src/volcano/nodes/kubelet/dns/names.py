"""Cluster DNS names: the addresses of Services, pods and tasks of jobs.

Answers are computed from the newest objects received, so an address is served as soon as it is known.
"""

import ipaddress
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from volcano.base.clock import Instant
from volcano.kube.api.kinds import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE
from volcano.kube.api.manifest import TERMINAL_PHASES, Key, Manifest, key_of, labels_of, uid_of
from volcano.kube.api.names import JOB_NAME, TASK_INDEX, TASK_SPEC
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.controllers.controller import WorkItem, WorkResult
from volcano.kube.informers.indexer import Indexer
from volcano.nodes.kubelet.dns.records import NO_DATA, NXDOMAIN, OUT_OF_ZONE, DnsAnswer, DnsRecord, RecordType

API_SERVICE = Key("default", "kubernetes")
SERVICE_NAME = "kubernetes.io/service-name"
_REVERSE = ("in-addr", "arpa")
# Networks of pods and Services, whose names are known here only.
CLUSTER_NETWORKS = (ipaddress.IPv4Network("10.88.0.0/16"), ipaddress.IPv4Network("10.96.0.0/16"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a Service, its hostname, and its ports by name."""

    address: str
    host: str
    ports: tuple[tuple[str, str, int], ...] = ()  # name, protocol in lower case, number


class ClusterDns:
    """Controller that only indexes objects, for `lookup`. Pod addresses may be set before the API has them."""

    name = "names"
    watches: Sequence[Watch] = (Watch(POD), Watch(SERVICE), Watch(ENDPOINT_SLICE), Watch(ENDPOINTS))

    def __init__(self, *, domain: str = "cluster.local", api: tuple[str, int] = ("10.96.0.1", 443)) -> None:
        self.domain = domain
        self._labels = tuple(domain.lower().split("."))
        self._api = api
        # Whether the pods' network leads from a Service's address to its pods; otherwise its name resolves to them.
        self.service_addresses = False
        self._reported_addresses: dict[str, str] = {}
        self._index = Indexer()
        self._index.add_index(POD, "hostname", _by_hostname)
        self._index.add_index(POD, "job", _by_pod_name)
        self._index.add_index(POD, "task", _by_task)
        self._index.add_index(POD, "address", _by_address)
        self._index.add_index(SERVICE, "address", _by_cluster_address)
        self._index.add_index(ENDPOINT_SLICE, "service", _by_service)
        self._index.add_index(ENDPOINT_SLICE, "address", _by_endpoint)

    def on_event(self, event: Event) -> None:
        self._index.apply(event)
        if event.kind == POD and event.type is EventType.DELETED:
            self._reported_addresses.pop(uid_of(event.object), None)

    def step(self, now: Instant) -> list[WorkItem]:
        return []

    def on_result(self, done: WorkResult, now: Instant) -> None:
        return

    def next_due(self) -> float | None:
        return None

    def set_pod_address(self, uid: str, address: str) -> None:
        """Sets the address of a pod, which overrides its status; an empty one removes it."""
        if address:
            self._reported_addresses[uid] = address
        else:
            self._reported_addresses.pop(uid, None)

    def lookup(self, name: str, asked: int) -> DnsAnswer:
        """The records of one type of a fully qualified name."""
        return self._lookup(name, asked, follow=True)

    def _lookup(self, name: str, asked: int, *, follow: bool) -> DnsAnswer:
        labels = tuple(name.lower().rstrip(".").split("."))
        if labels[-2:] == _REVERSE:
            return self._reverse(name, labels[:-2], asked)
        if labels[-len(self._labels) :] != self._labels:
            return OUT_OF_ZONE
        match labels[: -len(self._labels)]:
            case () | ("svc",) | ("pod",) | (_, "svc") | (_, "pod"):
                return NO_DATA
            case (service, namespace, "svc"):
                return self._service(name, Key(namespace, service), asked, follow)
            case (host, service, namespace, "svc"):
                return _addresses(name, self._hosts(Key(namespace, service), host), asked)
            case (port, protocol, service, namespace, "svc") if port[:1] == protocol[:1] == "_":
                return self._ports(name, Key(namespace, service), asked, port[1:], protocol[1:])
            case (dashed, namespace, "pod"):
                return _addresses(name, self._pod_at(namespace, dashed.replace("-", ".")), asked)
        return NXDOMAIN

    def _service(self, name: str, key: Key, asked: int, follow: bool) -> DnsAnswer:
        service = self._index.get(SERVICE, key)
        external = ((service or {}).get("spec") or {}).get("externalName")
        if service is not None and external:
            return self._external(name, str(external), asked, follow)
        if asked == RecordType.SRV:
            return self._ports(name, key, asked)
        return _addresses(name, [endpoint.address for endpoint in self._endpoints(key)], asked)

    def _external(self, name: str, target: str, asked: int, follow: bool) -> DnsAnswer:
        """A CNAME record; for a target within the cluster also its records."""
        alias = DnsRecord(name, RecordType.CNAME, target)
        itself = self._lookup(target, asked, follow=False) if follow else NXDOMAIN
        return DnsAnswer(True, (alias, *itself.records))

    def _endpoints(self, key: Key) -> list[Endpoint]:
        """The address of a Service, or the ready addresses of its pods, each once."""
        if key == API_SERVICE:
            return [Endpoint(self._api[0], "", (("https", "tcp", self._api[1]),))]
        service = self._index.get(SERVICE, key)
        if service is None:
            return []
        if self.service_addresses and (address := _cluster_address(service)):
            ports = tuple(_port(port) for port in service["spec"].get("ports") or ())
            return [Endpoint(address, "", ports)]
        slices = self._index.by_index(ENDPOINT_SLICE, "service", key)
        if slices:
            found = [endpoint for slice_ in slices for endpoint in _of_slice(slice_)]
        else:
            found = list(_of_endpoints(self._index.get(ENDPOINTS, key) or {}))
        return sorted(
            {endpoint.address: endpoint for endpoint in found}.values(), key=lambda each: each.address
        )

    def _hosts(self, service: Key, host: str) -> list[str]:
        """The addresses of one pod: by hostname and subdomain, by pod and job, by task and index, or by endpoint."""
        for facet in ("hostname", "job", "task"):
            pods = self._index.by_index(POD, facet, (*service, host))
            found = [self._address(pod) for pod in pods if facet != "hostname" or self._belongs(pod, service)]
            if any(found):
                return sorted({address for address in found if address})
        return [endpoint.address for endpoint in self._endpoints(service) if endpoint.host == host]

    def _belongs(self, pod: Manifest, key: Key) -> bool:
        """Whether the pod's subdomain exists: that of its job, or a headless Service that selects it."""
        if labels_of(pod).get(JOB_NAME) == key.name:
            return True
        spec = (self._index.get(SERVICE, key) or {}).get("spec") or {}
        selector = spec.get("selector") or {}
        labels = labels_of(pod)
        chosen = bool(selector) and all(labels.get(name) == value for name, value in selector.items())
        return spec.get("clusterIP") == "None" and chosen

    def _address(self, pod: Manifest) -> str:
        """The address of a pod, ready or not; empty before it has one."""
        status = pod.get("status") or {}
        if status.get("phase") in TERMINAL_PHASES:
            return ""
        return self._reported_addresses.get(uid_of(pod)) or status.get("podIP") or ""

    def _ports(self, name: str, key: Key, asked: int, port: str = "", protocol: str = "") -> DnsAnswer:
        """SRV records of a named port, or of every port, of a Service, with the pods' own ports."""
        domain = f"{key.name}.{key.namespace}.svc.{self.domain}"
        records, additional = [], []
        endpoints = self._endpoints(key)
        for endpoint in endpoints:
            target = f"{endpoint.host}.{domain}" if endpoint.host else domain
            served = [
                number
                for port_name, served_protocol, number in endpoint.ports
                if port in ("", port_name) and protocol in ("", served_protocol)
            ]
            records += [DnsRecord(name, RecordType.SRV, target, number) for number in served]
            additional += [DnsRecord(target, RecordType.A, endpoint.address)] if served else []
        if not records:
            return NO_DATA if endpoints and not port else NXDOMAIN
        if asked not in (RecordType.SRV, RecordType.ANY):
            return NO_DATA
        return DnsAnswer(True, tuple(records), tuple(additional))

    def _pod_at(self, namespace: str, address: str) -> list[str]:
        pods = self._index.by_index(POD, "address", address)
        found = any(key_of(pod).namespace == namespace and self._address(pod) == address for pod in pods)
        return [address] if found else []

    def _reverse(self, name: str, labels: tuple[str, ...], asked: int) -> DnsAnswer:
        address = ".".join(reversed(labels))
        if not _is_address(address):
            return NXDOMAIN
        names = sorted(set(self._names_at(address)))
        if not names:
            in_cluster = any(ipaddress.IPv4Address(address) in network for network in CLUSTER_NETWORKS)
            return NXDOMAIN if in_cluster else OUT_OF_ZONE
        if asked not in (RecordType.PTR, RecordType.ANY):
            return NO_DATA
        return DnsAnswer(True, tuple(DnsRecord(name, RecordType.PTR, each) for each in names))

    def _names_at(self, address: str) -> Iterator[str]:
        """The names of an address."""
        if address == self._api[0]:
            yield f"{API_SERVICE.name}.{API_SERVICE.namespace}.svc.{self.domain}"
        pods = [pod for pod in self._index.by_index(POD, "address", address) if self._address(pod) == address]
        named = False
        for key, host in {each for pod in pods for each in _own_names(pod)}:
            if address in self._hosts(key, host):
                named = True
                yield f"{host}.{key.name}.{key.namespace}.svc.{self.domain}"
        if self.service_addresses:
            for each in self._index.by_index(SERVICE, "address", address):
                yield f"{key_of(each).name}.{key_of(each).namespace}.svc.{self.domain}"
        for slice_ in self._index.by_index(ENDPOINT_SLICE, "address", address):
            service = labels_of(slice_).get(SERVICE_NAME)
            for endpoint in _of_slice(slice_):
                if endpoint.address == address and service:
                    named = True
                    yield f"{endpoint.host}.{service}.{key_of(slice_).namespace}.svc.{self.domain}"
        if not named:
            for pod in pods:
                yield f"{_dashed(address)}.{key_of(pod).namespace}.pod.{self.domain}"


def _addresses(name: str, addresses: Iterable[str], asked: int) -> DnsAnswer:
    """A records of a name; without addresses the name does not exist, so that clients retry."""
    records = tuple(DnsRecord(name, RecordType.A, each) for each in addresses)
    if not records:
        return NXDOMAIN
    return DnsAnswer(True, records) if asked in (RecordType.A, RecordType.ANY) else NO_DATA


def _of_slice(slice_: Manifest) -> Iterator[Endpoint]:
    if slice_.get("addressType", "IPv4") != "IPv4":
        return
    ports = tuple(_port(port) for port in slice_.get("ports") or () if port.get("port"))
    for endpoint in slice_.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            for address in endpoint.get("addresses") or ():
                yield Endpoint(address, endpoint.get("hostname") or _dashed(address), ports)


def _of_endpoints(endpoints: Manifest) -> Iterator[Endpoint]:
    """Endpoints of Services without a selector."""
    for subset in endpoints.get("subsets") or ():
        ports = tuple(_port(port) for port in subset.get("ports") or ())
        for address in subset.get("addresses") or ():
            yield Endpoint(address["ip"], address.get("hostname") or _dashed(address["ip"]), ports)


def _port(port: Manifest) -> tuple[str, str, int]:
    return port.get("name") or "", (port.get("protocol") or "TCP").lower(), int(port["port"])


def _dashed(address: str) -> str:
    return address.replace(".", "-")


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _own_names(pod: Manifest) -> Iterator[tuple[Key, str]]:
    """The names for reverse lookups: a pod's hostname and job names, without the aliases by task."""
    for namespace, service, host in (*_by_hostname(pod), *_by_pod_name(pod)):
        yield Key(namespace, service), host


def names_of(pod: Manifest, domain: str) -> tuple[str, ...]:
    """Every fully qualified name of a pod: by hostname, by job, by task and index."""
    known = (*_by_hostname(pod), *_by_pod_name(pod), *_by_task(pod))
    return tuple(dict.fromkeys(f"{host}.{service}.{space}.svc.{domain}" for space, service, host in known))


def _by_hostname(pod: Manifest) -> Iterable[tuple[str, str, str]]:
    spec = pod["spec"]
    if spec.get("hostname") and spec.get("subdomain"):
        return ((key_of(pod).namespace, spec["subdomain"], spec["hostname"]),)
    return ()


def _by_pod_name(pod: Manifest) -> Iterable[tuple[str, str, str]]:
    job = labels_of(pod).get(JOB_NAME)
    return ((key_of(pod).namespace, job, key_of(pod).name),) if job else ()


def _by_task(pod: Manifest) -> Iterable[tuple[str, str, str]]:
    labels = labels_of(pod)
    job, task, index = labels.get(JOB_NAME), labels.get(TASK_SPEC), labels.get(TASK_INDEX)
    return ((key_of(pod).namespace, job, f"{task}-{index}"),) if job and task and index else ()


def _by_address(pod: Manifest) -> Iterable[Hashable]:
    address = (pod.get("status") or {}).get("podIP")
    return (address,) if address else ()


def _cluster_address(service: Manifest) -> str:
    """The address of a Service; empty for headless and external ones."""
    address = (service.get("spec") or {}).get("clusterIP") or "None"
    return "" if address == "None" or ":" in address else address


def _by_cluster_address(service: Manifest) -> Iterable[Hashable]:
    address = _cluster_address(service)
    return (address,) if address else ()


def _by_service(slice_: Manifest) -> Iterable[Hashable]:
    service = labels_of(slice_).get(SERVICE_NAME)
    return (Key(key_of(slice_).namespace, service),) if service else ()


def _by_endpoint(slice_: Manifest) -> Iterable[Hashable]:
    return {
        address for endpoint in slice_.get("endpoints") or () for address in endpoint.get("addresses") or ()
    }
