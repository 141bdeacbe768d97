"""NetworkPolicies as rules, compared with a plain reading of the API's definition."""

import dataclasses
import ipaddress
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.network.policies import PolicyPod, isolations, parse_policy
from volcano.nodes.shim.network_rules import (
    Allow,
    Block,
    Isolation,
    NetworkRules,
    PortRange,
    ServicePort,
    rules_from_json,
)

A = PolicyPod("default", {"app": "a"}, "10.88.0.16", (("http", "TCP", 8080),))
B = PolicyPod("default", {"app": "b"}, "10.88.0.17", (("http", "TCP", 9090),))
C = PolicyPod("other", {"app": "a"}, "10.88.0.18")
PODS = (A, B, C)
NAMESPACES = {"default": {"team": "one"}, "other": {"team": "two"}}


def policy(namespace: str = "default", **spec: Any) -> Manifest:
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {"podSelector": {}, **spec}}


def rules(*policies: Manifest) -> tuple[tuple[Isolation, ...], tuple[Isolation, ...]]:
    return isolations([parse_policy(each) for each in policies], PODS, NAMESPACES)


def test_a_policy_without_rules_isolates_ingress_only() -> None:
    assert rules(policy()) == ((Isolation((A.address, B.address), ()),), ())


def test_egress_rules_imply_egress_isolation_unless_types_are_given() -> None:
    _, egress = rules(policy(egress=[{}]))
    assert egress == (Isolation((A.address, B.address), (Allow(),)),)
    assert rules(policy(egress=[{}], policyTypes=["Ingress"]))[1] == ()
    ingress, egress = rules(policy(policyTypes=["Egress"]))
    assert (ingress, egress) == ((), (Isolation((A.address, B.address), ()),))


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        pytest.param({"podSelector": {}}, (A, B), id="pods of the policy's namespace"),
        pytest.param({"podSelector": {"matchLabels": {"app": "a"}}}, (A,), id="some of them"),
        pytest.param({"namespaceSelector": {}}, (A, B, C), id="pods of every namespace"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "two"}}}, (C,), id="of one"),
        pytest.param(
            {
                "namespaceSelector": {},
                "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]},
            },
            (A, C),
            id="by namespace and by pod",
        ),
    ],
)
def test_peers_are_selected_by_pod_and_namespace(
    peer: Mapping[str, Any], expected: tuple[PolicyPod, ...]
) -> None:
    ingress, _ = rules(policy(ingress=[{"from": [peer]}]))
    assert ingress[0].allowed == (Allow(tuple(sorted(pod.address for pod in expected))),)


def test_a_peer_that_selects_nothing_allows_nothing() -> None:
    ingress, _ = rules(policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "none"}}}]}]))
    assert ingress[0].allowed == ()


def test_blocks_keep_their_exceptions_and_ipv6_is_left_out() -> None:
    blocks = [
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
        {"ipBlock": {"cidr": "fd00::/8"}},
    ]
    _, egress = rules(policy(egress=[{"to": blocks}]))
    assert egress[0].allowed == (Allow((), (Block("10.0.0.0/8", ("10.1.0.0/16",)),)),)


@pytest.mark.parametrize(
    "peer",
    [
        {"ipBlock": {"cidr": "10.0.0.0/99"}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["here"]}},
        {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]}},
    ],
)
def test_a_malformed_policy_is_found_when_it_is_read(peer: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_policy(policy(ingress=[{"from": [peer]}]))


def test_ports_may_be_ranges_protocols_and_names_of_the_target() -> None:
    ports = [
        {"port": 80},
        {"protocol": "UDP", "port": 1000, "endPort": 2000},
        {"protocol": "SCTP"},
        {"port": "http"},
    ]
    ingress, _ = rules(policy(ingress=[{"ports": ports}]))
    fixed = (PortRange("TCP", 80, 80), PortRange("UDP", 1000, 2000), PortRange("SCTP", 0, 65535))
    by_pod = {each.pods: each.allowed[0].ports for each in ingress}
    assert by_pod == {
        (A.address,): (*fixed, PortRange("TCP", 8080, 8080)),
        (B.address,): (*fixed, PortRange("TCP", 9090, 9090)),
    }


def test_a_named_port_that_no_pod_has_does_not_allow_every_port() -> None:
    unknown = [{"port": "metrics"}]
    ingress, egress = rules(policy(ingress=[{"ports": unknown}], egress=[{"ports": unknown}]))
    assert ingress[0].allowed == egress[0].allowed == ()


def test_named_ports_of_egress_are_those_of_each_peer() -> None:
    _, egress = rules(policy(egress=[{"to": [{"podSelector": {}}], "ports": [{"port": "http"}]}]))
    assert set(egress[0].allowed) == {
        Allow((A.address,), (), (PortRange("TCP", 8080, 8080),)),
        Allow((B.address,), (), (PortRange("TCP", 9090, 9090),)),
    }


def test_rules_survive_the_way_to_the_shim() -> None:
    ingress, egress = rules(
        policy(
            ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.2.0.0/16"]}}]}], egress=[{}]
        )
    )
    services = (ServicePort("10.96.0.5", "TCP", 80, (("10.88.0.16", 8080),), affinity=True),)
    sent = NetworkRules(services, ingress, egress, ("192.0.2.1",))
    assert rules_from_json(json.loads(json.dumps(dataclasses.asdict(sent)))) == sent


# A plain reading of the API: whether a policy lets a connection pass.

labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2)
selectors = st.builds(lambda wanted: {"matchLabels": wanted} if wanted else {}, labels)
peers = st.one_of(
    st.builds(lambda pods: {"podSelector": pods}, selectors),
    st.builds(lambda names: {"namespaceSelector": names}, selectors),
    st.builds(lambda pods, names: {"podSelector": pods, "namespaceSelector": names}, selectors, selectors),
    st.builds(
        lambda network, part: {"ipBlock": {"cidr": network, "except": [part]}},
        st.sampled_from(["10.88.0.0/16", "10.88.0.16/30"]),
        st.sampled_from(["10.88.0.17/32", "10.88.0.18/31"]),
    ),
)
ports = st.one_of(
    st.builds(
        lambda first, more: {"port": first, "endPort": first + more}, st.integers(1, 4), st.integers(0, 2)
    ),
    st.just({"port": "http"}),
    st.just({"protocol": "UDP"}),
)


def entries(name: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    entry = st.builds(
        lambda peer, port: {**({name: peer} if peer else {}), **({"ports": port} if port else {})},
        st.lists(peers, max_size=2),
        st.lists(ports, max_size=2),
    )
    return st.lists(entry, max_size=2)


policies = st.builds(
    lambda namespace, pods, ingress, egress, types: {
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"podSelector": pods, "ingress": ingress, "egress": egress, "policyTypes": types},
    },
    st.sampled_from(["one", "two"]),
    selectors,
    entries("from"),
    entries("to"),
    st.lists(st.sampled_from(["Ingress", "Egress"]), min_size=1, max_size=2, unique=True),
)
worlds = st.lists(
    st.tuples(st.sampled_from(["one", "two"]), labels, st.integers(1, 4)), min_size=2, max_size=4
).map(
    lambda found: tuple(
        PolicyPod(namespace, own, f"10.88.0.{16 + number}", (("http", "TCP", port),))
        for number, (namespace, own, port) in enumerate(found)
    )
)


def selected(selector: Mapping[str, Any], own: Mapping[str, str]) -> bool:
    return all(own.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())


def permitted(
    given_policies: list[Manifest], source: PolicyPod, target: PolicyPod, protocol: str, port: int, named: Any
) -> bool:
    def peer_matches(namespace: str, peer: Mapping[str, Any], other: PolicyPod) -> bool:
        if "ipBlock" in peer:
            address = ipaddress.ip_address(other.address)
            block = peer["ipBlock"]
            return address in ipaddress.ip_network(block["cidr"]) and not any(
                address in ipaddress.ip_network(each) for each in block["except"]
            )
        if "namespaceSelector" in peer:
            in_namespace = selected(peer["namespaceSelector"], named[other.namespace])
        else:
            in_namespace = other.namespace == namespace
        return in_namespace and selected(peer.get("podSelector", {}), other.labels)

    def port_matches(entry: Mapping[str, Any]) -> bool:
        if entry.get("protocol", "TCP") != protocol:
            return False
        number = entry.get("port")
        if number is None:
            return True
        if isinstance(number, str):
            return target.port(number, protocol) == port
        return bool(number <= port <= (entry.get("endPort") or number))

    def passes(direction: str, own: PolicyPod, other: PolicyPod) -> bool:
        name, key = ("from", "ingress") if direction == "Ingress" else ("to", "egress")
        isolating = [
            each
            for each in given_policies
            if each["metadata"]["namespace"] == own.namespace
            and selected(each["spec"]["podSelector"], own.labels)
            and direction in each["spec"]["policyTypes"]
        ]
        return not isolating or any(
            (not entry.get(name) or any(peer_matches(own.namespace, peer, other) for peer in entry[name]))
            and (not entry.get("ports") or any(port_matches(each) for each in entry["ports"]))
            for each in isolating
            for entry in each["spec"][key]
        )

    return passes("Egress", source, target) and passes("Ingress", target, source)


def ruled(found: tuple[Isolation, ...], own: str, other: str, protocol: str, port: int) -> bool:
    """Whether rules let a connection pass, as the kernel evaluates them."""
    for isolation in found:
        if own in isolation.pods:
            return any(
                (
                    allow.addresses is None
                    or other in allow.addresses
                    or any(
                        ipaddress.ip_address(other) in ipaddress.ip_network(block.network)
                        and not any(
                            ipaddress.ip_address(other) in ipaddress.ip_network(each)
                            for each in block.excepted
                        )
                        for block in allow.blocks
                    )
                )
                and (
                    not allow.ports
                    or any(
                        each.protocol == protocol and each.first <= port <= each.last for each in allow.ports
                    )
                )
                for allow in isolation.allowed
            )
    return True


@given(st.lists(policies, max_size=3), worlds, labels, labels)
def test_rules_permit_exactly_what_the_policies_permit(
    given_policies: list[Manifest], pods: tuple[PolicyPod, ...], one: dict[str, str], two: dict[str, str]
) -> None:
    named = {"one": one, "two": two}
    ingress, egress = isolations([parse_policy(each) for each in given_policies], pods, named)
    for source in pods:
        for target in pods:
            for protocol, port in (("TCP", 1), ("TCP", 3), ("UDP", 1)):
                expected = permitted(given_policies, source, target, protocol, port, named)
                actual = ruled(egress, source.address, target.address, protocol, port) and ruled(
                    ingress, target.address, source.address, protocol, port
                )
                assert actual == expected
