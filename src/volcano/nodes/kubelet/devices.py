"""Device manager: assigns the GPUs of a node to containers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from volcano.kube.quantity import units
from volcano.nodes.kubelet.node import GPU
from volcano.nodes.shim.specs import Failure, Mount

DEVICE_FILES = "/dev"


class DeviceManager:
    """The GPUs of some nodes. An assignment lasts until its pod is removed."""

    def __init__(self, gpus: Mapping[str, Sequence[str]]) -> None:
        self._gpus = gpus
        self._allocated: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {node: {} for node in gpus}

    def allocate(self, node: str, uid: str, container: Mapping[str, Any]) -> tuple[str, ...]:
        """The GPUs of a container; raises a Failure when too few are free, which admission should prevent."""
        wanted = int(units(((container.get("resources") or {}).get("limits") or {}).get(GPU, 0)))
        if not wanted:
            return ()
        holder = (uid, container["name"])
        held = self._allocated[node].get(holder)
        if held is None:
            used = {gpu for each in self._allocated[node].values() for gpu in each}
            free = [gpu for gpu in self._gpus[node] if gpu not in used]
            if len(free) < wanted:
                raise Failure(
                    "CreateContainerError",
                    f"container {container['name']} asks for {wanted} {GPU}, of which {len(free)} are free on {node}",
                )
            held = self._allocated[node][holder] = tuple(free[:wanted])
        return held

    def restore(self, node: str, uid: str, allocated: Mapping[str, Iterable[str]]) -> None:
        """Restores the assignments of a pod after a restart."""
        for container, gpus in allocated.items():
            self._allocated[node][uid, container] = tuple(gpus)

    def allocated_to(self, node: str, uid: str) -> dict[str, tuple[str, ...]]:
        return {holder[1]: gpus for holder, gpus in self._allocated[node].items() if holder[0] == uid}

    def release(self, node: str, uid: str) -> None:
        self._allocated[node] = {
            holder: gpus for holder, gpus in self._allocated[node].items() if holder[0] != uid
        }


def device_environment(gpus: Sequence[str]) -> dict[str, str]:
    """The variables that name a container's GPUs."""
    return dict.fromkeys(("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), ",".join(gpus)) if gpus else {}


def device_mounts(gpus: Sequence[str]) -> tuple[Mount, ...]:
    """The device files of GPUs, if there are any."""
    found = sorted(Path(DEVICE_FILES).glob("nvidia*")) if gpus else ()
    return tuple(Mount(str(path), str(path)) for path in found)
