"""Services as rules: the ready endpoints behind each address and port."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volcano.kube.api.manifest import Manifest, labels_of
from volcano.nodes.shim.network_rules import ServicePort, Target

SERVICE_NAME = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class NodePort:
    """A port of this host's loopback address that leads to the endpoints of a Service."""

    number: int
    protocol: str
    endpoints: tuple[Target, ...]


def service_ports(
    service: Manifest, slices: Sequence[Manifest], endpoints: Manifest | None, nodes: Collection[str]
) -> Iterator[ServicePort]:
    """The ports of a Service with an address; headless and external ones have none."""
    spec = service.get("spec") or {}
    address = spec.get("clusterIP") or "None"
    if address == "None" or ":" in address or spec.get("type") == "ExternalName":
        return
    for port in spec.get("ports") or ():
        targets = tuple(_targets(port, slices, endpoints, nodes))
        affinity = spec.get("sessionAffinity") == "ClientIP"
        yield ServicePort(address, port.get("protocol") or "TCP", int(port["port"]), targets, affinity)


def node_ports(
    service: Manifest, slices: Sequence[Manifest], endpoints: Manifest | None, nodes: Collection[str]
) -> Iterator[NodePort]:
    for port in (service.get("spec") or {}).get("ports") or ():
        if port.get("nodePort"):
            targets = tuple(_targets(port, slices, endpoints, nodes))
            yield NodePort(int(port["nodePort"]), port.get("protocol") or "TCP", targets)


def _targets(
    port: Mapping[str, object], slices: Sequence[Manifest], endpoints: Manifest | None, nodes: Collection[str]
) -> Iterator[Target]:
    """The ready endpoints of a Service's port, each once, without those on simulated nodes, where nothing listens."""
    name, protocol = port.get("name") or "", port.get("protocol") or "TCP"
    found = _of_slices(slices) if slices else _of_subsets(endpoints or {})
    targets = (
        (address, number)
        for (of, served, number), node, address in found
        if (of, served) == (name, protocol) and (not node or node in nodes)
    )
    yield from sorted(set(targets))


PortKey = tuple[str, str, int]  # name, protocol, number


def _of_slices(slices: Sequence[Manifest]) -> Iterator[tuple[PortKey, str, str]]:
    for slice_ in slices:
        if slice_.get("addressType", "IPv4") == "IPv4":
            for endpoint in slice_.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready") is not False:
                    for address in endpoint.get("addresses") or ():
                        for port in _port_keys(slice_):
                            yield port, endpoint.get("nodeName") or "", address


def _of_subsets(endpoints: Manifest) -> Iterator[tuple[PortKey, str, str]]:
    """Endpoints of Services without a selector."""
    for subset in endpoints.get("subsets") or ():
        for address in subset.get("addresses") or ():
            for port in _port_keys(subset):
                yield port, address.get("nodeName") or "", address["ip"]


def _port_keys(ports: Manifest) -> Iterable[PortKey]:
    return [
        (port.get("name") or "", port.get("protocol") or "TCP", int(port["port"]))
        for port in ports.get("ports") or ()
        if port.get("port")
    ]


def service_of(slice_: Manifest) -> str:
    return labels_of(slice_).get(SERVICE_NAME) or ""
