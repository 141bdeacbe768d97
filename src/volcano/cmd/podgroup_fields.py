"""Fields of a PodGroup that admission needs: a busy cluster has thousands of PodGroups."""

from typing import Any

import msgspec

from volcano.kube.api.manifest import Manifest


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - as on the wire


class _Spec(msgspec.Struct):
    queue: Any = ""


class _Status(msgspec.Struct):
    phase: Any = ""


class _Group(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_GROUP = msgspec.json.Decoder(_Group)


def slim_group(data: bytes) -> Manifest:
    """Reduces a PodGroup to name, version, queue and phase."""
    manifest: Manifest = msgspec.to_builtins(_GROUP.decode(data))
    return manifest
