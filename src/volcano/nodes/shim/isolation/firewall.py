"""Rules of the pod network as an nftables table: addresses of Services, isolation of pods, and the way out.

The table is in the shim's network namespace, where every packet of a pod is forwarded, and ends with it. A rejected
connection fails at once instead of timing out.
"""

import hashlib
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator, Sequence

from volcano.nodes.shim.isolation import nftables
from volcano.nodes.shim.isolation.nftables import (
    OUTCOME,
    VALUE,
    WORDS,
    BaseChain,
    Chain,
    Hook,
    Outcome,
    Set,
    Table,
    Type,
)
from volcano.nodes.shim.network_rules import Allow, Block, Isolation, NetworkRules, PortRange, ServicePort

TABLE = "volcano"
PROTOCOLS = {"TCP": socket.IPPROTO_TCP, "UDP": socket.IPPROTO_UDP, "SCTP": socket.IPPROTO_SCTP}
# Never forwarded out of the pod network: this host's own networks, link-local (metadata servers), multicast, reserved.
UNREACHABLE = ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4")
AFFINITY_BUCKETS = 64
_ESTABLISHED_OR_RELATED = 2 | 4
_PORT_UNREACHABLE, _PROHIBITED = 3, 13  # codes of ICMP's destination unreachable
_INPUT_INTERFACE, _OUTPUT_INTERFACE = 4, 5  # keys of `load_meta`
_ANY = ipaddress.IPv4Network("0.0.0.0/0")

Rule = Sequence[nftables.Expression]
LoadPeer = Callable[[], nftables.Expression]  # loads the address of the other end of a connection


def pod_table(
    rules: NetworkRules, *, gateway: str, pods: str, services: str, name_server: str, uplink: int = 0
) -> Table:
    """The table for a pod network; `uplink` is the index of the interface that leads to other networks, if any."""
    table = Table(TABLE)
    table.chains += [
        Chain("services", BaseChain("nat", Hook.PREROUTING, -100), list(_service_rules(rules.services))),
        Chain(
            "sources", BaseChain("nat", Hook.POSTROUTING, 100), list(_source_rules(rules, gateway, uplink))
        ),
    ]
    _add_services(table, rules.services)
    egress = _add_isolation(table, "egress", rules.egress, nftables.load_destination)
    ingress = _add_isolation(table, "ingress", rules.ingress, nftables.load_source)
    forward = Chain("forward", BaseChain("filter", Hook.FORWARD, 0))
    forward.rules += [_accept_established(), [*_within(services), nftables.reject(_PORT_UNREACHABLE)]]
    forward.rules += [[nftables.load_source(), egress]] if egress else []
    forward.rules += [[nftables.load_destination(), ingress]] if ingress else []
    if uplink:
        forward.rules += _uplink_rules(table, rules.host_addresses, (pods, services), uplink)
    incoming = Chain("input", BaseChain("filter", Hook.INPUT, 0), [_accept_established()])
    incoming.rules += [_drop_from(uplink)] if uplink else []
    if egress:
        to_name_server = [nftables.load_destination(), nftables.equals(_raw(name_server))]
        incoming.rules.append([*to_name_server, nftables.load_source(), egress])
    table.chains += [forward, incoming]
    return table


# Services


def _service_rules(services: Sequence[ServicePort]) -> Iterator[Rule]:
    if any(each.endpoints for each in services):
        yield [
            nftables.load_destination(WORDS),
            nftables.load_protocol(WORDS + 1),
            nftables.load_destination_port(WORDS + 2),
            nftables.mapped("service-ports", WORDS, OUTCOME),
        ]


def _add_services(table: Table, services: Sequence[ServicePort]) -> None:
    """Adds a chain and a map of endpoints per port; ports without endpoints are rejected when forwarded."""
    served = [each for each in services if each.endpoints]
    if not served:
        return
    keys, chains = [], []
    for number, service in enumerate(served):
        protocol = bytes((PROTOCOLS[service.protocol],))
        keys.append(nftables.concatenated(_raw(service.address), protocol, _port(service.port)))
        chains.append(nftables.outcome_value(Outcome.GOTO, f"service-{number}"))
        choices = _buckets(service) if service.affinity else service.endpoints
        choose = (
            [nftables.load_source(), nftables.hashed_source(len(choices))]
            if service.affinity
            else [nftables.random_number(len(choices))]
        )
        endpoints = [nftables.value(nftables.concatenated(_raw(host), _port(port))) for host, port in choices]
        numbers = [number.to_bytes(4, sys.byteorder) for number in range(len(choices))]
        name = f"endpoints-{number}"
        table.sets.append(Set(name, [Type.INTEGER], numbers, endpoints, [Type.ADDRESS, Type.PORT]))
        rule = [*choose, nftables.mapped(name, VALUE, WORDS), nftables.destination_nat(WORDS, WORDS + 1)]
        table.chains.append(Chain(f"service-{number}", rules=[rule]))
    own = sorted({host for service in served for host, _ in service.endpoints})
    table.sets.append(Set("own-endpoints", [Type.ADDRESS] * 2, [_raw(host) * 2 for host in own]))
    table.sets.append(Set("service-ports", [Type.ADDRESS, Type.PROTOCOL, Type.PORT], keys, chains))


def _buckets(service: ServicePort) -> list[tuple[str, int]]:
    """An endpoint for each hash of a client, by rendezvous hashing: other clients keep theirs when one is removed."""

    def weight(bucket: int, endpoint: tuple[str, int]) -> bytes:
        return hashlib.blake2b(f"{bucket} {endpoint[0]}:{endpoint[1]}".encode(), digest_size=8).digest()

    return [
        max(service.endpoints, key=lambda endpoint: weight(bucket, endpoint))
        for bucket in range(AFFINITY_BUCKETS)
    ]


def _source_rules(rules: NetworkRules, gateway: str, uplink: int) -> Iterator[Rule]:
    """A pod that is its own endpoint must see another source; outside, pods share the uplink's address."""
    if any(each.endpoints for each in rules.services):
        own = [nftables.load_source(WORDS), nftables.load_destination(WORDS + 1)]
        from_gateway = [nftables.load_value(_raw(gateway)), nftables.source_nat(VALUE)]
        yield [*own, nftables.contained("own-endpoints", WORDS), *from_gateway]
    if uplink:
        yield [
            nftables.load_meta(_OUTPUT_INTERFACE),
            nftables.equals(_host_order(uplink)),
            nftables.masquerade(),
        ]


# Isolation of pods


def _add_isolation(
    table: Table, direction: str, isolations: Sequence[Isolation], load_peer: LoadPeer
) -> nftables.Expression | None:
    """Adds a chain for each set of allowed peers; returns the lookup that leads an isolated pod's packets there."""
    pods, chains = [], []
    for number, isolation in enumerate(isolations):
        name = f"{direction}-{number}"
        chain = Chain(name)
        for position, allow in enumerate(isolation.allowed):
            chain.rules += _allow_rules(table, f"{name}-{position}", allow, load_peer)
        chain.rules.append([nftables.reject(_PROHIBITED)])
        table.chains.append(chain)
        pods += [_raw(pod) for pod in isolation.pods]
        chains += [nftables.outcome_value(Outcome.JUMP, name)] * len(isolation.pods)
    if not pods:
        return None
    table.sets.append(Set(direction, [Type.ADDRESS], pods, chains))
    return nftables.mapped(direction, VALUE, OUTCOME)


def _allow_rules(table: Table, name: str, allow: Allow, load_peer: LoadPeer) -> Iterator[Rule]:
    for peers in _peers(table, name, allow, load_peer):
        for ports in _ports(allow.ports):
            yield [*peers, *ports, nftables.outcome(Outcome.RETURN)]


def _peers(table: Table, name: str, allow: Allow, load_peer: LoadPeer) -> Iterator[Rule]:
    if allow.addresses is None:
        yield []
        return
    if allow.addresses:
        table.sets.append(Set(name, [Type.ADDRESS], [_raw(each) for each in dict.fromkeys(allow.addresses)]))
        yield [load_peer(), nftables.contained(name)]
    for block in allow.blocks:
        yield list(_in_block(block, load_peer))


def _in_block(block: Block, load_peer: LoadPeer) -> Iterator[nftables.Expression]:
    yield from _in_network(ipaddress.IPv4Network(block.network, strict=False), load_peer)
    for each in block.excepted:
        yield from _in_network(ipaddress.IPv4Network(each, strict=False), load_peer, inverted=True)


def _ports(ports: Sequence[PortRange]) -> Iterator[Rule]:
    if not ports:
        yield []
    for each in ports:
        yield [
            nftables.load_protocol(),
            nftables.equals(bytes((PROTOCOLS[each.protocol],))),
            nftables.load_destination_port(),
            nftables.in_range(_port(each.first), _port(each.last)),
        ]


# The way out


def _uplink_rules(
    table: Table, host_addresses: Sequence[str], own_networks: Sequence[str], uplink: int
) -> Iterator[Rule]:
    outwards = [nftables.load_meta(_OUTPUT_INTERFACE), nftables.equals(_host_order(uplink))]
    for network in (*UNREACHABLE, *own_networks):
        yield [*outwards, *_within(network), nftables.reject(_PROHIBITED)]
    if host_addresses:
        addresses = [_raw(each) for each in dict.fromkeys(host_addresses)]
        table.sets.append(Set("host-addresses", [Type.ADDRESS], addresses))
        to_host = [nftables.load_destination(), nftables.contained("host-addresses")]
        yield [*outwards, *to_host, nftables.reject(_PROHIBITED)]
    yield _drop_from(uplink)  # only replies come in


def _drop_from(interface: int) -> Rule:
    from_interface = [nftables.load_meta(_INPUT_INTERFACE), nftables.equals(_host_order(interface))]
    return [*from_interface, nftables.outcome(Outcome.DROP)]


def _accept_established() -> Rule:
    return [
        nftables.load_conntrack_state(),
        nftables.masked(_host_order(_ESTABLISHED_OR_RELATED)),
        nftables.equals(_host_order(0), inverted=True),
        nftables.outcome(Outcome.ACCEPT),
    ]


def _within(network: str) -> Rule:
    return list(_in_network(ipaddress.IPv4Network(network), nftables.load_destination))


def _in_network(
    network: ipaddress.IPv4Network, load: LoadPeer, *, inverted: bool = False
) -> Iterator[nftables.Expression]:
    if network == _ANY and not inverted:
        return
    yield load()
    yield nftables.masked(network.netmask.packed)
    yield nftables.equals(network.network_address.packed, inverted=inverted)


def _raw(address: str) -> bytes:
    return socket.inet_aton(address)


def _port(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _host_order(number: int) -> bytes:
    return number.to_bytes(4, sys.byteorder)
