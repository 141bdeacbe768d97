"""Validation of Services, Endpoints, EndpointSlices and NetworkPolicies."""

import ipaddress
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.containers import PROTOCOLS, port_or_name
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import label_selector, labels
from volcano.base.http.dialer import PLAIN_PODS
from volcano.kube.api.formats.names import (
    cidr,
    dns_label,
    dns_subdomain,
    in_range,
    ip_address,
    port_name,
    port_number,
)
from volcano.kube.api.manifest import Manifest

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_EXTERNAL = ("LoadBalancer", "NodePort")
_POLICIES = ("Cluster", "Local")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_DAY = 86_400


def service(manifest: Manifest) -> Causes:
    """Validates a service."""
    spec = manifest.get("spec") or {}
    kind, address = spec.get("type"), spec.get("clusterIP") or ""
    if not spec.get("ports") and address != "None" and kind != "ExternalName":
        yield field.required("spec.ports")
    if kind == "LoadBalancer" and address == "None":
        yield field.invalid(
            "spec.clusterIPs[0]", "None", "may not be set to 'None' for LoadBalancer services"
        )
    if kind == "ExternalName":
        name = (spec.get("externalName") or "").removesuffix(".")
        if address:
            yield field.forbidden("spec.clusterIPs", "may not be set when `type` is 'ExternalName'")
        if not name:
            yield field.required("spec.externalName")
        else:
            yield from field.each("spec.externalName", name, dns_subdomain(name))
    yield from _service_ports(spec)
    if selector := spec.get("selector"):
        yield from labels(selector, "spec.selector")
    yield from field.one_of(
        "spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"), needed=True
    )
    yield from _affinity_config(spec)
    if address and address != "None":
        yield from field.each("spec.clusterIPs[0]", address, ip_address(address))
    for index, value in enumerate(spec.get("externalIPs") or ()):
        yield from field.each(f"spec.externalIPs[{index}]", value, ip_address(value))
    yield from field.one_of("spec.type", kind, _TYPES, needed=True)
    for index, value in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from field.each(f"spec.LoadBalancerSourceRanges[{index}]", value, cidr(value.strip()))
    yield from _traffic(spec, kind)


def _service_ports(spec: Manifest) -> Causes:
    ports = spec.get("ports") or []
    names: set[str] = set()
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        where, name, number = f"spec.ports[{index}]", port.get("name") or "", port.get("port") or 0
        if not name:
            if len(ports) > 1:
                yield field.required(f"{where}.name")
        else:
            yield from field.each(f"{where}.name", name, dns_label(name))
            yield from field.unique(f"{where}.name", name, names)
        yield from field.each(f"{where}.port", number, port_number(number))
        yield from field.one_of(f"{where}.protocol", port.get("protocol"), PROTOCOLS, needed=True)
        yield from port_or_name(port.get("targetPort"), f"{where}.targetPort")
        if port.get("nodePort") and spec.get("type") in ("ClusterIP", "ExternalName"):
            text = f"may not be used when `type` is '{spec['type']}'"
            yield field.forbidden(f"{where}.nodePort", text)
        identity = (port.get("protocol"), number)
        if identity in seen:
            shown = {"Name": "", "Protocol": identity[0], "AppProtocol": None, "Port": number, "TargetPort": 0,
                     "NodePort": 0}  # fmt: skip
            yield field.duplicate(where, shown)
        seen.add(identity)


def _affinity_config(spec: Manifest) -> Causes:
    if spec.get("sessionAffinity") != "ClientIP":
        return
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _DAY:
        yield field.invalid(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            seconds,
            f"must be greater than 0 and less than {_DAY}",
        )


def _traffic(spec: Manifest, kind: Any) -> Causes:
    external, internal = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    if kind not in _EXTERNAL:
        if external and not spec.get("externalIPs"):
            yield field.invalid(
                "spec.externalTrafficPolicy", external, "may only be set for externally-accessible services"
            )
    else:
        yield from field.one_of("spec.externalTrafficPolicy", external, _POLICIES, needed=True)
    if kind in ("ClusterIP", *_EXTERNAL):
        yield from field.one_of("spec.internalTrafficPolicy", internal, _POLICIES, needed=True)


def service_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates that the cluster IP has not changed."""
    after, before = new["spec"], old["spec"]
    if "ExternalName" in (after.get("type"), before.get("type")) or subresource == "status":
        return
    if before.get("clusterIP") and after.get("clusterIP") != before["clusterIP"]:
        yield field.invalid("spec.clusterIPs[0]", [after.get("clusterIP")], "may not change once set")


def endpoints(manifest: Manifest) -> Causes:
    """Validates endpoints."""
    for where, subset in field.items(manifest, "subsets", ""):
        where = where.removeprefix(".")
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield field.required(where, "must specify `addresses` or `notReadyAddresses`")
        for name in ("addresses", "notReadyAddresses"):
            for place, address in field.items(subset, name, where):
                yield from _endpoint_address(address.get("ip") or "", f"{place}.ip")
        ports = subset.get("ports") or []
        for place, port in field.items(subset, "ports", where):
            number, name = port.get("port") or 0, port.get("name") or ""
            if len(ports) > 1 and not name:
                yield field.required(f"{place}.name")
            elif name:
                yield from field.each(f"{place}.name", name, dns_label(name))
            yield from field.each(f"{place}.port", number, port_number(number))
            yield from field.one_of(f"{place}.protocol", port.get("protocol"), PROTOCOLS, needed=True)


def _endpoint_address(value: str, path: str) -> Causes:
    if errors := ip_address(value):
        yield from field.each(path, value, errors)
        yield field.invalid(path, value, "must be a valid IP address")
        return
    address = ipaddress.ip_address(value)
    if address.is_unspecified:
        yield field.invalid(path, value, f"may not be unspecified ({value})")
    if address.is_loopback and address not in PLAIN_PODS:
        yield field.invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield field.invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")


def endpoint_slice(manifest: Manifest) -> Causes:
    """Validates an endpoint slice."""
    kind = manifest.get("addressType") or ""
    yield from field.one_of("addressType", kind, _ADDRESS_TYPES, needed=True)
    for index, endpoint in enumerate(manifest.get("endpoints") or ()):
        where = f"endpoints[{index}].addresses"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            yield field.required(where, "must contain at least 1 address")
        if len(addresses) > 100:
            yield field.too_many(where, len(addresses), 100)
        check = {"FQDN": dns_subdomain, "IPv4": ip_address, "IPv6": ip_address}.get(kind)
        for number, address in enumerate(addresses):
            if check is not None:
                yield from field.each(f"{where}[{number}]", address, errors := check(address))
                if kind != "FQDN" and not errors:
                    yield from _endpoint_address(address, f"{where}[{number}]")
    seen: set[str] = set()
    for index, port in enumerate(manifest.get("ports") or ()):
        name = port.get("name") or ""
        if name:
            yield from field.each(f"ports[{index}].name", name, dns_label(name))
        yield from field.unique(f"ports[{index}].name", name, seen)
        yield from field.one_of(f"ports[{index}].protocol", port.get("protocol"), PROTOCOLS, needed=True)


def endpoint_slice_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from field.immutable("addressType", new.get("addressType"), old.get("addressType"))


def network_policy(manifest: Manifest) -> Causes:
    """Validates a network policy."""
    spec = manifest.get("spec") or {}
    yield from label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for where, rule in field.items(spec, direction, "spec"):
            for place, port in field.items(rule, "ports", where):
                yield from _policy_port(port, place)
            for place, peer in field.items(rule, peers, where):
                yield from _peer(peer, place)
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in ("Ingress", "Egress"):
            yield field.unsupported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _policy_port(port: Manifest, path: str) -> Causes:
    yield from field.one_of(f"{path}.protocol", port.get("protocol"), ("TCP", "UDP", "SCTP"))
    value = port.get("port")
    if isinstance(value, str):
        yield from field.each(f"{path}.port", value, port_name(value))
    elif value is not None:
        yield from field.each(f"{path}.port", value, port_number(value))
    last = port.get("endPort")
    if last is not None and (not isinstance(value, int) or last < value):
        yield field.invalid(f"{path}.endPort", last, "must be greater than or equal to `port`")
    if last is not None and last > 65535:
        yield field.invalid(f"{path}.endPort", last, in_range(1, 65535))


def _peer(peer: Manifest, path: str) -> Causes:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not given:
        yield field.required(path, "must specify a peer")
    for name in ("podSelector", "namespaceSelector"):
        yield from label_selector(peer.get(name), f"{path}.{name}")
    block = peer.get("ipBlock")
    if block is None:
        return
    if len(given) > 1:
        yield field.forbidden(path, "may not specify both ipBlock and another peer")
    base = block.get("cidr") or ""
    if not base:
        yield field.required(f"{path}.ipBlock.cidr")
        return
    if errors := cidr(base):
        yield from field.each(f"{path}.ipBlock.cidr", base, errors)
        return
    outer = ipaddress.ip_network(base, strict=False)
    for index, value in enumerate(block.get("except") or ()):
        where = f"{path}.ipBlock.except[{index}]"
        if errors := cidr(value):
            yield from field.each(where, value, errors)
            continue
        inner = ipaddress.ip_network(value, strict=False)
        if inner.version != outer.version or inner == outer or not inner.subnet_of(outer):  # type: ignore[arg-type]
            yield field.invalid(where, value, "must be a strict subset of `cidr`")
