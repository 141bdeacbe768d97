"""Disk usage of pods and its limits."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from volcano.kube.api.manifest import Manifest
from volcano.kube.api.quantity import Quantity, read
from volcano.nodes.kubelet.options import CONTAINERS
from volcano.nodes.kubelet.pods.lifecycle import PodFailure
from volcano.nodes.kubelet.pods.pod_resources import totals
from volcano.nodes.kubelet.volumes.store import volume_path

RESOURCE = "ephemeral-storage"
SANDBOX = "sandbox"  # below a pod's directory: contains the root directories of containers by name
EVICTED = "Evicted"
EVICTION_GRACE = 1.0  # seconds, as in the kubelet


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """Limits of a pod: of each volume, of each container outside of volumes, and in total."""

    volumes: Mapping[str, Quantity] = field(default_factory=dict)
    containers: Mapping[str, Quantity] = field(default_factory=dict)
    total: Quantity | None = None

    def __bool__(self) -> bool:
        return bool(self.volumes or self.containers or self.total)


@dataclass(frozen=True, slots=True)
class StorageUsage:
    """Disk usage of a pod in bytes; `total` includes files of neither a volume nor a container."""

    volumes: Mapping[str, int]
    containers: Mapping[str, int]
    total: int


def limits_of(spec: Manifest) -> StorageLimits:
    """The limits in a pod's spec; false when there are none."""
    volumes = {
        volume["name"]: read(volume["emptyDir"]["sizeLimit"])
        for volume in spec.get("volumes") or ()
        if (volume.get("emptyDir") or {}).get("sizeLimit")
    }
    containers = dict(_container_limits(spec, "containers"))
    some = [*containers.values(), *dict(_container_limits(spec, "initContainers")).values()]
    total = Decimal(int(totals(spec, "limits").get(RESOURCE, 0.0)))
    return StorageLimits(
        {name: limit for name, limit in volumes.items() if limit.amount > 0},
        {name: limit for name, limit in containers.items() if limit.amount > 0},
        Quantity(total, some[0].family) if some else None,
    )


def measure_usage(spec: Manifest, directory: Path, layers: Mapping[str, int]) -> StorageUsage:
    """The usage below a pod's directory; `layers` are the sizes of container roots that are elsewhere."""
    volumes: dict[str, int] = {}
    on_disk = 0  # in volumes that count as storage, not as memory
    for volume in spec.get("volumes") or ():
        kind = next((each for each in _VOLUMES if volume.get(each) is not None), "")
        if kind:
            used = disk_bytes(volume_path(directory, _VOLUMES[kind], volume["name"]))
            volumes[volume["name"]] = used
            on_disk += 0 if volume[kind].get("medium") else used
    own = {container["name"]: 0 for part in _CONTAINERS for container in spec.get(part) or ()} | dict(layers)
    shared = 0
    for place in (directory / CONTAINERS, directory / SANDBOX):
        for name, used in _by_name(place):
            if name in own:
                own[name] += used
            else:
                shared += used
    return StorageUsage(volumes, own, on_disk + shared + sum(own.values()))


def exceeded_limit(limits: StorageLimits, used: StorageUsage) -> PodFailure | None:
    """The eviction reason in the kubelet's words; None when the pod is within its limits."""
    for name, limit in limits.volumes.items():
        if used.volumes.get(name, 0) > limit.amount:
            return _evicted(f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". ')
    if limits.total is not None and used.total > limits.total.amount:
        return _evicted(
            f"Pod ephemeral local storage usage exceeds the total limit of containers {limits.total}. "
        )
    for name, limit in limits.containers.items():
        if used.containers.get(name, 0) > limit.amount:
            return _evicted(f'Container {name} exceeded its local ephemeral storage limit "{limit}". ')
    return None


def disk_bytes(path: Path) -> int:
    """Disk usage of a tree. Links are not followed, other file systems not entered, and a file counts once."""
    try:
        top = os.lstat(path)
    except OSError:
        return 0
    total, seen = top.st_blocks * _BLOCK, set[int]()
    waiting = [str(path)] if stat.S_ISDIR(top.st_mode) else []
    while waiting:
        for entry, found in _entries(waiting.pop()):
            if found.st_dev != top.st_dev or found.st_ino in seen:
                continue
            total += found.st_blocks * _BLOCK
            if stat.S_ISDIR(found.st_mode):
                waiting.append(entry)
            elif found.st_nlink > 1:
                seen.add(found.st_ino)
    return total


_BLOCK = 512
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_VOLUMES = {"emptyDir": "empty-dir", "configMap": "configmap"}


def _container_limits(spec: Manifest, part: str) -> Iterator[tuple[str, Quantity]]:
    for container in spec.get(part) or ():
        limit = ((container.get("resources") or {}).get("limits") or {}).get(RESOURCE)
        if limit is not None:
            yield container["name"], read(limit)


def _entries(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """The entries of a directory; those removed meanwhile or inaccessible are omitted."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    yield entry.path, entry.stat(follow_symlinks=False)
                except OSError:
                    continue
    except OSError:
        return


def _by_name(place: Path) -> Iterator[tuple[str, int]]:
    for path, _ in _entries(str(place)):
        yield os.path.basename(path), disk_bytes(Path(path))


def _evicted(message: str) -> PodFailure:
    return PodFailure(EVICTED, message, EVICTION_GRACE)
