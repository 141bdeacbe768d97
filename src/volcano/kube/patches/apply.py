"""Server-side apply: field ownership, the merge of an applied configuration, and conflicts."""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, Protocol

import orjson

from volcano.kube.api.errors import BadRequest, Cause, Conflict
from volcano.kube.api.manifest import Manifest
from volcano.kube.patches import fieldset, merge_types, merging
from volcano.kube.patches.fieldset import FieldSet, difference, intersection, union
from volcano.kube.patches.managed_fields import (
    FieldManager,
    ManagedFields,
    VersionedSet,
    Write,
    cap_update_managers,
    decode,
    encode,
    single_entry,
)
from volcano.kube.patches.merge_types import Schema
from volcano.kube.patches.merging import Comparison

__all__ = ["Schema", "apply_patch", "built_in", "custom", "manager_name", "track_update"]

built_in, custom = merge_types.built_in, merge_types.custom

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY = "before-first-apply"
MAX_ANNOTATION_BYTES = 256 * 1024
# Fields without an owner: the server sets them, or they identify the object.
_IDENTITY = frozenset({
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
})  # fmt: skip
# Metadata whose field set depends on its keys only, not on its values.
_NAMED = _IDENTITY | {"labels", "annotations", "generateName"}
MAX_OUTLINES = 64  # of the metadata of objects that share a spec
_TYPE = frozenset({"apiVersion", "kind"})
_NON_MEMBER: FieldSet = {"f:labels": {}}  # a node that is no member itself
_UNOWNED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}} | {f"f:{name}": {} for name in _IDENTITY},
}


# Field sets of objects with the same spec, by the outline of their metadata.
FieldSetsByOutline = dict[Any, FieldSet]


class FieldSetCache(Protocol):
    """Caches field sets by spec: many new objects share one."""

    def get(self, part: object) -> FieldSetsByOutline | None: ...

    def put(self, part: object, found: FieldSetsByOutline) -> None: ...


def manager_name(field_manager: str, user_agent: str) -> str:
    """The manager name of a write: given by the client, or the first part of its user agent."""
    return field_manager or user_agent.split("/", 1)[0][:128] or "unknown"


def track_update(
    schema: Schema,
    old: Manifest | None,
    new: Manifest,
    manager: str,
    now_timestamp: str,
    subresource: str = "",
    api_version: str = "",
    specs: FieldSetCache | None = None,
) -> None:
    """Records in `new` that the manager owns the fields that differ from `old` (None on create).

    A request may itself replace managedFields, or reset them with an empty list; without any, those of
    `old` are kept. Objects without tracked fields stay untracked until the first apply; so does one with
    list elements that their keys do not distinguish, since tracking must not fail a write.
    """
    metadata = new["metadata"]
    write = Write(manager, now_timestamp, subresource, api_version or new["apiVersion"])
    entries = _starting_entries(metadata.pop("managedFields", None), old, subresource)
    if old is not None and not entries:
        return
    try:
        if entries:
            managed = _updated(schema, old or {}, new, decode(entries), write)
        elif fields := _written(schema, new, subresource, specs):
            metadata["managedFields"] = [single_entry(write, fields)]
            return
        else:
            return
    except (ValueError, RecursionError):
        return
    if managed:
        metadata["managedFields"] = encode(managed)


def apply_patch(
    schema: Schema,
    live: Manifest | None,
    applied: Manifest,
    manager: str,
    force: bool,
    now_timestamp: str,
    subresource: str = "",
    api_version: str = "",
) -> Manifest:
    """Returns the object after an apply: the configuration is merged in, fields that are no longer applied
    and have no other owner are removed.

    Raises Conflict, naming each changed field that another manager owns, unless `force` takes them over.
    """
    write = Write(manager, now_timestamp, subresource, api_version or applied.get("apiVersion", ""))
    applied = _checked(schema, applied, write)
    before = _without_managed(live) if live is not None else {}
    managed = decode((live or {}).get("metadata", {}).get("managedFields") or ())
    try:
        if live is not None and not managed:
            first = replace(write, manager=BEFORE_FIRST_APPLY)
            managed = _owned_by(_created(schema, before, subresource), first)
        merged, kept = _applied(schema, before, applied, managed, write, force=force)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"failed to create typed live object ({_describe(before)}): {error}") from None
    if merged != before:
        kept = _stamped(kept, write)
    result: Manifest = merging.without_empty_fields(schema.type, merged)
    result["metadata"] = dict(result.get("metadata") or {})
    if manager == "kubectl":
        _sync_last_applied(applied, result)
    encoded = encode({owner: versioned for owner, versioned in kept.items() if versioned.fields})
    if encoded:
        result["metadata"]["managedFields"] = encoded
    return result


def _checked(schema: Schema, applied: Manifest, write: Write) -> Manifest:
    """Returns the applied configuration without nulls. Raises BadRequest when its version is wrong or it does
    not fit the schema."""
    if applied.get("apiVersion") != write.version:
        raise BadRequest(
            "Incorrect version specified in apply patch. "
            f"Specified patch version: {applied.get('apiVersion')}, expected: {write.version}"
        )
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    applied = _without_nulls(applied)
    try:
        problems = merging.unknown_fields(schema.type, applied) + merging.duplicate_elements(
            schema.type, applied
        )
    except ValueError as error:
        problems = [str(error)]
    if problems:
        raise BadRequest(f"failed to create typed patch object ({_describe(applied)}): {'; '.join(problems)}")
    return applied


def _describe(manifest: Manifest) -> str:
    metadata = manifest.get("metadata") or {}
    version: str = manifest["apiVersion"] if "/" in manifest["apiVersion"] else f"/{manifest['apiVersion']}"
    return (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {version}, Kind={manifest.get('kind')}"
    )


def _applied(
    schema: Schema, live: Manifest, applied: Manifest, managed: ManagedFields, write: Write, *, force: bool
) -> tuple[Manifest, ManagedFields]:
    """Returns the merged and pruned object and its managed fields; raises Conflict unless forced."""
    me = write.owner("Apply")
    last = managed.get(me)
    merged = merging.merge(schema.type, live, applied)
    mine = _owned(schema, merging.to_field_set(schema.type, applied), write.subresource)
    managed = {**managed, me: VersionedSet(mine, write.version, last.time if last else "")}
    if last and last.fields:
        merged = _pruned(schema, merged, managed.values(), last.fields)
    change = merging.compare(schema.type, live, merged)
    conflicts = _conflicts(managed, change, me)
    if conflicts and not force:
        conflicts = _without_last_applied(schema, live, conflicts, write)
        if conflicts:
            raise _conflict(conflicts)
    rest = _without_changed(managed, change, me)
    rest[me] = replace(managed[me], fields=difference(mine, _UNOWNED))
    return merged, rest


def _conflicts(managed: ManagedFields, change: Comparison, me: FieldManager) -> dict[FieldManager, FieldSet]:
    written = change.written
    found = {
        owner: intersection(versioned.fields, written) for owner, versioned in managed.items() if owner != me
    }
    return {owner: fields for owner, fields in found.items() if fields}


def _without_last_applied(
    schema: Schema, live: Manifest, conflicts: dict[FieldManager, FieldSet], write: Write
) -> dict[FieldManager, FieldSet]:
    """Drops the conflicts that arise when kubectl moves from client-side to server-side apply.

    Fields that are still as kubectl last applied them, according to its annotation, are its own.
    """
    if write.manager != "kubectl":
        return conflicts
    try:
        last = orjson.loads((live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED, ""))
    except orjson.JSONDecodeError:
        return conflicts
    if not isinstance(last, dict) or last.get("apiVersion") != write.version:
        return conflicts
    change = merging.compare(schema.type, last, live)
    allowed = merging.to_field_set(schema.type, last)
    for fields in (change.modified, change.added, change.removed):
        allowed = difference(allowed, fields)
    rest = {owner: difference(fields, allowed) for owner, fields in conflicts.items()}
    return {owner: fields for owner, fields in rest.items() if fields}


def _conflict(conflicts: dict[FieldManager, FieldSet]) -> Conflict:
    listed = [(str(owner), list(fieldset.paths(fields))) for owner, fields in sorted(conflicts.items())]
    causes = [
        Cause("FieldManagerConflict", f"conflict with {owner}", path)
        for owner, paths in listed
        for path in paths
    ]
    if len(causes) == 1:
        return Conflict(
            f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes=causes
        )
    lines = [
        line
        for owner, paths in listed
        for line in (f"conflicts with {owner}:", *(f"- {path}" for path in paths))
    ]
    return Conflict(f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines), causes=causes)


def _pruned(schema: Schema, merged: Manifest, managed: Iterable[VersionedSet], last: FieldSet) -> Manifest:
    """Returns `merged` without the fields that this manager applied last time, does not apply now and no
    other owns."""

    def spelled_out(fields: FieldSet) -> FieldSet:
        return merging.ensure_named_fields_are_members(schema.type, fields)

    held: FieldSet = {}
    for versioned in managed:
        held = union(held, versioned.fields)
    present = spelled_out(merging.to_field_set(schema.type, merged))
    bare = merging.remove(schema.type, merged, spelled_out(last))
    kept = union(spelled_out(merging.to_field_set(schema.type, bare)), spelled_out(held))
    pruned = merging.remove(schema.type, merged, difference(present, kept))
    gone = difference(present, spelled_out(merging.to_field_set(schema.type, pruned)))
    result: Manifest = merging.remove(schema.type, merged, intersection(gone, spelled_out(last)))
    return result


def _updated(
    schema: Schema, old: Manifest, new: Manifest, managed: ManagedFields, write: Write
) -> ManagedFields:
    """Returns the managed fields after a write that is not an apply."""
    change = merging.compare(schema.type, _without_managed(old), new)
    if not (change.removed or change.modified or change.added):
        return managed
    rest = _without_changed(managed, change, None)
    fields = difference(_owned(schema, change.written, write.subresource), _UNOWNED)
    if fields:
        me = write.owner("Update")
        before = rest[me].fields if me in rest else {}
        rest[me] = VersionedSet(union(before, fields), write.version, write.time)
    return cap_update_managers(rest)


def _without_changed(managed: ManagedFields, change: Comparison, me: FieldManager | None) -> ManagedFields:
    """Returns the fields that managers other than `me` still own after a change."""
    lost = union(change.written, change.removed)
    rest: ManagedFields = {}
    for owner, versioned in managed.items():
        fields = difference(versioned.fields, lost)
        if owner != me and fields:
            rest[owner] = versioned if fields is versioned.fields else replace(versioned, fields=fields)
    return rest


def _owned_by(fields: FieldSet, write: Write) -> ManagedFields:
    """Returns managed fields with the writer as owner of all fields."""
    return {write.owner("Update"): VersionedSet(fields, write.version, write.time)} if fields else {}


def _written(schema: Schema, manifest: Manifest, subresource: str, specs: FieldSetCache | None) -> FieldSet:
    """Returns the field set of a new object, cached for objects with the same spec and the same outline of
    metadata."""
    outline = _outline(manifest["metadata"])
    if specs is None or outline is None or subresource or not manifest.get("spec"):
        return _created(schema, manifest, subresource)
    written = specs.get(manifest["spec"])
    if written is None:
        specs.put(manifest["spec"], written := {})
    fields = written.get(outline)
    if fields is None:
        fields = _created(schema, manifest, subresource)
        if len(written) < MAX_OUTLINES:
            written[outline] = fields
    return fields


def _outline(metadata: Manifest) -> Hashable:
    """The part of an object's metadata that determines its field set; None when values matter too."""
    if not metadata.keys() <= _NAMED:
        return None
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    return (
        tuple(metadata),
        None if labels is None else tuple(labels),
        None if annotations is None else tuple(annotations),
    )


def _created(schema: Schema, manifest: Manifest, subresource: str) -> FieldSet:
    """Returns the field set of a new object."""
    skipped = _TYPE if subresource else _TYPE | schema.ignored
    kept = {key: value for key, value in manifest.items() if key not in skipped}
    kept["metadata"] = {key: value for key, value in manifest["metadata"].items() if key not in _IDENTITY}
    fields = merging.fields_of_new_object(schema.type, kept)
    if fieldset.is_member(fields.get("f:metadata", _NON_MEMBER)):
        return difference(fields, _UNOWNED)
    return fields


def _owned(schema: Schema, fields: FieldSet, subresource: str) -> FieldSet:
    """Returns the fields that a write to the object itself can own: without status where that is a
    subresource."""
    if subresource or not schema.ignored:
        return fields
    return {
        path_element: node for path_element, node in fields.items() if path_element[2:] not in schema.ignored
    }


def _stamped(managed: ManagedFields, write: Write) -> ManagedFields:
    me = write.owner("Apply")
    return {**managed, me: replace(managed[me], time=write.time)}


def _starting_entries(given: Any, old: Manifest | None, subresource: str) -> list[Any]:
    """Returns the managedFields a write starts from: its own, or those of the object."""
    had: list[Any] = ((old or {}).get("metadata") or {}).get("managedFields") or []
    if subresource or not isinstance(given, list):
        return had
    if not any(given):
        return []  # an empty list, or one empty entry, resets
    return given if decode(given) and _well_formed(given) else had


def _well_formed(entries: list[Any]) -> bool:
    try:
        for entry in entries:
            fieldset.check(entry["fieldsV1"])
    except (ValueError, RecursionError):
        return False
    return True


def _without_managed(manifest: Manifest) -> Manifest:
    metadata = manifest.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return manifest
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**manifest, "metadata": kept}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _sync_last_applied(applied: Manifest, result: Manifest) -> None:
    """Keeps kubectl's client-side annotation up to date where it is in use, so that client-side apply still
    works."""
    annotations = result["metadata"].get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return
    metadata = dict(applied.get("metadata") or {})
    if "annotations" in metadata:
        given = metadata["annotations"].items()
        metadata["annotations"] = {key: value for key, value in given if key != LAST_APPLIED}
    text = orjson.dumps({**applied, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    kept = {**annotations, LAST_APPLIED: text}
    if sum(len(key) + len(value) for key, value in kept.items()) > MAX_ANNOTATION_BYTES:
        del kept[LAST_APPLIED]
    result["metadata"]["annotations"] = kept
