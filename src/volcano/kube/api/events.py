"""Core Events as values."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from volcano.base.clock import Instant
from volcano.kube.api.kinds import EVENT, Kind
from volcano.kube.api.manifest import Manifest

NORMAL = "Normal"
WARNING = "Warning"
MESSAGE_LIMIT = 1024


def event(
    target: Manifest,
    name: str,
    *,
    severity: str,
    reason: str,
    message: str,
    now: Instant,
    component: str,
    instance: str = "",
) -> Manifest:
    """Returns a new Event with count 1; `target` is a reference to the object it is about."""
    moment = now.timestamp()
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"namespace": target.get("namespace") or "default", "name": name},
        "involvedObject": target,
        "type": severity,
        "reason": reason,
        "message": shortened(message),
        "source": {"component": component} | ({"host": instance} if instance else {}),
        "reportingComponent": component,
        "reportingInstance": instance,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def name_after(target: Manifest, *said: str) -> str:
    """Returns an Event name derived from its content, so that a repetition has the same name."""
    digest = sha256("\0".join((target.get("uid", ""), *said)).encode()).hexdigest()[:16]
    return f"{target['name']}.{digest}"


def reference_to(about: Mapping[str, Any], kind: Kind | None = None) -> Manifest:
    """Returns a reference to an object; a reference is returned as it is.

    `kind` is for objects that do not carry apiVersion and kind, as the items of a list.
    """
    if "metadata" not in about:
        return dict(about)
    metadata = about["metadata"]
    reference = {
        "apiVersion": kind.api_version if kind else about.get("apiVersion", ""),
        "kind": kind.kind if kind else about.get("kind", ""),
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    return {name: value for name, value in reference.items() if value}


def shortened(message: str) -> str:
    """Returns a message cut to the length that an Event allows."""
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 4] + " ..."
