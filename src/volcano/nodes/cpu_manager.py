"""CPU manager of a node: gives CPUs of their own to containers of Guaranteed pods, as the kubelet's policy `static`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from volcano.kube.api.manifest import Manifest, annotations_of, key_of, uid_of
from volcano.kube.api.names import NUMA_DECISION
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.assignment import (
    NONE,
    RESTRICTED,
    SINGLE_NUMA_NODE,
    STATIC,
    Assignment,
    assign,
)
from volcano.kube.devices.numa.decision import parse_decision
from volcano.kube.devices.numa.layout import CpuLayout
from volcano.kube.devices.numa.requests import exclusive_cpus
from volcano.kube.devices.numa.topology import NumaTopology, PodCpus

LOCALITY = "Resources cannot be allocated with Topology locality"


class CpuRejection(NamedTuple):
    """Reason and message of a pod that the node rejects, in the kubelet's words."""

    reason: str
    message: str


@dataclass(slots=True)
class CpuManager:
    """CPUs of one node and of the pods on it; each pod keeps its CPUs until it is released."""

    node: str
    layout: CpuLayout
    cpu_manager: str = NONE
    policy: str = NONE  # of the topology manager
    _pods: dict[str, PodCpus] = field(default_factory=dict)  # by uid

    @property
    def shared(self) -> int:
        """CPUs that no pod has for its own."""
        return self.layout.cpus & ~cpusets.union(pod.all_cpus for pod in self._pods.values())

    def admit(self, pod: Manifest) -> CpuRejection | None:
        """Gives a pod its CPUs, or returns why it is rejected; the scheduler's choice is preferred."""
        wanted = exclusive_cpus(pod["spec"]) if self.cpu_manager == STATIC else {}
        if not wanted or uid_of(pod) in self._pods:
            return None
        requests = tuple(wanted.values())
        assignment = self._assignment(pod, requests)
        if assignment.admitted:
            given = {name: cpus for name, cpus in zip(wanted, assignment.cpus, strict=True) if cpus}
            self.restore(PodCpus(uid_of(pod), *_names(pod), given))
            return None
        if self.policy in (RESTRICTED, SINGLE_NUMA_NODE):
            return CpuRejection("TopologyAffinityError", LOCALITY)
        return CpuRejection(
            "UnexpectedAdmissionError",
            "Allocate failed due to not enough cpus available to satisfy request: "
            f"requested={requests[assignment.refused]}, available={self.shared.bit_count()}, which is unexpected",
        )

    def _assignment(self, pod: Manifest, requests: tuple[int, ...]) -> Assignment:
        decided = parse_decision(annotations_of(pod).get(NUMA_DECISION, ""))
        near = cpusets.union(self.layout.numa_nodes.get(number, 0) for number in decided)
        if near:
            assignment = assign(self.layout, self.policy, self.shared & near, requests)
            if assignment.admitted:
                return assignment
        return assign(self.layout, self.policy, self.shared, requests)

    def restore(self, pod: PodCpus) -> None:
        """Takes over CPUs that a pod was given earlier."""
        self._pods[pod.uid] = pod

    def release(self, uid: str) -> bool:
        """Frees the CPUs of a pod; returns whether it had any."""
        return self._pods.pop(uid, None) is not None

    def release_others(self, uids: Collection[str]) -> None:
        """Frees the CPUs of all pods but these."""
        self._pods = {uid: pod for uid, pod in self._pods.items() if uid in uids}

    def cpus_of(self, uid: str) -> Mapping[str, int]:
        """CPUs of the containers of a pod that have any for their own."""
        pod = self._pods.get(uid)
        return {} if pod is None else pod.containers

    def topology(self) -> NumaTopology:
        """The state to publish."""
        pods = tuple(sorted(self._pods.values(), key=lambda pod: (pod.namespace, pod.name, pod.uid)))
        return NumaTopology(self.node, self.layout, self.shared, self.cpu_manager, self.policy, pods=pods)


def _names(pod: Manifest) -> tuple[str, str]:
    key = key_of(pod)
    return key.namespace, key.name
