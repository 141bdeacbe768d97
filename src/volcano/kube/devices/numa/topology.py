"""The Numatopology object of a node: policies, layout, free CPUs and the CPUs of pods."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.assignment import NONE
from volcano.kube.devices.numa.layout import Cpu, CpuLayout, layout_of, take

API_VERSION, KIND = "nodeinfo.volcano.sh/v1alpha1", "Numatopology"
CPU_MANAGER, TOPOLOGY_MANAGER = "CPUManagerPolicy", "TopologyManagerPolicy"
ContainerCpus = Mapping[str, int]  # by container


@dataclass(frozen=True, slots=True)
class PodCpus:
    """Pod with CPUs of its own. A publisher that does not know its uid leaves it empty."""

    uid: str
    namespace: str
    name: str
    containers: ContainerCpus

    @property
    def all_cpus(self) -> int:
        return cpusets.union(self.containers.values())


@dataclass(frozen=True, slots=True)
class NumaTopology:
    """CPUs of one node."""

    node: str
    layout: CpuLayout
    allocatable: int | None = None  # in no pod's hands, reserved ones included; None when not published
    cpu_manager: str = NONE
    policy: str = NONE  # of the topology manager
    reserved_cpu: float = 0.0  # cores kept for the system
    pods: tuple[PodCpus, ...] = ()
    resource_version: str = field(default="", compare=False)

    @property
    def reserved(self) -> int:
        """CPUs kept for the system; the kubelet chooses them in the same way."""
        return take(self.layout, self.layout.cpus, math.ceil(self.reserved_cpu))


def parse(manifest: Manifest) -> NumaTopology:
    """Parses a Numatopology, in which zeros and empty fields may be missing. Raises ValueError."""
    spec: Mapping[str, Any] = manifest.get("spec") or {}
    policies = spec.get("policies") or {}
    resource = (spec.get("numares") or {}).get("cpu")
    located = {
        int(number): Cpu(cpu.get("numa") or 0, cpu.get("socket") or 0, cpu.get("core") or 0)
        for number, cpu in (spec.get("cpuDetail") or {}).items()
    }
    if any(not 0 <= number < cpusets.MOST_CPUS for number in located):
        raise ValueError(f"cpuDetail: CPU numbers must be from 0 to {cpusets.MOST_CPUS - 1}")
    layout = layout_of(located)
    return NumaTopology(
        node=key_of(manifest).name,
        layout=layout,
        allocatable=None
        if resource is None
        else cpusets.parse(resource.get("allocatable") or "") & layout.cpus,
        cpu_manager=policies.get(CPU_MANAGER) or NONE,
        policy=policies.get(TOPOLOGY_MANAGER) or NONE,
        reserved_cpu=quantity.milli((spec.get("resReserved") or {}).get("cpu", 0)) / 1000,
        pods=tuple(_pod(each) for each in spec.get("podAllocations") or ()),
        resource_version=manifest["metadata"].get("resourceVersion", ""),
    )


def _pod(given: Mapping[str, Any]) -> PodCpus:
    containers = {
        container.get("name") or "": cpusets.parse((container.get("allocations") or {}).get("cpu") or "")
        for container in given.get("containerAllocations") or ()
    }
    return PodCpus(given.get("uid") or "", given.get("namespace") or "", given.get("name") or "", containers)


def spec_of(topology: NumaTopology) -> Manifest:
    """The spec of the object that publishes a topology."""
    located = {
        number: Cpu(numa, socket, core)
        for number, (numa, socket, core) in _locations(topology.layout).items()
    }
    spec: Manifest = {
        "policies": {CPU_MANAGER: topology.cpu_manager, TOPOLOGY_MANAGER: topology.policy},
        "numares": {
            "cpu": {
                "allocatable": cpusets.text_of(topology.allocatable or 0),
                "capacity": topology.layout.cpus.bit_count(),
            }
        },
        "cpuDetail": {str(number): cpu._asdict() for number, cpu in located.items()},
        "podAllocations": [
            {
                "uid": pod.uid,
                "namespace": pod.namespace,
                "name": pod.name,
                "containerAllocations": [
                    {"name": name, "allocations": {"cpu": cpusets.text_of(cpus)}}
                    for name, cpus in pod.containers.items()
                ],
            }
            for pod in topology.pods
        ],
    }
    if topology.reserved_cpu:
        spec["resReserved"] = {"cpu": quantity.canonical(f"{round(topology.reserved_cpu * 1000)}m")}
    return spec


def _locations(layout: CpuLayout) -> dict[int, tuple[int, int, int]]:
    """NUMA node, socket and core of each CPU, with cores numbered within their socket."""
    found = {}
    for socket_number, socket in enumerate(layout.sockets):
        cores = [core for core in layout.cores if core & socket]
        for core_number, core in enumerate(cores):
            for cpu in cpusets.members(core):
                found[cpu] = (layout.numa_nodes_of(1 << cpu)[0], socket_number, core_number)
    return dict(sorted(found.items()))


def manifest_of(topology: NumaTopology, owner: Mapping[str, str] | None = None) -> Manifest:
    """The object that publishes a topology; with its Node as `owner`, it is deleted with it."""
    metadata: Manifest = {"name": topology.node}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", **owner}]
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec_of(topology)}
