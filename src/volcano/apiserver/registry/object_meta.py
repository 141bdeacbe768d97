"""Metadata written by the server: names, uids, timestamps, and the immutable fields of updates."""

from collections.abc import Callable
from random import Random
from typing import Any

from volcano.apiserver.errors import conflict, invalid, wrong_namespace
from volcano.base.clock import Instant
from volcano.kube.api.errors import BadRequest, Cause
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest

# Without vowels and ambiguous characters, as in kube-apiserver.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_CARRIED = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation")

# The random bits of a version 4 UUID, and the fixed ones.
_UUID_CHOICE = (1 << 128) - 1 ^ (0xF << 76) ^ (0x3 << 62)
_UUID_VERSION = 0x4 << 76 | 0x2 << 62

NewUid = Callable[[], str]


def uids(random: Random) -> NewUid:
    """A source of version 4 UUIDs without a system call each."""

    def new() -> str:
        digits = f"{random.getrandbits(128) & _UUID_CHOICE | _UUID_VERSION:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    return new


def metadata_of(manifest: Any) -> Manifest:
    """The metadata of a submitted object, created if absent. Raises BadRequest when it is not an object."""
    if not isinstance(manifest, dict):
        raise BadRequest("the object provided is not a JSON object")
    metadata = manifest.get("metadata")
    if metadata is None:
        metadata = manifest["metadata"] = {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be a JSON object")
    for field in ("name", "namespace", "generateName", "uid", "resourceVersion"):
        value = metadata.get(field)
        if value is None:
            metadata.pop(field, None)
        elif not isinstance(value, str):
            raise BadRequest(f"metadata.{field} must be a string, not {type(value).__name__}")
    return metadata


def set_type(kind: Kind, manifest: Manifest) -> None:
    """Sets missing apiVersion and kind. Raises BadRequest when they are those of another kind."""
    given_version, given_kind = manifest.get("apiVersion"), manifest.get("kind")
    if given_version not in (None, "", kind.api_version):
        raise BadRequest(
            f"the API version in the data ({given_version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if given_kind not in (None, "", kind.kind):
        raise BadRequest(
            f"the kind in the data ({given_kind}) does not match the expected kind ({kind.kind})"
        )
    manifest["apiVersion"], manifest["kind"] = kind.api_version, kind.kind


def set_namespace(kind: Kind, metadata: Manifest, namespace: str) -> None:
    """Sets the namespace of the request. Raises BadRequest when the object names another."""
    given = metadata.get("namespace", "")
    if not kind.namespaced:
        if given:
            raise wrong_namespace()
        metadata.pop("namespace", None)
        return
    if given and namespace and given != namespace:
        raise wrong_namespace()
    if not (given or namespace):
        raise BadRequest("an empty namespace may not be set during creation")
    metadata["namespace"] = given or namespace


def strip_system_fields(metadata: Manifest) -> None:
    """Removes the fields that a client may not set on a new object."""
    for field in _SYSTEM_FIELDS:
        metadata.pop(field, None)
    if metadata.pop("resourceVersion", ""):
        raise BadRequest("resourceVersion should not be set on objects to be created")


def choose_name(kind: Kind, metadata: Manifest, random: Random) -> None:
    """Generates a missing name from generateName. Raises Invalid when there is neither."""
    if metadata.get("name"):
        return
    base = metadata.get("generateName")
    if not base:
        raise invalid(
            kind,
            "",
            [
                Cause(
                    "FieldValueRequired", "Required value: name or generateName is required", "metadata.name"
                )
            ],
        )
    metadata["name"] = base[:_LONGEST_BASE] + "".join(random.choices(_ALPHABET, k=_SUFFIX))


def set_identity(metadata: Manifest, new_uid: NewUid, now: Instant) -> None:
    """Sets uid and creation timestamp of a new object."""
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now.timestamp()


def keep_immutable_fields(kind: Kind, key: Key, new: Manifest, old: Manifest) -> None:
    """Restores the immutable metadata of an object. Raises when it is not the same object."""
    metadata, before = metadata_of(new), old["metadata"]
    name = metadata.setdefault("name", key.name)
    if name != key.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({key.name})")
    set_namespace(kind, metadata, key.namespace)
    uid = metadata.get("uid")
    if uid and uid != before["uid"]:
        raise conflict(
            kind,
            key.name,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}",
        )
    metadata["uid"] = before["uid"]
    metadata["creationTimestamp"] = before.get("creationTimestamp")
    metadata.pop("selfLink", None)
    for field in _CARRIED:
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    if "managedFields" not in metadata and "managedFields" in before:
        metadata["managedFields"] = before["managedFields"]


def finalizer_causes(kind: Kind, new: Manifest, old: Manifest) -> list[Cause]:
    """The field error for finalizers added to an object that is being deleted."""
    if not old["metadata"].get("deletionTimestamp"):
        return []
    present = old["metadata"].get("finalizers") or ()
    added = [name for name in new["metadata"].get("finalizers") or () if name not in present]
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    return [
        Cause(
            "FieldValueForbidden",
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{shown}}}",
            "metadata.finalizers",
        )
    ]
