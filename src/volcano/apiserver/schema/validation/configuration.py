"""Validation of ConfigMaps and Secrets."""

import base64
import binascii
import json
from collections.abc import Mapping

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api.formats.names import config_key
from volcano.kube.api.manifest import Manifest

_MAX_SIZE = 1024 * 1024
# Keys that a Secret of a well-known type must have.
_SECRET_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def config_map(manifest: Manifest) -> Causes:
    """Validates a ConfigMap."""
    data, binary = manifest.get("data") or {}, manifest.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        yield from field.each(f"data[{key}]", key, config_key(key))
        if key in binary:
            yield field.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(value.encode())
    for key, value in binary.items():
        yield from field.each(f"binaryData[{key}]", key, config_key(key))
        size += len(value) * 3 // 4
    if size > _MAX_SIZE:
        yield field.too_long("", _MAX_SIZE)


def config_map_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from _immutable_data(new, old, ("data", "binaryData"))


def _immutable_data(new: Manifest, old: Manifest, names: tuple[str, ...]) -> Causes:
    """Validates that an object with `immutable: true` does not change."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield field.forbidden("immutable", "field is immutable when `immutable` is set")
    for name in names:
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield field.forbidden(name, "field is immutable when `immutable` is set")


def secret(manifest: Manifest) -> Causes:
    """Validates a Secret."""
    data, kind = manifest.get("data") or {}, manifest.get("type") or ""
    size = 0
    for key, value in data.items():
        yield from field.each(f"data[{key}]", key, config_key(key))
        size += len(value) * 3 // 4
    if size > _MAX_SIZE:
        yield field.too_long("data", _MAX_SIZE)
    owner = (manifest["metadata"].get("annotations") or {}).get(_SERVICE_ACCOUNT_NAME)
    if kind == "kubernetes.io/service-account-token" and not owner:
        yield field.required(f"metadata.annotations[{_SERVICE_ACCOUNT_NAME}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield field.required("data[username]")
        yield field.required("data[password]")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            yield field.required(f"data[{key}]")
        elif key.startswith(".docker") and not _is_json(data[key]):
            yield field.invalid(f"data[{key}]", "<secret contents redacted>", "invalid character in JSON")


def _is_json(encoded: str) -> bool:
    try:
        json.loads(base64.b64decode(encoded))
    except (ValueError, binascii.Error):
        return False
    return True


def secret_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from field.immutable("type", new.get("type"), old.get("type"))
    yield from _immutable_data(new, old, ("data",))
