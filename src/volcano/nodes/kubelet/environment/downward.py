"""Downward API: fields of a pod and resources of its containers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from volcano.kube.api.manifest import Manifest, annotations_of, key_of, labels_of, uid_of
from volcano.kube.api.quantity import parse

# For these the default limit is the node's allocatable.
_FROM_NODE = ("cpu", "memory", "ephemeral-storage")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class PodInfo:
    """The pod's addresses and node: known once it has a sandbox, and equal for all its containers."""

    address: str  # empty before the pod has one
    addresses: tuple[str, ...]
    host_address: str
    node_name: str
    # Of the node, as quantities: the default limits.
    node_allocatable: Mapping[str, str] = field(default_factory=dict)


class UnknownField(Exception):
    """A field or resource that the downward API does not have."""


def field_value(pod: Manifest, path: str, info: PodInfo) -> str:
    """The value of a `fieldRef` variable."""
    host = info.host_address
    known = {
        "spec.nodeName": pod["spec"].get("nodeName") or info.node_name,
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName") or "",
        "status.hostIP": host,
        "status.hostIPs": host,
        "status.podIP": info.address,
        "status.podIPs": ",".join(info.addresses),
    }
    return known[path] if path in known else metadata_value(pod, path)


def metadata_value(pod: Manifest, path: str) -> str:
    """The content of a file in a downwardAPI volume: a field of the pod's metadata."""
    field, subscript = _split(path)
    if subscript is not None:
        maps = {"metadata.labels": labels_of, "metadata.annotations": annotations_of}
        if field not in maps:
            raise UnknownField(f'fieldPath "{path}" does not support subscript')
        return maps[field](pod).get(subscript, "")
    match field:
        case "metadata.name":
            return key_of(pod).name
        case "metadata.namespace":
            return key_of(pod).namespace
        case "metadata.uid":
            return uid_of(pod)
        case "metadata.labels":
            return _listed(labels_of(pod))
        case "metadata.annotations":
            return _listed(annotations_of(pod))
    raise UnknownField(f"unsupported fieldPath: {path}")


def resource_value(pod: Manifest, selector: Manifest, info: PodInfo, own: str = "") -> str:
    """The value of a `resourceFieldRef`: a request or limit of a container, divided and rounded up.

    `own` is the default container.
    """
    name = selector.get("containerName") or own
    container = container_named(pod, name)
    if container is None:
        raise UnknownField(f"container {name} not found")
    which, _, resource = str(selector["resource"]).partition(".")
    if which not in ("limits", "requests") or not (
        resource in _FROM_NODE or resource.startswith("hugepages-")
    ):
        raise UnknownField(f"unsupported container resource : {selector['resource']}")
    amounts = (container.get("resources") or {}).get(which) or {}
    amount = parse(amounts.get(resource, 0))
    if which == "limits" and not amount and resource in _FROM_NODE:
        amount = parse(info.node_allocatable.get(resource, 0))
    divisor = parse(selector.get("divisor") or 0) or Decimal(1)
    return str(math.ceil(amount / divisor))


def container_named(pod: Manifest, name: str) -> Manifest | None:
    """The init, main or ephemeral container with this name."""
    for group in _CONTAINERS:
        for container in pod["spec"].get(group) or ():
            if container["name"] == name:
                found: Manifest = container
                return found
    return None


def _split(path: str) -> tuple[str, str | None]:
    """`metadata.labels['app']` as the field and its subscript."""
    field, opened, rest = path.partition("['")
    if field and opened and rest.endswith("']"):
        return field, rest[:-2]
    return path, None


def _listed(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={_quoted(values[key])}" for key in sorted(values))


_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ESCAPES |= {"\\": r"\\", '"': r"\""}


def _quoted(text: str) -> str:
    """A string quoted as in Go, which is the format of labels in downwardAPI files."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
