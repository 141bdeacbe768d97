"""Validation of object metadata on create and update."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api.errors import Cause
from volcano.kube.api.formats.names import (
    NameCheck,
    dns_label,
    dns_subdomain,
    label_value,
    path_segment,
    qualified_name,
    url_path,
)
from volcano.kube.api.kinds import EVENT, Kind
from volcano.kube.api.manifest import Manifest

ANNOTATIONS_LIMIT = 256 * 1024
_MAX_CACHED_LENGTH = 2048  # of all label values together
_NEVER_OWNERS = {("v1", "Event")}
_EXCLUSIVE_FINALIZERS = ("orphan", "foregroundDeletion")
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def metadata_causes(manifest: Manifest, kind: Kind, name_check: NameCheck = dns_subdomain) -> list[Cause]:
    """Validates the metadata of a new object."""
    metadata = manifest["metadata"]
    causes: list[Cause] = []
    prefix, name = metadata.get("generateName"), metadata.get("name")
    if prefix:
        causes.extend(field.each("metadata.generateName", prefix, name_check(_without_dash(prefix))))
    if not name:
        causes.append(field.required("metadata.name", "name or generateName is required"))
    else:
        causes.extend(field.each("metadata.name", name, name_check(name)))
    namespace = metadata.get("namespace")
    if kind.namespaced:
        if not namespace:
            causes.append(field.required("metadata.namespace"))
        else:
            causes.extend(field.each("metadata.namespace", namespace, dns_label(namespace)))
    elif namespace:
        causes.append(field.forbidden("metadata.namespace", "not allowed on this type"))
    _common(metadata, causes)
    if finalizers := metadata.get("finalizers"):
        causes.extend(_finalizers(finalizers))
    return causes


def metadata_update_causes(new: Manifest, old: Manifest) -> list[Cause]:
    """Validates a change of the metadata of an object."""
    after, before = new["metadata"], old["metadata"]
    causes: list[Cause] = []
    if before.get("deletionTimestamp"):
        added = sorted(set(after.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if added:
            shown = ", ".join(field.shown(name) for name in added)
            causes.append(
                field.forbidden(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"[]string{{{shown}}}",
                )
            )
    for name in _IMMUTABLE:
        if after.get(name) != before.get(name):
            causes.extend(field.immutable(f"metadata.{name}", after.get(name), before.get(name)))
    if any(after.get(name) != before.get(name) for name in _VALIDATED):  # unchanged fields are valid
        _common(after, causes)
    return causes


def labels(values: Mapping[str, str], path: str) -> Causes:
    """Validates a map of labels; all errors have the path of the map."""
    for key, value in values.items():
        if errors := qualified_name(key):
            yield from field.each(path, key, errors)
        if errors := label_value(value):
            yield from field.each(path, value, errors)


def annotations(values: Mapping[str, str], path: str) -> Causes:
    """Validates a map of annotations."""
    for key in values:
        if errors := qualified_name(key.lower()):
            yield from field.each(path, key, errors)
    size = sum(map(len, values)) + sum(map(len, values.values()))
    if size > ANNOTATIONS_LIMIT:
        yield field.too_long(path, ANNOTATIONS_LIMIT)


def label_selector(selector: Mapping[str, Any] | None, path: str) -> Causes:
    """Validates a label selector."""
    if not selector:
        return
    yield from labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for where, expression in field.items(selector, "matchExpressions", path):
        operator, values = expression.get("operator"), expression.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                yield field.required(
                    f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                )
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield field.forbidden(
                    f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
        else:
            yield field.invalid(f"{where}.operator", operator or "", "not a valid selector operator")
        key = expression.get("key") or ""
        yield from field.each(f"{where}.key", key, qualified_name(key))
        for index, value in enumerate(values):
            yield from field.each(f"{where}.values[{index}]", value, label_value(value))


_VALIDATED = ("labels", "annotations", "ownerReferences", "generation")


def _common(metadata: Manifest, causes: list[Cause]) -> None:
    if values := metadata.get("labels"):
        causes.extend(_own_labels(values))
    if values := metadata.get("annotations"):
        causes.extend(annotations(values, "metadata.annotations"))
    if owners := metadata.get("ownerReferences"):
        causes.extend(_owners(owners))
    if (metadata.get("generation") or 0) < 0:
        causes.extend(field.not_negative("metadata.generation", metadata["generation"]))


def _own_labels(values: Mapping[str, str]) -> Iterable[Cause]:
    if sum(map(len, values.values())) > _MAX_CACHED_LENGTH:
        return labels(values, "metadata.labels")
    return _cached_labels(tuple(values.items()))


@lru_cache(maxsize=1024)  # the pods of one job often have the same labels
def _cached_labels(values: tuple[tuple[str, str], ...]) -> tuple[Cause, ...]:
    return tuple(labels(dict(values), "metadata.labels"))


def _owners(owners: list[Manifest]) -> Causes:
    path, first = "metadata.ownerReferences", ""
    for owner in owners:
        if not str(owner.get("apiVersion") or "").rpartition("/")[2]:
            yield field.invalid(
                f"{path}.apiVersion", owner.get("apiVersion") or "", "version must not be empty"
            )
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield field.invalid(f"{path}.{name}", owner.get(name) or "", "must not be empty")
        if (owner.get("apiVersion"), owner.get("kind")) in _NEVER_OWNERS:
            shown = f"{owner['apiVersion']}, Kind={owner['kind']}"
            yield field.invalid(path, owner, f"/{shown} is disallowed from being an owner")
        if owner.get("controller"):
            current = f"{owner.get('kind')}/{owner.get('name')}"
            if first:
                yield field.invalid(
                    path,
                    owners,
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {first} and {current}',
                )
            first = first or current


def _finalizers(finalizers: list[str]) -> Causes:
    for name in finalizers:
        yield from field.each("metadata.finalizers", name, qualified_name(name))
    if all(name in finalizers for name in _EXCLUSIVE_FINALIZERS):
        yield field.invalid(
            "metadata.finalizers", finalizers, "finalizer orphan and foregroundDeletion cannot be both set"
        )


def _without_dash(prefix: str) -> str:
    """Replaces a trailing dash of generateName by a letter, as the suffix would."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


_PATH_NAMES = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "PodDisruptionBudget")


def cron_job_name(value: str) -> tuple[str, ...]:
    """Validates the name of a CronJob; the names of its jobs are eleven characters longer."""
    return (*dns_subdomain(value), *(["must be no more than 52 characters"] if len(value) > 52 else ()))


NAME_CHECKS: Mapping[str, NameCheck] = {
    "Namespace": dns_label,
    "Service": dns_label,
    "StatefulSet": dns_label,
    "CronJob": cron_job_name,
    "CertificateSigningRequest": lambda value: (),
    **dict.fromkeys(_PATH_NAMES, path_segment),
}


def name_check_for(kind: Kind) -> NameCheck:
    """Returns the name validation of a built-in kind."""
    if kind == EVENT:  # not so in the group events.k8s.io
        return path_segment
    return NAME_CHECKS.get(kind.kind, dns_subdomain)


def domain_prefixed_path(path: str, value: str) -> Causes:
    """Validates a name such as `acme.io/foo`."""
    domain, _, rest = value.partition("/")
    if not domain or not rest:
        yield field.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from field.each(path, domain, dns_subdomain(domain))
    yield from field.each(path, rest, url_path(rest))
