"""NetworkPolicies as rules: which peers and ports each isolated pod may connect to, and be connected from."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.api.selectors import EVERYTHING, LabelSelector, from_object
from volcano.nodes.shim.network_rules import Allow, Block, Isolation, PortRange

INGRESS, EGRESS = "Ingress", "Egress"
LAST_PORT = 65535
PROTOCOLS = ("TCP", "UDP", "SCTP")


@dataclass(frozen=True, slots=True)
class PolicyPod:
    """A pod as policies see it; `ports` are the named ports of its containers: name, protocol, number."""

    namespace: str
    labels: Mapping[str, str]
    address: str
    ports: tuple[tuple[str, str, int], ...] = ()

    def port(self, name: str, protocol: str) -> int | None:
        return next((number for each, of, number in self.ports if (each, of) == (name, protocol)), None)


@dataclass(frozen=True, slots=True)
class ParsedPolicy:
    """A NetworkPolicy with its selectors parsed; None where it does not isolate a direction."""

    namespace: str
    pods: LabelSelector
    ingress: Sequence[Mapping[str, Any]] | None
    egress: Sequence[Mapping[str, Any]] | None

    def selects(self, pod: PolicyPod) -> bool:
        return pod.namespace == self.namespace and self.pods.matches(pod.labels)


def parse_policy(policy: Manifest) -> ParsedPolicy:
    """Reads a policy; raises ValueError. Without policyTypes it isolates ingress, and egress if it has egress rules."""
    spec = policy.get("spec") or {}
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for peer in (*(rule.get("from") or ()), *(rule.get("to") or ())):
            _check_peer(peer)
    egress = spec.get("egress") or ()
    types = spec.get("policyTypes") or ([INGRESS, EGRESS] if egress else [INGRESS])
    return ParsedPolicy(
        key_of(policy).namespace,
        from_object(spec.get("podSelector") or {}),
        (spec.get("ingress") or ()) if INGRESS in types else None,
        egress if EGRESS in types else None,
    )


def _check_peer(peer: Mapping[str, Any]) -> None:
    from_object(peer.get("podSelector"))
    from_object(peer.get("namespaceSelector"))
    block = peer.get("ipBlock") or {}
    for network in (block.get("cidr", "0.0.0.0/0"), *(block.get("except") or ())):
        ipaddress.ip_network(network, strict=False)


def policy_pod(pod: Manifest, address: str) -> PolicyPod:
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    ports = tuple(
        (port["name"], port.get("protocol") or "TCP", int(port["containerPort"]))
        for container in containers
        for port in container.get("ports") or ()
        if port.get("name")
    )
    return PolicyPod(key_of(pod).namespace, pod["metadata"].get("labels") or {}, address, ports)


def isolations(
    policies: Sequence[ParsedPolicy],
    pods: Sequence[PolicyPod],
    namespaces: Mapping[str, Mapping[str, str]],
    services: Sequence[PolicyPod] = (),
) -> tuple[tuple[Isolation, ...], tuple[Isolation, ...]]:
    """The ingress and egress isolation of pods. `services` are addresses that are peers as if they were pods."""
    peers = _Peers((*pods, *services), namespaces)
    ingress: dict[tuple[Allow, ...], list[str]] = {}
    egress: dict[tuple[Allow, ...], list[str]] = {}
    for pod in pods:
        selecting = [policy for policy in policies if policy.selects(pod)]
        incoming = [(policy, policy.ingress) for policy in selecting if policy.ingress is not None]
        outgoing = [(policy, policy.egress) for policy in selecting if policy.egress is not None]
        if incoming:
            ingress.setdefault(_merged(peers.ingress(incoming, pod)), []).append(pod.address)
        if outgoing:
            egress.setdefault(_merged(peers.egress(outgoing)), []).append(pod.address)
    return _grouped(ingress), _grouped(egress)


def _merged(allowed: Iterable[Allow]) -> tuple[Allow, ...]:
    return tuple(dict.fromkeys(allowed))


def _grouped(by_rules: Mapping[tuple[Allow, ...], list[str]]) -> tuple[Isolation, ...]:
    return tuple(Isolation(tuple(sorted(pods)), allowed) for allowed, pods in by_rules.items())


class _Peers:
    """Resolves the peers of rules to addresses."""

    def __init__(self, pods: Sequence[PolicyPod], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._pods = pods
        self._namespaces = namespaces

    def ingress(
        self, rules: Iterable[tuple[ParsedPolicy, Sequence[Mapping[str, Any]]]], target: PolicyPod
    ) -> Iterator[Allow]:
        """What may connect to a pod; named ports are those of the pod."""
        for policy, entries in rules:
            for entry in entries:
                ports = entry.get("ports") or ()
                ranges = tuple(_ranges(ports, target))
                if ports and not ranges:
                    continue
                selected, blocks = self._resolved(policy, entry.get("from"))
                yield from _allows(selected, blocks, ranges)

    def egress(self, rules: Iterable[tuple[ParsedPolicy, Sequence[Mapping[str, Any]]]]) -> Iterator[Allow]:
        """What pods may connect to; named ports are those of each peer."""
        for policy, entries in rules:
            for entry in entries:
                ports = entry.get("ports") or ()
                selected, blocks = self._resolved(policy, entry.get("to"))
                ranges = tuple(_ranges(ports, None))
                if ranges or not ports:
                    yield from _allows(selected, blocks, ranges)
                yield from self._to_named(self._targets(selected, blocks), ports)

    def _targets(self, selected: Sequence[PolicyPod] | None, blocks: Sequence[Block]) -> Sequence[PolicyPod]:
        """The pods that a rule leads to: all, or those that it selects or that are in its blocks."""
        if selected is None:
            return self._pods
        in_blocks = [pod for pod in self._pods if any(_contains(block, pod.address) for block in blocks)]
        return list({pod.address: pod for pod in (*selected, *in_blocks)}.values())

    def _to_named(self, targets: Sequence[PolicyPod], ports: Sequence[Mapping[str, Any]]) -> Iterator[Allow]:
        for port in ports:
            if isinstance(port.get("port"), str):
                by_number: dict[PortRange, list[str]] = {}
                for pod in targets:
                    for each in _ranges((port,), pod):
                        by_number.setdefault(each, []).append(pod.address)
                for each, addresses in by_number.items():
                    yield Allow(tuple(sorted(addresses)), (), (each,))

    def _resolved(
        self, policy: ParsedPolicy, peers: Sequence[Mapping[str, Any]] | None
    ) -> tuple[list[PolicyPod] | None, tuple[Block, ...]]:
        """The pods and blocks of a rule; without peers every address, expressed by None."""
        if not peers:
            return None, ()
        found: dict[str, PolicyPod] = {}
        for peer in peers:
            if "ipBlock" not in peer:
                found.update((pod.address, pod) for pod in self._selected(policy, peer))
        blocks = tuple(block for peer in peers if peer.get("ipBlock") for block in _blocks(peer["ipBlock"]))
        return list(found.values()), blocks

    def _selected(self, policy: ParsedPolicy, peer: Mapping[str, Any]) -> Iterator[PolicyPod]:
        pods = from_object(peer.get("podSelector"), absent=EVERYTHING)
        namespace_selector = peer.get("namespaceSelector")
        namespaces = {policy.namespace}
        if namespace_selector is not None:
            selector = from_object(namespace_selector)
            namespaces = {name for name, labels in self._namespaces.items() if selector.matches(labels)}
        return (pod for pod in self._pods if pod.namespace in namespaces and pods.matches(pod.labels))


def _allows(
    pods: Sequence[PolicyPod] | None, blocks: tuple[Block, ...], ranges: tuple[PortRange, ...]
) -> Iterator[Allow]:
    if pods is None:
        yield Allow(None, (), ranges)
    elif pods or blocks:
        yield Allow(tuple(sorted(pod.address for pod in pods)), blocks, ranges)


def _ranges(ports: Iterable[Mapping[str, Any]], target: PolicyPod | None) -> Iterator[PortRange]:
    """Port ranges of a rule. Named ports are looked up in `target`, or left out without one."""
    for each in ports:
        protocol, port = each.get("protocol") or "TCP", each.get("port")
        if protocol not in PROTOCOLS:
            continue
        if port is None:
            yield PortRange(protocol, 0, LAST_PORT)
        elif isinstance(port, int):
            yield PortRange(protocol, port, int(each.get("endPort") or port))
        elif target is not None and (number := target.port(port, protocol)) is not None:
            yield PortRange(protocol, number, number)


def _blocks(block: Mapping[str, Any]) -> Iterator[Block]:
    """An IPv4 block; pods have no IPv6 addresses."""
    network = ipaddress.ip_network(block["cidr"], strict=False)
    if network.version == 4:
        yield Block(str(network), tuple(block.get("except") or ()))


def _contains(block: Block, address: str) -> bool:
    number = ipaddress.IPv4Address(address)
    return number in ipaddress.IPv4Network(block.network) and not any(
        number in ipaddress.IPv4Network(each, strict=False) for each in block.excepted
    )
