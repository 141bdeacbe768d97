"""What ConfigMaps and Secrets must look like."""

import base64
import binascii
import json
from collections.abc import Mapping

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.names import config_key
from volcano.kube.manifest import Manifest

_LARGEST = 1024 * 1024
# What a secret of a well-known type must hold.
_SECRET_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_TOKEN_OWNER = "kubernetes.io/service-account.name"


def config_map(manifest: Manifest) -> Causes:
    """Complaints about a ConfigMap."""
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
    if size > _LARGEST:
        yield field.too_long("", _LARGEST)


def config_map_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from _frozen(new, old, ("data", "binaryData"))


def _frozen(new: Manifest, old: Manifest, names: tuple[str, ...]) -> Causes:
    """An object that was declared immutable stays as it is."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield field.forbidden("immutable", "field is immutable when `immutable` is set")
    for name in names:
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield field.forbidden(name, "field is immutable when `immutable` is set")


def secret(manifest: Manifest) -> Causes:
    """Complaints about a Secret."""
    data, kind = manifest.get("data") or {}, manifest.get("type") or ""
    size = 0
    for key, value in data.items():
        yield from field.each(f"data[{key}]", key, config_key(key))
        size += len(value) * 3 // 4
    if size > _LARGEST:
        yield field.too_long("data", _LARGEST)
    owner = (manifest["metadata"].get("annotations") or {}).get(_TOKEN_OWNER)
    if kind == "kubernetes.io/service-account-token" and not owner:
        yield field.required(f"metadata.annotations[{_TOKEN_OWNER}]")
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
    yield from _frozen(new, old, ("data",))
