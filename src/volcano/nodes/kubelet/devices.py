"""Device manager: assigns the GPUs of a node to containers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.kube.api.manifest import Manifest, uid_of
from volcano.kube.api.quantity import units
from volcano.kube.devices import vgpu
from volcano.kube.devices.vgpu import DeviceShare
from volcano.nodes.kubelet.gpus import sharing
from volcano.nodes.kubelet.node import LocalNode
from volcano.nodes.shim.specs import Failure

VISIBLE_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
# `void` keeps NVIDIA's container runtime from adding GPUs; an empty list hides them from CUDA.
HIDDEN_VARIABLES = dict(zip(VISIBLE_VARIABLES, ("void", ""), strict=True))


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of a container: whole ones and MIG instances by UUID, or shares of cards."""

    uuids: tuple[str, ...] = ()
    shares: tuple[DeviceShare, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """UUIDs of all devices."""
        return tuple(dict.fromkeys((*self.uuids, *(share.uuid for share in self.shares))))


class DeviceManager:
    """The devices of some nodes. An assignment lasts until its pod is removed."""

    def __init__(self, nodes: Mapping[str, LocalNode]) -> None:
        self._nodes = nodes
        self._allocated: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {node: {} for node in nodes}

    def allocate(
        self, node: str, pod: Manifest, container: Mapping[str, Any], claimed: Sequence[str] = ()
    ) -> Allocation:
        """The devices of a container, with those of its resource claims.

        Raises a Failure when too few are free, which admission should prevent.
        """
        holder = (uid_of(pod), container["name"])
        held = self._allocated[node].get(holder)
        if held is None:
            held = (*self._choose(node, pod, container), *claimed)
            if held:
                self._allocated[node][holder] = held
        return Allocation(held, self._shares(pod, container))

    def _choose(self, node: str, pod: Manifest, container: Mapping[str, Any]) -> Iterator[str]:
        limits = (container.get("resources") or {}).get("limits") or {}
        for resource, uuids in self._nodes[node].devices.items():
            wanted = int(units(limits.get(resource, 0)))
            if not wanted:
                continue
            free = self._free(node, pod, uuids)
            if len(free) < wanted:
                raise Failure(
                    "CreateContainerError",
                    f"container {container['name']} asks for {wanted} {resource}, of which {len(free)} are free "
                    f"on {node}",
                )
            yield from free[:wanted]

    def _free(self, node: str, pod: Manifest, uuids: Iterable[str]) -> list[str]:
        """Devices that no other container uses, those of the pod's own init containers first, which have ended."""
        ended = {
            (uid_of(pod), each["name"])
            for each in pod["spec"].get("initContainers") or ()
            if each.get("restartPolicy") != "Always"
        }
        used = {
            uuid for holder, held in self._allocated[node].items() if holder not in ended for uuid in held
        }
        reused = {uuid for holder in ended for uuid in self._allocated[node].get(holder, ())}
        failed = self._nodes[node].unhealthy
        free = [uuid for uuid in uuids if uuid not in used and (uuid not in failed or uuid in reused)]
        return sorted(free, key=lambda uuid: uuid not in reused)

    def _shares(self, pod: Manifest, container: Mapping[str, Any]) -> tuple[DeviceShare, ...]:
        try:
            return sharing.shares_of(pod, container["name"])
        except ValueError as error:
            raise Failure("CreateContainerError", f"container {container['name']}: {error}") from error

    def restore(self, node: str, uid: str, allocated: Mapping[str, Iterable[str]]) -> None:
        """Restores the assignments of a pod after a restart."""
        for container, uuids in allocated.items():
            self._allocated[node][uid, container] = tuple(uuids)

    def allocated_to(self, node: str, uid: str) -> dict[str, tuple[str, ...]]:
        return {holder[1]: uuids for holder, uuids in self._allocated[node].items() if holder[0] == uid}

    def release(self, node: str, uid: str) -> None:
        self._allocated[node] = {
            holder: uuids for holder, uuids in self._allocated[node].items() if holder[0] != uid
        }

    def uses(self, node: str, pod: Manifest, uuid: str) -> bool:
        """Whether a pod has a device, or a share of it."""
        if any(uuid in uuids for uuids in self.allocated_to(node, uid_of(pod)).values()):
            return True
        try:
            assigned = sharing.assignment_of(pod) if sharing.sharing_containers(pod) else []
        except ValueError:
            return False
        return any(vgpu.card_uuid(share.uuid) == uuid for shares in assigned for share in shares)


def device_environment(allocation: Allocation, node: LocalNode, *, hide: bool) -> dict[str, str]:
    """The variables that name a container's GPUs; with `hide`, those that hide all from one that has none."""
    names: Sequence[str] = allocation.names
    if not names:
        return dict(HIDDEN_VARIABLES) if hide else {}
    memory = {card.uuid: card.memory for card in node.cards}
    visible = dict.fromkeys(VISIBLE_VARIABLES, ",".join(map(vgpu.card_uuid, names)))
    return visible | sharing.share_environment(allocation.shares, memory)
