"""Validation of the security contexts of pods and containers."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api.formats.names import in_range

_MAX_ID = 2**31 - 1
_SECCOMP = ("Localhost", "RuntimeDefault", "Unconfined")
_GROUP_CHANGES = ("Always", "OnRootMismatch")
_PROC_MOUNTS = ("Default", "Unmasked")
_SYSCTL = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"


def pod_security_context(context: Mapping[str, Any], path: str) -> Causes:
    """Validates the security context of a pod."""
    yield from _user_ids(context, path)
    for where, group in field.items(context, "supplementalGroups", path):
        if not 0 <= (group or 0) <= _MAX_ID:
            yield field.invalid(where, group, in_range(0, _MAX_ID))
    change = context.get("fsGroupChangePolicy")
    if change is not None and change not in _GROUP_CHANGES:
        yield field.unsupported(f"{path}.fsGroupChangePolicy", change, _GROUP_CHANGES)
    yield from _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    for where, sysctl in field.items(context, "sysctls", path):
        name = sysctl.get("name") or ""
        if not name:
            yield field.required(f"{where}.name")
        elif len(name) > 253 or " " in name or name.lower() != name:
            text = f"must have at most 253 characters and match regex {_SYSCTL}"
            yield field.invalid(f"{where}.name", name, text)


def container_security_context(context: Mapping[str, Any], path: str) -> Causes:
    """Validates the security context of a container."""
    yield from _user_ids(context, path)
    mount = context.get("procMount")
    if mount is not None and mount not in _PROC_MOUNTS:
        yield field.unsupported(f"{path}.procMount", mount, _PROC_MOUNTS)
    yield from _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")


def _user_ids(context: Mapping[str, Any], path: str) -> Causes:
    """Validates the user and group ids of a security context."""
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(name)
        if value is not None and not 0 <= value <= _MAX_ID:
            yield field.invalid(f"{path}.{name}", value, in_range(0, _MAX_ID))


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
