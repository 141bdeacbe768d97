"""Resolves a port of a Service to the address and port of a ready endpoint, for webhooks and proxies."""

from collections.abc import Iterator
from typing import NamedTuple

from volcano.apiserver.interfaces import Lookup
from volcano.kube.api.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from volcano.kube.api.manifest import Key, Manifest, labels_of

SERVICE_NAME = "kubernetes.io/service-name"


class ResolveError(Exception):
    """The Service, the port or a ready endpoint is missing."""


class EndpointAddress(NamedTuple):
    """Where one endpoint of a Service listens: to be passed to `Dialer.dial`."""

    host: str
    port: int


def resolve(key: Key, port: int | str, lookup: Lookup) -> EndpointAddress:
    """The first ready endpoint of a Service's port, given by number or name; raises `ResolveError`."""
    service = lookup.find(SERVICE, key)
    if service is None:
        raise ResolveError(f'service "{key.name}" not found')
    ports = (service.get("spec") or {}).get("ports") or ()
    names = [
        entry.get("name") or "" for entry in ports if port in (entry.get("port"), entry.get("name") or "")
    ]
    if not names:
        raise ResolveError(f'service "{key.name}" has no port {port}')
    for name, address in _ready(key, lookup):
        if name == names[0] and address.port:
            return address
    raise ResolveError(f'no endpoints available for service "{key.name}"')


def _ready(key: Key, lookup: Lookup) -> Iterator[tuple[str, EndpointAddress]]:
    """The ready addresses with each of their ports and its name."""
    for slice_ in lookup.all(ENDPOINT_SLICE, key.namespace):
        if labels_of(slice_).get(SERVICE_NAME) == key.name:
            hosts = [
                host
                for endpoint in slice_.get("endpoints") or ()
                if (endpoint.get("conditions") or {}).get("ready") is not False
                for host in endpoint.get("addresses") or ()
            ]
            yield from _pairs(hosts, slice_)
    endpoints = lookup.find(ENDPOINTS, key) or {}
    for subset in endpoints.get("subsets") or ():
        yield from _pairs([address.get("ip", "") for address in subset.get("addresses") or ()], subset)


def _pairs(hosts: list[str], ports: Manifest) -> Iterator[tuple[str, EndpointAddress]]:
    for host in hosts:
        for port in ports.get("ports") or ():
            yield port.get("name") or "", EndpointAddress(host, port.get("port") or 0)
