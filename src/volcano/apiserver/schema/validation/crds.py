"""Validation of CustomResourceDefinitions: names, versions, structural schemas and CEL validation rules."""

from collections.abc import Iterator, Mapping
from typing import Any

from volcano.apiserver.schema.structural import compile_schema
from volcano.apiserver.schema.validation import crd_rules, field
from volcano.apiserver.schema.validation.crd_rules import Place, SchemaCost
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.webhook_configurations import client_config
from volcano.kube.api.formats.names import dns_1035_label, dns_subdomain, port_number
from volcano.kube.api.formats.re2_patterns import PatternError
from volcano.kube.api.manifest import Manifest

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SCOPES = ("Cluster", "Namespaced")
_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_CONVERSION = "spec.conversion"
# Not allowed inside anyOf, allOf, oneOf and not: value validations only.
_NOT_NESTED = (
    "description", "type", "default", "additionalProperties", "nullable", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
)  # fmt: skip
DEEPEST_SCHEMA = 100
_FORBIDDEN = (
    "$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id", "$schema",
)  # fmt: skip


def crd(manifest: Manifest) -> Causes:
    """Validates a CRD."""
    spec = manifest.get("spec") or {}
    names, group = spec.get("names") or {}, spec.get("group") or ""
    name = manifest["metadata"].get("name") or ""
    if name and name != f"{names.get('plural') or ''}.{group}":
        yield field.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield field.required("spec.group")
    elif errors := dns_subdomain(group):
        yield field.invalid("spec.group", group, ",".join(errors))
    elif "." not in group:
        yield field.invalid("spec.group", group, "should be a domain with at least one dot")
    yield from field.one_of("spec.scope", spec.get("scope"), _SCOPES, needed=True)
    yield from _names(names)
    yield from _versions(manifest, spec)
    yield from conversion(spec.get("conversion") or {})


def _names(names: Mapping[str, Any]) -> Causes:
    for name, check in (
        ("plural", dns_1035_label),
        ("singular", dns_1035_label),
        ("kind", _kind),
        ("listKind", _kind),
    ):
        value = names.get(name) or ""
        if not value:
            yield field.required(f"spec.names.{name}")
        elif errors := check(value):
            yield field.invalid(f"spec.names.{name}", value, ",".join(errors))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield field.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for part in ("shortNames", "categories"):
        for index, value in enumerate(names.get(part) or ()):
            if errors := dns_1035_label(value):
                yield field.invalid(f"spec.names.{part}[{index}]", value, ",".join(errors))


def _kind(value: str) -> tuple[str, ...]:
    return dns_1035_label(value.lower())


def _versions(manifest: Manifest, spec: Manifest) -> Causes:
    versions = spec.get("versions") or []
    storage = [version.get("name") for version in versions if version.get("storage")]
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name") or ""
        if errors := dns_1035_label(name):
            yield field.invalid(f"{path}.name", name, ",".join(errors))
            if not index:
                yield field.invalid(
                    "spec.version", name, ",".join(errors)
                )  # parity: the deprecated field is reported too
        yield from field.unique(f"{path}.name", name, seen)
    if len(storage) != 1:
        yield field.invalid(
            "spec.versions", versions, "must have exactly one version marked as storage version"
        )
    yield from _stored(manifest, [str(name) for name in storage])
    # parity: errors of a single version are reported under the top-level fields of v1beta1.
    alone = len(versions) == 1
    for index, version in enumerate(versions):
        yield from _version(version, "spec" if alone else f"spec.versions[{index}]", index)


def _stored(manifest: Manifest, storage: list[str]) -> Causes:
    stored = (manifest.get("status") or {}).get("storedVersions") or []
    if len(storage) == 1 and not stored:
        return
    if not storage and not stored:
        yield field.invalid("status.storedVersions", None, "must have at least one stored version")
    elif len(storage) > 1:
        yield field.invalid(
            "status.storedVersions", stored[:1], f"must have the storage version {storage[-1]}"
        )


def _version(version: Manifest, path: str, index: int) -> Causes:
    root = (version.get("schema") or {}).get("openAPIV3Schema")
    if root is None:
        yield field.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    else:
        where = f"{path}.validation.openAPIV3Schema" if path == "spec" else f"{path}.schema.openAPIV3Schema"
        if root.get("type") != "object" and root.get("type"):
            yield field.invalid(f"{where}.type", root["type"], "must be object at the root")
        elif not root.get("type"):
            yield field.required(f"{where}.type", "must not be empty at the root")
        yield from schema(root, where)
    for place, column in field.items(version, "additionalPrinterColumns", path):
        yield from _column(column, place)
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        for name, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
            value = scale.get(name) or ""
            if not value:
                yield field.required(f"{path}.subresources.scale.{name}")
            elif not value.startswith(prefix):
                text = f"should be a json path under {prefix.rstrip('.')}"
                yield field.invalid(f"{path}.subresources.scale.{name}", value, text)


def _column(column: Manifest, path: str) -> Causes:
    if not column.get("name"):
        yield field.required(f"{path}.name")
    kind = column.get("type") or ""
    if not kind:
        yield field.required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif kind not in _COLUMN_TYPES:
        yield field.invalid(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
    if not column.get("jsonPath"):
        yield field.required(f"{path}.JSONPath")
    elif not column["jsonPath"].startswith("."):
        yield field.invalid(
            f"{path}.JSONPath", column["jsonPath"], "must be a simple json path starting with ."
        )


def schema(value: Mapping[str, Any], path: str) -> Causes:
    """Validates that a schema and its subschemas are structural, and that their rules are not too expensive."""
    malformed = list(_malformed(value, path))
    if malformed:
        yield from malformed
        return
    cost = SchemaCost()
    yield from _schema(value, path, Place(root=True), cost)
    yield from cost.causes(path)


def _malformed(value: Mapping[str, Any], path: str) -> Causes:
    """Validates the depth of a schema and the types of its parts, without recursion."""
    waiting: list[tuple[Any, str, int]] = [(value, path, 0)]
    while waiting:
        part, where, depth = waiting.pop()
        if not isinstance(part, Mapping):
            yield field.invalid(where, part, "must be a schema, which is an object")
            continue
        if depth > DEEPEST_SCHEMA:
            text = f"schemas may be nested at most {DEEPEST_SCHEMA} levels deep"
            yield field.forbidden(where, text)
            return
        if isinstance(part.get("items"), list):
            yield field.forbidden(f"{where}.items", "items must be a schema object and not an array")
            continue
        for inner, name in _subschemas(part):
            waiting.append((inner, f"{where}.{name}", depth + 1))


def _subschemas(part: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for name in ("items", "not"):
        if part.get(name) is not None:
            yield part[name], name
    extra = part.get("additionalProperties")
    if extra is not None and not isinstance(extra, bool):
        yield extra, "additionalProperties"
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(part.get(name) or ()):
            yield inner, f"{name}[{index}]"
    for key, inner in (part.get("properties") or {}).items():
        yield inner, f"properties[{key}]"


def _schema(value: Mapping[str, Any], path: str, place: Place, cost: SchemaCost) -> Causes:
    root = place.root
    kind = value.get("type") or ""
    loose = value.get("x-kubernetes-int-or-string") or value.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not loose and not root:
        yield field.required(f"{path}.type", "must not be empty for specified object fields")
    elif kind and kind not in _TYPES:
        yield field.unsupported(f"{path}.type", kind, _TYPES)
    for name in _FORBIDDEN:
        if value.get(name):
            yield field.forbidden(f"{path}.{name}", f"{name} is not supported")
    if value.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field.forbidden(f"{path}.uniqueItems", text)
    if kind == "array" and value.get("items") is None:
        yield field.required(f"{path}.items", "must be specified")
    if value.get("properties") and value.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield field.forbidden(f"{path}.additionalProperties", text)
    yield from _extensions(value, path)
    yield from _compiled_parts(value, path, cost)
    yield from crd_rules.rules(value, path, place, cost)
    for name, sub in (value.get("properties") or {}).items():
        if not (root and name in ("metadata", "apiVersion", "kind")):
            yield from _schema(sub, f"{path}.properties[{name}]", place.property(), cost)
    for name in ("items", "additionalProperties"):
        if isinstance(value.get(name), Mapping):
            yield from _schema(value[name], f"{path}.{name}", place.below(value, path), cost)
    yield from _nested(value, path)


def _extensions(value: Mapping[str, Any], path: str) -> Causes:
    lists, keys = value.get("x-kubernetes-list-type"), value.get("x-kubernetes-list-map-keys") or []
    if lists is not None:
        yield from field.one_of(f"{path}.x-kubernetes-list-type", lists, ("atomic", "set", "map"))
        if value.get("type") != "array":
            yield field.invalid(
                f"{path}.type", value.get("type") or "", "must be array if x-kubernetes-list-type is set"
            )
    if lists == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield field.required(f"{path}.x-kubernetes-list-map-keys", text)
    items = value.get("items") or {}
    for key in keys:
        found = (items.get("properties") or {}).get(key)
        if found is None:
            text = "entries must all be names of item properties"
            yield field.invalid(f"{path}.x-kubernetes-list-map-keys", key, text)
        elif key not in (items.get("required") or ()) and "default" not in found:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield field.required(f"{path}.items.properties[{key}].default", text)


def _compiled_parts(value: Mapping[str, Any], path: str, cost: SchemaCost) -> Causes:
    """Validates patterns and defaults by compiling them."""
    if pattern := value.get("pattern"):
        problems = list(crd_rules.pattern(pattern, f"{path}.pattern", cost))
        if problems:
            yield from problems
            return
    if "default" in value:
        without_default = {name: each for name, each in value.items() if name != "default"}
        try:
            validate = compile_schema(without_default).validate
        except PatternError:
            return  # reported where the pattern is
        for found in validate(value["default"]) or ():
            yield found.cause()._replace(field=f"{path}.default{found.path}")


def _nested(value: Mapping[str, Any], path: str) -> Causes:
    for name in ("anyOf", "allOf", "oneOf"):
        for index, sub in enumerate(value.get(name) or ()):
            yield from _value_validations(sub, f"{path}.{name}[{index}]", value)
    if isinstance(value.get("not"), Mapping):
        yield from _value_validations(value["not"], f"{path}.not", value)


def _value_validations(value: Mapping[str, Any], path: str, parent: Mapping[str, Any]) -> Causes:
    allowed = ("type",) if parent.get("x-kubernetes-int-or-string") else ()
    for name in _NOT_NESTED:
        if value.get(name) and name not in allowed:
            yield field.forbidden(f"{path}.{name}", "must be empty to be structural")
    for name, sub in (value.get("properties") or {}).items():
        yield from _value_validations(
            sub, f"{path}.properties[{name}]", (parent.get("properties") or {}).get(name) or {}
        )


def crd_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates the immutable fields of an established CRD."""
    after, before = new["spec"], old["spec"]
    yield from field.immutable("spec.group", after.get("group"), before.get("group"))
    yield from field.immutable(
        "spec.names.plural", after["names"].get("plural"), before["names"].get("plural")
    )
    yield from field.immutable("spec.scope", after.get("scope"), before.get("scope"))
    yield from field.immutable("spec.names.kind", after["names"].get("kind"), before["names"].get("kind"))
    served = [version.get("name") for version in after.get("versions") or ()]
    for index, name in enumerate((new.get("status") or {}).get("storedVersions") or ()):
        if name not in served:
            text = "must appear in spec.versions"
            yield field.invalid(f"status.storedVersions[{index}]", name, text)


def conversion(given: Manifest) -> Causes:
    """Validates the strategy of a conversion and its webhook."""
    strategy = given.get("strategy")
    yield from field.one_of(f"{_CONVERSION}.strategy", strategy, _STRATEGIES, needed=True)
    webhook = given.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        for name, value in (("webhookClientConfig", client), ("conversionReviewVersions", versions)):
            if value:
                text = "should not be set when strategy is not set to Webhook"
                yield field.forbidden(f"{_CONVERSION}.{name}", text)
        return
    if client is None:
        yield field.required(f"{_CONVERSION}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_config(client, f"{_CONVERSION}.webhookClientConfig")
        port = (client.get("service") or {}).get("port")
        if port is not None and (errors := port_number(port)):
            where = f"{_CONVERSION}.webhookClientConfig.service.port"
            yield field.invalid(where, port, f"port is not valid: {','.join(errors)}")
    yield from _review_versions(versions)


def _review_versions(versions: list[str]) -> Causes:
    path = f"{_CONVERSION}.conversionReviewVersions"
    if not versions:
        yield field.required(path)
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield field.invalid(f"{path}[{index}]", version, "duplicate version")
        seen.add(version)
        if errors := dns_1035_label(version):
            yield field.invalid(f"{path}[{index}]", version, ",".join(errors))
    if not seen & set(_REVIEW_VERSIONS):
        yield field.invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")
