"""Manifests: Kubernetes objects as plain dicts, and accessors for their metadata."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from volcano.kube.api.names import USER

Manifest = dict[str, Any]
TERMINAL_PHASES = ("Succeeded", "Failed")  # of pods


class Key(NamedTuple):
    """Namespace and name of an object; cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(manifest: Mapping[str, Any]) -> Key:
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace", ""), metadata.get("name", ""))


def uid_of(manifest: Mapping[str, Any]) -> str:
    """The uid of an object, or an empty string before it has one."""
    uid: str = manifest["metadata"].get("uid", "")
    return uid


def version_of(manifest: Mapping[str, Any]) -> int:
    """The resource version as a number; 0 when there is none. Versions of one server are ordered."""
    text = manifest["metadata"].get("resourceVersion") or "0"
    return int(text) if text.isdigit() else 0


def labels_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels of an object, empty when it has none."""
    return manifest["metadata"].get("labels") or {}


def annotations_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations of an object, empty when it has none."""
    return manifest["metadata"].get("annotations") or {}


def user_annotation(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The annotation that names the user of an object, for what is created on its behalf; empty when it has none."""
    user = annotations_of(manifest).get(USER)
    return {USER: user} if user else {}


def owners_of(manifest: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The owner references of an object."""
    return manifest["metadata"].get("ownerReferences") or ()


def whole_number(text: str) -> int | None:
    """The number that an annotation contains; None for any other text, of any length or script."""
    return int(text) if len(text) <= 18 and text.isascii() and text.isdigit() else None


def controller_of(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the controller of this object, if it has one."""
    for owner in owners_of(manifest):
        if owner.get("controller"):
            return owner
    return None


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is in a terminal phase."""
    return (pod.get("status") or {}).get("phase") in TERMINAL_PHASES


def is_deleting(manifest: Mapping[str, Any]) -> bool:
    """Whether the object has a deletion timestamp."""
    return bool(manifest["metadata"].get("deletionTimestamp"))


def owner_reference(owner: Mapping[str, Any], *, controller: bool = True) -> Manifest:
    """Returns a reference to `owner` for a dependent, blocking foreground deletion."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def condition_of(manifest: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The status condition of type `kind`, if present."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), None)
