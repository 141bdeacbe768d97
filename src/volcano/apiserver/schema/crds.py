"""CustomResourceDefinitions: the kinds they serve, the strategy of custom resources and the status of CRDs."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from volcano.apiserver.interfaces import Attributes, Column, Lookup, Served, admission_plugin
from volcano.apiserver.schema.crd_schema import CompiledSchema
from volcano.apiserver.schema.decoding import prune_metadata, unknown_metadata
from volcano.apiserver.schema.validation.metadata import metadata_causes, metadata_update_causes
from volcano.base.clock import Instant
from volcano.kube.api import kinds
from volcano.kube.api.crds import established_spec, kind_of
from volcano.kube.api.errors import Cause
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest, condition_of

_NOT_IN_GENERATION = ("apiVersion", "kind", "metadata", "status")
_AGE = Column("Age", "date", json_path=".metadata.creationTimestamp")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_NAME_FIELDS = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


class CustomResourceStrategy:
    """Strategy of custom resources: schema, status subresource and generation."""

    __slots__ = ("_has_status", "kind", "schema")

    def __init__(self, kind: Kind, schema: CompiledSchema) -> None:
        self.kind = kind
        self.schema = schema
        self._has_status = "status" in kind.subresources

    def try_reuse_spec(self, manifest: Manifest) -> bool:
        return False

    def unknown_fields(self, manifest: Manifest) -> list[str]:
        paths = [*unknown_metadata(manifest), *self.schema.unknown_fields(manifest)]
        return [f'unknown field "{path}"' for path in paths]

    def prune(self, manifest: Manifest, old: Manifest | None = None) -> None:
        prune_metadata(self.kind, manifest)
        self.schema.prune(manifest)

    def default(self, manifest: Manifest, old: Manifest | None = None) -> None:
        self.schema.default(manifest)

    def prepare_for_create(self, manifest: Manifest, now: Instant) -> None:
        """Drops the status of a kind with a status subresource."""
        if self._has_status:
            manifest.pop("status", None)
        manifest["metadata"]["generation"] = 1

    def prepare_for_update(self, new: Manifest, old: Manifest, subresource: str, now: Instant) -> None:
        metadata, before = new["metadata"], old["metadata"]
        generation = before.get("generation") or 1
        if subresource == "status":
            _keep_only_status(new, old)
            return
        if self._has_status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)
        metadata["generation"] = generation + 1 if self._increments_generation(new, old) else generation

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[Cause]:
        if old is None:
            causes = metadata_causes(new, self.kind)
        else:
            causes = metadata_update_causes(new, old)
        causes.extend(self.schema.causes(new, old))
        return causes

    def _increments_generation(self, new: Manifest, old: Manifest) -> bool:
        """Whether more than metadata has changed; status counts only without a status subresource."""
        ignored = _NOT_IN_GENERATION if self._has_status else _NOT_IN_GENERATION[:3]
        return any(new.get(name) != old.get(name) for name in new.keys() | old.keys() if name not in ignored)


def _keep_only_status(new: Manifest, old: Manifest) -> None:
    """Resets `new` to the old object with a new status."""
    metadata, status = new["metadata"], new.get("status")
    after = dict(old["metadata"])
    for name in ("resourceVersion", "managedFields"):
        if name in metadata:
            after[name] = metadata[name]
    new.clear()
    new.update(old)
    new["metadata"] = after
    if status is None:
        new.pop("status", None)
    else:
        new["status"] = status


def served(crd: Manifest) -> tuple[Served, ...]:
    """Served versions of a CRD; none until it is established."""
    spec = established_spec(crd)
    return () if spec is None else _served(crd["metadata"]["name"], orjson.dumps(spec))


@lru_cache(maxsize=256)
def _served(name: str, encoded: bytes) -> tuple[Served, ...]:
    """Cached by spec, so that a status update of the CRD does not compile its schemas again."""
    spec = orjson.loads(encoded)
    versions = sorted(spec["versions"], key=lambda version: version_rank(version["name"]))
    storage = next(version for version in versions if version.get("storage"))
    storage_kind = kind_of(spec, storage)
    return tuple(_serve(name, spec, version, storage_kind) for version in versions if version.get("served"))


def _serve(name: str, spec: Manifest, version: Manifest, storage: Kind) -> Served:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    if spec.get("preserveUnknownFields"):
        schema = {**schema, "x-kubernetes-preserve-unknown-fields": True}
    kind = kind_of(spec, version)
    return Served(
        kind,
        storage,
        CustomResourceStrategy(kind, CompiledSchema(schema)),
        columns_of(version),
        schema,
        name,
        tuple(each["jsonPath"] for each in version.get("selectableFields") or ()),
        _webhook_conversion(spec),
    )


def _webhook_conversion(spec: Manifest) -> Mapping[str, Any] | None:
    """The conversion of a CRD with several versions that a webhook converts."""
    conversion: Mapping[str, Any] = spec.get("conversion") or {}
    return conversion if conversion.get("strategy") == "Webhook" and len(spec["versions"]) > 1 else None


def columns_of(version: Mapping[str, Any]) -> tuple[Column, ...]:
    """Printer columns of a version after NAME; AGE if it has none."""
    columns = tuple(
        Column(
            each["name"],
            each.get("type", "string"),
            each.get("format", ""),
            each.get("description", ""),
            each.get("priority") or 0,
            each["jsonPath"],
        )
        for each in version.get("additionalPrinterColumns") or ()
    )
    return columns or (_AGE,)


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key of versions: v2, v1, v1beta2, v1beta1, v1alpha1, then names that are no Kubernetes versions."""
    found = _VERSION.fullmatch(version)
    if not found:
        return (3, 0, 0, version)
    major, stage, minor = found.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), "")


# -- status of CRDs --------------------------------------------------------------------------------------------------


def first_status(crd: Manifest, now: Instant) -> Manifest:
    """Status of a new CRD: names accepted, storage version stored, established."""
    spec = crd["spec"]
    moment = now.timestamp()
    return {
        "acceptedNames": _names(spec.get("names") or {}),
        "storedVersions": _storage_versions(spec),
        "conditions": [
            _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", moment),
            _condition(
                "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", moment
            ),
        ],
    }


def next_status(crd: Manifest, status: Manifest) -> Manifest:
    """Status of a CRD whose spec has changed: accepts the new names and adds the storage version."""
    spec = crd["spec"]
    stored = list(status.get("storedVersions") or ())
    stored += [name for name in _storage_versions(spec) if name not in stored]
    return {**status, "acceptedNames": _names(spec.get("names") or {}), "storedVersions": stored}


def _names(names: Mapping[str, Any]) -> Manifest:
    return {name: names[name] for name in _NAME_FIELDS if names.get(name)}


def _storage_versions(spec: Mapping[str, Any]) -> list[str]:
    return [str(version.get("name")) for version in spec.get("versions") or () if version.get("storage")]


def _condition(kind: str, status: str, reason: str, message: str, moment: str) -> Manifest:
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


@admission_plugin(kinds.CRD)
async def admit_crd(
    attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """Admission of CRDs: one whose names are in use is stored with NamesAccepted=False and not served."""
    if attributes.kind != kinds.CRD or new is None or attributes.subresource:
        return new
    conflict = name_conflict(new, lookup.all(kinds.CRD))
    if conflict is not None:
        _reject_names(new, *conflict)
    return new


def name_conflict(crd: Manifest, others: Iterable[Manifest]) -> tuple[str, str] | None:
    """Reason and message of the conflict if another CRD of the group has one of the names."""
    spec, own = crd["spec"], crd["metadata"].get("name")
    taken: dict[str, set[str]] = {"kind": set(), "resource": set()}
    for other in others:
        if other["metadata"]["name"] != own and other["spec"].get("group") == spec.get("group"):
            _add_names(taken, (other.get("status") or {}).get("acceptedNames") or {})
    names = spec.get("names") or {}
    for field, reason in (("plural", "PluralConflict"), ("singular", "SingularConflict")):
        if names.get(field) in taken["resource"]:
            return reason, f'"{names[field]}" is already in use'
    for short in names.get("shortNames") or ():
        if short in taken["resource"]:
            return "ShortNamesConflict", f'"{short}" is already in use'
    for field, reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        if names.get(field) in taken["kind"]:
            return reason, f'"{names[field]}" is already in use'
    return None


def _add_names(taken: Mapping[str, set[str]], names: Mapping[str, Any]) -> None:
    taken["resource"] |= {
        names.get("plural", ""),
        names.get("singular", ""),
        *(names.get("shortNames") or ()),
    }
    taken["kind"] |= {names.get("kind", ""), names.get("listKind", "")}


def _reject_names(crd: Manifest, reason: str, message: str) -> None:
    status = crd.setdefault("status", {})
    moment = next((each["lastTransitionTime"] for each in status.get("conditions") or ()), None) or ""
    established = condition_of(crd, "Established")
    was_served = (
        established is not None
        and established.get("reason") == "InitialNamesAccepted"
        and ((crd["metadata"].get("generation") or 1) > 1)
    )
    status["conditions"] = [
        _condition("NamesAccepted", "False", reason, message, moment),
        _condition(
            "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", moment
        )
        if was_served
        else _condition("Established", "False", "NotAccepted", "not all names are accepted", moment),
    ]
    if not was_served:
        status["acceptedNames"] = {"plural": "", "kind": ""}
