"""Managed fields: the owner of each field of an object, decoded from and encoded to metadata.managedFields."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from volcano.kube.api.manifest import Manifest
from volcano.kube.patches.fieldset import FieldSet, union

ANCIENT = "ancient-changes"
MAX_UPDATE_MANAGERS = 10


class FieldManager(NamedTuple):
    """Identifies an owner of fields. The version is empty for Apply: an applier is the same in all versions."""

    manager: str
    operation: str  # Apply or Update
    version: str
    subresource: str

    def __str__(self) -> str:
        text = orjson.dumps(self.manager).decode()
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.version}" if self.operation == "Update" else text


@dataclass(frozen=True, slots=True)
class VersionedSet:
    """Fields of an owner, the API version they were written in, and when."""

    fields: FieldSet
    version: str
    time: str = ""


ManagedFields = dict[FieldManager, VersionedSet]


@dataclass(frozen=True, slots=True)
class Write:
    """Manager, target and time of a write."""

    manager: str
    time: str
    subresource: str
    version: str

    def owner(self, operation: str) -> FieldManager:
        """Returns the owner of the fields that this write sets."""
        return FieldManager(
            self.manager, operation, "" if operation == "Apply" else self.version, self.subresource
        )


def decode(entries: Iterable[Any]) -> ManagedFields:
    """Returns the entries by owner; empty if one of them is malformed, as then none can be trusted."""
    managed: ManagedFields = {}
    for entry in entries:
        fields: Any = entry.get("fieldsV1") if isinstance(entry, Mapping) else None
        well_formed = fields is not None and entry.get("fieldsType") == "FieldsV1" and entry.get("apiVersion")
        if not well_formed or entry.get("operation") not in ("Apply", "Update"):
            return {}
        version = entry["apiVersion"]
        owner = FieldManager(
            entry.get("manager", ""),
            entry["operation"],
            "" if entry["operation"] == "Apply" else version,
            entry.get("subresource", ""),
        )
        managed[owner] = VersionedSet(fields, version, entry.get("time") or "")
    return managed


def single_entry(write: Write, fields: FieldSet) -> Manifest:
    """Returns the entry of an object whose fields all belong to the writer."""
    return _entry(write.manager, "Update", write.version, write.time, fields, write.subresource)


def encode(managed: ManagedFields) -> list[Manifest]:
    """Returns the managedFields list, in the order of a real server."""
    ordered = sorted(
        managed.items(),
        key=lambda item: (item[0].operation, item[1].time, item[0].manager, item[1].version, item[0]),
    )
    return [
        _entry(
            owner.manager,
            owner.operation,
            versioned.version,
            versioned.time,
            versioned.fields,
            owner.subresource,
        )
        for owner, versioned in ordered
    ]


def _entry(
    manager: str, operation: str, version: str, time: str, fields: FieldSet, subresource: str
) -> Manifest:
    entry: Manifest = {"manager": manager, "operation": operation, "apiVersion": version}
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if subresource:
        entry["subresource"] = subresource
    return entry


def cap_update_managers(managed: ManagedFields) -> ManagedFields:
    """Merges the oldest update managers, version by version, when there are too many."""
    updaters = sorted(
        (owner for owner in managed if owner.operation == "Update"),
        key=lambda owner: (managed[owner].time, owner),
    )
    surplus = len(updaters) - MAX_UPDATE_MANAGERS
    firsts: dict[str, FieldManager] = {}
    for owner in updaters:
        if surplus <= 0:
            break
        bucket = FieldManager(ANCIENT, "Update", owner.version, "")
        first = firsts.setdefault(owner.version, owner)
        if first is owner:
            continue
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        versioned = managed.pop(owner)
        managed[bucket] = replace(versioned, fields=union(versioned.fields, managed[bucket].fields))
        surplus -= 1
    return managed
