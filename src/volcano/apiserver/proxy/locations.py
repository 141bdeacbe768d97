"""Locations of proxy requests: the address of the pod, Service endpoint or node that `[scheme:]name[:port]` names."""

import ipaddress
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from volcano.apiserver.errors import not_found
from volcano.apiserver.interfaces import Lookup
from volcano.apiserver.service_endpoints import SERVICE_NAME
from volcano.base.http.dialer import PLAIN_PODS
from volcano.kube.api.errors import BadRequest, Unavailable
from volcano.kube.api.kinds import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE
from volcano.kube.api.manifest import Key, Manifest, labels_of

SCHEMES = ("", "http", "https")
DEFAULT_PORTS = {"http": 80, "https": 443}
NOT_ALLOWED = "address not allowed"


class ProxyTarget(NamedTuple):
    """The parts of the name in the path of a proxy request."""

    scheme: str
    name: str
    port: str  # a number, the name of a Service's port, or empty


@dataclass(frozen=True, slots=True)
class Location:
    """Where a proxy connects to. `pod` is the pod that listens there, where one is known."""

    scheme: str
    host: str
    port: int
    pod: Manifest | None = None


def parse_target(kind: str, text: str) -> ProxyTarget:
    """Parses `[scheme:]name[:port]`; `kind` (pod, service or node) is for the error message."""
    match text.split(":"):
        case [name]:
            target = ProxyTarget("", name, "")
        case [name, port]:
            target = ProxyTarget("", name, port)
        case [scheme, name, port]:
            target = ProxyTarget(scheme, name, port)
        case _:
            target = ProxyTarget("", "", "")
    if not target.name or target.scheme not in SCHEMES:
        raise BadRequest(f'invalid {kind} request "{text[:300]}"')
    return target


def pod_location(namespace: str, text: str, lookup: Lookup) -> Location:
    """The address of a pod: at the port of the request, else at the first port that its containers declare."""
    target = parse_target("pod", text)
    pod = lookup.find(POD, Key(namespace, target.name))
    if pod is None:
        raise not_found(POD, target.name)
    address = str((pod.get("status") or {}).get("podIP") or "")
    if not is_proxyable(address):
        raise BadRequest(NOT_ALLOWED)
    scheme = target.scheme or "http"
    port = _port_number(target.port) if target.port else _declared_port(pod) or DEFAULT_PORTS[scheme]
    return Location(scheme, address, port, pod)


def service_location(namespace: str, text: str, lookup: Lookup, random: Random) -> Location:
    """A ready endpoint of a Service's port, which is given by name or number and may be unnamed."""
    target = parse_target("service", text)
    key, port = Key(namespace, target.name), target.port
    service = lookup.find(SERVICE, key)
    if port.isascii() and port.isdigit():
        if service is None:
            raise not_found(SERVICE, key.name)
        port = _port_name(service, int(port))
    ready = _ready_addresses(key, port, lookup)
    if ready is None:
        raise not_found(SERVICE, key.name)
    random.shuffle(ready)
    for address, number, pod_name in ready:
        pod = lookup.find(POD, Key(namespace, pod_name))
        if pod is not None and address in _addresses_of(pod) and is_proxyable(address):
            return Location(target.scheme or "http", address, number, pod)
    raise Unavailable(f'no endpoints available for service "{text[:300]}"')


def is_proxyable(address: str) -> bool:
    """Whether users of the API may be connected to an address: not loopback, link-local or multicast ones."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if parsed in PLAIN_PODS:  # dialled by the route of local nodes only
        return True
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified)


def _port_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:10]) < 65536:
        raise Unavailable(
            f"error trying to reach service: port {text[:100]!r} must be a number from 1 to 65535"
        )
    return int(text)


def _declared_port(pod: Manifest) -> int:
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            return int(port["containerPort"])
    return 0


def _port_name(service: Manifest, number: int) -> str:
    for port in service["spec"].get("ports") or ():
        if port.get("port") == number:
            return str(port.get("name") or "")
    name = service["metadata"]["name"]
    raise Unavailable(f'no service port {number} found for service "{name}"')


def _addresses_of(pod: Manifest) -> list[str]:
    status = pod.get("status") or {}
    return [status.get("podIP") or "", *(each.get("ip") or "" for each in status.get("podIPs") or ())]


def _ready_addresses(key: Key, port: str, lookup: Lookup) -> list[tuple[str, int, str]] | None:
    """Address, port number and pod name of the ready endpoints; None if the Service has no endpoint objects.

    Only endpoints that name a pod count: users who write endpoints must not choose other targets.
    """
    found: list[tuple[str, int, str]] = []
    exists = False
    for slice_ in lookup.all(ENDPOINT_SLICE, key.namespace):
        if labels_of(slice_).get(SERVICE_NAME) != key.name:
            continue
        exists = True
        for endpoint in slice_.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                addresses = endpoint.get("addresses") or []
                found += _matching(addresses, endpoint, slice_, port)
    endpoints = lookup.find(ENDPOINTS, key)
    if endpoints is not None:
        exists = True
        for subset in endpoints.get("subsets") or ():
            for address in subset.get("addresses") or ():
                found += _matching([address.get("ip", "")], address, subset, port)
    return list(dict.fromkeys(found)) if exists else None


def _matching(
    addresses: list[str], endpoint: Manifest, ports: Manifest, name: str
) -> list[tuple[str, int, str]]:
    target = endpoint.get("targetRef") or {}
    if target.get("kind") != "Pod":
        return []
    numbers = [
        int(p["port"]) for p in ports.get("ports") or () if (p.get("name") or "") == name and p.get("port")
    ]
    return [(address, number, str(target.get("name") or "")) for address in addresses for number in numbers]
