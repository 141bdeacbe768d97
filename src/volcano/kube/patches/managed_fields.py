"""Who holds which fields of an object: managedFields, read and written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from volcano.kube.manifest import Manifest
from volcano.kube.patches.fieldset import FieldSet, union

ANCIENT = "ancient-changes"
MOST_UPDATERS = 10


class Owner(NamedTuple):
    """Whom fields belong to. An applier is the same whatever version it applies, so it has none here."""

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
class Holding:
    """What an owner holds, in which version it was written, and when."""

    fields: FieldSet
    version: str
    time: str = ""


Holdings = dict[Owner, Holding]


@dataclass(frozen=True, slots=True)
class Write:
    """Who writes to which part of an object, and when."""

    manager: str
    time: str
    subresource: str
    version: str

    def owner(self, operation: str) -> Owner:
        """Who this write makes the owner of what it writes."""
        return Owner(self.manager, operation, "" if operation == "Apply" else self.version, self.subresource)


def decode(entries: Iterable[Any]) -> Holdings:
    """Entries by owner; nothing at all if one of them is malformed, as then none can be trusted."""
    holdings: Holdings = {}
    for entry in entries:
        fields: Any = entry.get("fieldsV1") if isinstance(entry, Mapping) else None
        well_formed = fields is not None and entry.get("fieldsType") == "FieldsV1" and entry.get("apiVersion")
        if not well_formed or entry.get("operation") not in ("Apply", "Update"):
            return {}
        version = entry["apiVersion"]
        owner = Owner(
            entry.get("manager", ""),
            entry["operation"],
            "" if entry["operation"] == "Apply" else version,
            entry.get("subresource", ""),
        )
        holdings[owner] = Holding(fields, version, entry.get("time") or "")
    return holdings


def sole_entry(write: Write, fields: FieldSet) -> Manifest:
    """The one entry of an object whose fields are all the writer's."""
    return _entry(write.manager, "Update", write.version, write.time, fields, write.subresource)


def encode(holdings: Holdings) -> list[Manifest]:
    """The managedFields list, in the order a real server keeps."""
    ordered = sorted(
        holdings.items(),
        key=lambda item: (item[0].operation, item[1].time, item[0].manager, item[1].version, item[0]),
    )
    return [
        _entry(
            owner.manager, owner.operation, holding.version, holding.time, holding.fields, owner.subresource
        )
        for owner, holding in ordered
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


def capped(holdings: Holdings) -> Holdings:
    """Merges the oldest updaters, version by version, when there are too many."""
    updaters = sorted(
        (owner for owner in holdings if owner.operation == "Update"),
        key=lambda owner: (holdings[owner].time, owner),
    )
    surplus = len(updaters) - MOST_UPDATERS
    firsts: dict[str, Owner] = {}
    for owner in updaters:
        if surplus <= 0:
            break
        bucket = Owner(ANCIENT, "Update", owner.version, "")
        first = firsts.setdefault(owner.version, owner)
        if first is owner:
            continue
        if bucket not in holdings:
            holdings[bucket] = holdings.pop(first)
        holding = holdings.pop(owner)
        holdings[bucket] = replace(holding, fields=union(holding.fields, holdings[bucket].fields))
        surplus -= 1
    return holdings
