"""What a pod asks of its surroundings must make sense: its resolver, its groups, its confinement, its pauses."""

import re
from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.names import in_range, ip_address

_MOST_NAMESERVERS = 3
_MOST_SEARCHES = 32
_LONGEST_SEARCHES = 2048
_MAX_ID = 2**31 - 1
_SECCOMP = ("Localhost", "RuntimeDefault", "Unconfined")
_GROUP_CHANGES = ("Always", "OnRootMismatch")
_PROC_MOUNTS = ("Default", "Unmasked")
_SEARCH = r"[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?(\.[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?)*"


def dns_config(spec: Mapping[str, Any], path: str) -> Causes:
    """Complaints about the resolver a pod asks for; one of its own needs a nameserver."""
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
        yield from _resolver(config, f"{path}.dnsConfig")


def _resolver(config: Mapping[str, Any], path: str) -> Causes:
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _MOST_NAMESERVERS:
        detail = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        yield field.invalid(f"{path}.nameservers", servers, detail)
    for where, server in field.items(config, "nameservers", path):
        yield from field.each(where, server or "", ip_address(server or ""))
    if len(searches) > _MOST_SEARCHES:
        detail = f"must not have more than {_MOST_SEARCHES} search paths"
        yield field.invalid(f"{path}.searches", searches, detail)
    if len(" ".join(search or "" for search in searches)) > _LONGEST_SEARCHES:
        detail = (
            f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
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


def pod_confinement(context: Mapping[str, Any], path: str) -> Causes:
    """Complaints about the part of a pod's security context that its containers share."""
    for where, group in field.items(context, "supplementalGroups", path):
        if not 0 <= (group or 0) <= _MAX_ID:
            yield field.invalid(where, group, in_range(0, _MAX_ID))
    change = context.get("fsGroupChangePolicy")
    if change is not None and change not in _GROUP_CHANGES:
        yield field.unsupported(f"{path}.fsGroupChangePolicy", change, _GROUP_CHANGES)
    yield from _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")


def container_confinement(context: Mapping[str, Any], path: str) -> Causes:
    """Complaints about the part of a security context that a container has to itself."""
    mount = context.get("procMount")
    if mount is not None and mount not in _PROC_MOUNTS:
        yield field.unsupported(f"{path}.procMount", mount, _PROC_MOUNTS)
    yield from _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")


def _seccomp(profile: Mapping[str, Any] | None, path: str) -> Causes:
    if profile is None:
        return
    kind, file = profile.get("type"), profile.get("localhostProfile")
    if not kind:
        yield field.required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in _SECCOMP:
        yield field.unsupported(f"{path}.type", kind, _SECCOMP)
    if kind == "Localhost" and file is None:
        yield field.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    elif kind != "Localhost" and file is not None:
        yield field.invalid(
            f"{path}.localhostProfile", profile, "can only be set when seccomp type is Localhost"
        )


def pauses(container: Mapping[str, Any], path: str, grace: int | None) -> Causes:
    """Complaints about hooks that sleep: no longer than the pod is given to end."""
    for name in ("postStart", "preStop"):
        pause = ((container.get("lifecycle") or {}).get(name) or {}).get("sleep")
        if pause is None or grace is None:
            continue
        seconds = pause.get("seconds") or 0
        if not 0 <= seconds <= grace:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield field.invalid(f"{path}.lifecycle.{name}.sleep", seconds, detail)
