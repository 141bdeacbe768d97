"""Node objects of this host, whose capacity is divided evenly among them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from volcano.kube.api.manifest import Manifest
from volcano.kube.api.quantity import format_binary, format_milli
from volcano.kube.devices import vgpu
from volcano.nodes.kubelet.gpus import sharing
from volcano.nodes.kubelet.gpus.inventory import GPU, MIG_PREFIX, Gpu, allocatable_devices
from volcano.nodes.kubelet.machine import MachineInfo
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.pools import KUBELET_VERSION, node_conditions

RESERVED_MEMORY = 100 << 20  # bytes that are not allocatable, divided among the nodes
RESERVED_STORAGE_SHARE = 0.1  # share of the disk that is not allocatable
PAGE = 1024  # memory is reported in whole KiB


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node: its name and its share of the machine."""

    name: str
    millicores: int
    memory: int
    storage: int
    gpus: tuple[str, ...]  # whole ones, by identifier
    pods: int
    count: int  # of nodes on this machine
    cards: tuple[Gpu, ...] = ()
    split: int = 0  # containers that may share a card; 0: cards are allocated as a whole
    unhealthy: Mapping[str, str] = field(default_factory=dict)  # problems by device
    claimable: bool = False  # devices are allocated by resource claims, not by number

    @property
    def devices(self) -> dict[str, tuple[str, ...]]:
        """Devices that containers have to themselves, by resource."""
        if self.claimable:
            return {}
        parts = {name: uuids for name, uuids in allocatable_devices(self.cards).items() if name != GPU}
        return parts | ({GPU: self.gpus} if self.gpus and not self.split else {})

    @property
    def shared_cards(self) -> list[vgpu.Card]:
        """Cards that containers share; those with MIG instances are used by these instead."""
        whole = [card for card in self.cards if not card.partitioned]
        return sharing.registered(whole, self.split, self.unhealthy) if self.split else []

    def capacity(self) -> dict[str, str]:
        return self._resources(self.memory, self.storage, ())

    def allocatable(self) -> dict[str, str]:
        memory = max(self.memory - RESERVED_MEMORY // self.count, self.memory // 2)
        return self._resources(memory, int(self.storage * (1 - RESERVED_STORAGE_SHARE)), self.unhealthy)

    def _resources(self, memory: int, storage: int, without: Collection[str]) -> dict[str, str]:
        resources = {
            "cpu": format_milli(self.millicores),
            "memory": format_binary(memory // PAGE * PAGE),
            "ephemeral-storage": format_binary(storage // PAGE * PAGE),
            "pods": str(self.pods),
        }
        for name, uuids in self.devices.items():
            resources[name] = str(sum(uuid not in without for uuid in uuids))
        if self.split and self.shared_cards:
            resources |= sharing.shared_resources(
                [each for each in self.shared_cards if each.uuid not in without]
            )
        return resources


def local_nodes(machine: MachineInfo, options: KubeletOptions) -> dict[str, LocalNode]:
    """The nodes of this host by name. GPUs are distributed round-robin, everything else in equal parts."""
    names = options.node_names
    return {
        name: LocalNode(
            name,
            machine.millicores // len(names),
            machine.memory // len(names),
            machine.storage // len(names),
            machine.gpus[number :: len(names)],
            options.pods_per_node,
            len(names),
            machine.cards[number :: len(names)],
            options.share_gpus,
            claimable=options.publish_devices,
        )
        for number, name in enumerate(names)
    }


def node_labels(node: LocalNode, machine: MachineInfo) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": machine.architecture,
    }


def node_annotations(node: LocalNode) -> dict[str, str]:
    """Annotations by which a node registers the cards that containers may share."""
    return (
        {vgpu.REGISTER: vgpu.format_register(node.shared_cards)} if node.split and node.shared_cards else {}
    )


def is_device_resource(name: str) -> bool:
    """Whether a resource is one of the devices that a local node reports."""
    return name in (GPU, vgpu.NUMBER, vgpu.MEMORY, vgpu.CORES) or name.startswith(MIG_PREFIX)


def node_object(
    node: LocalNode, machine: MachineInfo, runtime: Mapping[str, str], address: str, timestamp: str
) -> Manifest:
    """The Node object to register; `runtime` has the name and version of the container runtime."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": node_labels(node, machine),
            **({"annotations": registered} if (registered := node_annotations(node)) else {}),
        },
        "spec": {},
        "status": node_status(node, machine, runtime, address, timestamp),
    }


def node_status(
    node: LocalNode,
    machine: MachineInfo,
    runtime: Mapping[str, str],
    address: str,
    timestamp: str,
    *,
    abnormal: Collection[str] = (),
    before: Manifest | None = None,
) -> Manifest:
    """The current status of a node."""
    return {
        "capacity": node.capacity(),
        "allocatable": node.allocatable(),
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": node.name},
        ],
        "conditions": node_conditions(timestamp, timestamp, abnormal=abnormal, before=before),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},  # it has no API: the API server serves it
        "nodeInfo": {
            "architecture": machine.architecture,
            "bootID": machine.boot_id,
            "containerRuntimeVersion": f"volcano-{runtime['name']}://{runtime['version']}",
            "kernelVersion": machine.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": machine.machine_id,
            "operatingSystem": "linux",
            "osImage": machine.system,
            "systemUUID": machine.machine_id,
        },
    }
