"""Validation of pods and pod templates, and of pod updates."""

import re
from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.containers import containers
from volcano.apiserver.schema.validation.devices.pods import claim_statuses, pod_claims
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import annotations, labels
from volcano.apiserver.schema.validation.pod_resources import pod_resources
from volcano.apiserver.schema.validation.scheduling import affinity, spread, tolerations
from volcano.apiserver.schema.validation.security_context import pod_security_context
from volcano.apiserver.schema.validation.volumes import volumes
from volcano.kube.api.formats.names import (
    dns_label,
    dns_subdomain,
    in_range,
    ip_address,
    qualified_name,
)
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_MAX_DEADLINE = 2**31 - 1
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCHES_LENGTH = 2048
_SEARCH = r"[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?(\.[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?)*"
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_MUTABLE_FIELDS = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod(manifest: Manifest) -> Causes:
    """Validates a pod without its spec."""
    for index, name in enumerate(manifest["metadata"].get("finalizers") or ()):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            yield field.invalid(
                f"metadata.finalizers[{index}]",
                name,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def pod_create(manifest: Manifest) -> Causes:
    """Validates a new pod."""
    if (manifest.get("spec") or {}).get("ephemeralContainers"):
        yield field.forbidden("spec.ephemeralContainers", "cannot be set on create")


def template(value: Mapping[str, Any], path: str) -> Causes:
    """Validates a pod template."""
    metadata, spec = value.get("metadata") or {}, value.get("spec") or {}
    yield from labels(metadata.get("labels") or {}, f"{path}.labels")
    yield from annotations(metadata.get("annotations") or {}, f"{path}.annotations")
    yield from pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        yield field.forbidden(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def pod_spec(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates the spec of a pod or pod template."""
    named = {volume.get("name") or "": volume for volume in spec.get("volumes") or ()}
    if named:
        yield from volumes(spec, path)
    yield from containers(spec, path, named)
    yield from pod_claims(spec, path)
    if spec.get("resources"):
        yield from pod_resources(spec, path)
    yield from field.one_of(
        f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES, needed=True
    )
    policy = spec.get("dnsPolicy")
    yield from field.one_of(f"{path}.dnsPolicy", policy, _DNS_POLICIES, needed=True)
    if policy == "None" or spec.get("dnsConfig"):
        yield from _dns_config(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        yield field.invalid(f"{path}.activeDeadlineSeconds", deadline, in_range(1, _MAX_DEADLINE))
    yield from _names(spec, path)
    if rules := spec.get("affinity"):
        yield from affinity(rules, f"{path}.affinity")
    if spec.get("tolerations"):
        yield from tolerations(spec, path)
    if spec.get("topologySpreadConstraints"):
        yield from spread(spec, path)
    if context := spec.get("securityContext"):
        yield from pod_security_context(context, f"{path}.securityContext")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield field.invalid(
            f"{path}.securityContext.shareProcessNamespace",
            True,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        )
    yield from field.one_of(f"{path}.preemptionPolicy", spec.get("preemptionPolicy"), _PREEMPTION)
    yield from _gates(spec, path)


def _names(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates references by name, hostname and host aliases."""
    if selector := spec.get("nodeSelector"):
        yield from labels(selector, f"{path}.nodeSelector")
    for name, check in _NAME_CHECKS:
        if value := spec.get(name):
            yield from field.each(f"{path}.{name}", value, check(value))
    for where, alias in field.items(spec, "hostAliases", path):
        address = alias.get("ip") or ""
        yield from field.each(f"{where}.ip", address, ip_address(address))
        for index, host in enumerate(alias.get("hostnames") or ()):
            yield from field.each(f"{where}.hostnames[{index}]", host, dns_subdomain(host))


_NAME_CHECKS = (
    ("nodeName", dns_subdomain),
    ("serviceAccountName", dns_subdomain),
    ("hostname", dns_label),
    ("subdomain", dns_label),
    ("priorityClassName", dns_subdomain),
    ("runtimeClassName", dns_subdomain),
)


def _dns_config(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates dnsConfig; dnsPolicy None needs at least one nameserver."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield field.required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield field.required(f"{path}.dnsConfig.nameservers", detail)
            return
    if config:
        yield from _resolver_options(config, f"{path}.dnsConfig")


def _resolver_options(config: Mapping[str, Any], path: str) -> Causes:
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        yield field.invalid(f"{path}.nameservers", servers, detail)
    for where, server in field.items(config, "nameservers", path):
        yield from field.each(where, server or "", ip_address(server or ""))
    if len(searches) > _MAX_SEARCHES:
        detail = f"must not have more than {_MAX_SEARCHES} search paths"
        yield field.invalid(f"{path}.searches", searches, detail)
    if len(" ".join(search or "" for search in searches)) > _MAX_SEARCHES_LENGTH:
        detail = (
            f"must not have more than {_MAX_SEARCHES_LENGTH} characters (including spaces) in the search list"
        )
        yield field.invalid(f"{path}.searches", searches, detail)
    for where, search in field.items(config, "searches", path):
        if search != ".":
            yield from _search(where, (search or "").removesuffix("."))
    for where, option in field.items(config, "options", path):
        if not option.get("name"):
            yield field.required(where, "must not be empty")


def _search(where: str, search: str) -> Causes:
    if len(search) > 253:
        yield field.invalid(where, search, "must be no more than 253 characters")
    if not re.fullmatch(_SEARCH, search):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and "
            "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        )
        yield field.invalid(where, search, f"{rule}'{_SEARCH}')")


def _gates(spec: Mapping[str, Any], path: str) -> Causes:
    seen: set[str] = set()
    for where, gate in field.items(spec, "schedulingGates", path):
        name = gate.get("name") or ""
        yield from field.each(where, name, qualified_name(name))
        yield from field.unique(where, name, seen)
    for where, gate in field.items(spec, "readinessGates", path):
        name = gate.get("conditionType") or ""
        yield from field.each(f"{where}.conditionType", name, qualified_name(name))


def pod_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates a pod update: nearly all of the spec is immutable."""
    if subresource == "status":
        yield from _status_update(new, old)
        yield from claim_statuses(new)
        return
    if subresource == "ephemeralcontainers":
        return
    after, before = new["spec"], old["spec"]
    for name in ("containers", "initContainers"):
        if len(after.get(name) or ()) != len(before.get(name) or ()):
            yield field.forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
    deadline, previous = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline != previous:
        if deadline is None:
            yield field.invalid(
                "spec.activeDeadlineSeconds", deadline, "must not update from a positive integer to nil value"
            )
        elif previous is not None and deadline > previous:
            yield field.invalid(
                "spec.activeDeadlineSeconds", deadline, "must be less than or equal to previous value"
            )
    remaining = [_without_seconds(toleration) for toleration in after.get("tolerations") or ()]
    if any(_without_seconds(toleration) not in remaining for toleration in before.get("tolerations") or ()):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield field.forbidden("spec.tolerations", text)
    yield from _new_gates(after, before)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and after.get(
        "terminationGracePeriodSeconds"
    ) == 1:
        before = {**before, "terminationGracePeriodSeconds": 1}
    keep = ("image", "resources") if subresource == "resize" else ("image",)
    gated = bool(before.get("schedulingGates"))
    if _immutable_part(after, keep, gated=gated) != _immutable_part(before, keep, gated=gated):
        yield field.forbidden("spec", _MUTABLE_FIELDS)


def _without_seconds(toleration: Manifest) -> Manifest:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _new_gates(after: Manifest, before: Manifest) -> Causes:
    present = [gate["name"] for gate in before.get("schedulingGates") or ()]
    for where, gate in field.items(after, "schedulingGates", "spec"):
        name = gate.get("name")
        if name not in present:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield field.forbidden(f"{where}.name", text)


def _immutable_part(spec: Manifest, keep: tuple[str, ...], *, gated: bool) -> Manifest:
    """Immutable part of a pod spec; the scheduling directives of gated pods may change."""
    mutable = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    directives = ("nodeSelector", "affinity") if gated else ()
    immutable = {
        name: value
        for name, value in spec.items()
        if name not in mutable + directives and value not in ([], {})
    }
    for name in ("containers", "initContainers"):
        if spec.get(name):
            immutable[name] = [
                {key: value for key, value in container.items() if key not in keep}
                for container in spec[name]
            ]
    return immutable


def _status_update(new: Manifest, old: Manifest) -> Causes:
    status = new.get("status") or {}
    before = old.get("status") or {}
    name = status.get("nominatedNodeName")
    if name:
        yield from field.each("status.nominatedNodeName", name, dns_subdomain(name))
    policy = (old.get("spec") or {}).get("restartPolicy")
    if policy == "Always" or before.get("phase") in TERMINAL_PHASES:
        return
    running = {
        each["name"]
        for each in status.get("containerStatuses") or ()
        if (each.get("state") or {}).get("running")
    }
    for each in before.get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated")
        if ended and each["name"] in running and (policy == "Never" or ended.get("exitCode") == 0):
            yield field.forbidden(
                "status.containerStatuses[0].state", "may not be transitioned to non-terminated state"
            )
