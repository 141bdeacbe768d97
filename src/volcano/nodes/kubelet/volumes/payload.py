"""Files of volumes that are made of ConfigMaps, Secrets, downward API fields and tokens."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.environment.downward import PodInfo, UnknownField, metadata_value, resource_value

DEFAULT_MODE = 0o644


class MountError(Exception):
    """A volume cannot be set up now; the message is that of the kubelet."""


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """One file of a volume; `owner` is its user if it is not the kubelet's."""

    data: bytes
    mode: int = DEFAULT_MODE
    owner: int | None = None


Payload = dict[str, VolumeFile]  # by the path within the volume


def from_config_map(known: Mapping[str, Manifest | None], source: Manifest, mode: int) -> Payload:
    """The files of a ConfigMap; `source` is a volume's or a projection's."""
    found = _object(known, source, source.get("name") or "", "configmap")
    content = {key: value.encode() for key, value in (found.get("data") or {}).items()}
    content |= {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
    return _select_items(content, source, mode, "configmap references non-existent config key: {}")


def from_secret(known: Mapping[str, Manifest | None], source: Manifest, mode: int) -> Payload:
    """The files of a Secret; its name is `secretName` in a volume and `name` in a projection."""
    found = _object(known, source, source.get("secretName") or source.get("name") or "", "secret")
    content = {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
    return _select_items(content, source, mode, "references non-existent secret key: {}")


def from_downward_api(pod: Manifest, items: Sequence[Manifest], mode: int, info: PodInfo) -> Payload:
    """The files of a downwardAPI volume."""
    payload = {}
    for item in items:
        try:
            if field := item.get("fieldRef"):
                text = metadata_value(pod, field["fieldPath"])
            else:
                text = resource_value(pod, item.get("resourceFieldRef") or {"resource": ""}, info)
        except UnknownField as error:
            raise MountError(str(error)) from None
        payload[item["path"]] = VolumeFile(text.encode(), _mode(item, mode))
    return payload


def _object(known: Mapping[str, Manifest | None], source: Manifest, name: str, kind: str) -> Manifest:
    found = known.get(name)
    if found is None:
        if not source.get("optional"):
            raise MountError(f'{kind} "{name}" not found')
        return {}
    return found


def _select_items(content: Mapping[str, bytes], source: Manifest, mode: int, error_format: str) -> Payload:
    """All files, or the selected items at their paths."""
    items = source.get("items")
    if not items:
        return {key: VolumeFile(data, mode) for key, data in content.items()}
    payload = {}
    for item in items:
        if item["key"] in content:
            payload[item["path"]] = VolumeFile(content[item["key"]], _mode(item, mode))
        elif not source.get("optional"):
            raise MountError(error_format.format(item["key"]))
    return payload


def _mode(item: Manifest, default: int) -> int:
    mode = item.get("mode")
    return default if mode is None else int(mode)


def nested_mount_points(pod: Manifest, volume: str) -> Iterator[str]:
    """Paths within a volume at which other volumes are mounted: a read-only volume must already contain them."""
    for group in ("initContainers", "containers"):
        for container in pod["spec"].get(group) or ():
            mounts = container.get("volumeMounts") or ()
            roots = [
                mount["mountPath"].rstrip("/") + "/"
                for mount in mounts
                if mount["name"] == volume and not (mount.get("subPath") or mount.get("subPathExpr"))
            ]
            for mount in mounts:
                path = mount["mountPath"].rstrip("/")
                yield from (path[len(root) :] for root in roots if path.startswith(root))
