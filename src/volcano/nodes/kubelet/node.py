"""Node objects of this host, whose capacity is divided evenly among them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from volcano.kube.manifest import Manifest
from volcano.kube.quantity import format_binary, format_milli
from volcano.nodes.kubelet.machine import MachineInfo
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.pools import KUBELET_VERSION, node_conditions

GPU = "nvidia.com/gpu"
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
    gpus: tuple[str, ...]
    pods: int
    count: int  # of nodes on this machine

    def capacity(self) -> dict[str, str]:
        return self._resources(self.memory, self.storage)

    def allocatable(self) -> dict[str, str]:
        memory = max(self.memory - RESERVED_MEMORY // self.count, self.memory // 2)
        return self._resources(memory, int(self.storage * (1 - RESERVED_STORAGE_SHARE)))

    def _resources(self, memory: int, storage: int) -> dict[str, str]:
        resources = {
            "cpu": format_milli(self.millicores),
            "memory": format_binary(memory // PAGE * PAGE),
            "ephemeral-storage": format_binary(storage // PAGE * PAGE),
            "pods": str(self.pods),
        }
        return resources | ({GPU: str(len(self.gpus))} if self.gpus else {})


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


def node_object(
    node: LocalNode, machine: MachineInfo, runtime: Mapping[str, str], address: str, timestamp: str
) -> Manifest:
    """The Node object to register; `runtime` has the name and version of the container runtime."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": node_labels(node, machine)},
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
