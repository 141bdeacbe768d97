"""GPUs as devices of Dynamic Resource Allocation, with the names and attributes of NVIDIA's driver."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from volcano.kube.api.kinds import DEVICE_CLASS
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.quantity import format_binary
from volcano.kube.devices.dra.slices import device, node_slices
from volcano.nodes.kubelet.gpus.inventory import MIB, Gpu, MigInstance, is_real

DRIVER = "gpu.nvidia.com"
MIG_CLASS = "mig.nvidia.com"
_TYPES = {DRIVER: "gpu", MIG_CLASS: "mig"}  # by class


def published_devices(cards: Sequence[Gpu]) -> dict[str, str]:
    """Names of devices in slices, with their UUIDs."""
    return {name: uuid for name, uuid, _ in _devices(cards)}


def gpu_slices(
    node: str, cards: Sequence[Gpu], unhealthy: Collection[str], *, generation: int, owner: Manifest
) -> list[Manifest]:
    """The slices of a node, without devices that failed."""
    devices = [found for _, uuid, found in _devices(cards) if uuid not in unhealthy]
    return node_slices(node, DRIVER, devices, generation=generation, owner=owner)


def device_classes() -> list[Manifest]:
    """The classes of whole cards and of MIG instances."""
    return [
        {
            "apiVersion": DEVICE_CLASS.api_version,
            "kind": DEVICE_CLASS.kind,
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": _expression(kind)}}]},
        }
        for name, kind in _TYPES.items()
    ]


def claimed_uuids(claim: Manifest, request: str, node: str, devices: Mapping[str, str]) -> Iterator[str]:
    """UUIDs of a node's devices that a claim holds, for one of its requests or, when that is empty, for all.

    Raises ValueError for a device that the node does not have.
    """
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        of_request = result["request"].partition("/")[0]  # a chosen alternative is `request/alternative`
        if result["driver"] != DRIVER or result["pool"] != node or (request and of_request != request):
            continue
        if result["device"] not in devices:
            raise ValueError(f"device {result['device']} is not on node {node}")
        yield devices[result["device"]]


def _devices(cards: Sequence[Gpu]) -> Iterator[tuple[str, str, Manifest]]:
    """Name, UUID and description of each device."""
    for number, card in enumerate(cards):
        base = f"gpu-{card.minor if is_real(card) else number}"
        if not card.partitioned:
            yield base, card.uuid, _described(base, card)
        for part in card.instances:
            name = f"{base}-mig-{part.gpu_instance}-{part.compute_instance}"
            yield name, part.uuid, _described(name, card, part)


def _described(name: str, card: Gpu, part: MigInstance | None = None) -> Manifest:
    attributes: dict[str, str | int | bool] = {
        "type": "mig" if part else "gpu",
        "uuid": part.uuid if part else card.uuid,
        "productName": card.name,
        **({"profile": part.profile, "parentUUID": card.uuid} if part else {}),
    }
    memory = part.memory if part else card.memory
    return device(name, attributes, {"memory": format_binary(memory * MIB)} if memory else None)


def _expression(kind: str) -> str:
    return f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
