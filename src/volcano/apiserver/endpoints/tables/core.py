"""Print handlers for nodes, namespaces, events, services and other core kinds."""

from typing import Any

from volcano.apiserver.endpoints.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Printer,
    age,
    first_few,
    labels_text,
    selector_text,
    text,
    wide,
)
from volcano.apiserver.interfaces import Column
from volcano.kube.api.duration import since
from volcano.kube.api.fields import at, count, items, name_of, number
from volcano.kube.api.manifest import Manifest

SHOWN_HOSTS = 3  # of an Ingress
ROLE_PREFIX, ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def print_node(node: Manifest, now: float) -> list[Any]:
    info = at(node, "status", "nodeInfo", default={})
    kernel = info.get("kernelVersion") or UNKNOWN
    architecture = info.get("architecture")
    return [
        name_of(node),
        _node_status(node),
        _roles(node) or NONE,
        age(node, now),
        info.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        f"{kernel} ({architecture})" if architecture else kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(node: Manifest) -> str:
    ready = [entry for entry in items(node, "status", "conditions") if entry.get("type") == "Ready"]
    states = [("Ready" if ready[-1].get("status") == "True" else "NotReady") if ready else "Unknown"]
    if at(node, "spec", "unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _roles(node: Manifest) -> str:
    labels = at(node, "metadata", "labels", default={})
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)}
    roles.add(labels.get(ROLE_LABEL) or "")
    return ",".join(sorted(roles - {""}))


def _address(node: Manifest, kind: str) -> str:
    found = (
        entry.get("address") for entry in items(node, "status", "addresses") if entry.get("type") == kind
    )
    return str(next(found, NONE))


def print_namespace(namespace: Manifest, now: float) -> list[Any]:
    return [name_of(namespace), at(namespace, "status", "phase", default=""), age(namespace, now)]


def print_event(event: Manifest, now: float) -> list[Any]:
    """Prints an event of either API; events.k8s.io has other names for the same fields."""
    subject = at(event, "involvedObject") or at(event, "regarding", default={})
    first = at(event, "firstTimestamp") or at(event, "deprecatedFirstTimestamp") or at(event, "eventTime")
    last = at(event, "lastTimestamp") or at(event, "deprecatedLastTimestamp") or first
    occurrences = number(event, "count") or number(event, "deprecatedCount") or 1
    if series := at(event, "series"):
        last, occurrences = at(series, "lastObservedTime"), number(series, "count")
    kind = str(at(subject, "kind", default="")).lower()
    return [
        since(last, now),
        at(event, "type", default=""),
        at(event, "reason", default=""),
        f"{kind}/{subject['name']}" if at(subject, "name") else kind,
        at(subject, "fieldPath", default=""),
        _event_source(event),
        str(at(event, "message") or at(event, "note", default="")).strip(),
        since(first, now),
        occurrences,
        name_of(event),
    ]


def _event_source(event: Manifest) -> str:
    source = at(event, "source") or at(event, "deprecatedSource", default={})
    component = at(source, "component") or at(event, "reportingComponent") or at(event, "reportingController")
    instance = at(source, "host") or at(event, "reportingInstance")
    return ", ".join(str(part) for part in (component, instance) if part)


def print_service(service: Manifest, now: float) -> list[Any]:
    addresses = at(service, "spec", "clusterIPs", default=())
    return [
        name_of(service),
        at(service, "spec", "type", default=""),
        str(addresses[0]) if addresses else at(service, "spec", "clusterIP") or NONE,
        _external_address(service),
        ",".join(_port(port) for port in items(service, "spec", "ports")) or NONE,
        age(service, now),
        labels_text(at(service, "spec", "selector")),
    ]


def _external_address(service: Manifest) -> str:
    declared = [str(address) for address in at(service, "spec", "externalIPs", default=())]
    match at(service, "spec", "type", default="ClusterIP"):
        case "ExternalName":
            return str(at(service, "spec", "externalName", default=""))
        case "LoadBalancer":
            ingress = items(service, "status", "loadBalancer", "ingress")
            given = sorted({str(entry.get("ip") or entry.get("hostname") or "") for entry in ingress} - {""})
            return ",".join([*given, *declared]) or "<pending>"
        case "ClusterIP" | "NodePort":
            return ",".join(declared) or NONE
        case _:
            return UNKNOWN


def _port(port: Any) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def print_endpoints(endpoints: Manifest, now: float) -> list[Any]:
    entries = [
        f"{host}:{port.get('port')}" if port else host
        for subset in items(endpoints, "subsets")
        for port in items(subset, "ports") or [{}]
        for host in (str(at(address, "ip", default="")) for address in items(subset, "addresses"))
    ]
    shown = first_few(entries, NONE if not count(endpoints, "subsets") else "")
    return [name_of(endpoints), shown, age(endpoints, now)]


def print_endpoint_slice(endpoint_slice: Manifest, now: float) -> list[Any]:
    ports = (str(port.get("port") or port.get("name") or "*") for port in items(endpoint_slice, "ports"))
    hosts = (
        str(host)
        for entry in items(endpoint_slice, "endpoints")
        for host in at(entry, "addresses", default=())
    )
    return [
        name_of(endpoint_slice),
        at(endpoint_slice, "addressType", default=""),
        first_few(ports, UNSET),
        first_few(hosts, UNSET),
        age(endpoint_slice, now),
    ]


def print_config_map(config_map: Manifest, now: float) -> list[Any]:
    entries = count(config_map, "data") + count(config_map, "binaryData")
    return [name_of(config_map), entries, age(config_map, now)]


def print_secret(secret: Manifest, now: float) -> list[Any]:
    return [name_of(secret), at(secret, "type", default=""), count(secret, "data"), age(secret, now)]


def print_quota(quota: Manifest, now: float) -> list[Any]:
    requests: list[str] = []
    limits: list[str] = []
    for resource, hard in sorted(at(quota, "status", "hard", default={}).items()):
        column = limits if resource.startswith("limits.") else requests
        column.append(f"{resource}: {at(quota, 'status', 'used', resource, default='0')}/{hard}")
    return [name_of(quota), ", ".join(requests), ", ".join(limits), age(quota, now)]


def print_lease(lease: Manifest, now: float) -> list[Any]:
    return [name_of(lease), at(lease, "spec", "holderIdentity", default=""), age(lease, now)]


def print_network_policy(policy: Manifest, now: float) -> list[Any]:
    return [name_of(policy), selector_text(at(policy, "spec", "podSelector")), age(policy, now)]


def print_ingress(ingress: Manifest, now: float) -> list[Any]:
    hosts = [str(rule["host"]) for rule in items(ingress, "spec", "rules") if rule.get("host")]
    points = items(ingress, "status", "loadBalancer", "ingress")
    addresses = [str(point.get("ip") or point.get("hostname") or "") for point in points]
    return [
        name_of(ingress),
        at(ingress, "spec", "ingressClassName") or NONE,
        _first_hosts(hosts) or "*",
        ",".join(dict.fromkeys(address for address in addresses if address)),
        "80, 443" if items(ingress, "spec", "tls") else "80",
        age(ingress, now),
    ]


def _first_hosts(hosts: list[str]) -> str:
    more = len(hosts) - SHOWN_HOSTS
    shown = ",".join(hosts[:SHOWN_HOSTS])
    return f"{shown} + {more} more..." if more > 0 else shown


def print_ingress_class(ingress_class: Manifest, now: float) -> list[Any]:
    parameters = at(ingress_class, "spec", "parameters")
    shown = NONE
    if parameters:
        group = parameters.get("apiGroup")
        kind = f"{parameters.get('kind')}.{group}" if group else parameters.get("kind")
        shown = f"{kind}/{parameters.get('name')}"
    controller = at(ingress_class, "spec", "controller", default="")
    return [name_of(ingress_class), controller, shown, age(ingress_class, now)]


NODE_PRINTER = Printer(
    (
        NAME,
        *text("Status", "Roles"),
        AGE,
        *text("Version"),
        *wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ),
    print_node,
)
NAMESPACE_PRINTER = Printer((NAME, *text("Status"), AGE), print_namespace)
EVENT_PRINTER = Printer(
    (
        *text("Last Seen", "Type", "Reason", "Object"),
        *wide("Subobject", "Source"),
        *text("Message"),
        *wide("First Seen", "Count"),
        Column("Name", format="name", priority=1),
    ),
    print_event,
)
SERVICE_PRINTER = Printer(
    (NAME, *text("Type", "Cluster-IP", "External-IP", "Port(s)"), AGE, *wide("Selector")), print_service
)
ENDPOINTS_PRINTER = Printer((NAME, *text("Endpoints"), AGE), print_endpoints)
ENDPOINT_SLICE_PRINTER = Printer(
    (NAME, *text("AddressType", "Ports", "Endpoints"), AGE), print_endpoint_slice
)
CONFIG_MAP_PRINTER = Printer((NAME, *text("Data"), AGE), print_config_map)
SECRET_PRINTER = Printer((NAME, *text("Type", "Data"), AGE), print_secret)
QUOTA_PRINTER = Printer((NAME, *text("Request", "Limit"), AGE), print_quota)
LEASE_PRINTER = Printer((NAME, *text("Holder"), AGE), print_lease)
NETWORK_POLICY_PRINTER = Printer((NAME, *text("Pod-Selector"), AGE), print_network_policy)
INGRESS_PRINTER = Printer((NAME, *text("Class", "Hosts", "Address", "Ports"), AGE), print_ingress)
INGRESS_CLASS_PRINTER = Printer((NAME, *text("Controller", "Parameters"), AGE), print_ingress_class)
