"""Rules of the pod network as values: Services and isolation of pods, computed by the kubelet from API objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Target = tuple[str, int]  # address, port


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of a Service. Connections to it are distributed among the endpoints, or refused without any."""

    address: str
    protocol: str  # TCP, UDP or SCTP
    port: int
    endpoints: tuple[Target, ...]
    affinity: bool = False  # connections of one client go to one endpoint


@dataclass(frozen=True, slots=True)
class PortRange:
    protocol: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Block:
    """A network without some of its parts, in CIDR notation."""

    network: str
    excepted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Allow:
    """Permitted peers and ports. `addresses` is None for any peer; no ports mean every protocol and port."""

    addresses: tuple[str, ...] | None = None
    blocks: tuple[Block, ...] = ()
    ports: tuple[PortRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Isolation:
    """Pods, by address, whose connections in one direction are rejected unless allowed."""

    pods: tuple[str, ...]
    allowed: tuple[Allow, ...]


@dataclass(frozen=True, slots=True)
class NetworkRules:
    services: tuple[ServicePort, ...] = ()
    ingress: tuple[Isolation, ...] = ()
    egress: tuple[Isolation, ...] = ()
    host_addresses: tuple[str, ...] = ()  # of this host; pods do not reach them


def rules_from_json(message: Mapping[str, Any]) -> NetworkRules:
    """Decodes what `dataclasses.asdict` and JSON make of the rules."""
    return NetworkRules(
        services=tuple(
            ServicePort(**{**each, "endpoints": tuple((host, port) for host, port in each["endpoints"])})
            for each in message["services"]
        ),
        ingress=tuple(_isolation(each) for each in message["ingress"]),
        egress=tuple(_isolation(each) for each in message["egress"]),
        host_addresses=tuple(message["host_addresses"]),
    )


def _isolation(message: Mapping[str, Any]) -> Isolation:
    return Isolation(tuple(message["pods"]), tuple(_allow(each) for each in message["allowed"]))


def _allow(message: Mapping[str, Any]) -> Allow:
    return Allow(
        None if message["addresses"] is None else tuple(message["addresses"]),
        tuple(Block(each["network"], tuple(each["excepted"])) for each in message["blocks"]),
        tuple(PortRange(**each) for each in message["ports"]),
    )
