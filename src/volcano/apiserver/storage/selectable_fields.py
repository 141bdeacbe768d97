"""Fields that field selectors may use, by kind, and their values."""

from collections.abc import Callable, Mapping
from typing import Any

from volcano.kube.api.manifest import Manifest

# The value of one field of an object, as field selectors compare it: text, empty when absent.
Reader = Callable[[Manifest], str]

NAME = "metadata.name"
NAMESPACE = "metadata.namespace"


def _at(*path: str) -> Reader:
    def read(manifest: Manifest) -> str:
        found: Any = manifest
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return as_text(found)

    return read


def as_text(value: Any) -> str:
    """A JSON scalar as a field selector writes it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
    return ""


def _flag(*path: str) -> Reader:
    """A boolean that is false when absent."""
    read = _at(*path)
    return lambda manifest: read(manifest) or "false"


def _count(*path: str) -> Reader:
    """A number that is zero when absent."""
    read = _at(*path)
    return lambda manifest: read(manifest) or "0"


def _reporter(manifest: Manifest) -> str:
    return _at("source", "component")(manifest) or _at("reportingComponent")(manifest)


_POD: dict[str, Reader] = {
    "spec.nodeName": _at("spec", "nodeName"),
    "spec.restartPolicy": _at("spec", "restartPolicy"),
    "spec.schedulerName": _at("spec", "schedulerName"),
    "spec.serviceAccountName": _at("spec", "serviceAccountName"),
    "spec.hostNetwork": _flag("spec", "hostNetwork"),
    "status.phase": _at("status", "phase"),
    "status.podIP": _at("status", "podIP"),
    "status.nominatedNodeName": _at("status", "nominatedNodeName"),
}
_EVENT: dict[str, Reader] = {
    **{
        f"involvedObject.{field}": _at("involvedObject", field)
        for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": _at("reason"),
    "reportingComponent": _at("reportingComponent"),
    "source": _reporter,
    "type": _at("type"),
}
# Built-in kinds by resource name; kinds that are not listed have only metadata.name and metadata.namespace.
BUILT_IN: Mapping[str, Mapping[str, Reader]] = {
    "pods": _POD,
    "events": _EVENT,
    "nodes": {"spec.unschedulable": _flag("spec", "unschedulable")},
    "namespaces": {"status.phase": _at("status", "phase")},
    "secrets": {"type": _at("type")},
    "services": {"spec.clusterIP": _at("spec", "clusterIP"), "spec.type": _at("spec", "type")},
    "replicationcontrollers": {"status.replicas": _count("status", "replicas")},
    "certificatesigningrequests.certificates.k8s.io": {"spec.signerName": _at("spec", "signerName")},
    "resourceslices.resource.k8s.io": {
        "spec.nodeName": _at("spec", "nodeName"),
        "spec.driver": _at("spec", "driver"),
    },
    "jobs.batch": {"status.successful": _count("status", "succeeded")},
}
# Names of the fields of a core Event in events.k8s.io; an older name of pods' spec.nodeName.
ALIASES: Mapping[str, Mapping[str, str]] = {
    "events.events.k8s.io": {
        **{
            f"regarding.{field}": f"involvedObject.{field}"
            for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reportingController": "reportingComponent",
    },
    "pods": {"spec.host": "spec.nodeName"},
}
# Fields with an index: they are used by many watches and lists.
INDEXED: Mapping[str, tuple[str, ...]] = {"pods": ("spec.nodeName",), "events": ("involvedObject.uid",)}


def _pod_values(pod: Manifest) -> tuple[str, ...]:
    """The field values of a pod in one function: pods are written far more often than other kinds."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return (
        spec.get("nodeName") or "",
        spec.get("restartPolicy") or "",
        spec.get("schedulerName") or "",
        spec.get("serviceAccountName") or "",
        "true" if spec.get("hostNetwork") else "false",
        status.get("phase") or "",
        status.get("podIP") or "",
        status.get("nominatedNodeName") or "",
    )


def selectable(resource: str) -> tuple[str, ...]:
    """The selectable fields of a built-in kind beside metadata, in the order of `reader_of`."""
    return tuple(BUILT_IN.get(resource, ()))


def reader_of(resource: str) -> Callable[[Manifest], tuple[str, ...]]:
    """Returns the function that reads the selectable fields of an object, in the order of `selectable`."""
    if resource == "pods":
        return _pod_values
    readers = tuple(BUILT_IN.get(resource, {}).values())
    if not readers:
        return lambda manifest: ()
    return lambda manifest: tuple([read(manifest) for read in readers])
